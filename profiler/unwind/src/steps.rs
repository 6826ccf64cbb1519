//! The parts of a walk: the result of a step, the state of the walk, and the steps that need no
//! tables.

use std::cell::Cell;

use profiler_common::unwind::{By, Machine, Row, WalkEnd, step};

use super::TruncationReason;
use super::arch::{Processor, Registers};
use super::binary::BinaryId;
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
    /// The processor of the stack.
    pub processor: &'static Processor,
    /// The bits of a return address that are not a signature.
    pub mask: u64,
}

impl Trail<'_> {
    /// The processor with its address space.
    pub fn machine(&self) -> Machine {
        Machine {
            arch: self.processor.arch,
            address: self.mask,
        }
    }
}

/// Steps by the rules of a row, as the eBPF programs do.
pub fn by_row(trail: &mut Trail<'_>, row: Row, registers: Registers) -> WalkStep {
    let missing = Cell::new(None);
    let read = |at| trail.copy.read(at).map_err(|why| missing.set(Some(why))).ok();
    let caller = step(trail.machine(), row, &registers.into(), read);
    match caller {
        Ok((caller, by)) => {
            trail.passed.clear();
            WalkStep::To {
                registers: trail.processor.registers_of(&caller),
                is_call: by == By::Call,
            }
        }
        Err(WalkEnd::Complete) => WalkStep::Outermost,
        Err(WalkEnd::NoRow) => WalkStep::Stuck(TruncationReason::NoUnwindInfo),
        Err(_) if missing.get() == Some(Missing::NotCopied) => WalkStep::Stuck(TruncationReason::CopyTooShort),
        Err(_) => WalkStep::Stuck(TruncationReason::BadChain),
    }
}

/// The kernel saved the interrupted registers in the `ucontext` at the stack pointer.
pub fn by_signal_frame(trail: &mut Trail<'_>, registers: Registers) -> WalkStep {
    let read = |offset| trail.copy.read(registers.sp.wrapping_add(offset));
    // Registers saved before the signal do not belong to the interrupted function.
    let frame = &trail.processor.signal_frame;
    let lr = frame.lr.map_or(Ok(0), read);
    match (read(frame.ip), read(frame.sp), read(frame.fp), lr) {
        (Ok(ip), Ok(sp), Ok(fp), Ok(lr)) => {
            trail.passed.clear();
            WalkStep::To {
                registers: Registers { ip, sp, fp, lr },
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
    if registers.fp < registers.sp || trail.processor.has_link_register && !registers.fp.is_multiple_of(8) {
        return WalkStep::Stuck(TruncationReason::BadChain);
    }
    let back = trail.copy.read(registers.fp.wrapping_add(8));
    match (trail.copy.read(registers.fp), back.map(|ip| ip & trail.mask)) {
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
                    lr: trail.processor.lr_after_frame_pointer,
                },
                is_call: true,
            }
        }
        (Err(Missing::NotCopied), _) | (_, Err(Missing::NotCopied)) => WalkStep::Stuck(TruncationReason::CopyTooShort),
        _ => WalkStep::Stuck(TruncationReason::BadChain),
    }
}
