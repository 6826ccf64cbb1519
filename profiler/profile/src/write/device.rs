//! Tracks of block devices: each is a process with one thread. Its samples are the parts of
//! requests, weighted by bytes, with the submitter's stack; its markers are the requests. Flame
//! graph and inverted tree show which code reads and writes.

pub(super) mod counter;

use std::borrow::Cow;

use serde::{Serialize, Serializer, ser::SerializeMap, ser::SerializeStruct};
use serde_json::{Map, Value, json};

use super::flows::Flows;
use super::skeleton::ThreadRow;
use super::track::{Item, Samples, TrackRow, Weight, lay_out};
use crate::error::WriteError;
use crate::marker::request::RequestPayload;
use crate::marker::{CauseStack, PHASE_INTERVAL, words};
use crate::shared::Shared;
use crate::shared::categories::Category;
use crate::shared::columns::{Column, Repeat, Seq};
use crate::shared::labels::{Label, Labels};
use crate::units::ms;
use base::addr::Timestamp;
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
    let mut row = of_thread.clone();
    let (name, pid) = (words::device(tables, device), pid(tables, device));
    for (key, value) in [
        ("processName", json!(format!("Block device {name}"))),
        ("name", json!(name)),
        ("tid", json!(pid)),
        ("pid", json!(pid)),
        ("isMainThread", json!(true)),
        ("showMarkersInTimeline", json!(true)),
        ("processStartupTime", json!(0.0)),
        ("processShutdownTime", Value::Null),
        ("registerTime", json!(0.0)),
        ("unregisterTime", Value::Null),
    ] {
        row.insert(key.into(), value);
    }
    row
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
    /// Which markers belong together.
    pub flows: &'a Flows<'a>,
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
        let mut requests: Vec<&RequestFact> = self.requests().collect();
        requests.sort_by_key(|request| request.start);
        Markers { requests, thread: self }
    }
}

/// A device's `markers` table: starts ascending.
struct Markers<'m, 'a> {
    requests: Vec<&'m RequestFact>,
    thread: &'m DeviceThread<'a>,
}

#[derive(Serialize)]
struct Data {
    #[serde(flatten)]
    payload: RequestPayload,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<CauseStack>,
}

impl Markers<'_, '_> {
    fn data(&self, request: &RequestFact) -> Data {
        let DeviceThread {
            tables, shared, flows, ..
        } = self.thread;
        let stack = request.bios.first().and_then(|bio| bio.stack);
        let stack = shared.stack_row(stack);
        let mut payload = RequestPayload::of_device(request, tables);
        payload.flow = flows.of_request(request);
        Data {
            payload,
            cause: stack.map(|stack| CauseStack { stack }),
        }
    }
}

impl Serialize for Markers<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = self.requests.as_slice();
        let (zero, names) = (self.thread.times.0, self.thread.names);
        let mut table = serializer.serialize_struct("markers", 7)?;
        table.serialize_field("length", &rows.len())?;
        table.serialize_field("category", &Repeat(Category::Request as u8, rows.len()))?;
        table.serialize_field("data", &Seq(rows.iter().map(|request| self.data(request))))?;
        table.serialize_field(
            "name",
            &Column(rows, |request: &&RequestFact| names.of(request.operation)),
        )?;
        table.serialize_field(
            "startTime",
            &Column(rows, |request: &&RequestFact| ms(request.start, zero)),
        )?;
        table.serialize_field("endTime", &Column(rows, |request: &&RequestFact| ms(request.end, zero)))?;
        table.serialize_field("phase", &Repeat(PHASE_INTERVAL, rows.len()))?;
        table.end()
    }
}
