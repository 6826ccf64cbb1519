//! Stacks that the eBPF programs walked while the program ran.

use profiler_common::unwind::WalkEnd;

use super::TruncationReason;

/// A stack that the eBPF programs walked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walked {
    /// See [`base::event::UserStack::frames`].
    pub frames: Box<[u64]>,
    /// How it ended.
    pub end: End,
}

/// How an eBPF walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End(pub Option<WalkEnd>);

impl End {
    /// Why the stack is incomplete; `None`: it is complete.
    pub fn reason(self) -> Option<TruncationReason> {
        Some(match self.0 {
            Some(WalkEnd::Complete) => return None,
            Some(WalkEnd::NoMapping) => TruncationReason::NoMapping,
            Some(WalkEnd::NoTable | WalkEnd::NoRow) => TruncationReason::NoUnwindInfo,
            Some(WalkEnd::Unsupported) => TruncationReason::UnsupportedRule,
            Some(WalkEnd::ReadFailed) => TruncationReason::StackUnreadable,
            Some(WalkEnd::BadChain) => TruncationReason::BadChain,
            Some(WalkEnd::Limit) => TruncationReason::Limit,
            Some(WalkEnd::NoSpace | WalkEnd::NotWalked) | None => TruncationReason::NotCaptured,
        })
    }
}
