//! Why a stack may be incomplete.

use base::named;
use serde::{Deserialize, Serialize};

named! {
    /// Why a stack does not reach its thread's first frame.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum TruncationReason {
        /// The copy of the stack ends before the stack does.
        CopyTooShort => "stack copy too short",
        /// No mapping covers the address.
        NoMapping => "no mapping",
        /// The module has no unwind information for the address.
        NoUnwindInfo => "no unwind information",
        /// The module's file could not be read.
        ModuleUnreadable => "module unreadable",
        /// framehop can't follow the unwind rule.
        UnsupportedRule => "unsupported unwind rule",
        /// 32-bit code, or code for another processor.
        UnsupportedProcessor => "32-bit code is not unwound",
        /// The chain of frames does not ascend.
        BadChain => "broken frame chain",
        /// More frames than are kept.
        Limit => "frame limit",
        /// No user registers or no stack was captured.
        NotCaptured => "stack not captured",
        /// The stack could not be read: a page that is not in memory, or a wrong address.
        StackUnreadable => "stack not in memory",
        /// The recording cost too much: only the innermost frame was taken.
        Thinned => "not walked (--max-overhead)",
    }
}
