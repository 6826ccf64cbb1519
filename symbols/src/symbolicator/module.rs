//! One binary and its debug files: finds the function, or the data object, at an address.

use std::cell::LazyCell;
use std::ops::Range;

use super::frames::Frames;
use super::go::Go;
use super::locate::{self, Opened};
use super::{AddressName, AddressNames, BinaryRequest, Detail, SourceFrame, Symbolicator, minidebug};
use crate::cfi::{FunctionRanges, UnwindSections};
use crate::demangle::demangle_bytes;
use crate::elf::{ElfError, ElfFile};
use crate::table::{Hit, SymbolExtent, SymbolTable, executable_ranges, is_named, section_of};

/// The location of a function, and its name if it has one.
struct Function {
    start: u64,
    /// `None`: somewhere before the next function.
    end: Option<u64>,
    name: Option<String>,
}

impl Symbolicator {
    /// Names `addresses` of `opened`, whose build id has been checked. Errors: its tables are
    /// damaged, or one of its files was truncated meanwhile.
    pub(super) fn name_all(
        &self,
        opened: &Opened,
        (binary, detail): (&BinaryRequest, Detail),
        addresses: &[u32],
    ) -> Result<AddressNames, ElfError> {
        let debug_file = self.debug_file(opened, binary);
        let mini = if debug_file.is_none() {
            minidebug::read(&opened.elf)
        } else {
            None
        };
        let files = debug_file
            .iter()
            .map(|file| &file.elf)
            .chain(&mini)
            .filter_map(|elf| elf.object().ok());
        let objects: Vec<_> = files.chain([opened.elf.object()?]).collect();
        let table = SymbolTable::new(&objects);
        let unwind_sections = UnwindSections::of(&opened.elf);
        let ranges = unwind_sections.as_ref().map(FunctionRanges::new);
        let described = debug_file.as_ref().unwrap_or(opened);
        let frames = self
            .runtime
            .as_ref()
            .filter(|_| detail == Detail::Lines)
            .and_then(|runtime| Frames::load(runtime, described));

        let base = opened.elf.base_svma();
        let code = Code::of(&opened.elf)?;
        let data = LazyCell::new(|| SymbolTable::of_data(&objects));
        let go = Go::of(&opened.elf);
        let lines = (detail == Detail::Lines).then_some((frames.as_ref(), &go));
        let name = |address: &u32| {
            let svma = base.checked_add(u64::from(*address))?;
            if !code.sections.is_empty() && code.section_of(svma).is_none() {
                return data.lookup(svma).map(|hit| describe_data(&hit, base));
            }
            let function = function_at(svma, &table, ranges.as_ref(), &go)
                .or_else(|| code.between_functions(svma, &table, ranges.as_ref(), &go))?;
            Some(describe((svma, base), function, lines, &table))
        };
        let mut names: AddressNames = addresses.iter().map(name).collect();
        // Names based on zeros would look like any other.
        let was_cut =
            [opened, described].iter().any(|file| file.was_changed()) || frames.as_ref().is_some_and(Frames::was_cut);
        if !described.elf.has_section(".debug_info") && names.iter().flatten().any(|name| name.is_nameless) {
            self.name_from_servers(&mut names, addresses, (opened, binary), (&code, ranges.as_ref()));
        }
        if was_cut { Err(ElfError::Cut) } else { Ok(names) }
    }

    /// The separate debug file of `opened`, unless it contains debug info itself.
    fn debug_file(&self, opened: &Opened, binary: &BinaryRequest) -> Option<Opened> {
        if opened.elf.has_section(".debug_info") {
            return None;
        }
        locate::debug_file(&opened.elf, &binary.path, &self.extra_symbol_directories).or_else(|| {
            let client = self.debuginfod.as_ref()?;
            let path = client.debug_file(self.runtime.as_ref()?, opened.elf.build_id())?;
            let found = locate::open_if_same(&path, &opened.elf, None);
            if found.is_none() {
                client.note_unusable(&path);
            }
            found
        })
    }
}

/// The code of a file.
pub(super) struct Code {
    /// Start and end of each code section, sorted by address.
    sections: Vec<(u64, u64)>,
    entry: u64,
}

impl Code {
    fn of(elf: &ElfFile) -> Result<Self, ElfError> {
        Ok(Self {
            sections: executable_ranges(&elf.object()?),
            entry: elf.entry(),
        })
    }

    pub(super) fn section_of(&self, svma: u64) -> Option<(u64, u64)> {
        section_of(&self.sections, svma)
    }

    /// Code that is in no symbol, no Go function and not in `.eh_frame` is one function, from the end of the last
    /// known one on, or from the entry point.
    fn between_functions(
        &self,
        svma: u64,
        table: &SymbolTable<'_, '_>,
        ranges: Option<&FunctionRanges<'_>>,
        go: &Go<'_>,
    ) -> Option<Function> {
        let (section, _) = self.section_of(svma)?;
        let entry = (self.entry <= svma).then_some(self.entry);
        let described = ranges
            .and_then(|ranges| ranges.last_before(svma))
            .map(|found| found.range.end.min(svma));
        let listed = go.last_before(svma).map(|found| found.range.end.min(svma));
        let bounds = [table.end_before(svma), described, listed, entry];
        Some(Function {
            start: bounds.into_iter().flatten().fold(section, u64::max),
            end: None,
            name: None,
        })
    }
}

