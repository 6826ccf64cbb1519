//! arm64: the fault address and the syndrome of an abort, from which a page fault begins.
//!
//! ESR and FAR: Arm Architecture Reference Manual, `ESR_ELx` and "ISS encoding for an exception from a Data Abort";
//! arch/arm64/include/asm/esr.h.

#![allow(clippy::inline_always)] // As in [`crate::unwind`].

use crate::fault::error_code;

/// Exception classes, bits 26 to 31: instruction aborts are below the data aborts; the lowest bit is set in kernel mode.
const CLASS_SHIFT: u32 = 26;
const CLASS_MASK: u64 = 0x3f;
/// `ESR_ELx_EC_DABT_LOW`
const DATA: u64 = 0x24;
/// `ESR_ELx_WNR`: a write.
const WRITES: u64 = 1 << 6;
/// `ESR_ELx_CM`: cache maintenance, which needs to read only, but looks like a write.
const MAINTAINS: u64 = 1 << 8;
/// `ESR_ELx_FSC`: the status code.
const STATUS: u64 = 0x3f;
/// A translation fault at level -1 (52-bit addresses with pages of 4 KiB).
const NO_TABLE: u64 = 0x2b;
/// Status codes without their level.
const TRANSLATION: u64 = 1;
const PERMISSION: u64 = 3;
/// The bit of an address that selects the kernel's tables; those above it may be a tag.
const KERNEL: u64 = 1 << 55;

/// Whether an abort is a page fault of user memory: translation, access flag or permission, and not alignment, parity or a hardware error.
#[inline(always)]
pub const fn is_page_fault(far: u64, syndrome: u64) -> bool {
    let kind = (syndrome & STATUS) >> 2;
    let is_one = kind >= TRANSLATION && kind <= PERMISSION || syndrome & STATUS == NO_TABLE;
    is_one && far & KERNEL == 0
}

/// The syndrome as bits of [`error_code`].
#[inline(always)]
pub const fn error_code(syndrome: u64) -> u32 {
    let class = syndrome >> CLASS_SHIFT & CLASS_MASK;
    let kind = (syndrome & STATUS) >> 2;
    let is_present = kind > TRANSLATION && kind <= PERMISSION;
    let is_data = class >= DATA;
    let is_write = is_data && syndrome & (WRITES | MAINTAINS) == WRITES;
    let mut code = 0;
    if is_present {
        code |= error_code::PRESENT;
    }
    if is_write {
        code |= error_code::WRITE;
    }
    if class & 1 == 0 {
        code |= error_code::USER;
    }
    if !is_data {
        code |= error_code::INSTRUCTION;
    }
    code
}

/// The fault address without its tag (top byte ignore, memory tagging).
#[inline(always)]
pub const fn address(far: u64) -> u64 {
    far << 8 >> 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::error_code::{INSTRUCTION, PRESENT, USER, WRITE};

    /// The syndrome of an abort: exception class, and the lower bits. Bit 25: a 32-bit instruction.
    const fn syndrome(class: u64, rest: u64) -> u64 {
        class << 26 | 1 << 25 | rest
    }

    #[test]
    fn a_syndrome_has_mode_access_and_presence() {
        for (class, rest, expected) in [
            (0x24, 0x07, USER),                         // read, translation fault at level 3
            (0x24, 0x47, USER | WRITE),                 // write
            (0x24, 0x4f, USER | WRITE | PRESENT),       // write to a read-only page
            (0x24, 0x0b, USER | PRESENT),               // access flag
            (0x25, 0x46, WRITE),                        // the kernel writes
            (0x20, 0x07, USER | INSTRUCTION),           // instruction fetch
            (0x20, 0x0f, USER | INSTRUCTION | PRESENT), // no permission to execute
            (0x24, 0x147, USER),                        // cache maintenance
            (0x24, NO_TABLE, USER),
        ] {
            assert_eq!(error_code(syndrome(class, rest)), expected, "{class:x} {rest:x}");
            assert!(is_page_fault(0x7000, syndrome(class, rest)));
        }
    }

    #[test]
    fn other_aborts_are_no_page_faults() {
        // Address size, external abort, external abort on a table walk, tag check, parity, alignment.
        for status in [0x00, 0x03, 0x10, 0x11, 0x17, 0x18, 0x21] {
            assert!(!is_page_fault(0x7000, syndrome(0x24, status)), "{status:x}");
        }
        assert!(
            !is_page_fault(0xffff_8000_0000_0000, syndrome(0x25, 7)),
            "the kernel's memory"
        );
    }

    #[test]
    fn tags_are_cut() {
        assert_eq!(address(0x3a00_ffff_1234_5678), 0xffff_1234_5678);
        assert!(is_page_fault(0xff00_ffff_1234_5678, syndrome(0x24, 7)));
        assert_eq!(address(0x000f_ffff_ffff_f000), 0x000f_ffff_ffff_f000, "52 bits");
    }
}
