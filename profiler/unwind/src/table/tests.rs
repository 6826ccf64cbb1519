//! Compares tables of real files with the evaluator that walks copied stacks: same registers from
//! the same memory.

use std::cell::Cell;
use std::fs::File;
use std::path::{Path, PathBuf};

use gimli::{BaseAddresses, EhFrame, LittleEndian, UnwindSection as _, X86_64};
use profiler_common::stack::UserRegs;
use profiler_common::unwind::{Arch, By, Cfa, Row, WalkEnd, step};
use symbols::elf::ElfFile;

use super::super::arch::{self, Registers};
use super::super::cfi::{Cfi, Context, Rule, Saved};
use super::functions::is_padding;
use super::{Table, compile};

/// Results of checking one file.
#[derive(Debug, Default, PartialEq)]
struct Count {
    checked: u32,
    /// The evaluator supports the rule, but a row can't represent it.
    beyond_rows: u32,
    /// Bytes between functions that inherited the previous rules.
    padding: u32,
    /// The entry point's function, whose unwind information claims that it has a caller.
    entry: u32,
}

fn open(path: &Path) -> Option<ElfFile> {
    let elf = ElfFile::open(File::open(path).ok()?).ok();
    assert!(elf.is_some(), "{} is not an ELF file", path.display());
    elf
}

/// The test binary, and the libraries that it runs with.
fn mapped_files() -> Vec<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut files: Vec<PathBuf> = maps
        .lines()
        .filter(|line| line.contains(" r-xp "))
        .filter_map(|line| line.split_once('/').map(|(_, path)| PathBuf::from(format!("/{path}"))))
        .collect();
    files.sort();
    files.dedup();
    assert!(files.iter().any(|path| path.ends_with("libc.so.6")), "{files:?}");
    files
}

