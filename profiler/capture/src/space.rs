//! Address spaces of recorded processes: what is mapped where, and the unwind tables and code ranges that the walker
//! in the kernel uses for it.

pub mod generations;
pub mod mappings;
pub mod maps;
pub mod ranges;
mod segments;
pub mod spaces;
pub mod tables;
