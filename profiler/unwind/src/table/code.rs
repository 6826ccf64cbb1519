//! Rules from the code of functions: arm64's vdso has no unwind information at all (looked at from 6.1 to 7.3).
//!
//! Its functions are compiled C, of a few hundred instructions: most call nothing and leave the stack alone. Each instruction that
//! moves the stack pointer or saves the frame record changes the rules from the next one on; if one does so in a way that is not
//! known here, the rest of its function has no rules.

use profiler_common::unwind::{Arch, Cfa, Fp, RA_ABOVE_FP, RA_IN_LINK_REGISTER, Row};
use symbols::elf::ElfFile;

use super::stubs::Stubs;

/// Returns from a signal handler, in arch/arm64/kernel/vdso/sigreturn.S.
const SIGNAL_RETURN: &str = "__kernel_rt_sigreturn";
/// Its code: `mov x8, #__NR_rt_sigreturn`, `svc #0`.
const SIGNAL_CODE: [u32; 2] = [0xd280_1168, 0xd400_0001];
/// Maximum bytes of a function that is followed.
const MAX_CODE: u64 = 1 << 16;
/// Maximum number of functions.
const MAX_FUNCTIONS: usize = 256;

/// The stack pointer as a register operand; the frame pointer; the link register.
const SP: u32 = 31;
const FP: u32 = 29;
const LR: u32 = 30;

/// The functions of a vdso, and their rules; of any other file, none.
pub(super) fn of_vdso(elf: &ElfFile, arch: Arch) -> Vec<Stubs> {
    // Symbols last: to look at them reads them into the page cache.
    let has_rules = || {
        elf.section(".eh_frame")
            .is_some_and(|section| !section.bytes.is_empty())
    };
    if arch != Arch::Aarch64 || has_rules() {
        return Vec::new();
    }
    let [Some(signal)] = elf.functions_named([SIGNAL_RETURN]) else {
        return Vec::new();
    };
    let Some(text) = elf.section(".text") else {
        return Vec::new();
    };
    let words = |start: u64, len: u64| -> Option<Vec<u32>> {
        let from = usize::try_from(start.checked_sub(text.svma.start)?).ok()?;
        let bytes = text.bytes.get(from..from.checked_add(usize::try_from(len).ok()?)?)?;
        Some(
            bytes
                .as_chunks::<4>()
                .0
                .iter()
                .map(|word| u32::from_le_bytes(*word))
                .collect(),
        )
    };
    let functions = elf.functions().into_iter().take(MAX_FUNCTIONS);
    let functions = functions.filter(|function| function.size <= MAX_CODE && function.svma != signal);
    let mut found: Vec<Stubs> = functions
        .filter_map(|function| {
            Some(Stubs {
                svma: function.svma..function.svma.checked_add(function.size)?,
                rows: rows(&words(function.svma, function.size)?),
                alone: true,
            })
        })
        .collect();
    // The kernel returns to its first instruction, as from a call by the one before.
    if let Some(start) = signal.checked_sub(4)
        && words(signal, 8).is_some_and(|code| code == SIGNAL_CODE)
    {
        found.push(Stubs {
            svma: start..signal.saturating_add(8),
            rows: vec![(0, Row::plain(0, Cfa::Signal))],
            alone: true,
        });
    }
    found
}

/// What the function has on the stack at some instruction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Frame {
    /// Bytes from the stack pointer to the CFA.
    size: i64,
    /// Bytes from the saved frame pointer to the CFA; the return address is above it.
    record: Option<i64>,
    /// The frame pointer points to the saved one.
    is_pointed_to: bool,
}

/// The rules from each byte offset on.
fn rows(code: &[u32]) -> Vec<(u64, Row)> {
    let mut found: Vec<(u64, Row)> = Vec::new();
    let (mut frame, mut body) = (Frame::default(), Frame::default());
    let add = |found: &mut Vec<(u64, Row)>, at: usize, row: Row| {
        if found.last().is_none_or(|(_, last)| *last != row) {
            found.push((at as u64 * 4, row));
        }
    };
    for (at, word) in code.iter().enumerate() {
        let Some(row) = row(frame) else {
            add(&mut found, at, Row::plain(0, Cfa::None));
            return found;
        };
        add(&mut found, at, row);
        if is_last(*word) {
            // What follows an epilogue is reached from before it.
            frame = body;
            continue;
        }
        let Some(next) = after(frame, *word) else {
            add(&mut found, at + 1, Row::plain(0, Cfa::None));
            return found;
        };
        if next.record.is_some() || frame.record.is_none() && next.size > frame.size {
            body = next;
        }
        frame = next;
    }
    found
}

