//! Walks that join the previous one, of both processors.

use std::boxed::Box;
use std::collections::BTreeMap;
use std::vec::Vec;

use super::*;
use crate::piece::Piece;
use crate::unwind::{ARM64_ADDRESS, Arch, Cfa, Fp, WalkEnd, step};

const TOP: u64 = 0x7fff_0000;

/// A function's rule by its address: each has a different frame size, some save the frame pointer, some find their frame by it.
fn row(arch: Arch, ip: u64) -> Row {
    let arm = arch == Arch::Aarch64;
    let words = 2 + (ip / 8 % 4) as i16;
    match (ip % 4, arm) {
        _ if ip == 1 => Row::plain(0, Cfa::Outermost),
        // CFA = sp + 16 .. 40.
        (0, false) => Row::new(0, Cfa::Sp, words, Fp::Same, 0, 0),
        (2, false) => Row::new(0, Cfa::Sp, 3, Fp::AtCfa, -2, 0),
        (3, false) => Row::new(0, Cfa::Fp, 2, Fp::AtCfa, -2, 0),
        (_, false) => Row::new(0, Cfa::Sp, 4, Fp::AtSp, 1, 0),
        // Only the return address is saved, at different places.
        (0, true) if ip % 8 == 4 => Row::new(0, Cfa::Sp, words, Fp::Same, 1, RA_ABOVE_FP),
        (0, true) => Row::new(0, Cfa::Sp, words, Fp::Same, 0, words as u8 - 1),
        // The frame record at the bottom of the frame.
        (2, true) => Row::new(0, Cfa::Sp, 4, Fp::AtCfa, -4, 3),
        (3, true) => Row::new(0, Cfa::Fp, 6, Fp::AtCfa, -6, RA_ABOVE_FP),
        (_, true) => Row::new(0, Cfa::Sp, 4, Fp::AtSp, 1, 2),
    }
}

/// Where a function's frame has the return address and the caller's frame pointer, by its row; and its size.
fn layout(arch: Arch, row: Row, cfa: u64) -> (u64, Option<u64>, u64) {
    let size = match (row.rules & 15, arch) {
        (2, Arch::X86_64) => 2,
        _ => u64::from(row.cfa_offset.unsigned_abs()),
    };
    let sp = cfa - size * 8;
    let slot = match row.rules >> 4 {
        1 => Some(cfa.wrapping_add_signed(i64::from(row.fp_offset) * 8)),
        3 => Some(sp + 8),
        _ => None,
    };
    let back = match (arch, row.link) {
        (Arch::X86_64, _) => cfa - 8,
        (_, RA_ABOVE_FP) => slot.map_or(sp.wrapping_add_signed(i64::from(row.fp_offset) * 8), |slot| slot + 8),
        (_, words) => cfa - u64::from(words) * 8,
    };
    (back, slot, sp)
}

/// arm64: a return address as it is in memory: signed.
fn signed(arch: Arch, ip: u64, sp: u64) -> u64 {
    match arch {
        Arch::X86_64 => ip,
        Arch::Aarch64 => ip | (ip ^ sp).wrapping_mul(0x9e37_79b9_7f4a_7c15) & !ARM64_ADDRESS,
    }
}

/// The stack of these functions, outermost first, and the registers in the innermost one.
fn build(arch: Arch, functions: &[u64]) -> (BTreeMap<u64, u64>, UserRegs) {
    let mut memory = BTreeMap::new();
    let mut regs = UserRegs {
        ip: 1,
        sp: TOP,
        fp: 0,
        lr: 0,
    };
    for &ip in functions {
        let cfa = regs.sp;
        let (back, slot, sp) = layout(arch, row(arch, ip), cfa);
        memory.insert(back, signed(arch, regs.ip, cfa));
        if let Some(slot) = slot {
            memory.insert(slot, regs.fp);
            regs.fp = if arch == Arch::X86_64 { cfa - 16 } else { slot };
        }
        (regs.ip, regs.sp) = (ip, sp);
    }
    (memory, regs)
}

