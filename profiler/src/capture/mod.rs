//! The privileged half: loads, attaches and drains; parses no file of the recorded program.

pub mod link;
pub mod wire;
