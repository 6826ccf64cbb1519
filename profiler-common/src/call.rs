//! Code without unwind rules: a step that is a guess, and believed only where a call instruction confirms it.
//!
//! V8's builtins, and much other code that no compiler made, keep frame pointers and say nothing about it. Following one
//! that happens to hold something else invents a caller; a return address is believed only if the instruction before it
//! is a call, or can't be seen.

#![allow(clippy::inline_always)] // As in [`crate::unwind`].
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // Instructions are taken apart by their bytes.

use crate::stack::UserRegs;
use crate::unwind::{ARM64_ADDRESS, Arch, By, WalkEnd, step_by_frame_pointer};

/// A function without a frame of its own is at most so long, in bytes: its caller's call leads to a place so near.
const NEAR: u64 = 4096;

/// `push rbp`; functions start at multiples of 16.
const ENTRY: u64 = 0x55;

/// Goes from a frame whose code has no rules to its caller. `leaf`: the frame is the innermost one, which may keep nothing
/// on the stack yet, or not any more. `read` reads a word of user memory, code as well as stack.
///
/// # Errors
/// [`WalkEnd::NoRow`]: no guess was confirmed.
#[inline(always)]
pub fn step_by_guess(
    arch: Arch,
    registers: &UserRegs,
    leaf: bool,
    read: impl Fn(u64) -> Option<u64>,
) -> Result<(UserRegs, By), WalkEnd> {
    let mut registers = *registers;
    let (mut on_top, mut above) = (0, 0);
    if leaf {
        // Code that is not in memory yet is fetched because a function there was called.
        let unread = if registers.ip.is_multiple_of(16) { ENTRY } else { 0 };
        let code = read(registers.ip).unwrap_or(unread);
        let (ip, sp) = match arch {
            Arch::X86_64 => (read(registers.sp).unwrap_or(0), registers.sp.wrapping_add(8)),
            Arch::Aarch64 => (registers.lr & ARM64_ADDRESS, registers.sp),
        };
        let call = call_before(arch, ip, &read);
        if call != 0 {
            // What lies on top may also be left over from an earlier call.
            if has_no_frame(arch, code)
                || call != UNREADABLE && registers.ip.wrapping_sub(target(arch, ip, call)) < NEAR
            {
                return Ok((without_frame(&registers, ip, sp), By::Call));
            }
            if call != UNREADABLE {
                (on_top, above) = (ip, sp);
            }
        }
        if has_pushed(arch, code) {
            registers.fp = registers.sp;
        }
    }
    if let Ok((caller, by)) = step_by_frame_pointer(arch, &registers, &read) {
        let call = call_before(arch, caller.ip, &read);
        if call > UNREADABLE || (call == UNREADABLE && on_top == 0) {
            return Ok((caller, by));
        }
    }
    if on_top != 0 {
        return Ok((without_frame(&registers, on_top, above), By::Call));
    }
    Err(WalkEnd::NoRow)
}

/// What [`call_before`] says of code that is not in memory, which no call looks like. After a fork that is most of the
/// parent's code; whether something executable is mapped there is for the caller to find out.
const UNREADABLE: u64 = 1;

/// The code before `ip` if it ends with a call, [`UNREADABLE`], or 0: a number rather than an option, because the kernel's
/// verifier refuses to see an absent value moved.
#[inline(always)]
fn call_before(arch: Arch, ip: u64, read: impl Fn(u64) -> Option<u64>) -> u64 {
    let code = read(ip.wrapping_sub(8)).unwrap_or(UNREADABLE);
    if code == UNREADABLE || is_call(arch, code) {
        code
    } else {
        0
    }
}

/// The caller of a function that keeps nothing on the stack.
#[inline(always)]
const fn without_frame(registers: &UserRegs, ip: u64, sp: u64) -> UserRegs {
    UserRegs {
        ip,
        sp,
        fp: registers.fp,
        lr: 0,
    }
}

/// The next instruction is one that a function begins with, or its last: `push rbp`, `endbr64`, `ret`.
#[inline(always)]
const fn has_no_frame(arch: Arch, code: u64) -> bool {
    matches!(arch, Arch::X86_64) && (code as u8 == ENTRY as u8 || code as u8 == 0xc3 || code as u32 == 0xfa1e_0ff3)
}

