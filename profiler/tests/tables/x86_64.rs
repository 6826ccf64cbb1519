//! x86-64: functions with known rules, and the result of a step by each.

use std::path::Path;

use profiler::unwind::table::{Table, compile};
use profiler_common::stack::UserRegs;
use profiler_common::unwind::{Arch, BX_LOST, BX_SAME, By, Cfa, Fp, Row, WalkEnd, link_of_bx, step};

use super::build::{Library, library, open};

fn known() -> Option<Library> {
    library("gcc", "x86_64.s", &[])
}

/// A row with an unchanged frame pointer and rbx.
fn plain(cfa: Cfa, offset: i16) -> Row {
    Row::new(0, cfa, offset, Fp::Same, 0, BX_SAME)
}

fn nothing(cfa: Cfa) -> Row {
    Row::plain(0, cfa)
}

#[test]
fn ordinary_frames() {
    let Some(known) = known() else { return };
    assert_eq!(known.row(0, 0), plain(Cfa::Sp, 1));
    assert_eq!(known.row(0, 2), plain(Cfa::Sp, 1));
    assert_eq!(known.row(1, 0), plain(Cfa::Sp, 1));
    assert_eq!(known.row(1, 1), Row::new(0, Cfa::Sp, 2, Fp::AtCfa, -2, BX_SAME));
    for (byte, words) in [(2, 3), (5, 3), (6, 6), (10, 3), (11, 2), (12, 1)] {
        assert_eq!(
            known.row(1, byte),
            Row::new(0, Cfa::Sp, words, Fp::AtCfa, -2, 3),
            "byte {byte}"
        );
    }
    for byte in [4, 7] {
        assert_eq!(known.row(2, byte), Row::new(0, Cfa::Fp, 2, Fp::AtCfa, -2, BX_SAME));
    }
    assert_eq!(known.row(2, 8), plain(Cfa::Sp, 1));
}

#[test]
fn expressions_that_compilers_and_linkers_emit() {
    let Some(known) = known() else { return };
    assert_eq!(known.row(3, 0), plain(Cfa::Sp, 1));
    assert_eq!(known.row(3, 19), Row::new(0, Cfa::AtFp, -1, Fp::AtFp, 0, BX_SAME));
    assert_eq!(known.row(4, 0), plain(Cfa::AtSpPlus8, 19));
    assert_eq!(known.row(7, 0), plain(Cfa::Plt, 11));
    assert_eq!(known.row(7, 1), plain(Cfa::Plt, 9));
    assert_eq!(known.row(9, 4), Row::new(0, Cfa::Bx, 4, Fp::Same, 0, 4));
    assert_eq!(known.row(10, 0), Row::new(0, Cfa::Sp, 1, Fp::AtSp, 2, BX_SAME));
}

#[test]
fn inexpressible_rules_are_marked() {
    let Some(known) = known() else { return };
    assert_eq!(known.row(5, 0), nothing(Cfa::None));
    assert_eq!(known.row(6, 0), nothing(Cfa::Outermost));
    for byte in [0, 1, 2, 3, 7, 8] {
        assert_eq!(known.row(8, byte), nothing(Cfa::Unsupported), "byte {byte}");
    }
    assert_eq!(known.row(8, 4), plain(Cfa::Sp, i16::MAX));
    assert_eq!(known.row(8, 5), plain(Cfa::FarSp, 16384));
    assert_eq!(known.row(8, 6), plain(Cfa::FarSp, -1));
    assert_eq!(known.row(3, 5), nothing(Cfa::Unsupported));
    assert_eq!(known.row(12, 0), nothing(Cfa::Unsupported));
    assert!(known.table.stats.unsupported_rows >= 4);
    assert_eq!(known.table.stats.functions, 13);
}

#[test]
fn padding_adds_no_row_but_a_gap_does() {
    let Some(known) = known() else { return };
    let text = known.elf.section(".text").unwrap().svma.start;
    for byte in [0, 13, 15, 16] {
        assert_eq!(known.row(11, byte), plain(Cfa::Sp, 1), "byte {byte}");
    }
    assert_eq!(known.row(11, 17), nothing(Cfa::None));
    let function = text + 0xb00..text + 0xc00;
    let rows = known.table.rows_by_address();
    assert_eq!(rows.filter(|(svma, _)| function.contains(svma)).count(), 2);
}

