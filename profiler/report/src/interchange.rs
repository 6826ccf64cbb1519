//! Export to other programs: sums by stack as pprof, OTLP and folded stacks, and rows as Parquet.

pub mod folded;
mod message;
pub mod otlp;
mod otlp_message;
pub mod parquet;
mod places;
pub mod pprof;
pub mod samples;
pub mod sums;

pub use sums::{Sums, Table, Weight};
