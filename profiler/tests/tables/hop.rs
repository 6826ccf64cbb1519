//! Random addresses of real files: a step by the table leads to the same place as framehop's.

use std::path::{Path, PathBuf};

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder as _};
use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection as _};
use profiler::unwind::table::compile;
use profiler_common::stack::UserRegs;
use profiler_common::unwind::{Arch, Cfa, Row, WalkEnd, step};
use symbols::elf::ElfFile;

use super::build::open;

const SP: u64 = 0x7ffd_0000_0000;
const FP: u64 = SP + (1 << 24);
/// The number of addresses per file.
const ADDRESSES: u64 = 40_000;

/// The results of the comparison.
#[derive(Debug, Default)]
struct Count {
    same: u32,
    /// No rule covers the address: framehop guesses, a table does not.
    uncovered: u32,
    /// Rules that need memory or rbx to find the frame, and signal frames: framehop can't follow
    /// them.
    beyond_framehop: u32,
    /// A row can't represent the rule.
    unsupported: u32,
    /// Code that the loader starts, which its rules don't mark as such.
    entry: u32,
}

fn mix(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// A word of an imaginary stack.
fn word(at: u64) -> u64 {
    SP + 8 * (mix(at) >> 44)
}

/// The start and end of every function.
fn functions(elf: &ElfFile) -> Vec<(u64, u64)> {
    let section = elf.section(".eh_frame").unwrap();
    let bases = BaseAddresses::default().set_eh_frame(section.svma.start);
    let eh_frame = EhFrame::new(&section.bytes, LittleEndian);
    let mut entries = eh_frame.entries(&bases);
    let mut functions = Vec::new();
    while let Some(entry) = entries.next().unwrap() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let fde = partial.parse(EhFrame::cie_from_offset).unwrap();
        functions.push((fde.initial_address(), fde.end_address()));
    }
    functions.sort_unstable();
    functions
}

fn unwinder(elf: &ElfFile) -> UnwinderX86_64<Vec<u8>> {
    let section = |name| elf.section(name);
    let data = |name| section(name).map(|section| section.bytes.to_vec());
    let range = |name| section(name).map(|section| section.svma);
    let sections = ExplicitModuleSectionInfo {
        base_svma: 0,
        eh_frame_svma: range(".eh_frame"),
        eh_frame: data(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr"),
        ..ExplicitModuleSectionInfo::default()
    };
    let mut unwinder = UnwinderX86_64::new();
    unwinder.add_module(Module::new(String::new(), 0..1 << 32, 0, sections));
    unwinder
}

fn compare(elf: &ElfFile) -> Count {
    let table = compile(elf).unwrap();
    let (functions, unwinder) = (functions(elf), unwinder(elf));
    let mut cache = CacheX86_64::new();
    let mut count = Count::default();
    for number in 0..ADDRESSES {
        let (start, end) = functions[usize::try_from(mix(number) >> 8).unwrap() % functions.len()];
        // Some addresses are past the function, where there is another one, padding or nothing.
        let address = start + mix(!number) % (end - start + 2);
        let is_call = number % 2 == 1 && address > start;
        let lookup = address - u64::from(is_call);
        let row = table.lookup(lookup);
        let is_covered = functions[..functions.partition_point(|(start, _)| *start <= lookup)]
            .last()
            .is_some_and(|(_, end)| lookup < *end);
        let (sp, fp) = (SP + 8 * (number % 1000), FP + 8 * (number % 777));
        let registers = UserRegs {
            ip: address,
            sp,
            fp,
            lr: fp,
        };
        let ours = step(Arch::X86_64, row, &registers, |at| Some(word(at)));
        let frame = if is_call {
            FrameAddress::from_return_address(address).unwrap()
        } else {
            FrameAddress::from_instruction_pointer(address)
        };
        let mut regs = UnwindRegsX86_64::new(address, sp, fp);
        let theirs = unwinder.unwind_frame(frame, &mut regs, &mut cache, &mut |at| Ok(word(at)));
        let rules = |cfa| Row::plain(0, cfa).rules;
        match (ours, theirs) {
            _ if !is_covered => count.uncovered += 1,
            (Err(WalkEnd::Complete), Ok(None)) => count.same += 1,
            (Err(WalkEnd::Complete), _) => count.entry += 1,
            (Err(WalkEnd::Unsupported), _) => count.unsupported += 1,
            _ if [Cfa::AtFp, Cfa::AtSp, Cfa::AtSpPlus8, Cfa::Signal, Cfa::Bx]
                .iter()
                .any(|cfa| row.rules & 15 == rules(*cfa)) =>
            {
                count.beyond_framehop += 1;
            }
            (Ok((to, _)), Ok(Some(ip))) => {
                assert_eq!(
                    (to.ip, to.sp, to.fp),
                    (ip, regs.sp(), regs.bp()),
                    "{lookup:#x}: {row:?}"
                );
                count.same += 1;
            }
            (ours, theirs) => panic!("{lookup:#x}: {row:?}: {ours:?}, but framehop {theirs:?}"),
        }
    }
    count
}

#[test]
fn steps_match_framehop() {
    let others = [
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/lib64/ld-linux-x86-64.so.2",
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
        "/usr/lib/firefox-esr/libxul.so",
    ];
    // These are x86-64 steps, and this test program has x86-64 code only on that architecture.
    let own = cfg!(target_arch = "x86_64").then(|| std::env::current_exe().unwrap());
    for path in own.into_iter().chain(others.map(PathBuf::from)) {
        let Some(elf) = open(Path::new(&path)) else {
            eprintln!("skipped: {} is not installed", path.display());
            continue;
        };
        let count = compare(&elf);
        eprintln!("{}: {count:?}", path.display());
        assert!(
            u64::from(count.same) > ADDRESSES * 9 / 10,
            "{}: {count:?}",
            path.display()
        );
        assert!(
            count.unsupported < 200 && count.entry < 200,
            "{}: {count:?}",
            path.display()
        );
    }
}
