//! Collects rows in address order: merges equal neighbours and splits pages.

use profiler_common::unwind::{Cfa, Row, TABLE_PAGE};

use super::TableError;
use base::table::{MAX_ROWS, MAX_TABLE_PAGES};

/// Rows so far.
pub(super) struct Rows {
    pub(super) first_page: u64,
    /// Index of each page's first row.
    pub(super) pages: Vec<u32>,
    pub(super) list: Vec<Row>,
    /// The rules at the current end.
    last: Row,
}

impl Rows {
    /// Creates an empty collector.
    pub(super) fn new() -> Self {
        Self {
            first_page: 0,
            pages: Vec::new(),
            list: Vec::new(),
            last: Row::plain(0, Cfa::None),
        }
    }

    /// Sets the rules of `row` from the stated address `svma` on. Addresses must ascend; others are
    /// ignored.
    ///
    /// # Errors
    /// A limit is exceeded.
    pub(super) fn push(&mut self, svma: u64, row: Row) -> Result<(), TableError> {
        let row = Row { pc: 0, ..row };
        if row == self.last {
            return Ok(());
        }
        let page = svma / TABLE_PAGE;
        let pc = u16::try_from(svma % TABLE_PAGE).unwrap_or_default();
        if self.pages.is_empty() {
            self.first_page = page;
        }
        let Some(index) = page.checked_sub(self.first_page) else {
            return Ok(());
        };
        let index = usize::try_from(index)
            .ok()
            .filter(|index| *index < MAX_TABLE_PAGES)
            .ok_or(TableError::TooWide)?;
        if index + 1 < self.pages.len() {
            return Ok(());
        }
        if self.pages.is_empty() {
            self.start_page();
            self.add(self.last)?;
        }
        while self.pages.len() <= index {
            self.start_page();
        }
        let first = self.pages[index] as usize;
        match self.list[first..].last_mut() {
            Some(before) if before.pc == pc => *before = Row { pc, ..row },
            Some(before) if before.pc > pc => return Ok(()),
            _ => self.add(Row { pc, ..row })?,
        }
        self.last = row;
        Ok(())
    }

    fn start_page(&mut self) {
        // There are at most MAX_ROWS rows.
        self.pages.push(u32::try_from(self.list.len()).unwrap_or(u32::MAX));
    }

    fn add(&mut self, row: Row) -> Result<(), TableError> {
        if self.list.len() >= MAX_ROWS {
            return Err(TableError::TooManyRows);
        }
        self.list.push(row);
        Ok(())
    }

    /// Whether there are no rows.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Ends the last page, and returns the rows.
    pub(super) fn finish(&mut self) {
        self.start_page();
    }
}

#[cfg(test)]
mod tests {
    use profiler_common::unwind::Fp;

    use super::*;

    fn sp(words: i16) -> Row {
        Row::new(0, Cfa::Sp, words, Fp::Same, 0, 1)
    }

    #[test]
    fn a_page_has_the_rows_that_begin_there() {
        let mut rows = Rows::new();
        let page = |number: u64| number * TABLE_PAGE;
        for (svma, row) in [
            (page(1) + 0x10, sp(1)),
            (page(1) + 0x20, sp(1)),
            (page(1) + 0x30, sp(2)),
            (page(4), sp(3)),
            (page(4), sp(4)),
            (page(4) + 8, Row::plain(0, Cfa::None)),
        ] {
            rows.push(svma, row).unwrap();
        }
        rows.finish();
        assert_eq!(rows.first_page, 1);
        assert_eq!(rows.pages, [0, 3, 3, 3, 5]);
        let pcs: Vec<(u16, i16)> = rows.list.iter().map(|row| (row.pc, row.cfa_offset)).collect();
        assert_eq!(pcs, [(0, 0), (0x10, 1), (0x30, 2), (0, 4), (8, 0)]);
    }

    #[test]
    fn descending_addresses_are_omitted() {
        let mut rows = Rows::new();
        rows.push(2 * TABLE_PAGE + 16, sp(1)).unwrap();
        rows.push(2 * TABLE_PAGE + 8, sp(2)).unwrap();
        rows.push(2 * TABLE_PAGE - 8, sp(2)).unwrap();
        assert_eq!(rows.list.len(), 2);
        assert!(matches!(rows.push(u64::MAX, sp(2)), Err(TableError::TooWide)));
    }
}