/// The stack from an address to its top; unset words have an unused value.
fn piece_of(memory: &BTreeMap<u64, u64>, from: u64) -> Box<Piece> {
    let mut piece = crate::piece::tests::empty();
    piece.fill(from, TOP, |to, len, at| {
        for (at, word) in (at..at + len).step_by(8).zip(to) {
            *word = memory.get(&at).copied().unwrap_or(u64::MAX);
        }
        true
    });
    piece
}

/// Walks with the previous walk, and returns how many steps were taken without it.
fn walk(arch: Arch, memory: &BTreeMap<u64, u64>, mut regs: UserRegs, last: &mut LastWalk) -> (Vec<u64>, usize) {
    let read = |at: u64| memory.get(&at).copied();
    let (mut among, mut caller, mut outer, mut steps) = (last.among(1, 1), 0, 0, 0);
    let mut passed = Vec::new();
    loop {
        let here = LastFrame {
            frame: regs.ip,
            sp: regs.sp,
            fp: regs.fp,
            lr: regs.lr,
            caller,
            step: OPAQUE,
            ..LastFrame::default()
        };
        let inside = (0..among).filter(|number| last.frame(*number).sp < here.sp).count();
        assert_eq!(last.reached(here.sp, among), among - inside as u32);
        among -= inside as u32;
        let mut number = among.wrapping_sub(1);
        if among != 0 && last.frame(number).is_here(&here) {
            let piece = piece_of(memory, last.frame(number).sp);
            while number != 0 && last.expected(number).holds(arch, read) {
                assert_eq!(last.expected(number).differs(arch, &piece), 0, "by a piece as by words");
                number -= 1;
            }
            assert!(number == 0 || last.expected(number).differs(arch, &piece) != 0);
            if number == 0 {
                outer = among;
                break;
            }
            among = number;
        }
        passed.push(here);
        steps += 1;
        match step(arch, row(arch, regs.ip), &regs, read) {
            Ok((next, _)) => {
                passed.last_mut().unwrap().step = step_of_row(arch, row(arch, regs.ip), &regs, next.sp);
                (regs, caller) = (next, 1);
            }
            Err(end) => {
                assert_eq!(end, WalkEnd::Complete);
                break;
            }
        }
    }
    for frame in passed.iter().rev() {
        last.put(arch, outer, *frame);
        outer += 1;
    }
    (last.space, last.run, last.count) = (1, 1, u64::from(outer));
    let found: Vec<u64> = (0..outer).rev().map(|number| last.frame(number).frame).collect();
    let first = LAST_FRAMES - found.len();
    assert_eq!(last.pointers[first..], found);
    assert_eq!(last.outermost(outer), &raw const last.pointers[first]);
    (found, steps)
}

