//! The same stacks walked by unwind tables alone: every frame matches the walk of the copied stack.

use std::collections::HashMap;

use profiler::event::{FileId, PROT_EXEC};
use profiler::unwind::Binaries as _;
use profiler::unwind::table::{Table, compile};
use profiler_common::unwind::{Arch, By, Cfa, Row, WalkEnd, step};
use symbols::elf::Segment;

use super::program::{Dump, Flavour, run};

/// Tables of the mapped files, by path.
#[derive(Default)]
struct Tables(HashMap<String, (Vec<Segment>, Table)>);

impl Tables {
    fn row(&mut self, dump: &Dump, address: u64) -> Row {
        let found = dump.maps.iter().find(|mapping| {
            mapping.protection & PROT_EXEC != 0 && (mapping.start.0..mapping.start.0 + mapping.len).contains(&address)
        });
        let mapping = found.unwrap_or_else(|| panic!("{address:#x} is not mapped"));
        let path = String::from_utf8_lossy(&mapping.path).into_owned();
        let (segments, table) = self.0.entry(path.clone()).or_insert_with(|| {
            let elf = dump.binaries.elf(FileId::default(), &path, &[]).unwrap();
            (elf.segments().to_vec(), compile(&elf).unwrap())
        });
        let offset = address - mapping.start.0 + mapping.offset.0;
        let segment = segments
            .iter()
            .find(|one| one.executable && (one.file_offset..one.file_offset + one.file_size).contains(&offset));
        segment.map_or(Row::plain(0, Cfa::None), |one| {
            table.lookup(one.svma + (offset - one.file_offset))
        })
    }
}

/// Addresses of the frames, leaf first.
fn walk(dump: &Dump) -> (Vec<u64>, WalkEnd) {
    let sample = dump.sample(0);
    let start = sample.stacks.regs.sp;
    let word = |at: u64| {
        let at = usize::try_from(at.checked_sub(start)?).ok()?;
        Some(u64::from_le_bytes(*sample.stacks.copy.get(at..)?.first_chunk()?))
    };
    let mut tables = Tables::default();
    let (mut registers, mut by) = (sample.stacks.regs, By::Signal);
    let mut frames = Vec::new();
    loop {
        frames.push(registers.ip);
        let row = tables.row(dump, registers.ip - u64::from(by == By::Call));
        match step(Arch::X86_64, row, &registers, word) {
            Ok((caller, how)) => (registers, by) = (caller, how),
            Err(end) => return (frames, end),
        }
    }
}

#[test]
fn tables_find_the_frames_of_real_stacks() {
    let plain: &[&str] = &["-O2", "-fomit-frame-pointer"];
    for (what, flags) in [
        ("recurse", plain),
        ("recurse", &["-O0"]),
        ("recurse", &["-O2", "-fomit-frame-pointer", "-no-pie"]),
        ("realigned", plain),
        ("thread", plain),
        ("signal", plain),
        ("lazy", plain),
    ] {
        let Some(dump) = run(what, Flavour(flags)) else { return };
        let expected = dump.walk(0, |_| {});
        let expected: Vec<u64> = expected.frames.iter().map(|frame| frame.address.0).collect();
        let (frames, end) = walk(&dump);
        assert_eq!(frames, expected, "{what} {flags:?}: {end:?}");
        assert_eq!(end, WalkEnd::Complete, "{what} {flags:?}");
    }
}
