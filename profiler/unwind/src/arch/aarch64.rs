//! arm64: the registers of rules, and the layout of stacks.
//!
//! framehop 0.16 is not used: it refuses the unwind information of functions that sign their return address
//! (`DW_CFA_AARCH64_negate_ra_state`), and requires that frame pointers ascend, while code is free to use x29 for something else.

use gimli::{AArch64, Vendor};
use profiler_common::unwind::{Arch, SP_UNKNOWN};

use super::{Processor, SignalFrame};

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
    is_ordinary: |_| false,
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
