//! x86-64: framehop's unwinder, the registers of rules, and the layout of stacks.

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{Error, FrameAddress, Unwinder as _};
use gimli::{CfaRule, RegisterRule, Vendor, X86_64};
use profiler_common::unwind::Arch;
use symbols::elf::ElfBytes;

use super::{Processor, Registers, Row, SignalFrame};

/// See [`Processor`].
pub const PROCESSOR: Processor = Processor {
    arch: Arch::X86_64,
    elf: symbols::elf::Arch::X86_64,
    vendor: Vendor::Default,
    ra: X86_64::RA,
    sp: X86_64::RSP,
    fp: X86_64::RBP,
    has_link_register: false,
    lr_after_frame_pointer: 0,
    is_ordinary,
    page: 4096,
    red_zone: 128, // System V ABI
    // Of arch/x86/kernel/signal.c, `struct rt_sigframe`.
    signal_frame: SignalFrame {
        ip: 168,
        sp: 160,
        fp: 120,
        lr: None,
    },
};

/// Follows ordinary rules.
pub type Unwinder = UnwinderX86_64<ElfBytes>;
/// Rules that the unwinder has found.
pub type Cache = CacheX86_64;

/// The registers of the caller of a frame, whose code is at `frame` of framehop's address space. `None`: the return address is zero.
///
/// # Errors
/// The rule can't be followed.
pub fn caller(
    unwinder: &Unwinder,
    (frame, registers): (FrameAddress, Registers),
    cache: &mut Cache,
    read: &mut impl FnMut(u64) -> Result<u64, ()>,
) -> Result<Option<Registers>, Error> {
    let mut regs = UnwindRegsX86_64::new(frame.address(), registers.sp, registers.fp);
    let ip = unwinder.unwind_frame(frame, &mut regs, cache, read)?;
    Ok(ip.map(|ip| Registers {
        ip,
        sp: regs.sp(),
        fp: regs.bp(),
        lr: 0,
    }))
}

fn is_ordinary(row: &Row) -> bool {
    let CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else {
        return false;
    };
    let fp = match row.register(X86_64::RBP) {
        None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => None,
        Some(RegisterRule::Offset(at)) => Some(at),
        _ => return false,
    };
    let fits = |offset: i64| offset % 8 == 0 && i16::try_from(offset / 8).is_ok();
    row.register(X86_64::RA) == Some(RegisterRule::Offset(-8))
        && match register {
            X86_64::RSP => offset > 0 && fits(offset) && fp.is_none_or(|at| fits(offset.saturating_add(at))),
            X86_64::RBP => offset == 16 && fp == Some(-16),
            _ => false,
        }
}