/// The function at `svma`. A symbol with a size is trusted; one without must agree with
/// `.eh_frame`, because the next symbol may be a function or two further on; and a label names a
/// function only if it is at its start. Without a symbol, Go's own table names a function, and one of `.eh_frame` has
/// no name.
fn function_at(
    svma: u64,
    table: &SymbolTable<'_, '_>,
    ranges: Option<&FunctionRanges<'_>>,
    go: &Go<'_>,
) -> Option<Function> {
    let mut symbol = table.lookup(svma);
    if let Some(hit) = symbol.as_ref().filter(|hit| hit.extent == SymbolExtent::Sized) {
        return Some(Function {
            start: hit.start,
            end: Some(hit.end),
            name: Some(demangle_bytes(hit.name)),
        });
    }
    if let Some(found) = go.function(svma) {
        return Some(Function {
            start: found.range.start,
            end: Some(found.range.end),
            name: found.name,
        });
    }
    let described = ranges.and_then(|ranges| ranges.range_of(svma));
    if let Some(found) = described.as_ref().filter(|found| found.is_signal_return) {
        return Some(signal_return(&found.range, table));
    }
    let range = described.map(|found| found.range);
    let is_described = |start| ranges.is_some_and(|ranges| ranges.range_of(start).is_some());
    if let (Some(label), Some(range)) = (symbol.as_ref().filter(|hit| hit.is_label), &range)
        && label.start != range.start
    {
        symbol = table.lookup(range.start).filter(|hit| hit.start == range.start);
    }
    match (symbol, range) {
        (Some(hit), Some(range)) if range.contains(&hit.start) => Some(Function {
            start: hit.start,
            end: Some(range.end),
            name: Some(demangle_bytes(hit.name)),
        }),
        (_, Some(range)) => Some(Function {
            start: range.start,
            end: Some(range.end),
            name: None,
        }),
        // A function of `.eh_frame` ends where that specifies.
        (Some(hit), None) if hit.extent == SymbolExtent::ToNext && !is_described(hit.start) => Some(Function {
            start: hit.start,
            end: Some(hit.end),
            name: Some(demangle_bytes(hit.name)),
        }),
        _ => None,
    }
}

/// The function of an entry that begins before it.
fn signal_return(range: &Range<u64>, table: &SymbolTable<'_, '_>) -> Function {
    let symbol = table.first_in(range);
    Function {
        start: symbol.as_ref().map_or(range.start.saturating_add(1), |hit| hit.start),
        end: Some(range.end),
        name: symbol.map(|hit| demangle_bytes(hit.name)),
    }
}

/// The data object that covers an address.
fn describe_data(hit: &Hit<'_>, base: u64) -> AddressName {
    let symbol = demangle_bytes(hit.name);
    let function = symbol.clone();
    AddressName {
        symbol,
        is_nameless: false,
        symbol_start: u32::try_from(hit.start.saturating_sub(base)).unwrap_or(u32::MAX),
        symbol_size: u32::try_from(hit.end.saturating_sub(hit.start)).ok(),
        inline_chain: vec![SourceFrame {
            function,
            file: None,
            line: None,
        }],
    }
}

/// `lines` are from DWARF, or else from Go's table.
fn describe(
    (svma, base): (u64, u64),
    function: Function,
    lines: Option<(Option<&Frames<'_>>, &Go<'_>)>,
    table: &SymbolTable<'_, '_>,
) -> AddressName {
    let placeholder = format!("fun_{:x}", function.start);
    let known = function.name.as_deref().unwrap_or(&placeholder);
    let is_symbol = |name: &str| is_named(known.as_bytes(), name) || table.is_alias(function.start, name);
    let (frames, go) = lines.unzip();
    let mut inline_chain = (frames.flatten())
        .map(|frames| frames.lookup(svma, known, &is_symbol))
        .unwrap_or_default();
    if let Some(go) = go.filter(|_| inline_chain.is_empty()) {
        inline_chain = go.frames(svma, function.start, known);
    }
    let symbol = match (function.name, inline_chain.last()) {
        (Some(name), _) => name,
        (None, Some(outermost)) => outermost.function.clone(),
        (None, None) => placeholder.clone(),
    };
    if inline_chain.is_empty() {
        inline_chain.push(SourceFrame {
            function: symbol.clone(),
            file: None,
            line: None,
        });
    }
    AddressName {
        is_nameless: symbol == placeholder,
        symbol,
        // A function that starts before the base is damage; its start is only a key.
        symbol_start: u32::try_from(function.start.saturating_sub(base)).unwrap_or(u32::MAX),
        symbol_size: (function.end).and_then(|end| u32::try_from(end.saturating_sub(function.start)).ok()),
        inline_chain,
    }
}
