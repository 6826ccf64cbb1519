//! Tracks of block devices: each is a process with one thread. Its samples are the parts of
//! requests, weighted by bytes, with the submitter's stack; its markers are the requests, and the deepest queues. Flame
//! graph and inverted tree show which code reads and writes.

pub(super) mod counter;

use std::borrow::Cow;

use serde::{Serialize, Serializer, ser::SerializeMap, ser::SerializeStruct};
use serde_json::{Map, Value, json};

use super::markers::MarkerNames;
use super::peaks::{self, Peak};
use super::skeleton::ThreadRow;
use super::track::{self, Item, Samples, TrackRow, Weight, lay_out};
use crate::error::WriteError;
use crate::marker::peak::DepthPayload;
use crate::marker::request::RequestPayload;
use crate::marker::{CauseStack, PHASE_INSTANT, PHASE_INTERVAL, words};
use crate::shared::Shared;
use crate::shared::categories::Category;
use crate::shared::columns::{Column, Repeat, Seq};
use crate::shared::labels::{Label, Labels};
use crate::units::ms;
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

/// A device with the facts for its track.
pub struct DeviceThread<'a> {
    /// The device.
    pub device: DeviceId,
    /// Its row of `threads` without tables.
    pub row: &'a ThreadRow,
    /// The tables with devices and files.
    pub tables: &'a Tables,
    /// The facts with the requests.
    pub collected: &'a Collected,
    /// The tables with the stacks.
    pub shared: &'a Shared<'a>,
    /// Row of the stack of an unknown submitter.
    pub labels: &'a Labels,
    /// Names of request markers.
    pub names: &'a OperationNames,
    /// Names and flows of markers.
    pub marker_names: &'a MarkerNames<'a>,
    /// Start and end of the profile.
    pub times: (Timestamp, Timestamp),
}

impl Serialize for DeviceThread<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut thread = serializer.serialize_map(None)?;
        for (key, value) in self.row.fields() {
            thread.serialize_entry(&key, &value)?;
        }
        let rows = self.rows();
        let samples = Samples {
            rows: &rows,
            weight: Weight::Bytes,
            zero: self.times.0,
        };
        thread.serialize_entry("samples", &samples)?;
        thread.serialize_entry("markers", &self.markers())?;
        thread.serialize_entry("ngmiCompanion", &json!({"device": self.device}))?;
        thread.end()
    }
}

impl<'a> DeviceThread<'a> {
    fn requests(&self) -> impl Iterator<Item = &'a RequestFact> + Clone {
        let device = self.device;
        let requests = self.collected.requests.iter();
        requests.filter(move |request| request.device == device)
    }

    /// The submitted parts of requests; the rest of each request has the label of an unknown
    /// submitter.
    fn rows(&self) -> Vec<TrackRow> {
        let unrecorded = self.labels.row(None, Label::Unrecorded);
        let mut items = Vec::new();
        for request in self.requests().filter(|request| request.operation.moves_bytes()) {
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
                let stack = self.shared.stack_row(bio.stack);
                items.push(item(stack, bytes));
            }
            items.push(item(None, left));
        }
        lay_out(items, self.times)
    }

    fn markers(&self) -> Markers<'_, 'a> {
        let depths = self.requests().filter(|request| request.depth > 0).map(|request| Peak {
            // When the device got it.
            time: Timestamp(request.start.0.saturating_add(ns(request.queued.unwrap_or_default()))).min(request.end),
            value: u64::from(request.depth),
            fact: (),
        });
        let peaks = peaks::greatest(depths, self.times).into_iter().map(Row::Depth);
        let mut rows: Vec<Row<'_>> = self.requests().map(Row::Request).chain(peaks).collect();
        rows.sort_by_key(Row::start);
        Markers { rows, thread: self }
    }
}

/// A marker of a device.
enum Row<'m> {
    Request(&'m RequestFact),
    Depth(Peak<()>),
}

impl Row<'_> {
    fn start(&self) -> Timestamp {
        match self {
            Self::Request(request) => request.start,
            Self::Depth(peak) => peak.time,
        }
    }

    fn end(&self) -> Option<Timestamp> {
        match self {
            Self::Request(request) => Some(request.end),
            Self::Depth(_) => None,
        }
    }

    fn phase(&self) -> u8 {
        match self {
            Self::Request(_) => PHASE_INTERVAL,
            Self::Depth(_) => PHASE_INSTANT,
        }
    }
}

/// A device's `markers` table: starts ascending.
struct Markers<'m, 'a> {
    rows: Vec<Row<'m>>,
    thread: &'m DeviceThread<'a>,
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

impl Markers<'_, '_> {
    fn data(&self, row: &Row<'_>) -> Data {
        let DeviceThread { tables, shared, .. } = self.thread;
        match row {
            Row::Request(request) => {
                let stack = request.bios.first().and_then(|bio| bio.stack);
                let mut payload = RequestPayload::of_device(request, tables);
                payload.flow = self.thread.marker_names.flows.of_request(request);
                Data::Request {
                    payload: Box::new(payload),
                    cause: shared.stack_row(stack).map(|stack| CauseStack { stack }),
                }
            }
            Row::Depth(peak) => Data::Depth(DepthPayload::new(peak.value)),
        }
    }

    fn name(&self, row: &Row<'_>) -> u32 {
        match row {
            Row::Request(request) => self.thread.names.of(request.operation),
            Row::Depth(_) => self.thread.marker_names.peaks[1],
        }
    }
}

impl Serialize for Markers<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = self.rows.as_slice();
        let zero = self.thread.times.0;
        let end = |row: &Row<'_>| row.end().map(|end| ms(end, zero));
        let mut table = serializer.serialize_struct("markers", 7)?;
        table.serialize_field("length", &rows.len())?;
        table.serialize_field("category", &Repeat(Category::Request as u8, rows.len()))?;
        table.serialize_field("data", &Seq(rows.iter().map(|row| self.data(row))))?;
        table.serialize_field("name", &Column(rows, |row: &Row<'_>| self.name(row)))?;
        table.serialize_field("startTime", &Column(rows, |row: &Row<'_>| ms(row.start(), zero)))?;
        table.serialize_field("endTime", &Column(rows, end))?;
        table.serialize_field("phase", &Column(rows, Row::phase))?;
        table.end()
    }
}
