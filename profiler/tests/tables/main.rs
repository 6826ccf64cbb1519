//! Unwind tables of code whose rules are known, and of real files, held against framehop.

#![allow(clippy::unwrap_used)] // Tests say what they need by failing.

mod arm64;
mod build;
mod damage;
mod hop;
mod x86_64;
