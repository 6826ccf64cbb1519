//! Unwind tables as data: the rows of one ELF file, as the user's half makes them and the privileged half loads them.
//!
//! [`crate::unwind::table`] compiles them; docs/unwinding.md tells the format and the rules.

mod bytes;
#[cfg(test)]
mod tests;

use profiler_common::unwind::{Arch, Cfa, Row, TABLE_PAGE};
use zerocopy::little_endian::U32;

pub use bytes::{MAX_ROWS, MAX_TABLE_PAGES, TableBytesError, VERSION};

/// SHA-256 of everything that a table is compiled from. A build id is a claim that any file can make.
pub type Digest = [u8; 32];

/// The rows of one ELF file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Whose rules the rows are.
    pub arch: Arch,
    /// Of everything that it was compiled from.
    pub source: Digest,
    /// The stated address (svma) of the first page, in pages of [`TABLE_PAGE`].
    pub first_page: u64,
    /// `pages[p]..pages[p + 1]` are the rows that begin in page `first_page + p`.
    pub pages: Vec<u32>,
    /// All rows, by address.
    pub rows: Vec<Row>,
    /// What they were made from.
    pub stats: Stats,
}

/// What a table was made from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Functions that unwind information was found for.
    pub functions: u32,
    /// Rows that say that a rule can't be held ([`Cfa::Unsupported`]).
    pub unsupported_rows: u32,
    /// Functions that lie, in part at least, where another one was already; that part is left out.
    pub overlapping: u32,
    /// Entries that could not be read, or not to their end.
    pub damaged: u32,
}

/// A [`Table`] in the bytes that hold it: checked once, and then used where they are.
#[derive(Debug, Clone, Copy)]
pub struct TableView<'b> {
    /// Whose rules the rows are.
    pub arch: Arch,
    /// As [`Table::source`].
    pub source: &'b Digest,
    /// As [`Table::first_page`].
    pub first_page: u64,
    /// As [`Table::pages`].
    pub pages: &'b [U32],
    /// As [`Table::rows`].
    pub rows: &'b [Row],
    /// What they were made from.
    pub stats: Stats,
}

impl Table {
    /// The row that covers the stated address `svma`; [`Cfa::None`] where there is nothing.
    pub fn lookup(&self, svma: u64) -> Row {
        lookup(self.first_page, &self.pages, |index| *index, &self.rows, svma)
    }

    /// The rows, each with the stated address that it begins at.
    pub fn rows_by_address(&self) -> impl Iterator<Item = (u64, Row)> {
        let pages = self.pages.array_windows::<2>().zip(self.first_page..);
        pages.flat_map(|([start, end], page)| {
            let rows = self.rows.get(*start as usize..*end as usize).unwrap_or_default();
            rows.iter()
                .map(move |row| (page.wrapping_mul(TABLE_PAGE).wrapping_add(u64::from(row.pc)), *row))
        })
    }

    /// Bytes in the kernel: pages and rows.
    pub fn size(&self) -> usize {
        size_of_val(self.pages.as_slice()) + size_of_val(self.rows.as_slice())
    }
}

impl TableView<'_> {
    /// The row that covers the stated address `svma`; [`Cfa::None`] where there is nothing.
    pub fn lookup(&self, svma: u64) -> Row {
        lookup(self.first_page, self.pages, |index| index.get(), self.rows, svma)
    }
}

/// Two steps, as in the kernel: the page, then a binary search of at most ten turns in its rows; before the first of them the row before holds.
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
