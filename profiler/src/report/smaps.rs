//! What processes take of memory, by mapped file and section: read from `/proc/PID/smaps` and the page table, and beside it what a recording knows.

pub mod known;
pub mod pages;
pub mod parse;
pub mod report;
pub mod text;
pub mod touchers;

pub use known::Known;
pub use parse::{Amounts, Malformed, Region};
pub use report::Footprint;
