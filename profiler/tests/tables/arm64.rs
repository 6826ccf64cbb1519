//! arm64: functions with known rules, and the result of a step by each.

use std::path::Path;

use profiler::unwind::table::compile;
use profiler_common::stack::UserRegs;
use profiler_common::unwind::{Arch, By, Cfa, Fp, RA_ABOVE_FP, RA_IN_LINK_REGISTER, Row, WalkEnd, step};

use super::build::{library, open};

const COMPILER: &str = "aarch64-linux-gnu-gcc";

#[test]
fn frames() {
    let Some(known) = library(COMPILER, "arm64.s", &["-march=armv8.3-a"]) else {
        return;
    };
    assert_eq!(known.table.arch, Arch::Aarch64);
    let leaf = Row::new(0, Cfa::Sp, 0, Fp::Same, 0, RA_IN_LINK_REGISTER);
    let saved = |cfa, words| Row::new(0, cfa, words, Fp::AtCfa, -4, 3);
    assert_eq!(known.row(0, 0), leaf);
    for (byte, row) in [
        (0, leaf),
        (4, leaf),
        (8, saved(Cfa::Sp, 4)),
        (12, saved(Cfa::Fp, 4)),
        (16, saved(Cfa::Fp, 4)),
        (20, leaf),
        (24, leaf),
    ] {
        assert_eq!(known.row(1, byte), row, "byte {byte}");
    }
    assert_eq!(known.row(2, 0), Row::new(0, Cfa::Sp, 512, Fp::AtCfa, -512, RA_ABOVE_FP));
    assert_eq!(known.row(3, 0), Row::plain(0, Cfa::Signal));
    assert_eq!(known.row(4, 0), Row::plain(0, Cfa::Outermost));
    let at_bottom = |cfa, size, fp| Row::new(0, cfa, size, fp, 0, RA_ABOVE_FP);
    assert_eq!(known.row(5, 0), at_bottom(Cfa::Sp, 512, Fp::Same));
    assert_eq!(known.row(6, 0), at_bottom(Cfa::FarSp, 30_001, Fp::AtSp));
    assert_eq!(known.row(7, 0), Row::plain(0, Cfa::Unsupported));
    assert_eq!((known.table.stats.damaged, known.table.stats.functions), (0, 8));
}

/// Debian's libc for arm64.
#[test]
fn a_real_library() {
    let Some(elf) = open(Path::new("/usr/aarch64-linux-gnu/lib/libc.so.6")) else {
        eprintln!("skipped: libc6-arm64-cross is not installed");
        return;
    };
    let table = compile(&elf).unwrap();
    assert_eq!(
        (table.arch, table.stats.damaged, table.stats.overlapping),
        (Arch::Aarch64, 0, 0)
    );
    assert!(
        table.stats.functions > 2_000 && table.stats.unsupported_rows < 10,
        "{:?}",
        table.stats
    );
}

#[test]
fn steps() {
    let word = |at: u64| (0x7000..0x9000).contains(&at).then_some(at + 0x100 + (0xb5 << 55));
    let registers = UserRegs {
        ip: 1,
        sp: 0x7000,
        fp: 0x7200,
        lr: (0x7f << 48) + 0x4000,
    };
    let go = |row| step(Arch::Aarch64, row, &registers, word).map(|(to, by)| (to.ip, to.sp, to.lr, by));
    let leaf = Row::new(0, Cfa::Sp, 0, Fp::Same, 0, RA_IN_LINK_REGISTER);
    // The bits of a signature are not part of the address.
    assert_eq!(go(leaf), Ok((0x4000, 0x7000, 0, By::Call)));
    let saved = Row::new(0, Cfa::Sp, 4, Fp::AtCfa, -4, 3);
    assert_eq!(go(saved), Ok((0x7020 - 24 + 0x100, 0x7020, 0, By::Call)));
    let large = Row::new(0, Cfa::Sp, 512, Fp::AtCfa, -512, RA_ABOVE_FP);
    assert_eq!(go(large), Ok((0x7008 + 0x100, 0x8000, 0, By::Call)));
    let caller = UserRegs { lr: 0, ..registers };
    assert_eq!(step(Arch::Aarch64, leaf, &caller, word), Err(WalkEnd::BadChain));

    // struct rt_sigframe: siginfo of 128 bytes, then a ucontext with its registers from byte 184
    // on.
    let pure = |at: u64| Some(at);
    let (to, by) = step(Arch::Aarch64, Row::plain(0, Cfa::Signal), &registers, pure).unwrap();
    let register = |number: u64| 0x7000 + 128 + 184 + number * 8;
    assert_eq!(
        (to.fp, to.lr, to.sp, to.ip),
        (register(29), register(30), register(31), register(32))
    );
    assert_eq!(by, By::Signal);
}

/// The kernel's vdso has no unwind information.
#[test]
fn vdso() {
    let Some(known) = library(COMPILER, "vdso.s", &["-march=armv8.5-a"]) else {
        return;
    };
    let leaf = Row::new(0, Cfa::Sp, 0, Fp::Same, 0, RA_IN_LINK_REGISTER);
    let framed = |cfa| Row::new(0, cfa, 16, Fp::AtCfa, -16, RA_ABOVE_FP);
    for byte in [0, 4, 8, 12] {
        assert_eq!(known.row(0, byte), leaf, "byte {byte}");
    }
    assert_eq!(known.row(0, 16), Row::plain(0, Cfa::None), "behind a function");
    for (byte, row) in [
        (0, leaf),
        (4, leaf),
        (8, framed(Cfa::Sp)),
        (12, framed(Cfa::Fp)),
        (24, framed(Cfa::Fp)),
        (28, leaf),
        (32, leaf),
    ] {
        assert_eq!(known.row(1, byte), row, "byte {byte}");
    }
    assert_eq!(known.row(1, 0xf8), Row::plain(0, Cfa::None));
    for byte in [0xfc, 0x100, 0x104] {
        assert_eq!(known.row(1, byte), Row::plain(0, Cfa::Signal), "byte {byte:x}");
    }
    assert_eq!(known.row(2, 8), Row::plain(0, Cfa::None));
}

/// No linker writes unwind information for the stubs of arm64.
#[test]
fn stubs() {
    let leaf = Row::new(0, Cfa::Sp, 0, Fp::Same, 0, RA_IN_LINK_REGISTER);
    let pushed = Row::new(0, Cfa::Sp, 2, Fp::Same, 0, 1);
    for (protection, behind_push) in [("none", 4), ("bti", 8)] {
        let protection = format!("-mbranch-protection={protection}");
        let force = if behind_push == 8 {
            "-Wl,-z,force-bti"
        } else {
            "-Wl,-z,lazy"
        };
        let flags = ["-O1", "-fPIC", "-DEXTERNAL", "-Wl,-z,lazy", force, protection.as_str()];
        let Some(known) = library(COMPILER, "small.c", &flags) else {
            return;
        };
        let plt = known.elf.section(".plt").unwrap().svma;
        for (byte, row) in [(0, leaf), (behind_push, pushed), (28, pushed), (32, leaf), (47, leaf)] {
            let found = known.table.lookup(plt.start + byte);
            assert_eq!(Row { pc: 0, ..found }, row, "{protection}: byte {byte}");
        }
    }
}
