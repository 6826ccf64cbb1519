//! Locates functions: the entries of both sections by address, and the entry code of the program.

use std::ops::Range;

use gimli::{DebugFrame, EhFrame, UnwindSection};
use symbols::elf::ElfFile;

use super::entries::Entries;
use super::stubs::Stubs;
use super::{Input, MAX_FUNCTIONS, Slice, TableError};
use base::table::Stats;

/// Bytes after an entry point without unwind information that count as the entry code: `_start` is
/// shorter.
const ENTRY_CODE: u64 = 64;
/// Alignment of consecutive functions, with padding between them.
const ALIGNMENT: u64 = 16;

/// The source of a function's rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// An entry of the section, without a caller: the kernel or the loader jumps to it.
    EntryCode,
    EhFrame,
    DebugFrame,
    /// No entry: the code is a known stub.
    Stubs,
    /// No entry: the code is a call to the function that a debugger would show as the thread's
    /// first.
    LastCall,
}

/// A range of code with its rules, ordered by address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Function {
    pub(super) start: u64,
    pub(super) source: Source,
    /// Offset of its entry in the section; for stubs, their index.
    pub(super) offset: usize,
    pub(super) end: u64,
}

/// Whether only padding fits between a function that ends here and one that starts there: it never
/// runs, and needs no row.
pub(super) fn is_padding(end: u64, start: u64) -> bool {
    end == start || (start - end < ALIGNMENT && start.is_multiple_of(ALIGNMENT))
}

/// All functions in executable segments, sorted by address.
///
/// # Errors
/// [`TableError::TooManyFunctions`].
pub(super) fn find<'b>(
    input: &Input,
    eh_frame: &mut Entries<'b, EhFrame<Slice<'b>>>,
    debug_frame: &mut Entries<'b, DebugFrame<Slice<'b>>>,
    stats: &mut Stats,
) -> Result<Vec<Function>, TableError> {
    let code = &input.code;
    let mut found = Vec::new();
    list(eh_frame, Source::EhFrame, code, &mut found, stats)?;
    list(debug_frame, Source::DebugFrame, code, &mut found, stats)?;
    found.sort_unstable();
    stats.functions = u32::try_from(found.len()).unwrap_or(u32::MAX);
    if !found.is_empty()
        && let Some(entry) = input.entry
    {
        mark_entry_code(entry, code, &mut found);
    }
    Ok(found)
}

fn list<'b, S: UnwindSection<Slice<'b>>>(
    entries: &mut Entries<'b, S>,
    source: Source,
    code: &[Range<u64>],
    found: &mut Vec<Function>,
    stats: &mut Stats,
) -> Result<(), TableError> {
    entries.each(|fde| {
        let Some(fde) = fde else {
            stats.damaged = stats.damaged.saturating_add(1);
            return Ok(());
        };
        let start = fde.initial_address();
        // Linkers leave entries of removed functions, at addresses without code.
        let Some(segment) = code.iter().find(|segment| segment.contains(&start)) else {
            return Ok(());
        };
        let end = start.saturating_add(fde.len()).min(segment.end);
        if start < end {
            if found.len() >= MAX_FUNCTIONS {
                return Err(TableError::TooManyFunctions);
            }
            let offset = fde.offset();
            found.push(Function {
                start,
                source,
                offset,
                end,
            });
        }
        Ok(())
    })
}

/// Adds the stubs that contain no function.
pub(super) fn add_stubs(stubs: &[Stubs], found: &mut Vec<Function>) {
    let is_only = found.is_empty();
    for (offset, stubs) in stubs.iter().enumerate() {
        if !is_only || stubs.alone {
            add(&stubs.svma, Source::Stubs, offset, found);
        }
    }
}

/// Adds the calls without unwind information.
pub(super) fn add_last_calls(calls: &[Range<u64>], found: &mut Vec<Function>) {
    let calls = if found.is_empty() { &[] } else { calls };
    for call in calls {
        add(call, Source::LastCall, 0, found);
    }
}

fn add(range: &Range<u64>, source: Source, offset: usize, found: &mut Vec<Function>) {
    let Range { start, end } = *range;
    let behind = found.partition_point(|function| function.start < end);
    let is_free = behind.checked_sub(1).is_none_or(|before| found[before].end <= start);
    if is_free && start < end {
        found.insert(
            behind,
            Function {
                start,
                source,
                offset,
                end,
            },
        );
    }
}

/// The entry code, which the kernel or the loader jumps to.
///
/// Binutils before about 2.35 declare the first byte of `.text` as the entry point of every shared
/// library, where an ordinary function may be.
pub(super) fn entry_of(elf: &ElfFile) -> Option<u64> {
    let entry = elf.entry();
    let is_program = || {
        let Some(dynamic) = elf.section(".dynamic") else {
            return true;
        };
        elf.section(".interp").is_some() || dynamic_flags(&dynamic.bytes) & elf_flags::DF_1_PIE != 0
    };
    let is_start_of_text = || elf.section_svma(".text").is_some_and(|text| text.start == entry);
    (entry != 0 && (!is_start_of_text() || is_program())).then_some(entry)
}

/// `DT_FLAGS_1` of a 64-bit dynamic section, and the flag of position-independent executables
/// (elf.h).
mod elf_flags {
    pub(super) const DT_FLAGS_1: u64 = 0x6fff_fffb;
    pub(super) const DF_1_PIE: u64 = 0x0800_0000;
}

fn dynamic_flags(dynamic: &[u8]) -> u64 {
    let (entries, _) = dynamic.as_chunks::<16>();
    let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    entries
        .iter()
        .find(|entry| word(&entry[..8]) == elf_flags::DT_FLAGS_1)
        .map_or(0, |entry| word(&entry[8..]))
}

/// From `entry` to the end of its function, or for a few bytes, there are no rules.
fn mark_entry_code(entry: u64, code: &[Range<u64>], found: &mut Vec<Function>) {
    let Some(segment) = code.iter().find(|segment| segment.contains(&entry)) else {
        return;
    };
    let next = found.partition_point(|function| function.start <= entry);
    let mut limit = segment.end.min(entry.saturating_add(ENTRY_CODE));
    if let Some(next) = found.get(next) {
        limit = limit.min(next.start);
    }
    let entry_code = |end| Function {
        start: entry,
        source: Source::EntryCode,
        offset: 0,
        end,
    };
    let before = next.checked_sub(1).and_then(|before| found.get_mut(before));
    match before.filter(|before| entry < before.end) {
        Some(whole) if whole.start == entry => *whole = entry_code(whole.end),
        Some(part) => {
            limit = part.end;
            part.end = entry;
            found.insert(next, entry_code(limit));
        }
        None => found.insert(next, entry_code(limit)),
    }
}
