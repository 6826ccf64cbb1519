//! The symbols of functions, or of data, in one or more symbol tables, as address ranges.
//!
//! samply-symbols' own list extends a symbol of `.dynsym` to the next one, so a private function
//! between two exported ones would get the first one's name. Here, a symbol covers its size.

use std::cmp::Reverse;
use std::ops::Range;

use object::read::SymbolIndex;
use object::{
    File, Object as _, ObjectSection as _, ObjectSymbol as _, ObjectSymbolTable as _, SectionFlags, Symbol, SymbolKind,
};
use rustc_hash::FxHashMap;

/// Maximum nesting depth of symbols: real ones nest once or twice.
const MAX_NESTING: usize = 64;
/// Section flag of code.
const SHF_EXECINSTR: u64 = 4;
/// Added to the rank of a symbol that is not marked as a function.
const UNTYPED: u8 = 3;
/// No enclosing symbol.
const NONE: u32 = u32::MAX;

/// Symbols, sorted by address.
pub(crate) struct SymbolTable<'data, 'files> {
    files: &'files [File<'data>],
    entries: Vec<Entry>,
    /// Other names of functions that have several, if they begin with an underscore and are not
    /// mangled; by address.
    underscored: Vec<(u64, NameIndex)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    start: u64,
    end: u64,
    /// Location of the name.
    name: NameIndex,
    /// The nearest earlier entry that extends into this one.
    enclosing: u32,
    /// Whether `end` is from the symbol, or a guess.
    extent: SymbolExtent,
    /// Rank among symbols of one address; lower is better.
    rank: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NameIndex {
    file: u8,
    dynamic: bool,
    symbol: u32,
}

/// The extent of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SymbolExtent {
    /// The symbol has a size.
    Sized,
    /// It has none, in a complete table: it extends to the next symbol.
    ToNext,
    /// It has none, in a table of exported symbols only: it may end anywhere before the next one.
    Unknown,
}

/// The symbol that covers an address.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hit<'data> {
    pub start: u64,
    pub end: u64,
    pub extent: SymbolExtent,
    /// It has neither a type nor a size: it may mark a location inside a function.
    pub is_label: bool,
    pub name: &'data [u8],
}

impl Entry {
    fn is_label(&self) -> bool {
        self.extent != SymbolExtent::Sized && self.rank >= UNTYPED
    }
}

