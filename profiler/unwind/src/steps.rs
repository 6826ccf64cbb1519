//! The parts of a walk: the result of a step, the state of the walk, and the steps that need no
//! tables.

use super::TruncationReason;
use super::arch::SIGNAL_FRAME;
use super::binary::BinaryId;
use super::cfi::Registers;
use super::copy::{Missing, StackCopy};
use base::addr::Svma;

/// The result of a step.
pub enum WalkStep {
    /// To a caller. `is_call`: by a call; otherwise by a signal, which can interrupt anywhere.
    To { registers: Registers, is_call: bool },
    /// The frame has no caller.
    Outermost,
    /// The walk ends here.
    Stuck(TruncationReason),
}

/// The memory and state for walking one stack.
pub struct Trail<'s> {
    /// The stack.
    pub copy: StackCopy<'s>,
    /// Inner frames with tables: their addresses and CFAs.
    pub passed: Vec<(BinaryId, Svma, u64)>,
    /// A step was a guess for this reason, and no later step has confirmed it.
    pub doubt: Option<TruncationReason>,
    /// Whether a frame pointer has led from one frame to the next.
    pub chained: bool,
}

/// The kernel saved the interrupted registers in the `ucontext` at the stack pointer.
pub fn by_signal_frame(trail: &mut Trail<'_>, registers: Registers) -> WalkStep {
    let read = |offset| trail.copy.read(registers.sp.wrapping_add(offset));
    // Registers saved before the signal do not belong to the interrupted function.
    match (read(SIGNAL_FRAME.ip), read(SIGNAL_FRAME.sp), read(SIGNAL_FRAME.fp)) {
        (Ok(ip), Ok(sp), Ok(fp)) => {
            trail.passed.clear();
            WalkStep::To {
                registers: Registers { ip, sp, fp },
                is_call: false,
            }
        }
        (Err(Missing::NotCopied), ..) => WalkStep::Stuck(TruncationReason::CopyTooShort),
        _ => WalkStep::Stuck(TruncationReason::BadChain),
    }
}

/// Follows the chain of frame pointers. `doubt` is the reason that this is a guess.
pub fn by_frame_pointer(trail: &mut Trail<'_>, registers: Registers, doubt: Option<TruncationReason>) -> WalkStep {
    if registers.fp == 0 && doubt.is_none() {
        return WalkStep::Outermost;
    }
    trail.doubt = trail.doubt.or(doubt);
    if registers.fp < registers.sp {
        return WalkStep::Stuck(TruncationReason::BadChain);
    }
    match (
        trail.copy.read(registers.fp),
        trail.copy.read(registers.fp.wrapping_add(8)),
    ) {
        (Ok(_), Ok(0)) if trail.doubt.is_none() => WalkStep::Outermost,
        (Ok(_), Ok(0)) => WalkStep::Stuck(TruncationReason::BadChain),
        (Ok(fp), Ok(ip)) => {
            trail.chained = true;
            trail.passed.clear();
            WalkStep::To {
                registers: Registers {
                    ip,
                    sp: registers.fp.wrapping_add(16),
                    fp,
                },
                is_call: true,
            }
        }
        (Err(Missing::NotCopied), _) | (_, Err(Missing::NotCopied)) => WalkStep::Stuck(TruncationReason::CopyTooShort),
        _ => WalkStep::Stuck(TruncationReason::BadChain),
    }
}
