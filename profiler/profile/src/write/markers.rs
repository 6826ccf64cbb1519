//! A thread's `markers` table: marks, page faults, reads, waits, wake-ups and requests merged by start time.

use std::borrow::Cow;

use rustc_hash::FxHashMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::flows::Flows;
use crate::error::WriteError;
use crate::gecko::payload as gecko;
use crate::marker::fault::names::FaultNames;
use crate::marker::fault::{self, FaultPayload, ReadPayload};
use crate::marker::mark::{self, Payload};
use crate::marker::peak;
use crate::marker::request::{self, RequestPart, RequestPayload};
use crate::marker::wait::{self, WaitMarker, WaitPayload};
use crate::marker::wakeup::{self, WakeupPayload};
use crate::marker::words::Causes;
use crate::marker::{CauseStack, PHASE_INSTANT, PHASE_INTERVAL};
use crate::shared::Shared;
use crate::shared::categories::Category;
use crate::shared::columns::{Seq, column, object};
use crate::units::ms;
use base::addr::Timestamp;
use fact::reduce::budget::{Collected, ThreadFacts};
use fact::reduce::packed::PackedRef;
use fact::request::Operation;
use fact::wait::WakerFact;
use fact::{Mark, MarkKind, PagesBy, PagesReadFact, Tables, ThreadId, WaitFact};

/// Names of all markers, as indices into the string array.
pub struct MarkerNames<'a> {
    tables: &'a Tables,
    /// Strings of each thread's marks.
    marks: Vec<Vec<MarkStrings>>,
    faults: FaultNames<'a>,
    wait: u32,
    queued: u32,
    idle: u32,
    file_io: u32,
    disk: [u32; Operation::ALL.len()],
    causes: Causes<'a>,
    parts: FxHashMap<ThreadId, Vec<RequestPart<'a>>>,
    wakeup: u32,
    /// Names of peaks of latency and of depth.
    pub peaks: [u32; 2],
    /// Names of threads that were woken.
    woken: FxHashMap<ThreadId, u32>,
    /// Which markers belong together.
    pub flows: Flows<'a>,
    /// Ids of Firefox's own flows.
    gecko_flows: FxHashMap<&'a str, u32>,
}

/// Indices into the string array.
#[derive(Clone, Copy)]
struct MarkStrings {
    name: u32,
    image: Option<u32>,
}

impl MarkStrings {
    fn new<'a>(mark: &'a Mark, shared: &mut Shared<'a>) -> Result<Self, WriteError> {
        let image = match &mark.kind {
            MarkKind::Gecko(mark) => mark.image.as_deref(),
            _ => None,
        };
        Ok(Self {
            name: shared.string(mark::name(mark))?,
            image: image.map(|image| shared.string(Cow::Borrowed(image))).transpose()?,
        })
    }
}

impl<'a> MarkerNames<'a> {
    /// Adds the strings that the markers of all threads use.
    pub fn new(tables: &'a Tables, collected: &'a Collected, shared: &mut Shared<'a>) -> Result<Self, WriteError> {
        let mut marks = Vec::with_capacity(collected.threads.len());
        for thread in &collected.threads {
            let strings = thread.marks.iter().map(|mark| MarkStrings::new(mark, shared));
            marks.push(strings.collect::<Result<_, _>>()?);
        }
        let mut disk = [0; Operation::ALL.len()];
        for (slot, operation) in disk.iter_mut().zip(Operation::ALL) {
            *slot = shared.string(Cow::Borrowed(request::disk_name(operation)))?;
        }
        let mut gecko_flows = FxHashMap::default();
        for mark in collected.threads.iter().flat_map(|thread| &thread.marks) {
            let MarkKind::Gecko(mark) = &mark.kind else { continue };
            for (_, id) in &mark.flows {
                gecko_flows.insert(&**id, shared.string(Cow::Borrowed(id))?);
            }
        }
        let flows = Flows::new(collected, shared)?;
        let mut woken = FxHashMap::default();
        for wait in flows.wakeups() {
            let name = shared.string(Cow::Owned(wakeup::woken(tables, wait)))?;
            woken.insert(wait.thread, name);
        }
        Ok(Self {
            tables,
            marks,
            faults: FaultNames::new(tables, shared)?,
            wait: shared.string(Cow::Borrowed("Wait"))?,
            queued: shared.string(Cow::Borrowed("Run queue"))?,
            idle: shared.string(Cow::Borrowed("Idle"))?,
            file_io: shared.string(Cow::Borrowed("FileIO"))?,
            disk,
            causes: Causes::new(tables, &collected.causes),
            parts: request::by_thread(&collected.requests),
            peaks: [
                shared.string(Cow::Borrowed(peak::NAMES[0]))?,
                shared.string(Cow::Borrowed(peak::NAMES[1]))?,
            ],
            wakeup: shared.string(Cow::Borrowed("Wakeup"))?,
            woken,
            flows,
            gecko_flows,
        })
    }

