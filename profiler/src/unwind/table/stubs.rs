//! Stubs of the procedure linkage table that no unwind information covers: lld writes none, nor does any linker for arm64.
//!
//! Every call from one library to another passes through one, so that a few samples in a thousand lie there. Their code is
//! the linker's and always the same: the rules are known once its first instructions are recognised.

use std::ops::Range;

use profiler_common::unwind::{Arch, BX_SAME, Cfa, Fp, RA_IN_LINK_REGISTER, Row};
use symbols::elf::ElfFile;

/// Where linkers put stubs.
const SECTIONS: [&str; 4] = [".plt", ".plt.sec", ".plt.got", ".iplt"];
/// `endbr64`
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
/// `jmp *OFFSET(%rip)`, `push OFFSET(%rip)`
const JUMP: [u8; 2] = [0xff, 0x25];
const PUSH_WORD: [u8; 2] = [0xff, 0x35];
/// `push INDEX`, `jmp HEADER`
const PUSH: u8 = 0x68;
const JUMP_BACK: u8 = 0xe9;
/// `stp x16, x30, [sp, #-16]!`, `bti c`, `adrp x16, PAGE`
const STP_X16_X30: u32 = 0xa9bf_7bf0;
const BTI_C: u32 = 0xd503_245f;
const ADRP_X16: u32 = 0x9000_0010;
const ADRP_MASK: u32 = 0x9f00_001f;

/// A section of stubs.
pub(super) struct Stubs {
    /// Its stated addresses.
    pub(super) svma: Range<u64>,
    /// From which byte on which rules hold.
    pub(super) rows: Vec<(u64, Row)>,
}

/// The sections of `elf` whose stubs are recognised.
pub(super) fn find(elf: &ElfFile, arch: Arch) -> Vec<Stubs> {
    let stubs = SECTIONS.iter().filter_map(|name| {
        let section = elf.section(name)?;
        let rows = match arch {
            // The rule of a lazy stub looks at the lowest four bits of the address.
            Arch::X86_64 if section.svma.start.is_multiple_of(16) => of_x86_64(&section.bytes)?,
            Arch::X86_64 => return None,
            Arch::Aarch64 => of_arm64(&section.bytes)?,
        };
        let svma = section.svma;
        Some(Stubs { svma, rows })
    });
    stubs.collect()
}

fn of_x86_64(code: &[u8]) -> Option<Vec<(u64, Row)>> {
    let row = |cfa, offset| Row::new(0, cfa, offset, Fp::Same, 0, BX_SAME);
    let jumps = |code: &[u8]| {
        code.starts_with(&JUMP) || code.strip_prefix(&ENDBR64).is_some_and(|rest| rest.starts_with(&JUMP))
    };
    if jumps(code) {
        return Some(vec![(0, row(Cfa::Sp, 1))]);
    }
    // The header pushes a second word and jumps to the binder.
    if !code.starts_with(&PUSH_WORD) || code.get(6..8)? != JUMP {
        return None;
    }
    let stub = code.get(16..32)?;
    let pushed_from = if stub.starts_with(&JUMP) && stub[6] == PUSH && stub[11] == JUMP_BACK {
        11
    } else if stub.starts_with(&ENDBR64) && stub[4] == PUSH && stub[9] == JUMP_BACK {
        9
    } else {
        return None;
    };
    Some(vec![
        (0, row(Cfa::Sp, 2)),
        (6, row(Cfa::Sp, 3)),
        (16, row(Cfa::Plt, pushed_from)),
    ])
}

fn of_arm64(code: &[u8]) -> Option<Vec<(u64, Row)>> {
    let leaf = Row::new(0, Cfa::Sp, 0, Fp::Same, 0, RA_IN_LINK_REGISTER);
    let pushed = Row::new(0, Cfa::Sp, 2, Fp::Same, 0, 1);
    let (words, _) = code.as_chunks::<4>();
    let mut words = words.iter().map(|word| u32::from_le_bytes(*word)).enumerate();
    let (at, first) = words.find(|(at, word)| *at > 0 || *word != BTI_C)?;
    let behind = (at as u64 + 1) * 4;
    if first == STP_X16_X30 {
        // The header saves x30 and jumps to the binder, in 32 bytes.
        Some(vec![(0, leaf), (behind, pushed), (32, leaf)])
    } else {
        (first & ADRP_MASK == ADRP_X16).then(|| vec![(0, leaf)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_recognised() {
        assert_eq!(of_x86_64(&[]), None);
        assert_eq!(of_x86_64(&[0xff, 0x35, 0, 0, 0, 0, 0xff, 0x25]), None);
        let mut lazy = [0x90; 32];
        lazy[..2].copy_from_slice(&PUSH_WORD);
        lazy[6..8].copy_from_slice(&JUMP);
        assert_eq!(of_x86_64(&lazy), None);
        lazy[16..18].copy_from_slice(&JUMP);
        (lazy[22], lazy[27]) = (PUSH, JUMP_BACK);
        assert_eq!(of_x86_64(&lazy).map(|rows| rows.len()), Some(3));
        assert_eq!(of_arm64(&[0; 64]), None);
        assert_eq!(of_arm64(&BTI_C.to_le_bytes()), None);
    }
}