fn random(state: &mut u64, below: u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

#[test]
fn a_reused_walk_equals_a_full_walk() {
    for arch in [Arch::X86_64, Arch::Aarch64] {
        random_walks(arch);
    }
}

fn random_walks(arch: Arch) {
    let (mut state, mut last, mut functions) = (1, LastWalk::default(), Vec::new());
    let (mut all, mut taken) = (0, 0);
    for _ in 0..20_000 {
        // Mostly the inner frames change; occasionally a single one far outside, by one of the same size.
        let keep = match random(&mut state, 4) {
            0 => random(&mut state, functions.len() as u64 + 1) as usize,
            _ => functions.len().saturating_sub(random(&mut state, 4) as usize),
        };
        functions.truncate(keep);
        if random(&mut state, 8) == 0 && !functions.is_empty() {
            let changed = random(&mut state, functions.len() as u64) as usize;
            functions[changed] += 64;
        }
        while functions.len() < 200 && random(&mut state, 5) != 0 {
            functions.push(4 + random(&mut state, 64));
        }
        let (memory, regs) = build(arch, &functions);
        let expected: Vec<u64> = functions.iter().rev().copied().chain([1]).collect();
        let (found, steps) = walk(arch, &memory, regs, &mut last);
        assert_eq!(found, expected);
        (all, taken) = (all + expected.len(), taken + steps);
    }
    assert!(taken * 2 < all, "{taken} of {all} steps were taken");
}

#[test]
fn walks_of_other_spaces_or_runs_are_not_reused() {
    let mut last = LastWalk::default();
    let (memory, regs) = build(Arch::X86_64, &[4, 8, 12]);
    walk(Arch::X86_64, &memory, regs, &mut last);
    assert_eq!((last.among(1, 1), last.among(2, 1), last.among(1, 2)), (4, 0, 0));
}

#[test]
fn steps_that_read_more_than_two_words_are_opaque() {
    let regs = UserRegs {
        ip: 0,
        sp: 800,
        fp: 880,
        lr: 0,
    };
    let by = |cfa, fp, offset| step_of_row(Arch::X86_64, Row::new(0, cfa, 2, fp, offset, 0), &regs, 1000);
    assert_eq!(by(Cfa::Sp, Fp::Same, 0), 0);
    assert_eq!(by(Cfa::Fp, Fp::AtCfa, -2), 2);
    assert_eq!(by(Cfa::Sp, Fp::AtSp, 20), 5);
    assert_eq!(by(Cfa::Plt, Fp::AtFp, 10), 5);
    assert_eq!(by(Cfa::FarSp, Fp::AtCfa, -2), 2);
    for cfa in [Cfa::AtFp, Cfa::AtSp, Cfa::AtSpPlus8, Cfa::Signal, Cfa::Bx] {
        assert_eq!(by(cfa, Fp::Same, 0), OPAQUE);
    }
    assert_eq!(by(Cfa::Sp, Fp::AtCfa, 0), OPAQUE);
}

#[test]
fn steps_of_arm64_have_two_distances() {
    let regs = UserRegs {
        ip: 0,
        sp: 800,
        fp: 880,
        lr: 0,
    };
    let by = |cfa, fp, offset, link| step_of_row(Arch::Aarch64, Row::new(0, cfa, 2, fp, offset, link), &regs, 1000);
    let words = |back: u32, fp: u32| back << BACK_SHIFT | fp;
    assert_eq!(by(Cfa::Sp, Fp::Same, 0, 1), words(1, 0));
    assert_eq!(by(Cfa::Fp, Fp::AtCfa, -20, 19), words(19, 20));
    assert_eq!(by(Cfa::FarSp, Fp::AtSp, 0, RA_ABOVE_FP), words(24, 25));
    assert_eq!(by(Cfa::Sp, Fp::Same, 0, RA_ABOVE_FP), words(25, 0));
    assert_eq!(by(Cfa::Sp, Fp::Same, 24, RA_ABOVE_FP), words(1, 0));
    // In a register; below the frame; below the frame pointer; both in one word.
    for (fp, offset, link) in [
        (Fp::Same, 0, RA_IN_LINK_REGISTER),
        (Fp::AtCfa, -2, RA_IN_LINK_REGISTER),
        (Fp::Same, 0, 26),
        (Fp::Same, -1, RA_ABOVE_FP),
        (Fp::Same, 25, RA_ABOVE_FP),
        (Fp::AtCfa, -2, 3),
        (Fp::AtCfa, -2, 2),
    ] {
        assert_eq!(by(Cfa::Sp, fp, offset, link), OPAQUE, "{fp:?} {offset} {link}");
    }
    // A frame of 512 KiB.
    let far = Row::new(0, Cfa::FarSp, 2, Fp::AtSp, 0, RA_ABOVE_FP);
    assert_eq!(step_of_row(Arch::Aarch64, far, &regs, 800 + FARTHEST * 8), OPAQUE);
    assert_eq!(step_of_frame_pointer(Arch::Aarch64), words(1, 2));
}
