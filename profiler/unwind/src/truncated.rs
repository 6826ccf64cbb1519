//! Why a stack may be incomplete.

use serde::{Deserialize, Serialize};

/// Why a stack does not reach its thread's first frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TruncationReason {
    /// The copy of the stack ends before the stack does.
    CopyTooShort,
    /// No mapping covers the address.
    NoMapping,
    /// The module has no unwind information for the address.
    NoUnwindInfo,
    /// The module's file could not be read.
    ModuleUnreadable,
    /// framehop can't follow the unwind rule.
    UnsupportedRule,
    /// 32-bit code, or code for another processor.
    UnsupportedProcessor,
    /// The chain of frames does not ascend.
    BadChain,
    /// More frames than are kept.
    Limit,
    /// No user registers or no stack was captured.
    NotCaptured,
    /// The stack could not be read: a page that is not in memory, or a wrong address.
    StackUnreadable,
}

impl TruncationReason {
    /// Text for `[truncated: …]`.
    pub fn words(self) -> &'static str {
        match self {
            Self::CopyTooShort => "stack copy too short",
            Self::NoMapping => "no mapping",
            Self::NoUnwindInfo => "no unwind information",
            Self::ModuleUnreadable => "module unreadable",
            Self::UnsupportedRule => "unsupported unwind rule",
            Self::UnsupportedProcessor => "32-bit code is not unwound",
            Self::BadChain => "broken frame chain",
            Self::Limit => "frame limit",
            Self::NotCaptured => "stack not captured",
            Self::StackUnreadable => "stack not in memory",
        }
    }
}
