//! Peaks as the payloads of markers that the front end draws as graphs: the slowest page fault of each step of time on a
//! companion track, the deepest queue on a device's. They are for display only.

use serde::Serialize;

use super::words;
use crate::units::milliseconds;
use fact::{FaultFact, Tables};

/// Payload type of a slow fault.
pub const LATENCY: &str = "FaultLatency";
/// Payload type of a deep queue.
pub const DEPTH: &str = "QueueDepth";
/// Marker names, which name the graphs.
pub const NAMES: [&str; 2] = ["fault latency", "peak queue depth"];

/// Payload of a slow fault.
#[derive(Debug, Serialize)]
pub struct LatencyPayload {
    r#type: &'static str,
    latency: f64,
    thread: String,
    class: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flow: Option<u32>,
}

impl LatencyPayload {
    /// Converts a fault.
    pub fn new(fault: &FaultFact, tables: &Tables, flow: Option<u32>) -> Self {
        let place = fault.place.map(|place| (Some(place.file), Some(place.offset.0)));
        Self {
            r#type: LATENCY,
            latency: milliseconds(fault.time()),
            thread: words::thread_words(tables, fault.thread),
            class: fault.class.name(),
            place: place.and_then(|(file, offset)| words::place(tables, file, offset)),
            flow,
        }
    }
}

/// Payload of a deep queue.
#[derive(Debug, Serialize)]
pub struct DepthPayload {
    r#type: &'static str,
    depth: u64,
}

impl DepthPayload {
    /// For a number of requests.
    pub fn new(depth: u64) -> Self {
        Self { r#type: DEPTH, depth }
    }
}
