//! Links of a critical path as the payloads of markers on its track. They are for display only.

use serde::Serialize;

use super::words;
use fact::{Tables, ThreadId, WaitReason};

/// Payload type of a link.
pub const LINK: &str = "PathLink";
/// Name of the markers.
pub const NAME: &str = "Path link";

/// Payload of a link.
#[derive(Debug, Serialize)]
pub struct LinkPayload<'a> {
    r#type: &'static str,
    thread: String,
    part: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    via: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flow: Option<u32>,
}

impl<'a> LinkPayload<'a> {
    /// For the time of a thread, what most of it is, and the reason of the wait that led there.
    pub fn new(
        tables: &Tables,
        thread: ThreadId,
        part: &'a str,
        (via, flow): (Option<WaitReason>, Option<u32>),
    ) -> Self {
        Self {
            r#type: LINK,
            thread: words::thread_words(tables, thread),
            part,
            via: via.map(words::reason),
            flow,
        }
    }
}
