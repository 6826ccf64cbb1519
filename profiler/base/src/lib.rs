//! What every layer shares: events and their log, unwind tables as bytes, and small tools.

pub mod addr;
pub mod event;
pub mod hash;
pub mod hex;
pub mod id;
pub mod named;
pub mod plural;
pub mod table;