#[test]
fn only_debug_frame() {
    let flags = ["-g", "-O1", "-fno-asynchronous-unwind-tables", "-fcf-protection=none"];
    let Some(known) = library("gcc", "small.c", &flags) else {
        return;
    };
    assert!(
        known.elf.section(".debug_frame").is_some(),
        "the flags request a .debug_frame"
    );
    assert!(
        known
            .elf
            .section(".eh_frame")
            .is_none_or(|section| section.bytes.len() < 64)
    );
    assert_eq!(known.row(0, 0), plain(Cfa::Sp, 1));
    assert_eq!(known.table.stats.functions, 2);
}

/// Words of an imaginary stack from `0x7000` on, each with a distinct value.
fn word(at: u64) -> Option<u64> {
    (at.is_multiple_of(8) && (0x7000..0x8000).contains(&at)).then_some(at + 0x100)
}

fn registers(ip: u64) -> UserRegs {
    UserRegs {
        ip,
        sp: 0x7000,
        fp: 0x7200,
        lr: 0,
    }
}

#[test]
fn a_stub_is_unwound_before_and_after_its_push() {
    let row = plain(Cfa::Plt, 11);
    for (ip, cfa) in [(0x1000, 0x7008), (0x100a, 0x7008), (0x100b, 0x7010), (0x100f, 0x7010)] {
        let (to, by) = step(Arch::X86_64, row, &registers(ip), word).unwrap();
        assert_eq!((to.ip, to.sp, to.fp, by), (cfa - 8 + 0x100, cfa, 0x7200, By::Call));
    }
}

#[test]
fn rbx_is_followed_to_the_lazy_binder() {
    // A function that saved rbx three words below its CFA, called by one that did not touch rbx,
    // called by the binder.
    let saved = Row::new(0, Cfa::Sp, 6, Fp::Same, 0, 3);
    let binder = Row::new(0, Cfa::Bx, 4, Fp::Same, 0, 4);
    let (one, _) = step(Arch::X86_64, saved, &registers(1), word).unwrap();
    let (two, _) = step(Arch::X86_64, plain(Cfa::Sp, 2), &one, word).unwrap();
    let rbx = 0x7030 - 24 + 0x100;
    let (three, _) = step(Arch::X86_64, binder, &two, word).unwrap();
    assert_eq!((three.sp, three.ip), (rbx + 32, rbx + 24 + 0x100));
    // The binder's own rbx is at the location given by its row, and is read only when needed.
    assert_eq!(three.lr, rbx | 1);

    // In the binder itself, rbx is in its register.
    let inside = UserRegs {
        lr: link_of_bx(0x7040),
        ..registers(1)
    };
    assert_eq!(step(Arch::X86_64, binder, &inside, word).unwrap().0.sp, 0x7060);
    let unknown = UserRegs {
        lr: link_of_bx(0x7041),
        ..registers(1)
    };
    assert_eq!(step(Arch::X86_64, binder, &unknown, word), Err(WalkEnd::Unsupported));
    let lost = step(Arch::X86_64, Row { link: BX_LOST, ..saved }, &inside, word)
        .unwrap()
        .0;
    assert_eq!(step(Arch::X86_64, binder, &lost, word), Err(WalkEnd::Unsupported));
}

#[test]
fn a_popped_frame_pointer_need_not_be_in_memory() {
    let row = Row::new(0, Cfa::Sp, 1, Fp::AtCfa, -2, BX_SAME);
    let (to, _) = step(Arch::X86_64, row, &registers(1), word).unwrap();
    assert_eq!(to.fp, 0x7200);
    let above = Row::new(0, Cfa::Sp, 1, Fp::AtFp, 0x1000, BX_SAME);
    assert_eq!(step(Arch::X86_64, above, &registers(1), word), Err(WalkEnd::ReadFailed));
}

/// libc of this machine.
fn libc() -> Option<(symbols::elf::ElfFile, Table)> {
    let elf = open(Path::new("/lib/x86_64-linux-gnu/libc.so.6"));
    if elf.is_none() {
        eprintln!("skipped: libc.so.6 is elsewhere");
    }
    let elf = elf?;
    let table = compile(&elf).unwrap();
    Some((elf, table))
}

