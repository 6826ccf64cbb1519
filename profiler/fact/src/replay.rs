//! From events to facts: replays a log through the layers above, and matches what belongs together.

mod blocks;
mod events;
mod faults;
pub mod files;
pub mod intern;
mod jit;
pub mod join;
pub mod log;
mod mapped;
mod marker_file;
pub mod ordered;
pub mod resolved;
mod stack_ends;
mod walks;
