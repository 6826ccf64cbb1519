//! Memory of processes by mapped file and section, from `/proc/PID/smaps` and the page table, combined with the page touches
//! of a recording.

pub mod known;
pub mod known_rows;
pub mod pages;
pub mod parse;
pub mod report;
pub mod text;
pub mod touchers;

pub use known::Known;
pub use parse::{Amounts, Malformed, Region};
pub use report::Footprint;
