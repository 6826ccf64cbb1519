//! The border between recorder and privileged helper: the messages, both ends of the socket, and what each message may
//! do. The peer is treated as hostile.

pub mod channel;
pub mod link;
pub(crate) mod packet;
pub mod protocol;
pub mod wire;
