//! Converts a thread's markers back into marks, page faults and reads.

use std::sync::Arc;

use crate::error::ReadError;
use crate::exact::references::References;
use crate::format::RawMarkers;
use crate::gecko::payload as gecko;
use crate::marker::fault::{self, FaultPayload, Placed, ReadPayload};
use crate::marker::mark::Payload;
use crate::marker::{AnyData, PHASE_INSTANT, PHASE_INTERVAL, request, wait, wakeup};
use crate::units::advance;
use fact::{FaultFact, Mark, MarkKind, PagesReadFact, ThreadId};

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
    texts: &mut gecko::Texts<'_>,
    thread: ThreadId,
    to: References<'_>,
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
            (PHASE_INTERVAL, Some(end)) => Some(advance(to.zero, end)?),
            _ => return Err(ReadError::Damaged("marker's phase")),
        };
        let data = raw.data[row].get();
        if let Some(category) = gecko::category_of(raw.category.get(row).copied().flatten()) {
            let name = (raw.name.get(row).copied().flatten())
                .and_then(|name| usize::try_from(name).ok())
                .ok_or(ReadError::Damaged("marker's name"))?;
            let mark = gecko::read(name, category, data, texts, to)?;
            marked.marks.push(Mark {
                start: advance(to.zero, start)?,
                end,
                thread,
                stack: None,
                kind: MarkKind::Gecko(Arc::new(mark)),
            });
            continue;
        }
        let AnyData { r#type, cause } = serde_json::from_str(data)?;
        let stack = to.stack(cause.map(|cause| cause.stack))?;
        let start = advance(to.zero, start)?;
        let placed = Placed {
            start,
            end,
            thread,
            stack,
        };
        match &*r#type {
            fault::FAULT | fault::DISK_FAULT => marked.faults.push(fault(data, placed, to)?),
            fault::READ => marked.reads.push(read(data, placed, to)?),
            // Markers for display only; the facts are in the section.
            wait::WAIT | wait::IDLE | wait::FILE_IO | wakeup::WAKEUP | request::DISK_REQUEST => {}
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

fn fault(data: &str, placed: Placed, to: References<'_>) -> Result<FaultFact, ReadError> {
    let payload: FaultPayload = serde_json::from_str(data)?;
    let fault = payload.into_fact(placed).ok_or(ReadError::Damaged("page fault"))?;
    to.file(fault.place.map(|place| place.file))?;
    Ok(fault)
}

fn read(data: &str, placed: Placed, to: References<'_>) -> Result<PagesReadFact, ReadError> {
    let payload: ReadPayload = serde_json::from_str(data)?;
    let read = payload.into_fact(placed).ok_or(ReadError::Damaged("read"))?;
    to.file(Some(read.file))?;
    Ok(read)
}
