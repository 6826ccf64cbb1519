//! Unwind tables as data: the rows of one ELF file, compiled by the recorder and loaded by the
//! privileged helper.
//!
//! `unwind::table` compiles them; docs/unwinding.md describes the format and the rules.

mod bytes;
#[cfg(test)]
mod tests;

use profiler_common::unwind::{Arch, Cfa, Row, TABLE_PAGE};
use zerocopy::little_endian::U32;

pub use bytes::{MAX_ROWS, MAX_TABLE_PAGES, TableBytesError, VERSION};

/// SHA-256 of all input of the compiler. A build id is not sufficient: any file can claim one.
pub type Digest = [u8; 32];

/// The rows of one ELF file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The processor of the rules.
    pub arch: Arch,
    /// Hash of the input that it was compiled from.
    pub source: Digest,
    /// The stated address (svma) of the first page, in pages of [`TABLE_PAGE`].
    pub first_page: u64,
    /// `pages[p]..pages[p + 1]` is the range of rows that begin in page `first_page + p`.
    pub pages: Vec<u32>,
    /// All rows, sorted by address.
    pub rows: Vec<Row>,
    /// Statistics of the input.
    pub stats: Stats,
}

/// Statistics of the compiler's input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Functions with unwind information.
    pub functions: u32,
    /// Rows for rules that can't be represented ([`Cfa::Unsupported`]).
    pub unsupported_rows: u32,
    /// Functions that overlap an earlier one; the overlapping part is omitted.
    pub overlapping: u32,
    /// Entries that could not be read completely.
    pub damaged: u32,
}

/// A [`Table`] within its serialized bytes: checked once, and then used in place.
#[derive(Debug, Clone, Copy)]
pub struct TableView<'b> {
    /// The processor of the rules.
    pub arch: Arch,
    /// See [`Table::source`].
    pub source: &'b Digest,
    /// See [`Table::first_page`].
    pub first_page: u64,
    /// See [`Table::pages`].
    pub pages: &'b [U32],
    /// See [`Table::rows`].
    pub rows: &'b [Row],
    /// Statistics of the input.
    pub stats: Stats,
}

impl Table {
    /// The row that covers the stated address `svma`; [`Cfa::None`] if there is none.
    pub fn lookup(&self, svma: u64) -> Row {
        lookup(self.first_page, &self.pages, |index| *index, &self.rows, svma)
    }

    /// The rows, each with the stated address at which it begins.
    pub fn rows_by_address(&self) -> impl Iterator<Item = (u64, Row)> {
        let pages = self.pages.array_windows::<2>().zip(self.first_page..);
        pages.flat_map(|([start, end], page)| {
            let rows = self.rows.get(*start as usize..*end as usize).unwrap_or_default();
            rows.iter()
                .map(move |row| (page.wrapping_mul(TABLE_PAGE).wrapping_add(u64::from(row.pc)), *row))
        })
    }

    /// Size in the kernel in bytes: pages and rows.
    pub fn size(&self) -> usize {
        size_of_val(self.pages.as_slice()) + size_of_val(self.rows.as_slice())
    }
}

impl TableView<'_> {
    /// The row that covers the stated address `svma`; [`Cfa::None`] if there is none.
    pub fn lookup(&self, svma: u64) -> Row {
        lookup(self.first_page, self.pages, |index| index.get(), self.rows, svma)
    }
}

/// Two steps, as in the eBPF program: the page, then a binary search of at most ten iterations in
/// its rows; before the first row, the previous page's last row applies.
fn lookup<I>(first_page: u64, pages: &[I], number: impl Fn(&I) -> u32, rows: &[Row], svma: u64) -> Row {
    let pc = u16::try_from(svma % TABLE_PAGE).unwrap_or_default();
    let found = || {
        let page = usize::try_from((svma / TABLE_PAGE).checked_sub(first_page)?).ok()?;
        let (start, end) = (pages.get(page)?, pages.get(page.checked_add(1)?)?);
        let (start, end) = (number(start) as usize, number(end) as usize);
        let before = rows.get(start..end)?.partition_point(|row| row.pc <= pc);
        rows[..start + before].last().copied()
    };
    found().unwrap_or(Row::plain(pc, Cfa::None))
}
