//! What a page fault or a wait is due to: the request that it had to wait for, or the thread that held it up. docs/io.md has the rules.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::request::{DeviceId, Operation, RequestKind};
use super::{MappedFileId, ThreadId};
use crate::addr::Timestamp;

/// One reason why a fault or a wait took as long as it did. A fault may have several, a wait has one at most.
///
/// It is told after the fault or wait that it is about, and not always right after: a request that a fault began may take longer than the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cause {
    /// What was held up.
    pub effect: Effect,
    /// Why.
    pub reason: Reason,
}

/// What was held up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Effect {
    /// A fault or a wait.
    pub kind: EffectKind,
    /// Its thread.
    pub thread: ThreadId,
    /// [`super::FaultFact::start`] or [`super::WaitFact::start`]: with the thread it tells which one it is.
    pub start: Timestamp,
}

/// A fault or a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EffectKind {
    /// A [`super::FaultFact`].
    Fault,
    /// A [`super::WaitFact`].
    Wait,
}

/// Why something was held up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A request; of a wait, the one whose completion ended it.
    Request(RequestRef),
    /// The thread that had the lock was held up itself.
    Holder(HolderRef),
}

/// A request, as far as one needs to speak of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestRef {
    /// The thread that was held up asked for it itself; else somebody else had, or had read ahead.
    pub own: bool,
    /// Who asked for it, if that is a recorded thread.
    pub by: Option<ThreadId>,
    /// The device.
    pub device: DeviceId,
    /// First sector: with the device and `end` it tells which request it is.
    pub sector: u64,
    /// [`super::RequestFact::start`]
    pub start: Timestamp,
    /// [`super::RequestFact::end`]
    pub end: Timestamp,
    /// What the device did.
    pub operation: Operation,
    /// More about it.
    pub kind: RequestKind,
    /// Bytes of the whole request.
    pub bytes: u32,
    /// The file that the part in question belongs to.
    pub file: Option<MappedFileId>,
    /// That part's first byte in the file.
    pub offset: Option<u64>,
}

impl RequestRef {
    /// From the queueing to the completion.
    pub fn time(&self) -> Duration {
        self.end.since(self.start)
    }
}

/// The fault or wait that held up the holder of a lock while another thread waited for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HolderRef {
    /// The holder's own fault or wait: it may have causes of its own.
    pub effect: Effect,
    /// When that was over.
    pub end: Timestamp,
}
