//! Unwind tables of code with known rules, and of real files, compared with framehop.

#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

mod arm64;
mod build;
mod damage;
mod hop;
mod x86_64;