impl<'data, 'files> SymbolTable<'data, 'files> {
    /// The symbols of all `files`, which share one address space (a binary and its debug files; at
    /// most 255).
    pub(crate) fn new(files: &'files [File<'data>]) -> Self {
        Self::with(files, Self::add)
    }

    /// The same for data: objects that have a size.
    pub(crate) fn of_data(files: &'files [File<'data>]) -> Self {
        Self::with(files, Self::add_data)
    }

    fn with(files: &'files [File<'data>], add: fn(&mut Self, &File<'data>, u8, &mut FxHashMap<u64, u64>)) -> Self {
        let mut table = Self {
            files,
            entries: Vec::new(),
            underscored: Vec::new(),
        };
        let mut section_ends = FxHashMap::default();
        for (index, file) in (0_u8..).zip(files) {
            add(&mut table, file, index, &mut section_ends);
        }
        table.keep_best_of_each_address();
        table.link_enclosing();
        table.close_unsized(&section_ends);
        table
    }

    /// The innermost symbol that covers `svma`.
    pub(crate) fn lookup(&self, svma: u64) -> Option<Hit<'data>> {
        let mut index = self
            .entries
            .partition_point(|entry| entry.start <= svma)
            .checked_sub(1)?;
        for _ in 0..MAX_NESTING {
            let entry = self.entries.get(index)?;
            if svma < entry.end {
                let name = self.name(entry.name).filter(|name| !name.is_empty())?;
                return Some(Hit {
                    start: entry.start,
                    end: entry.end,
                    extent: entry.extent,
                    is_label: entry.is_label(),
                    name,
                });
            }
            if entry.enclosing == NONE {
                return None;
            }
            index = entry.enclosing as usize;
        }
        None
    }

    /// The first symbol that starts in `range`.
    pub(crate) fn first_in(&self, range: &Range<u64>) -> Option<Hit<'data>> {
        let first = self.entries.partition_point(|entry| entry.start < range.start);
        let start = self.entries.get(first).map(|entry| entry.start)?;
        range.contains(&start).then(|| self.lookup(start))?
    }

    /// The end of the last symbol before `svma` that does not cover it; for one without a size, its
    /// start.
    pub(crate) fn end_before(&self, svma: u64) -> Option<u64> {
        let behind = self.entries.partition_point(|entry| entry.start <= svma);
        let mut index = behind.checked_sub(1)?;
        let mut last = 0;
        for _ in 0..MAX_NESTING {
            let entry = self.entries.get(index)?;
            let end = if entry.extent == SymbolExtent::Sized {
                entry.end
            } else {
                entry.start
            };
            last = last.max(end);
            if entry.enclosing == NONE {
                break;
            }
            index = entry.enclosing as usize;
        }
        Some(last.min(svma))
    }

    /// Whether a symbol other than the one that [`Self::lookup`] finds gives the function at
    /// `start` this name, which begins with an underscore. Suffixes that a compiler added
    /// (`.constprop.0`) are ignored.
    pub(crate) fn is_alias(&self, start: u64, name: &str) -> bool {
        let first = self.underscored.partition_point(|(address, _)| *address < start);
        let here = self.underscored.get(first..).unwrap_or_default().iter();
        here.take_while(|(address, _)| *address == start)
            .any(|(_, index)| self.name(*index).is_some_and(|alias| is_named(alias, name)))
    }

    /// Adds the function symbols of `file`; `section_ends` receives the section end of each unsized
    /// one.
    fn add(&mut self, file: &File<'data>, file_index: u8, section_ends: &mut FxHashMap<u64, u64>) {
        let executable = executable_ranges(file);
        let complete = file.symbol_table().is_some();
        for (dynamic, symbol) in file
            .symbols()
            .map(|symbol| (false, symbol))
            .chain(file.dynamic_symbols().map(|symbol| (true, symbol)))
        {
            let (start, size) = (symbol.address(), symbol.size());
            let typed = symbol.kind() == SymbolKind::Text;
            let untyped = symbol.kind() == SymbolKind::Label || symbol.kind() == SymbolKind::Unknown;
            if symbol.is_undefined() || !(typed || untyped && (size > 0 || is_named_label(&symbol))) {
                continue;
            }
            // By address: tools that remove a section leave wrong section numbers in `.dynsym`.
            let Some((_, section_end)) = section_of(&executable, start) else {
                continue;
            };
            let Ok(index) = u32::try_from(symbol.index().0) else {
                continue;
            };
            let extent = match (size, complete) {
                (1.., _) => SymbolExtent::Sized,
                (0, true) => SymbolExtent::ToNext,
                (0, false) => SymbolExtent::Unknown,
            };
            if extent != SymbolExtent::Sized {
                section_ends.insert(start, section_end);
            }
            let name = NameIndex {
                file: file_index,
                dynamic,
                symbol: index,
            };
            self.entries.push(Entry {
                start,
                end: start.saturating_add(size),
                name,
                enclosing: NONE,
                extent,
                rank: binding(&symbol) + if typed { 0 } else { UNTYPED },
            });
        }
    }

    /// Adds the objects of `file`. Thread-local ones have no address, and those without a size
    /// could end anywhere.
    fn add_data(&mut self, file: &File<'data>, file_index: u8, _: &mut FxHashMap<u64, u64>) {
        let tables = [(false, file.symbol_table()), (true, file.dynamic_symbol_table())];
        for (dynamic, symbol) in tables.into_iter().flat_map(|(dynamic, table)| {
            let symbols = table.into_iter().flat_map(|table| table.symbols());
            symbols.map(move |symbol| (dynamic, symbol))
        }) {
            let (start, size) = (symbol.address(), symbol.size());
            let Ok(index) = u32::try_from(symbol.index().0) else {
                continue;
            };
            if symbol.kind() != SymbolKind::Data || symbol.is_undefined() || size == 0 {
                continue;
            }
            let name = NameIndex {
                file: file_index,
                dynamic,
                symbol: index,
            };
            self.entries.push(Entry {
                start,
                end: start.saturating_add(size),
                name,
                enclosing: NONE,
                extent: SymbolExtent::Sized,
                rank: binding(&symbol),
            });
        }
    }

    fn keep_best_of_each_address(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        let mut underscored = Vec::new();
        entries.sort_by_key(|entry| (entry.start, entry.extent, entry.rank, Reverse(entry.end)));
        entries.dedup_by(|next, kept| {
            if next.start != kept.start {
                return false;
            }
            if (next.extent, next.rank) == (kept.extent, kept.rank) && self.plainer(next.name, kept.name) {
                std::mem::swap(&mut kept.name, &mut next.name);
            }
            if self.name(next.name).is_some_and(is_underscored) {
                underscored.push((next.start, next.name));
            }
            kept.end = kept.end.max(next.end);
            true
        });
        self.entries = entries;
        self.underscored = underscored;
    }

    /// Whether the first name of a function is more common than the second: `malloc`, not
    /// `__libc_malloc`.
    fn plainer(&self, first: NameIndex, second: NameIndex) -> bool {
        let key = |index| {
            let name = self.name(index).unwrap_or_default();
            (
                name.is_empty(),
                name.iter().take_while(|byte| **byte == b'_').count(),
                name.len(),
                name,
            )
        };
        key(first) < key(second)
    }

    /// Links each entry to its enclosing symbol, and drops unsized symbols inside others.
    fn link_enclosing(&mut self) {
        let mut kept: Vec<Entry> = Vec::with_capacity(self.entries.len());
        let mut open: Vec<u32> = Vec::new();
        for mut entry in std::mem::take(&mut self.entries) {
            while open
                .last()
                .is_some_and(|index| kept.get(*index as usize).is_none_or(|top| top.end <= entry.start))
            {
                open.pop();
            }
            if entry.extent != SymbolExtent::Sized && (!open.is_empty() || self.is_part(&entry, kept.last())) {
                continue;
            }
            entry.enclosing = open.last().copied().unwrap_or(NONE);
            if entry.extent == SymbolExtent::Sized {
                let Ok(index) = u32::try_from(kept.len()) else { break };
                open.push(index);
            }
            kept.push(entry);
        }
        kept.shrink_to_fit();
        self.entries = kept;
    }

    /// Whether a label marks a location inside the preceding symbol: assemblers then use the form
    /// `function.place`.
    fn is_part(&self, label: &Entry, before: Option<&Entry>) -> bool {
        let names = before.and_then(|before| Some((self.name(before.name)?, self.name(label.name)?)));
        label.is_label()
            && names
                .is_some_and(|(before, label)| label.strip_prefix(before).is_some_and(|rest| rest.starts_with(b".")))
    }

    /// Extends unsized symbols to the next symbol or the end of their section.
    fn close_unsized(&mut self, section_ends: &FxHashMap<u64, u64>) {
        let mut next_start = u64::MAX;
        for entry in self.entries.iter_mut().rev() {
            if entry.extent != SymbolExtent::Sized {
                entry.end = section_ends
                    .get(&entry.start)
                    .map_or(next_start, |end| next_start.min(*end));
            }
            next_start = entry.start;
        }
    }

    fn name(&self, index: NameIndex) -> Option<&'data [u8]> {
        let file = self.files.get(usize::from(index.file))?;
        let table = if index.dynamic {
            file.dynamic_symbol_table()?
        } else {
            file.symbol_table()?
        };
        table
            .symbol_by_index(SymbolIndex(index.symbol as usize))
            .ok()?
            .name_bytes()
            .ok()
    }
}