/// The next instruction is the one behind `push rbp`: `mov rbp, rsp`, in either encoding.
#[inline(always)]
const fn has_pushed(arch: Arch, code: u64) -> bool {
    let next = code as u32 & 0xff_ffff;
    matches!(arch, Arch::X86_64) && (next == 0xe5_8948 || next == 0xec_8b48)
}

/// Where the direct call before `ip` leads; anywhere for an indirect one.
#[inline(always)]
const fn target(arch: Arch, ip: u64, call: u64) -> u64 {
    let upper = (call >> 32) as i32;
    match arch {
        Arch::X86_64 => ip.wrapping_add_signed(upper as i64),
        Arch::Aarch64 => ip.wrapping_sub(4).wrapping_add_signed((upper << 6 >> 4) as i64),
    }
}

/// The eight bytes of `code` (the last one uppermost) end with a call.
///
/// x86-64: `call rel32`, or `call r/m64` with any addressing mode. arm64: `bl`, or `blr` with or without authentication.
#[inline(always)]
pub const fn is_call(arch: Arch, code: u64) -> bool {
    match arch {
        Arch::X86_64 => {
            (code >> 24) as u8 == 0xe8
                || is_indirect(code, 2)
                || is_indirect(code, 3)
                || is_indirect(code, 4)
                || is_indirect(code, 6)
                || is_indirect(code, 7)
        }
        Arch::Aarch64 => {
            let last = (code >> 32) as u32;
            last >> 26 == 0b10_0101 || last & 0xfeff_f000 == 0xd63f_0000
        }
    }
}