/// The rules for a frame; `None`: it is not a possible one.
fn row(frame: Frame) -> Option<Row> {
    let words = |bytes: i64| (bytes >= 0 && bytes % 8 == 0).then(|| i16::try_from(bytes / 8).ok())?;
    let size = words(frame.size)?;
    Some(match frame.record {
        None => Row::new(0, Cfa::Sp, size, Fp::Same, 0, RA_IN_LINK_REGISTER),
        Some(record) => {
            let record = words(record)?;
            let (cfa, offset) = if frame.is_pointed_to {
                (Cfa::Fp, record)
            } else {
                (Cfa::Sp, size)
            };
            Row::new(0, cfa, offset, Fp::AtCfa, -record, RA_ABOVE_FP)
        }
    })
}

/// The frame after an instruction; `None`: the stack pointer is unknown, and so is the frame.
fn after(frame: Frame, word: u32) -> Option<Frame> {
    let (rd, rn, pair) = (word & 31, word >> 5 & 31, word >> 10 & 31);
    if let Some(access) = Access::of(word).filter(|_| rn == SP) {
        let size = frame.size - if access.moves { access.offset } else { 0 };
        let is_record = access.is_pair && rd == FP && pair == LR;
        let record = match (is_record, access.is_load) {
            (true, true) => None,
            (true, false) => Some(if access.moves { size } else { size - access.offset }),
            (false, _) => frame.record,
        };
        let is_pointed_to = frame.is_pointed_to && record.is_some();
        return Some(Frame {
            size,
            record,
            is_pointed_to,
        });
    }
    // add, sub (immediate) without flags: `mov` to and from the stack pointer is one, too.
    if word & 0x3f80_0000 == 0x1100_0000 {
        return add(frame, word, rd, rn);
    }
    let writes_sp =
        rd == SP && (word & 0x3f20_0000 == 0x0b20_0000 || word & 0x1f80_0000 == 0x1200_0000 && word >> 29 & 3 != 3);
    if !writes_sp {
        return Some(frame);
    }
    // The frame pointer still leads to the frame.
    frame.is_pointed_to.then_some(frame)
}

/// The frame after `add` or `sub` with an immediate.
fn add(frame: Frame, word: u32, rd: u32, rn: u32) -> Option<Frame> {
    let shift = if word >> 22 & 1 == 1 { 12 } else { 0 };
    let amount = i64::from(word >> 10 & 0xfff) << shift;
    let amount = if word >> 30 & 1 == 1 { -amount } else { amount };
    match (rd, rn) {
        (SP, SP) => Some(Frame {
            size: frame.size - amount,
            ..frame
        }),
        (SP, FP) if frame.is_pointed_to => Some(Frame {
            size: frame.record? - amount,
            ..frame
        }),
        (SP, _) => None,
        (FP, SP) => Some(Frame {
            is_pointed_to: frame.record == Some(frame.size - amount),
            ..frame
        }),
        (FP, _) => Some(Frame {
            is_pointed_to: false,
            ..frame
        }),
        _ => Some(frame),
    }
}

/// A load or store.
struct Access {
    /// Of two registers.
    is_pair: bool,
    is_load: bool,
    /// It adds the offset to the base register.
    moves: bool,
    /// In bytes.
    offset: i64,
}

impl Access {
    /// Loads and stores of pairs, and of single registers that change their base (C4.1, "Loads and Stores", of the Arm Architecture
    /// Reference Manual). The others leave the stack pointer alone.
    fn of(word: u32) -> Option<Self> {
        let is_load = word >> 22 & 1 == 1;
        if word & 0x3a00_0000 == 0x2800_0000 {
            // 64-bit general registers, or vector registers of 4 to 16 bytes.
            let (is_vector, opc) = (word >> 26 & 1 == 1, word >> 30);
            let scale = if is_vector { 2 + opc } else { 2 + (opc >> 1) };
            let offset = i64::from((word >> 15 & 0x7f) << 25).wrapping_shl(32) >> 57 << scale;
            return Some(Self {
                is_pair: !is_vector && opc == 2,
                is_load,
                moves: word >> 23 & 1 == 1,
                offset,
            });
        }
        let changes_base = word & 0x3b20_0400 == 0x3800_0400;
        changes_base.then(|| Self {
            is_pair: false,
            is_load,
            moves: true,
            offset: i64::from((word >> 12 & 0x1ff) << 23).wrapping_shl(32) >> 55,
        })
    }
}

