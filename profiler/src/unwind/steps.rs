//! The parts of a walk: where a step leads, what the walk has seen, and the steps that need no tables.

use super::binary::BinaryId;
use super::cfi::Registers;
use super::copy::{Missing, StackCopy};
use crate::addr::Svma;
use crate::fact::TruncationReason;

/// Where a step leads.
pub enum Step {
    /// To a caller. `is_call`: by a call; else by a signal, which interrupts anywhere.
    To { registers: Registers, is_call: bool },
    /// The frame has no caller.
    Outermost,
    /// No further.
    Stuck(TruncationReason),
}

/// What a frame's memory and code say while one stack is walked.
pub struct Trail<'s> {
    /// The stack.
    pub copy: StackCopy<'s>,
    /// Frames behind us that have tables: where they are, and their CFA.
    pub passed: Vec<(BinaryId, Svma, u64)>,
    /// A step was a guess, for this reason; nothing has confirmed it since.
    pub doubt: Option<TruncationReason>,
    /// A frame pointer has led from one frame to the next.
    pub chained: bool,
}

/// The kernel saved the interrupted registers in the `ucontext` that the stack pointer is at (arch/x86/kernel/signal.c,
/// `struct rt_sigframe`).
pub fn by_signal_frame(trail: &mut Trail<'_>, registers: Registers) -> Step {
    let read = |offset| trail.copy.read(registers.sp.wrapping_add(offset));
    // Registers that were saved before the signal are not the interrupted function's.
    match (read(168), read(160), read(120)) {
        (Ok(ip), Ok(sp), Ok(fp)) => {
            trail.passed.clear();
            Step::To {
                registers: Registers { ip, sp, fp },
                is_call: false,
            }
        }
        (Err(Missing::NotCopied), ..) => Step::Stuck(TruncationReason::CopyTooShort),
        _ => Step::Stuck(TruncationReason::BadChain),
    }
}

/// Follows the chain of frame pointers. `doubt`: why this is a guess.
pub fn by_frame_pointer(trail: &mut Trail<'_>, registers: Registers, doubt: Option<TruncationReason>) -> Step {
    if registers.fp == 0 && doubt.is_none() {
        return Step::Outermost;
    }
    trail.doubt = trail.doubt.or(doubt);
    if registers.fp < registers.sp {
        return Step::Stuck(TruncationReason::BadChain);
    }
    match (
        trail.copy.read(registers.fp),
        trail.copy.read(registers.fp.wrapping_add(8)),
    ) {
        (Ok(_), Ok(0)) if trail.doubt.is_none() => Step::Outermost,
        (Ok(_), Ok(0)) => Step::Stuck(TruncationReason::BadChain),
        (Ok(fp), Ok(ip)) => {
            trail.chained = true;
            trail.passed.clear();
            Step::To {
                registers: Registers {
                    ip,
                    sp: registers.fp.wrapping_add(16),
                    fp,
                },
                is_call: true,
            }
        }
        (Err(Missing::NotCopied), _) | (_, Err(Missing::NotCopied)) => Step::Stuck(TruncationReason::CopyTooShort),
        _ => Step::Stuck(TruncationReason::BadChain),
    }
}
