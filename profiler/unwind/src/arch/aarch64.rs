//! arm64: framehop's registers, the registers of rules, and the layout of stacks.

use framehop::aarch64::{PtrAuthMask, UnwindRegsAarch64};
use gimli::{AArch64, CfaRule, RegisterRule, Vendor};
use profiler_common::unwind::{Arch, SP_UNKNOWN};

use super::{Processor, SignalFrame};
use crate::cfi::{Registers, Row};

/// See [`Processor`].
pub const PROCESSOR: Processor = Processor {
    arch: Arch::Aarch64,
    elf: symbols::elf::Arch::Aarch64,
    vendor: Vendor::AArch64,
    ra: AArch64::X30,
    sp: AArch64::SP,
    fp: AArch64::X29,
    has_link_register: true,
    lr_after_frame_pointer: SP_UNKNOWN, // the frame record may be anywhere in its frame
    is_ordinary,
    page: 65536,
    red_zone: 0, // Procedure Call Standard for the Arm 64-bit Architecture, "The stack"
    // Of arch/arm64/kernel/signal.c, `struct rt_sigframe`.
    signal_frame: SignalFrame {
        ip: 568,
        sp: 560,
        fp: 544,
        lr: Some(552),
    },
};

/// The registers of a frame. The bits of `mask` are a code address, the others a signature.
pub fn registers(registers: Registers, mask: u64) -> UnwindRegsAarch64 {
    let Registers { lr, sp, fp, .. } = registers;
    UnwindRegsAarch64::new_with_ptr_auth_mask(PtrAuthMask(mask), lr, sp, fp)
}

/// The caller's registers. Its own return address is not in a register, because it has called.
pub fn from(ip: u64, registers: &UnwindRegsAarch64) -> Registers {
    Registers {
        ip,
        sp: registers.sp(),
        fp: registers.fp(),
        lr: 0,
    }
}

/// Only rules by the stack pointer. By the frame pointer framehop requires that the caller's is further up, but it may contain
/// anything else: code is free to use the register.
fn is_ordinary(row: &Row) -> bool {
    let CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else {
        return false;
    };
    let saved = |register| match row.register(register) {
        None | Some(RegisterRule::SameValue) => Some(None),
        Some(RegisterRule::Offset(at)) => Some(Some(at)),
        _ => None,
    };
    let (Some(fp), Some(lr)) = (saved(AArch64::X29), saved(AArch64::X30)) else {
        return false;
    };
    let fits = |at: i64| at % 8 == 0 && i16::try_from(offset.saturating_add(at) / 8).is_ok();
    register == AArch64::SP
        && offset >= 0
        && offset % 16 == 0
        && u16::try_from(offset / 16).is_ok()
        && (fp.is_none() || lr.is_some())
        && fp.is_none_or(fits)
        && lr.is_none_or(fits)
}
