//! A thread's `markers` table: marks, page faults and reads together, starts ascending.

use std::borrow::Cow;

use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct};

use super::categories::Category;
use super::columns::{Column, Seq};
use super::fault::{self, FaultPayload, ReadPayload};
use super::fault_names::FaultNames;
use super::mark::{self, Payload};
use super::ms;
use super::shared::Shared;
use super::write::WriteError;
use crate::addr::Timestamp;
use crate::fact::budget::{Collected, ThreadFacts};
use crate::fact::{FaultFact, Mark, PagesReadFact, Tables};

/// `MarkerPhase.Instant`
pub const PHASE_INSTANT: u8 = 0;
/// `MarkerPhase.Interval`
pub const PHASE_INTERVAL: u8 = 1;

/// Names of all markers as numbers in the string array.
pub struct Names<'a> {
    /// Of each thread's marks.
    marks: Vec<Vec<u32>>,
    faults: FaultNames<'a>,
}

impl<'a> Names<'a> {
    /// Numbers what the markers of all threads can say.
    pub fn new(tables: &'a Tables, collected: &'a Collected, shared: &mut Shared<'a>) -> Result<Self, WriteError> {
        let mut marks = Vec::with_capacity(collected.threads.len());
        for thread in &collected.threads {
            let names: Result<Vec<u32>, _> = thread.marks.iter().map(|m| shared.string(mark::name(m))).collect();
            marks.push(names?);
        }
        Ok(Self {
            marks,
            faults: FaultNames::new(tables, shared)?,
        })
    }
}

/// One thread's markers.
pub struct Markers<'a> {
    rows: Vec<Row<'a>>,
    names: &'a FaultNames<'a>,
    shared: &'a Shared<'a>,
    zero: Timestamp,
}

/// One marker.
enum Row<'a> {
    /// A mark and its name.
    Mark(&'a Mark, u32),
    Fault(&'a FaultFact),
    Read(&'a PagesReadFact),
}

impl Row<'_> {
    fn start(&self) -> Timestamp {
        match self {
            Self::Mark(mark, _) => mark.start,
            Self::Fault(fault) => fault.start,
            Self::Read(read) => read.time,
        }
    }

    fn end(&self) -> Option<Timestamp> {
        match self {
            Self::Mark(mark, _) => mark.end,
            Self::Fault(fault) => fault::end(fault),
            Self::Read(_) => None,
        }
    }

    fn category(&self) -> u8 {
        let category = match self {
            Self::Mark(..) => Category::Other,
            Self::Fault(fault) if fault.waited() => Category::DiskFault,
            Self::Fault(_) => Category::Fault,
            Self::Read(_) => Category::Read,
        };
        category as u8
    }

    fn name(&self, names: &FaultNames<'_>) -> u32 {
        match self {
            Self::Mark(_, name) => *name,
            Self::Fault(_) => names.fault,
            Self::Read(_) => names.read,
        }
    }
}

impl<'a> Markers<'a> {
    /// Of the thread with this number; `shared` and `names` were made of the same facts.
    pub fn new(
        (index, facts): (usize, &'a ThreadFacts),
        names: &'a Names<'a>,
        shared: &'a Shared<'a>,
        zero: Timestamp,
    ) -> Self {
        let of_marks = names.marks.get(index).map_or(&[][..], Vec::as_slice);
        let marks = facts
            .marks
            .iter()
            .zip(of_marks)
            .map(|(mark, name)| Row::Mark(mark, *name));
        let faults = facts.faults.iter().map(Row::Fault);
        let reads = facts.reads.iter().map(Row::Read);
        let mut rows: Vec<Row<'a>> = marks.chain(faults).chain(reads).collect();
        rows.sort_by_key(Row::start);
        Self {
            rows,
            names: &names.faults,
            shared,
            zero,
        }
    }
}

impl Markers<'_> {
    fn data<'m>(&self, row: &Row<'m>) -> Data<'m> {
        let (payload, stack) = match row {
            Row::Mark(mark, _) => (AnyPayload::Mark(Payload::from(&mark.kind)), mark.stack),
            Row::Fault(fault) => {
                let payload = Box::new(FaultPayload::new(fault, self.names));
                (AnyPayload::Fault(payload), fault.stack)
            }
            Row::Read(read) => (AnyPayload::Read(ReadPayload::new(read, self.names)), None),
        };
        let stack = stack.and_then(|stack| self.shared.stack_row(stack));
        Data {
            payload,
            cause: stack.map(|stack| Cause { stack }),
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum AnyPayload<'a> {
    Mark(Payload<'a>),
    Fault(Box<FaultPayload>),
    Read(ReadPayload),
}

#[derive(Serialize)]
struct Data<'a> {
    #[serde(flatten)]
    payload: AnyPayload<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<Cause>,
}

/// The backtrace of a marker.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Cause {
    /// Row of the stack table.
    pub stack: u32,
}

/// What every payload has.
#[derive(Deserialize)]
pub struct AnyData<'a> {
    /// Its type.
    #[serde(borrow)]
    pub r#type: Cow<'a, str>,
    /// Its backtrace.
    pub cause: Option<Cause>,
}

impl Serialize for Markers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = self.rows.as_slice();
        let phase = |row: &Row<'_>| {
            if row.end().is_some() {
                PHASE_INTERVAL
            } else {
                PHASE_INSTANT
            }
        };
        let mut table = serializer.serialize_struct("markers", 7)?;
        table.serialize_field("length", &rows.len())?;
        table.serialize_field("category", &Column(rows, Row::category))?;
        table.serialize_field("data", &Seq(rows.iter().map(|row| self.data(row))))?;
        table.serialize_field("name", &Column(rows, |row: &Row<'_>| row.name(self.names)))?;
        table.serialize_field("startTime", &Column(rows, |row: &Row<'_>| ms(row.start(), self.zero)))?;
        table.serialize_field(
            "endTime",
            &Column(rows, |row: &Row<'_>| row.end().map(|end| ms(end, self.zero))),
        )?;
        table.serialize_field("phase", &Column(rows, phase))?;
        table.end()
    }
}