/// Global symbols are better than weak ones, and those are better than local ones.
fn binding(symbol: &Symbol<'_, '_>) -> u8 {
    if symbol.is_weak() {
        1
    } else if symbol.is_global() {
        0
    } else {
        2
    }
}

/// Whether a label is more than an internal mark of the assembler: `.L5`, or arm64's `$x`.
fn is_named_label(symbol: &Symbol<'_, '_>) -> bool {
    let name = symbol.name_bytes().unwrap_or_default();
    !name.is_empty() && !name.starts_with(b".L") && !name.starts_with(b"$")
}

/// Whether a symbol is a plain C name that starts with an underscore.
fn is_underscored(symbol: &[u8]) -> bool {
    symbol.starts_with(b"_") && !symbol.starts_with(b"_Z") && !symbol.starts_with(b"_R")
}

/// Whether a symbol is the function `name`, or a variant that a compiler generated.
pub(crate) fn is_named(symbol: &[u8], name: &str) -> bool {
    let rest = symbol.strip_prefix(name.as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
}

/// Start and end of every code section, sorted.
pub(crate) fn executable_ranges(file: &File<'_>) -> Vec<(u64, u64)> {
    let is_code = |flags| matches!(flags, SectionFlags::Elf { sh_flags, .. } if sh_flags.0 & SHF_EXECINSTR != 0);
    let mut ranges: Vec<_> = file
        .sections()
        .filter(|section| is_code(section.flags()))
        .map(|section| (section.address(), section.address().saturating_add(section.size())))
        .collect();
    ranges.sort_unstable();
    ranges
}

/// Start and end of the section around `svma`.
pub(crate) fn section_of(ranges: &[(u64, u64)], svma: u64) -> Option<(u64, u64)> {
    let index = ranges.partition_point(|(start, _)| *start <= svma).checked_sub(1)?;
    ranges.get(index).copied().filter(|(_, end)| svma < *end)
}
