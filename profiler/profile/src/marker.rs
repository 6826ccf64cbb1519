//! The payloads of markers, for the writer and the reader, and their schemas.

pub(crate) mod fault;
pub(crate) mod limit;
pub(crate) mod link;
pub(crate) mod mark;
pub(crate) mod peak;
pub(crate) mod request;
pub(crate) mod schema;
pub(crate) mod shell;
pub(crate) mod wait;
pub(crate) mod wakeup;
pub(crate) mod words;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// Name of Firefox's markers with a picture of a window, and type of their payloads.
pub const SCREENSHOT: &str = "CompositorScreenshot";
/// The types of payloads that ngmi writes.
pub const OWN_TYPES: [&str; 16] = [
    "ProcessStart",
    "Exec",
    "ProcessExit",
    "Program",
    fault::FAULT,
    fault::DISK_FAULT,
    fault::READ,
    wait::WAIT,
    wait::IDLE,
    wait::FILE_IO,
    wakeup::WAKEUP,
    peak::LATENCY,
    peak::DEPTH,
    link::LINK,
    request::DISK_REQUEST,
    request::REQUEST,
];

/// `MarkerPhase.Instant`
pub const PHASE_INSTANT: u8 = 0;
/// `MarkerPhase.Interval`
pub const PHASE_INTERVAL: u8 = 1;

/// The backtrace of a marker.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct CauseStack {
    /// Row of the stack table.
    pub stack: u32,
}

/// The common part of all payloads.
#[derive(Deserialize)]
pub struct AnyData<'a> {
    /// Payload type.
    #[serde(borrow)]
    pub r#type: Cow<'a, str>,
    /// Backtrace.
    pub cause: Option<CauseStack>,
}