/// A word of an imaginary stack: an address above `SP`, like all its neighbours.
fn word_at(address: u64) -> u64 {
    let mixed = (address ^ 0x5bd1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    SP + 8 * (mixed + 1)
}

const SP: u64 = 0x7ffd_0000_0000;
const FP: u64 = SP + (1 << 24);
const BX: u64 = SP + (1 << 25);

/// Checks one address: the row's registers are the evaluator's.
fn check(cfi: &Cfi, context: &mut Context, svma: u64, row: Row, count: &mut Count) {
    let registers = UserRegs {
        ip: svma,
        sp: SP,
        fp: FP,
        lr: BX,
    };
    let ours = step(Arch::X86_64, row, &registers, |at| Some(word_at(at)));
    let asked = Cell::new(false);
    let theirs = cfi.step::<()>(
        context,
        svma,
        Registers {
            ip: svma,
            sp: SP,
            fp: FP,
            lr: 0,
        },
        &mut |at| Ok(word_at(at)),
        &mut |register| {
            if register == X86_64::RBX {
                return Some(BX);
            }
            asked.set(true);
            None
        },
    );
    let theirs = theirs.unwrap();
    count.checked += 1;
    let rule = cfi.rule(context, svma);
    match (ours, rule) {
        (Err(WalkEnd::NoRow), Rule::None)
        | (Err(WalkEnd::Complete), Rule::Outermost)
        | (Err(WalkEnd::Unsupported), Rule::Unsupported) => {}
        (Err(WalkEnd::Complete), _) => count.entry += 1,
        (Ok((_, By::Signal)), Rule::Signal) | (Ok((_, By::Call)), Rule::Ordinary | Rule::Special) => {
            let (ours, by) = ours.map(|(to, by)| ((to.ip, to.sp, to.fp, to.lr), by)).unwrap();
            let theirs = theirs.unwrap_or_else(|| panic!("{svma:#x}: {row:?} but no rule"));
            let bx = match cfi.saved(context, svma, X86_64::RBX) {
                Saved::At(offset) => theirs.sp.wrapping_add_signed(offset) | 1,
                Saved::Untouched => BX,
                // Each register of a signal frame is given by an expression.
                Saved::Unknown if by == By::Signal => (SP + 128) | 1,
                Saved::Unknown => 0,
            };
            assert_eq!(ours, (theirs.ip, theirs.sp, theirs.fp, bx), "{svma:#x}: {row:?}");
        }
        (Err(WalkEnd::Unsupported), Rule::Special) => count.beyond_rows += u32::from(theirs.is_some() && !asked.get()),
        (_, Rule::None) => count.padding += 1,
        (ours, rule) => panic!("{svma:#x}: {row:?} gives {ours:?}, but the rule is {rule:?}"),
    }
}

/// Checks every `every`th row: at its first and its last byte, and around them.
fn check_file(elf: &ElfFile, table: &Table, every: usize) -> Count {
    let cfi = Cfi::of(elf, arch::of(Arch::X86_64)).unwrap();
    let mut context = Context::new();
    let mut count = Count::default();
    let addresses: Vec<u64> = table.rows_by_address().map(|(svma, _)| svma).collect();
    assert_eq!(addresses.len(), table.rows.len());
    assert!(addresses.is_sorted_by(|one, next| one < next));
    for start in addresses.iter().step_by(every) {
        for svma in [start.saturating_sub(1), *start, start + 1] {
            check(&cfi, &mut context, svma, table.lookup(svma), &mut count);
        }
    }
    eprintln!("{:x?}: {count:?}", elf.dynamic().soname);
    count
}

#[test]
fn rows_match_the_evaluator() {
    if cfg!(not(target_arch = "x86_64")) {
        eprintln!("skipped: this process maps code for another processor than the evaluator's");
        return;
    }
    for path in mapped_files() {
        let elf = open(&path).unwrap();
        let table = compile(&elf).unwrap();
        // Without optimization, the test binary has a million rows.
        let every = table.rows.len() / 20_000 + 1;
        let count = check_file(&elf, &table, every);
        assert!(count.checked > 1_000, "{}: {count:?}", path.display());
        // The rules of libc and ld.so that rows can't represent need registers that no walk has.
        assert_eq!(count.beyond_rows, 0, "{}: {count:?}", path.display());
        assert!(count.entry < 20, "{}: {count:?}", path.display());
        assert_eq!(table.stats.damaged, 0, "{}", path.display());
        assert_eq!(table.stats.overlapping, 0, "{}", path.display());
    }
}

#[test]
fn rows_of_large_libraries_match_the_evaluator() {
    for (path, beyond_rows) in [
        ("/usr/lib/firefox-esr/libxul.so", 0),
        ("/usr/lib/x86_64-linux-gnu/libstdc++.so.6", 0),
        ("/usr/lib/x86_64-linux-gnu/libgtk-3.so.0", 0),
        // Hand-written: `DW_OP_plus_uconst: 56`, 64.
        ("/usr/lib/x86_64-linux-gnu/libcrypto.so.3", 60),
    ] {
        if !Path::new(path).exists() {
            eprintln!("skipped: {path} is not installed");
            continue;
        }
        let elf = open(Path::new(path)).unwrap();
        let table = compile(&elf).unwrap();
        let count = check_file(&elf, &table, table.rows.len() / 20_000 + 1);
        assert!(count.beyond_rows <= beyond_rows, "{path}: {count:?}");
        assert_eq!((table.stats.damaged, table.stats.overlapping), (0, 0), "{path}");
    }
}

/// Start and end of every function, sorted by start.
fn listed(elf: &ElfFile) -> Vec<(u64, u64)> {
    let section = elf.section(".eh_frame").unwrap();
    let bases = BaseAddresses::default().set_eh_frame(section.svma.start);
    let eh_frame = EhFrame::new(&section.bytes, LittleEndian);
    let mut entries = eh_frame.entries(&bases);
    let mut functions = Vec::new();
    while let Some(entry) = entries.next().unwrap() {
        if let gimli::CieOrFde::Fde(partial) = entry {
            let fde = partial.parse(EhFrame::cie_from_offset).unwrap();
            functions.push((fde.initial_address(), fde.end_address()));
        }
    }
    functions.sort_unstable();
    functions
}

/// Independent of the compiler: every function that gimli lists has rows from its first to its last
/// byte, and the code between functions has none, except for padding.
#[test]
fn functions_are_covered_and_gaps_are_not() {
    for path in mapped_files() {
        let elf = open(&path).unwrap();
        let table = compile(&elf).unwrap();
        let functions = listed(&elf);
        let covered = |svma: u64| table.lookup(svma).rules != Row::plain(0, Cfa::None).rules;
        for &(start, end) in &functions {
            assert!(covered(start) && covered(end - 1), "{}: {start:#x}", path.display());
        }
        let entry = elf.entry()..elf.entry() + 64;
        let mut gaps = 0;
        for [(_, end), (next, _)] in functions.array_windows() {
            if end < next && !is_padding(*end, *next) && !entry.contains(end) {
                assert!(
                    !covered(*end) && !covered(next - 1) || entry.contains(&(next - 1)),
                    "{end:#x}"
                );
                gaps += 1;
            }
        }
        eprintln!("{}: {} functions, {gaps} gaps", path.display(), functions.len());
    }
}