    fn of_wait(&self, shown: WaitMarker) -> u32 {
        match shown {
            WaitMarker::Wait => self.wait,
            WaitMarker::Queued => self.queued,
            WaitMarker::Idle => self.idle,
            WaitMarker::FileIo => self.file_io,
        }
    }

    fn of_request(&self, operation: Operation) -> u32 {
        let found = Operation::ALL.iter().position(|known| *known == operation);
        self.disk[found.unwrap_or(Operation::ALL.len() - 1)]
    }
}

/// One thread's markers.
pub struct Markers<'a> {
    rows: Vec<Row<'a>>,
    names: &'a MarkerNames<'a>,
    shared: &'a Shared<'a>,
    zero: Timestamp,
}

/// One marker.
enum Row<'a> {
    /// A mark and its strings.
    Mark(&'a Mark, MarkStrings),
    Fault(PackedRef<'a>),
    Read(&'a PagesReadFact),
    Wait(&'a WaitFact, WaitMarker),
    /// A block request of the thread.
    Disk(&'a RequestPart<'a>),
    /// The end of another thread's wait, and the thread's stack.
    Wakeup(&'a WaitFact, &'a WakerFact),
}

impl Row<'_> {
    fn start(&self) -> Timestamp {
        match self {
            Self::Mark(mark, _) => mark.start,
            Self::Fault(fault) => fault.start(),
            Self::Read(read) => read.time,
            Self::Wait(wait, shown) => shown.start(wait),
            Self::Disk(part) => part.start(),
            Self::Wakeup(_, waker) => waker.time,
        }
    }

    fn end(&self) -> Option<Timestamp> {
        match self {
            Self::Mark(mark, _) => mark.end,
            Self::Fault(fault) => fault::end(&fault.fact()),
            Self::Read(_) | Self::Wakeup(..) => None,
            Self::Wait(wait, _) => Some(wait.end),
            Self::Disk(part) => Some(part.request.end),
        }
    }

    fn category(&self) -> u16 {
        if let Self::Mark(mark, _) = self
            && let MarkKind::Gecko(mark) = &mark.kind
        {
            return gecko::category(mark);
        }
        let category = match self {
            Self::Mark(..) | Self::Wakeup(..) => Category::Other,
            Self::Fault(fault) if fault.fact().waited() => Category::DiskFault,
            Self::Fault(_) => Category::Fault,
            Self::Read(_) => Category::Read,
            Self::Wait(wait, shown) => shown.category(wait),
            Self::Disk(_) => Category::Request,
        };
        category as u16
    }

    fn name(&self, names: &MarkerNames<'_>) -> u32 {
        match self {
            Self::Mark(_, strings) => strings.name,
            Self::Fault(_) => names.faults.fault,
            Self::Read(read) if read.by == PagesBy::Populate => names.faults.populated,
            Self::Read(_) => names.faults.read,
            Self::Wait(_, shown) => names.of_wait(*shown),
            Self::Disk(part) => names.of_request(part.request.operation),
            Self::Wakeup(..) => names.wakeup,
        }
    }
}

impl<'a> Markers<'a> {
    /// Builds the markers of the thread with this number; `shared` and `names` were built from the
    /// same facts.
    pub fn new(
        (id, facts): (ThreadId, &'a ThreadFacts),
        names: &'a MarkerNames<'a>,
        shared: &'a Shared<'a>,
        zero: Timestamp,
    ) -> Self {
        let of_marks = names.marks.get(id.index()).map_or(&[][..], Vec::as_slice);
        let marks = facts
            .marks
            .iter()
            .zip(of_marks)
            .map(|(mark, strings)| Row::Mark(mark, *strings));
        let faults = facts.faults.refs().map(Row::Fault);
        let reads = facts.reads.iter().map(Row::Read);
        let waits = facts.waits.iter();
        let waits = waits.flat_map(|wait| wait::shown(wait).map(move |shown| Row::Wait(wait, shown)));
        let disk = names.parts.get(&id).into_iter().flatten().map(Row::Disk);
        let wakeups = names.flows.ended_by(id);
        let wakeups = wakeups.filter_map(|wait| Some(Row::Wakeup(wait, wakeup::waker(wait)?.1)));
        let rows = marks.chain(faults).chain(reads).chain(waits).chain(disk);
        let mut rows: Vec<Row<'a>> = rows.chain(wakeups).collect();
        rows.sort_by_key(Row::start);
        Self {
            rows,
            names,
            shared,
            zero,
        }
    }
}

impl Markers<'_> {
    fn data<'m>(&self, row: &Row<'m>) -> Data<'m> {
        let MarkerNames {
            tables, causes, flows, ..
        } = self.names;
        let (payload, stack) = match row {
            Row::Mark(mark, strings) => match &mark.kind {
                MarkKind::Gecko(mark) => {
                    let strings = (strings.image, &self.names.gecko_flows);
                    return Data::Gecko(gecko::payload(mark, strings, self.zero));
                }
                kind => (AnyPayload::Mark(Payload::of(kind)), mark.stack),
            },
            Row::Fault(fault) => {
                let fault = fault.fact();
                let mut payload = FaultPayload::new(&fault, &self.names.faults);
                payload.why = causes.of_fault(&fault);
                payload.flow = flows.of_fault(&fault);
                (AnyPayload::Fault(Box::new(payload)), fault.stack)
            }
            Row::Read(read) => (AnyPayload::Read(ReadPayload::new(read, &self.names.faults)), None),
            Row::Wait(wait, shown) => {
                let mut payload = WaitPayload::new(wait, *shown, tables, causes);
                payload.flow = flows.of_wait(wait).filter(|_| shown.is_whole());
                (AnyPayload::Wait(Box::new(payload)), wait.stack)
            }
            Row::Disk(part) => {
                let mut payload = RequestPayload::of_thread(part, tables);
                payload.flow = flows.of_request(part.request);
                (AnyPayload::Disk(Box::new(payload)), part.first.stack)
            }
            Row::Wakeup(wait, waker) => {
                let woken = self.names.woken.get(&wait.thread).copied().unwrap_or_default();
                let payload = WakeupPayload::new(wait, woken, flows.of_wait(wait));
                (AnyPayload::Wakeup(payload), waker.stack)
            }
        };
        let stack = self.shared.stack_row(stack);
        Data::Own {
            payload,
            cause: stack.map(|stack| CauseStack { stack }),
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum AnyPayload<'a> {
    Mark(Option<Payload<'a>>),
    Fault(Box<FaultPayload>),
    Read(ReadPayload),
    Wait(Box<WaitPayload<'a>>),
    Disk(Box<RequestPayload>),
    Wakeup(WakeupPayload),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Data<'a> {
    Own {
        #[serde(flatten)]
        payload: AnyPayload<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cause: Option<CauseStack>,
    },
    Gecko(Option<Box<RawValue>>),
}

impl Serialize for Markers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = self.rows.as_slice();
        let table = object! {
            "length": rows.len(),
            "category": column(rows, Row::category),
            "data": Seq(rows.iter().map(|row| self.data(row))),
            "name": column(rows, |row| row.name(self.names)),
            "startTime": column(rows, |row| ms(row.start(), self.zero)),
            "endTime": column(rows, |row| row.end().map(|end| ms(end, self.zero))),
            "phase": column(rows, |row| row.end().map_or(PHASE_INSTANT, |_| PHASE_INTERVAL)),
        };
        table.serialize(serializer)
    }
}