/// `call r/m64` of `len` bytes without prefixes: opcode, `ModRM`, `SIB`, displacement.
#[inline(always)]
const fn is_indirect(code: u64, len: u32) -> bool {
    let bytes = code >> (64 - 8 * len);
    let (opcode, modrm, sib) = (bytes as u8, (bytes >> 8) as u8, (bytes >> 16) as u8);
    let (mode, rm) = (modrm >> 6, modrm & 7);
    let has_sib = mode != 3 && rm == 4;
    let displacement = match mode {
        0 if rm == 5 || (has_sib && sib & 7 == 5) => 4,
        1 => 1,
        2 => 4,
        _ => 0,
    };
    opcode == 0xff && (modrm >> 3) & 7 == 2 && 2 + has_sib as u32 + displacement == len
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(end: &[u8]) -> u64 {
        let mut bytes = [0x90; 8];
        bytes[8 - end.len()..].copy_from_slice(end);
        u64::from_le_bytes(bytes)
    }

    #[test]
    fn calls_are_recognised() {
        let calls: [&[u8]; 11] = [
            &[0xe8, 1, 2, 3, 4],
            &[0xff, 0xd0],
            &[0x41, 0xff, 0xd3],
            &[0xff, 0x10],
            &[0xff, 0x50, 0x18],
            &[0xff, 0x14, 0xc8],
            &[0xff, 0x54, 0x24, 0x08],
            &[0xff, 0x90, 1, 2, 0, 0],
            &[0xff, 0x15, 1, 2, 3, 4],
            &[0xff, 0x94, 0xc8, 1, 2, 0, 0],
            &[0xff, 0x14, 0x25, 1, 2, 3, 4],
        ];
        for call in calls {
            assert!(is_call(Arch::X86_64, word(call)), "{call:x?}");
        }
        // nop, jmp rax, ret, jmp [rip], call far.
        let others: [&[u8]; 5] = [&[], &[0xff, 0xe0], &[0xc3], &[0xff, 0x25, 0, 0, 0, 0], &[0xff, 0x18]];
        for other in others {
            assert!(!is_call(Arch::X86_64, word(other)), "{other:x?}");
        }
    }

    #[test]
    fn calls_of_arm64_are_recognised() {
        // bl, bl backwards, blr x8, blraa x8, x9.
        for call in [0x9400_0010_u32, 0x97ff_fff0, 0xd63f_0100, 0xd73f_0909] {
            assert!(is_call(Arch::Aarch64, u64::from(call) << 32), "{call:x}");
        }
        // b, br x8, ret, nop.
        for other in [0x1400_0010_u32, 0xd61f_0100, 0xd65f_03c0, 0xd503_201f] {
            assert!(!is_call(Arch::Aarch64, u64::from(other) << 32), "{other:x}");
        }
    }

    const REGISTERS: UserRegs = UserRegs {
        ip: 0x1000,
        sp: 0x7000,
        fp: 0x7020,
        lr: 0,
    };
    const UNREAD: u64 = u64::MAX;
    const CALL_RAX: [u8; 2] = [0xff, 0xd0];

    /// The caller's ip, sp and fp, if the code at the leaf is `code`, `top` is on top of the stack, and `saved` above the
    /// saved frame pointer. Calls are before 0x2000 (to 0xf00) and before 0x3000.
    fn caller(code: u64, top: u64, saved: u64, leaf: bool) -> Result<(u64, u64, u64), WalkEnd> {
        let memory = move |at| match at {
            0x1000 => (code != UNREAD).then_some(code),
            0x7000 => Some(top),
            0x7008 => Some(0x3000),
            0x7020 => Some(0x7040),
            0x7028 => Some(saved),
            0x1ff8 => Some(word(&[0xe8, 0x00, 0xef, 0xff, 0xff])),
            0x2ff8 => Some(word(&CALL_RAX)),
            0x3ff8 => Some(word(&[0xc3])),
            _ => None,
        };
        let step = step_by_guess(Arch::X86_64, &REGISTERS, leaf, memory);
        step.map(|(caller, _)| (caller.ip, caller.sp, caller.fp))
    }

    const BY_FRAME_POINTER: (u64, u64, u64) = (0x3000, 0x7030, 0x7040);

    #[test]
    fn a_guess_needs_a_call() {
        assert_eq!(caller(0, 0, 0x3000, false), Ok(BY_FRAME_POINTER));
        assert_eq!(caller(0, 5, 0x3000, true), Ok(BY_FRAME_POINTER));
        assert_eq!(caller(0, 0x4000, 0x3000, true), Ok(BY_FRAME_POINTER));
        assert_eq!(caller(0, 0x4000, 0x4000, true), Err(WalkEnd::NoRow));
        assert_eq!(caller(0, 0, 0, true), Err(WalkEnd::NoRow));
    }

    #[test]
    fn code_that_is_not_in_memory_is_not_held_against_a_frame_pointer() {
        assert_eq!(caller(0, 5, 0x9000, true), Ok((0x9000, 0x7030, 0x7040)));
        assert_eq!(caller(0, 0x9000, 0x4000, true), Err(WalkEnd::NoRow));
        // What is confirmed comes first.
        assert_eq!(caller(0, 0x3000, 0x9000, true), Ok((0x3000, 0x7008, 0x7020)));
    }

    #[test]
    fn a_leaf_without_a_frame_returns_to_what_is_on_top() {
        // The call leads here.
        assert_eq!(caller(0, 0x2000, 0x3000, true), Ok((0x2000, 0x7008, 0x7020)));
        // A caller's top means nothing.
        assert_eq!(caller(0, 0x2000, 0x3000, false), Ok(BY_FRAME_POINTER));
        // It leads who knows where: it counts at a function's first and last instruction, or if nothing else is there.
        assert_eq!(caller(0, 0x3000, 0x3000, true), Ok(BY_FRAME_POINTER));
        for code in [0xe589_4855, 0xc3, 0xfa1e_0ff3, UNREAD] {
            assert_eq!(caller(code, 0x3000, 0x2000, true), Ok((0x3000, 0x7008, 0x7020)));
        }
        assert_eq!(caller(0, 0x3000, 0x4000, true), Ok((0x3000, 0x7008, 0x7020)));
    }

    #[test]
    fn a_pushed_frame_pointer_is_where_it_was_pushed() {
        for code in [0xe5_8948, 0xec_8b48] {
            assert_eq!(caller(code, 0x7020, 0x2000, true), Ok((0x3000, 0x7010, 0x7020)));
        }
    }

    #[test]
    fn targets_of_calls() {
        assert_eq!(
            target(Arch::X86_64, 0x2000, word(&[0xe8, 0x00, 0xef, 0xff, 0xff])),
            0xf00
        );
        assert_eq!(target(Arch::Aarch64, 0x2000, 0x97ff_ffff << 32), 0x1ff8);
        assert_eq!(target(Arch::Aarch64, 0x2000, 0x9400_0010 << 32), 0x203c);
    }
}
