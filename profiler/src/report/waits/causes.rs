//! Why waits took so long, in 48 bytes each: what rows for other programs tell of it. Causes are told after their waits, and are wanted beside them.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::fact::{Cause, DeviceId, EffectKind, MappedFileId, Reason, ThreadId, WaitFact};
use crate::report::sorted::{Beside, Ordered, Row};

/// Stands for nothing.
const NONE: u32 = u32::MAX;
/// Kinds.
const REQUEST: u32 = 0;
const HOLDERS_FAULT: u32 = 1;
const HOLDERS_WAIT: u32 = 2;
const HAS_OFFSET: u32 = 1 << 8;

/// What a wait is due to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// A request.
    Request(DueRequest),
    /// What held up the thread that had the lock.
    Holder(ThreadId, EffectKind),
}

/// A request that a wait is due to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueRequest {
    /// The device.
    pub device: DeviceId,
    /// First sector.
    pub sector: u64,
    /// Bytes of the whole request.
    pub bytes: u32,
    /// The file that the part in question belongs to.
    pub file: Option<MappedFileId>,
    /// That part's first byte in the file.
    pub offset: Option<u64>,
    /// Who asked for it, if that is a recorded thread.
    pub by: Option<ThreadId>,
}

/// A cause, as it is kept.
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
    /// Of a wait; `None`: of something else.
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

/// Finds the causes of waits that are asked for by the time at which they began.
#[derive(Debug)]
pub struct Causes<'v>(Beside<'v, CauseRow>);

impl<'v> Causes<'v> {
    pub(super) fn new(rows: &'v Ordered<'_, CauseRow>) -> Self {
        Self(Beside::new(rows.iter()))
    }

    /// Why a wait took so long, where that is known. No later wait was asked for before.
    pub fn of(&mut self, wait: &WaitFact) -> Option<Due> {
        // The one that was told last.
        let of_thread = self.0.of(wait.start.0).iter().rfind(|row| row.thread == wait.thread.0);
        of_thread.map(CauseRow::due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_takes_what_the_header_says() {
        assert_eq!(size_of::<CauseRow>(), 48);
    }
}
