//! Converts a thread's markers back into marks, page faults and reads.

use super::fault::{self, FaultPayload, Placed, ReadPayload};
use super::format::RawMarkers;
use super::mark::Payload;
use super::markers::{AnyData, PHASE_INSTANT, PHASE_INTERVAL};
use super::read::{ReadError, advance};
use super::read_tables::StackRows;
use super::{request, wait};
use base::addr::Timestamp;
use fact::{FaultFact, MappedFileId, Mark, PagesReadFact, StackId, Tables, ThreadId};

/// The facts of a thread's markers.
#[derive(Debug, Default)]
pub struct Marked {
    /// Starts ascending.
    pub marks: Vec<Mark>,
    /// Ends ascending.
    pub faults: Vec<FaultFact>,
    /// Times ascending.
    pub reads: Vec<PagesReadFact>,
}

/// Reads a table.
pub fn marked(
    raw: &RawMarkers<'_>,
    thread: ThreadId,
    zero: Timestamp,
    (tables, rows): (&Tables, &StackRows),
) -> Result<Marked, ReadError> {
    let len = raw.length;
    if [
        raw.data.len(),
        raw.start_time.len(),
        raw.end_time.len(),
        raw.phase.len(),
    ] != [len; 4]
    {
        return Err(ReadError::Damaged("markers table"));
    }
    let mut marked = Marked::default();
    let mut last = 0.0;
    for row in 0..len {
        let start = raw.start_time[row].ok_or(ReadError::Damaged("marker's start"))?;
        if start < last {
            return Err(ReadError::Damaged("order of markers"));
        }
        last = start;
        let end = match (raw.phase[row], raw.end_time[row]) {
            (PHASE_INSTANT, _) => None,
            (PHASE_INTERVAL, Some(end)) => Some(advance(zero, end)?),
            _ => return Err(ReadError::Damaged("marker's phase")),
        };
        let data = raw.data[row].get();
        let AnyData { r#type, cause } = serde_json::from_str(data)?;
        let stack: Option<StackId> = match cause {
            Some(cause) => rows.stack(Some(i64::from(cause.stack)))?,
            None => None,
        };
        let start = advance(zero, start)?;
        let placed = Placed {
            start,
            end,
            thread,
            stack,
        };
        match &*r#type {
            fault::FAULT | fault::DISK_FAULT => marked.faults.push(fault(data, placed, tables)?),
            fault::READ => marked.reads.push(read(data, placed, tables)?),
            // Markers for display only; the facts are in the section.
            wait::WAIT | wait::IDLE | wait::FILE_IO | request::DISK_REQUEST => {}
            _ => {
                let payload: Payload<'_> = serde_json::from_str(data)?;
                let kind = payload.into_kind().ok_or(ReadError::Damaged("marker's command line"))?;
                marked.marks.push(Mark {
                    start,
                    end,
                    thread,
                    stack,
                    kind,
                });
            }
        }
    }
    marked.faults.sort_by_key(FaultFact::end);
    Ok(marked)
}

fn fault(data: &str, placed: Placed, tables: &Tables) -> Result<FaultFact, ReadError> {
    let payload: FaultPayload = serde_json::from_str(data)?;
    let fault = payload.into_fact(placed).ok_or(ReadError::Damaged("page fault"))?;
    check_file(fault.place.map(|place| place.file), tables)?;
    Ok(fault)
}

fn read(data: &str, placed: Placed, tables: &Tables) -> Result<PagesReadFact, ReadError> {
    let payload: ReadPayload = serde_json::from_str(data)?;
    let read = payload.into_fact(placed).ok_or(ReadError::Damaged("read"))?;
    check_file(Some(read.file), tables)?;
    Ok(read)
}

fn check_file(file: Option<MappedFileId>, tables: &Tables) -> Result<(), ReadError> {
    match file {
        Some(file) if file.index() >= tables.files.len() => Err(ReadError::Damaged("list of files")),
        _ => Ok(()),
    }
}
