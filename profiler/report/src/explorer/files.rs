//! The files of faults, disk reads and page reads: their sections, the symbols that were touched, and the fate of their pages.

use serde::Serialize;

use super::container::{Container, NONE, columns};
use super::limits;
use super::strings::Strings;
use crate::faults::View;
use crate::faults::view::path_of;
use base::addr::PAGE;
use base::hex::hex;
use base::intern::Interner;
use fact::account::knows_waste;
use fact::fault::{MappedFile, MappedFileId};
use fact::place_of_nameless;
use fact::reduce::pages::PageSet;

/// The number of page sets per file: see [`FileRow::pages`].
const SETS: usize = 5;

/// A section of an ELF file.
#[derive(Debug, Serialize)]
pub struct SectionRow {
    name: u32,
    offset: u64,
    size: u64,
}

/// A file in the header.
#[derive(Debug, Serialize)]
pub struct FileRow {
    path: u32,
    build_id: String,
    sections: Vec<SectionRow>,
    /// Its range of rows in the symbol columns, end exclusive.
    symbols: (usize, usize),
    /// Its ranges of rows in the run columns: faulted, mapped in addition, read by faults, read by calls, wasted.
    pages: [(usize, usize); SETS],
    /// A lower bound of its size in pages, from its sections and runs.
    extent: u64,
}

/// Numbers files in the order in which rows first refer to them.
#[derive(Debug, Default)]
pub struct Files(Interner<MappedFileId>);

columns! {
    struct Columns {
        symbol_name: u32 => numbers,
        symbol_offset: Option<u64> => wide,
        symbol_size: Option<u64> => wide,
        run_first: u32 => numbers,
        run_count: u32 => numbers,
    }
}

impl Files {
    /// The number of a file; `None` once the limit is reached.
    pub fn id(&mut self, file: MappedFileId) -> Option<u32> {
        self.0.number(&file, limits::FILES, Clone::clone)
    }

    /// Adds the columns of symbols and page runs, and returns the header's rows.
    pub fn rows(&self, container: &mut Container, view: &View<'_>, strings: &mut Strings) -> Vec<FileRow> {
        let mut columns = Columns::default();
        let rows = self
            .0
            .iter()
            .map(|id| match view.tables.files.get(id.index()) {
                Some(file) => columns.file(view, *id, file, strings),
                None => columns.file(view, *id, &MappedFile::default(), strings),
            })
            .collect();
        columns.add_to(container);
        rows
    }
}

impl Columns {
    fn file(&mut self, view: &View<'_>, id: MappedFileId, file: &MappedFile, strings: &mut Strings) -> FileRow {
        let sections: Vec<SectionRow> = (file.sections.iter().take(limits::SECTIONS))
            .map(|section| SectionRow {
                name: strings.id(&section.name),
                offset: section.offset,
                size: section.size,
            })
            .collect();
        let first_symbol = self.symbol_name.len();
        let room = limits::SYMBOLS.saturating_sub(first_symbol);
        for symbol in file.symbols.iter().take(room) {
            // For a nameless symbol the place alone is enough: the page shows the file's name next to it.
            let name = place_of_nameless(&symbol.name).unwrap_or(&symbol.name);
            self.symbol_name.push(strings.id(name));
            self.symbol_offset.push(Some(symbol.offset));
            self.symbol_size.push(Some(symbol.size));
        }
        let mut pages = [(self.run_first.len(), self.run_first.len()); SETS];
        let knows_waste = knows_waste(view.tables);
        if let Some(of) = view.pages().of(view.tables, id) {
            let wasted = of.wasted().filter(|_| knows_waste).unwrap_or_default();
            let around = of.mapped.without(&[&of.faulted]); // or by a system call
            let sets = [&of.faulted, &around, &of.read_by_faults, &of.read_by_calls, &wasted];
            pages = sets.map(|set| self.runs(set));
        }
        let end_of_sections = sections
            .iter()
            .map(|section| section.offset.saturating_add(section.size))
            .max()
            .unwrap_or(0);
        let end_of_runs = pages.iter().filter_map(|&(first, end)| {
            let last = end.checked_sub(1).filter(|last| *last >= first)?;
            Some(u64::from(*self.run_first.get(last)?).saturating_add(u64::from(*self.run_count.get(last)?)))
        });
        FileRow {
            path: strings.id(&path_of(file)),
            build_id: hex(file.build_id.get(..file.build_id.len().min(64)).unwrap_or_default()),
            extent: (end_of_runs.max().unwrap_or(0))
                .max(end_of_sections.div_ceil(PAGE))
                .min(u64::from(NONE)),
            sections,
            symbols: (first_symbol, self.symbol_name.len()),
            pages,
        }
    }

    fn runs(&mut self, set: &PageSet) -> (usize, usize) {
        let first = self.run_first.len();
        let room = limits::RUNS.saturating_sub(first);
        for range in set.ranges().take(room) {
            let Some(start) = u32::try_from(range.first).ok().filter(|start| *start != NONE) else {
                break;
            };
            self.run_first.push(start);
            self.run_count.push(range.count);
        }
        (first, self.run_first.len())
    }
}
