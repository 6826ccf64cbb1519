//! Causes of page faults and waits: the request they waited for, or the thread that held them up. docs/io.md has the
//! rules.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::request::{DeviceId, Operation, RequestKind};
use super::{MappedFileId, ThreadId};
use base::addr::Timestamp;

/// One reason why a fault or a wait took as long as it did. A fault may have several, a wait at most one.
///
/// It is emitted after its fault or wait, not always immediately: a request that a fault began may outlast the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cause {
    /// What was held up.
    pub effect: Effect,
    /// The reason.
    pub reason: Reason,
}

/// Key of a fault or wait that was held up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Effect {
    /// A fault or a wait.
    pub kind: EffectKind,
    /// Its thread.
    pub thread: ThreadId,
    /// [`super::FaultFact::start`] or [`super::WaitFact::start`]: unique together with the thread.
    pub start: Timestamp,
}

/// Fault or wait.
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
    /// A request; for a wait, the one whose completion ended it.
    Request(RequestRef),
    /// The thread that had the lock was held up itself.
    Holder(HolderRef),
}

/// The facts of a request that a cause reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestRef {
    /// Whether the delayed thread requested it; if not, another thread did, or read ahead.
    pub own: bool,
    /// The requesting thread, if recorded.
    pub by: Option<ThreadId>,
    /// The device.
    pub device: DeviceId,
    /// First sector: unique together with the device and `end`.
    pub sector: u64,
    /// [`super::RequestFact::start`]
    pub start: Timestamp,
    /// [`super::RequestFact::end`]
    pub end: Timestamp,
    /// The device operation.
    pub operation: Operation,
    /// Flags of the request.
    pub kind: RequestKind,
    /// Bytes of the whole request.
    pub bytes: u32,
    /// File of the relevant part.
    pub file: Option<MappedFileId>,
    /// First byte of that part in the file.
    pub offset: Option<u64>,
}

impl RequestRef {
    /// From queueing to completion.
    pub fn time(&self) -> Duration {
        self.end.since(self.start)
    }
}

/// The fault or wait that held up the holder of a lock while another thread waited for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HolderRef {
    /// The holder's own fault or wait, which may have causes too.
    pub effect: Effect,
    /// When it ended.
    pub end: Timestamp,
}
