//! Causes of long waits, in 48 bytes each, for the exported rows. Causes arrive after their waits, and are joined with them by
//! start time.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::sorted::{Ordered, Row, SideTable};
use fact::{Cause, DeviceId, EffectKind, MappedFileId, Reason, ThreadId, WaitFact};

/// Encodes a missing value.
const NONE: u32 = u32::MAX;
/// Values of `kind`: a request, or a fault or wait of the lock's holder.
const REQUEST: u32 = 0;
const HOLDERS_FAULT: u32 = 1;
const HOLDERS_WAIT: u32 = 2;
const HAS_OFFSET: u32 = 1 << 8;

/// Cause of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// The wait ended with a block request.
    Request(DueRequest),
    /// A fault or wait of the thread that held the lock.
    Holder(ThreadId, EffectKind),
}

/// A request that caused a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueRequest {
    /// Device of the request.
    pub device: DeviceId,
    /// First sector of the request.
    pub sector: u64,
    /// Size of the whole request in bytes.
    pub bytes: u32,
    /// File of the part of the request that the thread waited for.
    pub file: Option<MappedFileId>,
    /// Offset of that part in the file.
    pub offset: Option<u64>,
    /// Submitter of that part, if it is a recorded thread.
    pub by: Option<ThreadId>,
}

/// A packed cause.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct CauseRow {
    start: u64,
    sector: u64,
    offset: u64,
    thread: u32,
    kind: u32,
    device: u32,
    bytes: u32,
    file: u32,
    by: u32,
}

impl Row for CauseRow {
    fn key(&self) -> u64 {
        self.start
    }
}

impl CauseRow {
    /// Packs the cause of a wait; `None` for causes of other events.
    pub(super) fn new(cause: &Cause) -> Option<Self> {
        if cause.effect.kind != EffectKind::Wait {
            return None;
        }
        let (start, thread) = (cause.effect.start.0, cause.effect.thread.0);
        Some(match cause.reason {
            Reason::Request(request) => Self {
                start,
                sector: request.sector,
                offset: request.offset.unwrap_or_default(),
                thread,
                kind: REQUEST | if request.offset.is_some() { HAS_OFFSET } else { 0 },
                device: request.device.0,
                bytes: request.bytes,
                file: request.file.map_or(NONE, |file| file.0),
                by: request.by.map_or(NONE, |by| by.0),
            },
            Reason::Holder(holder) => Self {
                start,
                sector: 0,
                offset: 0,
                thread,
                kind: match holder.effect.kind {
                    EffectKind::Fault => HOLDERS_FAULT,
                    EffectKind::Wait => HOLDERS_WAIT,
                },
                device: 0,
                bytes: 0,
                file: NONE,
                by: holder.effect.thread.0,
            },
        })
    }

    fn due(&self) -> Due {
        match self.kind {
            HOLDERS_FAULT => Due::Holder(ThreadId(self.by), EffectKind::Fault),
            HOLDERS_WAIT => Due::Holder(ThreadId(self.by), EffectKind::Wait),
            kind => Due::Request(DueRequest {
                device: DeviceId(self.device),
                sector: self.sector,
                bytes: self.bytes,
                file: (self.file != NONE).then_some(MappedFileId(self.file)),
                offset: (kind & HAS_OFFSET != 0).then_some(self.offset),
                by: (self.by != NONE).then_some(ThreadId(self.by)),
            }),
        }
    }
}

/// Looks up the causes of waits in the order of their start times.
#[derive(Debug)]
pub struct Causes<'v>(SideTable<'v, CauseRow>);

impl<'v> Causes<'v> {
    pub(super) fn new(rows: &'v Ordered<'_, CauseRow>) -> Self {
        Self(SideTable::new(rows.iter()))
    }

    /// The cause of a wait, if known. Waits must be looked up in the order of their start times.
    pub fn of(&mut self, wait: &WaitFact) -> Option<Due> {
        // The last reported one.
        let of_thread = self.0.of(wait.start.0).iter().rfind(|row| row.thread == wait.thread.0);
        of_thread.map(CauseRow::due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_size_matches_the_documentation() {
        assert_eq!(size_of::<CauseRow>(), 48);
    }
}
