//! Tracks of block devices: each is a process with one thread. Its samples are the parts of
//! requests, weighted by bytes, with the submitter's stack; its markers are the requests, and the deepest queues. Flame
//! graph and inverted tree show which code reads and writes.

pub(super) mod counter;

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Whole;
use super::peaks::{self, Peak};
use super::skeleton::ThreadRow;
use super::track::{self, Item, TrackMarker, TrackRow, TrackThread, Weight, lay_out};
use crate::error::WriteError;
use crate::marker::peak::DepthPayload;
use crate::marker::request::RequestPayload;
use crate::marker::{CauseStack, words};
use crate::shared::Shared;
use crate::shared::categories::Category;
use crate::shared::labels::Label;
use base::addr::{Timestamp, ns};
use fact::reduce::budget::Collected;
use fact::request::Operation;
use fact::{DeviceId, RequestFact, Tables};

/// Maximum number of device tracks that are visible when a profile opens: those with the most
/// bytes.
const SHOWN: usize = 4;

/// All devices with requests, sorted by bytes in descending order.
pub fn all(collected: &Collected) -> Vec<DeviceId> {
    let totals = &collected.request_totals;
    let mut devices: Vec<DeviceId> = totals.keys().copied().collect();
    let bytes = |device: &DeviceId| totals.get(device).map_or(0, |of| of.read.saturating_add(of.written));
    devices.sort_by_key(|device| (std::cmp::Reverse(bytes(device)), *device));
    devices
}

/// How many of them are visible when the profile opens.
pub fn shown(devices: usize) -> usize {
    devices.min(SHOWN)
}

/// The process id of a device's track; ids of real processes are numbers.
pub fn pid(tables: &Tables, device: DeviceId) -> String {
    let Some(of) = tables.devices.get(device.index()) else {
        return format!("device {}", device.0);
    };
    let same = |other: &&fact::BlockDevice| (other.major, other.minor) == (of.major, of.minor);
    match tables.devices.iter().take(device.index()).filter(same).count() {
        0 => format!("{}:{}", of.major, of.minor),
        earlier => format!("{}:{}.{earlier}", of.major, of.minor),
    }
}

/// The row of `threads`, built from the row of a real thread.
pub fn row(tables: &Tables, device: DeviceId, of_thread: &Map<String, Value>) -> Map<String, Value> {
    let name = words::device(tables, device);
    track::row(
        of_thread,
        &pid(tables, device),
        (&format!("Block device {name}"), &name),
    )
}

/// Names of request markers, as indices into the string array.
#[derive(Debug)]
pub struct OperationNames(Vec<(Operation, u32)>);

impl OperationNames {
    /// Adds the names to the string array.
    pub fn new(shared: &mut Shared<'_>) -> Result<Self, WriteError> {
        let number = |operation: Operation| Ok((operation, shared.string(Cow::Borrowed(operation.name()))?));
        let all: Result<_, _> = Operation::ALL.into_iter().map(number).collect();
        all.map(Self)
    }

    fn of(&self, operation: Operation) -> u32 {
        let found = self.0.iter().find(|(known, _)| *known == operation);
        found.map_or(0, |(_, name)| *name)
    }
}

/// The track of a device.
pub fn thread<'a>(whole: &'a Whole<'a>, device: DeviceId, row: &'a ThreadRow) -> impl Serialize {
    let requests = whole.collected.requests.iter();
    let requests: Vec<_> = requests.filter(|request| request.device == device).collect();
    TrackThread {
        row,
        samples: samples(whole, &requests).into(),
        weight: Weight::Bytes,
        markers: markers(whole, &requests),
        category: Category::Request,
        payload: |row: &Row<'a>| payload(whole, row),
        shows: json!({"device": device}),
        zero: whole.zero,
    }
}

/// The submitted parts of requests; the rest of each request has the label of an unknown
/// submitter.
fn samples(whole: &Whole<'_>, requests: &[&RequestFact]) -> Vec<TrackRow> {
    let unrecorded = whole.labels.row(None, Label::Unrecorded);
    let mut items = Vec::new();
    for request in requests.iter().filter(|request| request.operation.moves_bytes()) {
        let item = |stack: Option<u32>, weight| Item {
            start: request.start.min(request.end),
            end: request.end,
            stack: stack.or(unrecorded),
            weight,
        };
        let mut left = u64::from(request.bytes);
        for bio in &request.bios {
            let bytes = u64::from(bio.bytes).min(left);
            left -= bytes;
            let stack = whole.shared.stack_row(bio.stack);
            items.push(item(stack, bytes));
        }
        items.push(item(None, left));
    }
    lay_out(items, (whole.zero, whole.end))
}

fn markers<'a>(whole: &Whole<'_>, requests: &[&'a RequestFact]) -> Vec<TrackMarker<Row<'a>>> {
    let depths = requests.iter().filter(|request| request.depth > 0).map(|request| Peak {
        // When the device got it.
        time: Timestamp(request.start.0.saturating_add(ns(request.queued.unwrap_or_default()))).min(request.end),
        value: u64::from(request.depth),
        fact: (),
    });
    let depths = peaks::greatest(depths, (whole.zero, whole.end));
    let depths = depths.into_iter().map(|peak| TrackMarker {
        fact: Row::Depth(peak.value),
        name: whole.names.peaks[1],
        start: peak.time,
        end: None,
    });
    let requests = requests.iter().map(|request| TrackMarker {
        fact: Row::Request(request),
        name: whole.operations.of(request.operation),
        start: request.start,
        end: Some(request.end),
    });
    let mut markers: Vec<_> = requests.chain(depths).collect();
    markers.sort_by_key(|marker| marker.start);
    markers
}

/// What a marker of a device shows.
enum Row<'m> {
    Request(&'m RequestFact),
    Depth(u64),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Data {
    Request {
        #[serde(flatten)]
        payload: Box<RequestPayload>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cause: Option<CauseStack>,
    },
    Depth(DepthPayload),
}

fn payload(whole: &Whole<'_>, row: &Row<'_>) -> Data {
    match row {
        Row::Request(request) => {
            let stack = request.bios.first().and_then(|bio| bio.stack);
            let mut payload = RequestPayload::of_device(request, whole.tables);
            payload.flow = whole.names.flows.of_request(request);
            Data::Request {
                payload: Box::new(payload),
                cause: whole.shared.stack_row(stack).map(|stack| CauseStack { stack }),
            }
        }
        Row::Depth(depth) => Data::Depth(DepthPayload::new(*depth)),
    }
}