/// `ret`, `retaa`, `retab`, `b`, `br`: the next instruction is not reached from this one.
fn is_last(word: u32) -> bool {
    word & 0xffff_fc1f == 0xd65f_0000
        || word & 0xffff_fbff == 0xd65f_0bff
        || word >> 26 == 5
        || word & 0xffff_fc1f == 0xd61f_0000
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAF: Row = Row::new(0, Cfa::Sp, 0, Fp::Same, 0, RA_IN_LINK_REGISTER);
    const NONE: Row = Row::plain(0, Cfa::None);
    const RET: u32 = 0xd65f_03c0;
    const NOP: u32 = 0xd503_201f;

    fn framed(cfa: Cfa, offset: i16, record: i16) -> Row {
        Row::new(0, cfa, offset, Fp::AtCfa, -record, RA_ABOVE_FP)
    }

    #[test]
    fn a_leaf_has_one_rule() {
        // bti c, mrs, svc, ret.
        assert_eq!(rows(&[0xd503_245f, 0xd53b_e040, 0xd400_0001, RET]), [(0, LEAF)]);
        // str x0, [sp] leaves the stack pointer alone.
        assert_eq!(rows(&[0xf900_03e0, RET]), [(0, LEAF)]);
    }

    #[test]
    fn a_frame_record_at_the_bottom() {
        // stp x29, x30, [sp, #-128]!; mov x29, sp; nop; ldp x29, x30, [sp], #128; ret; nop, reached from the nop before.
        let code = [0xa9b8_7bfd, 0x9100_03fd, NOP, 0xa8c8_7bfd, RET, NOP];
        let expected = [
            (0, LEAF),
            (4, framed(Cfa::Sp, 16, 16)),
            (8, framed(Cfa::Fp, 16, 16)),
            (16, LEAF),
            (20, framed(Cfa::Fp, 16, 16)),
        ];
        assert_eq!(rows(&code), expected);
    }

    #[test]
    fn a_frame_record_at_the_top() {
        // sub sp, sp, #48; stp x29, x30, [sp, #32]; add x29, sp, #32; sub sp, sp, #4096; mov sp, x29; sub sp, sp, #32;
        // ldp x29, x30, [sp, #32]; add sp, sp, #48; retaa.
        let code = [
            0xd100_c3ff,
            0xa902_7bfd,
            0x9100_83fd,
            0xd140_07ff,
            0x9100_03bf,
            0xd100_83ff,
            0xa942_7bfd,
            0x9100_c3ff,
            0xd65f_0bff,
        ];
        let unsaved = Row::new(0, Cfa::Sp, 6, Fp::Same, 0, RA_IN_LINK_REGISTER);
        let expected = [
            (0, LEAF),
            (4, unsaved),
            (8, framed(Cfa::Sp, 6, 2)),
            (12, framed(Cfa::Fp, 2, 2)),
            (28, unsaved),
            (32, LEAF),
        ];
        assert_eq!(rows(&code), expected);
    }

    #[test]
    fn saved_registers_move_the_stack_pointer() {
        // stp x20, x19, [sp, #-32]!; str x21, [sp, #-16]!; ldr x21, [sp], #16; ldp x20, x19, [sp], #32; stp d8, d9, [sp, #-16]!
        let code = [0xa9be_4ff4, 0xf81f_0ff5, 0xf841_07f5, 0xa8c2_4ff4, 0x6dbf_27e8];
        let by = |words| Row::new(0, Cfa::Sp, words, Fp::Same, 0, RA_IN_LINK_REGISTER);
        assert_eq!(
            rows(&code),
            [(0, LEAF), (4, by(4)), (8, by(6)), (12, by(4)), (16, LEAF)]
        );
        assert_eq!(after(Frame::default(), code[4]).map(|frame| frame.size), Some(16));
    }

    #[test]
    fn an_unknown_stack_pointer_ends_the_rules() {
        // and sp, x9, #~15; sub sp, sp, x9; mov sp, x0.
        for unknown in [0x927c_ed3f, 0xcb29_63ff, 0x9100_001f] {
            assert_eq!(rows(&[NOP, unknown, NOP]), [(0, LEAF), (8, NONE)], "{unknown:x}");
            // By the frame pointer the frame is still found.
            let code = [0xa9be_7bfd, 0x9100_03fd, 0x927c_ed3f, NOP];
            assert_eq!(rows(&code).last(), Some(&(8, framed(Cfa::Fp, 4, 4))));
        }
        // More than was allocated.
        assert_eq!(rows(&[0x9100_c3ff, NOP]), [(0, LEAF), (4, NONE)]);
        assert_eq!(rows(&[]), []);
    }
}