/// The rule for `__restore_rt` is found by its code: `mov $15, %rax; syscall`.
#[test]
fn the_signal_frame_of_libc() {
    let Some((elf, table)) = libc() else { return };
    let text = elf.section(".text").unwrap();
    let code = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
    let at = text.bytes.windows(code.len()).position(|bytes| bytes == code).unwrap();
    let svma = text.svma.start + at as u64;
    assert_eq!(
        Row {
            pc: 0,
            ..table.lookup(svma)
        },
        nothing(Cfa::Signal)
    );
    // A return address is looked up one byte earlier.
    assert_eq!(
        Row {
            pc: 0,
            ..table.lookup(svma - 1)
        },
        nothing(Cfa::Signal)
    );
    let signal = nothing(Cfa::Signal).rules;
    assert!(table.rows.iter().filter(|row| row.rules == signal).count() <= 2);

    // struct ucontext_t at the stack pointer: rip, rsp, rbp and rbx.
    let (to, by) = step(Arch::X86_64, nothing(Cfa::Signal), &registers(1), word).unwrap();
    let slots = (to.ip, to.sp, to.fp, to.lr);
    assert_eq!(
        slots,
        (0x7000 + 168 + 0x100, 0x7000 + 160 + 0x100, 0x7000 + 120 + 0x100, 0x7081)
    );
    assert_eq!(by, By::Signal);
}

/// Entry code and thread starts end a stack.
#[test]
fn stacks_end_in_entry_code() {
    let Some(elf) = open(Path::new("/lib64/ld-linux-x86-64.so.2")) else {
        eprintln!("skipped: ld.so is elsewhere");
        return;
    };
    let table = compile(&elf).unwrap();
    assert_eq!(
        Row {
            pc: 0,
            ..table.lookup(elf.entry())
        },
        nothing(Cfa::Outermost)
    );
    let exe = open(&std::env::current_exe().unwrap()).unwrap();
    let table = compile(&exe).unwrap();
    for byte in [0, 0x20] {
        assert_eq!(
            Row {
                pc: 0,
                ..table.lookup(exe.entry() + byte)
            },
            nothing(Cfa::Outermost)
        );
    }
    let Some((_, table)) = libc() else { return };
    let outermost = nothing(Cfa::Outermost).rules;
    assert!(table.rows.iter().any(|row| row.rules == outermost), "clone's child");
}

/// The entry point that old binutils set for libraries is an ordinary function.
#[test]
fn a_library_does_not_start_where_its_text_does() {
    let Some(known) = library("gcc", "x86_64.s", &["-Wl,--entry=0"]) else {
        return;
    };
    let text = known.elf.section(".text").unwrap().svma.start;
    let entry = format!("-Wl,--entry={text}");
    let known = library("gcc", "x86_64.s", &[entry.as_str()]).unwrap();
    assert_eq!(known.elf.entry(), text);
    assert_eq!(known.row(0, 0), plain(Cfa::Sp, 1));
    let entry = format!("-Wl,--entry={}", text + 0x100);
    let known = library("gcc", "x86_64.s", &[entry.as_str()]).unwrap();
    assert_eq!(known.row(0, 2), plain(Cfa::Sp, 1));
    for byte in [0, 12] {
        assert_eq!(known.row(1, byte), nothing(Cfa::Outermost));
    }
    assert_eq!(known.row(2, 0), plain(Cfa::Sp, 1));
}

/// lld writes no unwind information for its stubs.
#[test]
fn stubs_without_unwind_information() {
    let flags: [&[&str]; 3] = [
        &["-fuse-ld=lld", "-Wl,-z,lazy"],
        &["-fuse-ld=lld", "-Wl,-z,lazy", "-fcf-protection", "-Wl,-z,force-ibt"],
        &["-Wl,-z,lazy", "-Wl,--no-ld-generated-unwind-info"],
    ];
    for (flags, pushed_from) in flags.iter().zip([11, 9, 11]) {
        if flags[0].ends_with("lld") && !super::build::has_lld() {
            eprintln!("skipped: lld is not installed");
            continue;
        }
        let flags = [*flags, &["-O1", "-fPIC", "-DEXTERNAL"]].concat();
        let Some(known) = library("gcc", "small.c", &flags) else {
            return;
        };
        let plt = known.elf.section(".plt").unwrap().svma;
        let at = |svma: u64| Row {
            pc: 0,
            ..known.table.lookup(svma)
        };
        for (byte, row) in [
            (0, plain(Cfa::Sp, 2)),
            (5, plain(Cfa::Sp, 2)),
            (6, plain(Cfa::Sp, 3)),
            (16, plain(Cfa::Plt, pushed_from)),
            (31, plain(Cfa::Plt, pushed_from)),
        ] {
            assert_eq!(at(plt.start + byte), row, "{flags:?}: byte {byte}");
        }
        if let Some(second) = known.elf.section(".plt.sec") {
            assert_eq!(at(second.svma.start), plain(Cfa::Sp, 1), "{flags:?}");
        }
    }
}
