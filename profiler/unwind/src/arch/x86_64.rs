//! x86-64: framehop's unwinder, the registers of rules, and the layout of stacks.

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use gimli::{Register, X86_64};
use profiler_common::unwind::Arch;

use super::SignalFrame;

/// The processor, for steps along rows.
pub const ARCH: Arch = Arch::X86_64;
/// The processor of files that can be unwound.
pub const ELF: symbols::elf::Arch = symbols::elf::Arch::X86_64;

/// The return address, stack pointer and frame pointer in rules.
pub const RA: Register = X86_64::RA;
/// See [`RA`].
pub const SP: Register = X86_64::RSP;
/// See [`RA`].
pub const FP: Register = X86_64::RBP;

/// Size of the area below the stack pointer that belongs to a function (System V ABI).
pub const RED_ZONE: u64 = 128;

/// Of arch/x86/kernel/signal.c, `struct rt_sigframe`.
pub const SIGNAL_FRAME: SignalFrame = SignalFrame {
    ip: 168,
    sp: 160,
    fp: 120,
};

/// Follows ordinary rules.
pub type Unwinder<D> = UnwinderX86_64<D>;
/// Rules that the unwinder has found.
pub type Cache = CacheX86_64;
/// The registers that the unwinder steps with.
type FrameRegisters = UnwindRegsX86_64;

/// The registers of a frame whose code is at `address` of framehop's address space.
pub fn frame_registers(address: u64, sp: u64, fp: u64) -> FrameRegisters {
    UnwindRegsX86_64::new(address, sp, fp)
}
