//! Markers of Firefox's own profiler, called Gecko profiler after Firefox's engine, and what they refer to.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ProcessId;
use base::addr::Timestamp;

/// Keys of payloads whose values are times of the profile (of network requests and messages between processes).
pub const TIME_KEYS: [&str; 12] = [
    "startTime",
    "endTime",
    "fetchStart",
    "domainLookupStart",
    "domainLookupEnd",
    "connectStart",
    "tcpConnectEnd",
    "secureConnectionStart",
    "connectEnd",
    "requestStart",
    "responseStart",
    "responseEnd",
];

/// What the markers refer to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GeckoTables {
    /// Categories of markers.
    pub categories: Vec<GeckoCategory>,
    /// Descriptions of the types of payloads.
    pub schemas: Vec<GeckoSchema>,
    /// Pages that were open.
    pub pages: Vec<GeckoPage>,
    /// Values over time.
    #[serde(default)]
    pub counters: Vec<GeckoCounter>,
}

/// What Firefox's profiler counted in a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeckoCounter {
    /// The process.
    pub process: ProcessId,
    /// Its name.
    pub name: String,
    /// Kind of counter, such as `Memory`, by which the front end draws it.
    pub category: String,
    /// What it counts.
    pub description: String,
    /// Values by time.
    pub values: Vec<GeckoValue>,
}

/// What was counted since the previous value: time, amount (which may be negative) and number of operations.
pub type GeckoValue = (Timestamp, i64, u64);

/// A category of markers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeckoCategory {
    /// Its name.
    pub name: String,
    /// Its color in the front end.
    pub color: String,
}

/// The description of a type of payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeckoSchema {
    /// The type.
    pub name: String,
    /// The description as the front end reads it, a JSON object.
    pub json: String,
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeckoPage {
    /// Tab or frame.
    pub tab: u64,
    /// The page's number, which payloads contain.
    pub inner_window: u64,
    /// Number of the page that embeds it; 0: none.
    pub embedder: u64,
    /// Its address.
    pub url: String,
    /// Whether it is in a private window.
    pub is_private: bool,
}

/// One marker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeckoMark {
    /// Its name.
    pub name: Arc<str>,
    /// Index into [`GeckoTables::categories`].
    pub category: u16,
    /// Its payload, a JSON object without times.
    pub data: Option<Box<str>>,
    /// Times in its payload, with the index of the key in [`TIME_KEYS`].
    pub times: Box<[(u8, Timestamp)]>,
    /// Picture of a window, a `data:` URL of an image.
    pub image: Option<Arc<str>>,
    /// Ids of its flows, with their keys in its payload, keys ascending; see [`is_flow`].
    #[serde(default)]
    pub flows: Box<[(Box<str>, Box<str>)]>,
}

/// Maximum digits of a flow's id; Firefox 140 writes 17.
const FLOW_DIGITS: usize = 32;

/// Whether a text is the id of one of Firefox's flows: a hexadecimal number.
pub fn is_flow(id: &str) -> bool {
    (1..=FLOW_DIGITS).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}
