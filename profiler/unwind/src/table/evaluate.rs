//! Evaluates the instructions of functions one after another, and collects their rows.

use gimli::{UnwindContext, UnwindSection};
use profiler_common::unwind::{Arch, Cfa, Row};

use super::entries::{Entries, Fde};
use super::functions::Function;
use super::rows::Rows;
use super::rules::Translator;
use super::stubs::Stubs;
use super::{MAX_WORK, Slice, TableError};
use base::table::{Digest, Stats, Table};

/// State of the compilation.
pub(super) struct Compiler {
    arch: Arch,
    context: UnwindContext<usize>,
    pub(super) rows: Rows,
    pub(super) stats: Stats,
    work: usize,
}

impl Compiler {
    pub(super) fn new(arch: Arch) -> Self {
        Self {
            arch,
            context: UnwindContext::new(),
            rows: Rows::new(),
            stats: Stats::default(),
            work: 0,
        }
    }

    /// Adds the rows of a function, or of the part that no other function covers.
    ///
    /// # Errors
    /// A limit is exceeded.
    pub(super) fn function<'b, S: UnwindSection<Slice<'b>>>(
        &mut self,
        entries: &mut Entries<'b, S>,
        part: Function,
    ) -> Result<(), TableError> {
        let Some(fde) = entries.fde(part.offset) else {
            return self.damaged(part.start);
        };
        self.work = self
            .work
            .saturating_add(fde.entry_len())
            .saturating_add(fde.cie().entry_len());
        if self.work > MAX_WORK {
            return Err(TableError::TooMuchWork);
        }
        self.rows_of(entries, &fde, part)
    }

    fn rows_of<'b, S: UnwindSection<Slice<'b>>>(
        &mut self,
        entries: &Entries<'b, S>,
        fde: &Fde<'b>,
        part: Function,
    ) -> Result<(), TableError> {
        let translator = Translator {
            arch: self.arch,
            section: &entries.section,
            encoding: fde.cie().encoding(),
            is_signal_frame: fde.is_signal_trampoline(),
        };
        let Ok(mut table) = fde.rows(&entries.section, entries.bases, &mut self.context) else {
            return self.damaged(part.start);
        };
        let mut done = part.start;
        loop {
            match table.next_row() {
                Ok(Some(row)) => {
                    let (start, end) = (row.start_address().max(part.start), row.end_address().min(part.end));
                    if start < end {
                        self.rows.push(start, translator.row(row))?;
                        done = end;
                    }
                }
                // A length that overflows ends before its start.
                Ok(None) | Err(_) if done < part.end => return self.damaged(done),
                Ok(None) | Err(_) => return Ok(()),
            }
        }
    }

    /// Adds the rows of a section of stubs.
    ///
    /// # Errors
    /// A limit is exceeded.
    pub(super) fn stubs(&mut self, stubs: Option<&Stubs>, part: Function) -> Result<(), TableError> {
        for (byte, row) in stubs.into_iter().flat_map(|stubs| &stubs.rows) {
            let svma = part.start.saturating_add(*byte);
            if svma < part.end {
                self.rows.push(svma, *row)?;
            }
        }
        Ok(())
    }

    /// From here to the end of the function, the rules are unknown.
    fn damaged(&mut self, svma: u64) -> Result<(), TableError> {
        self.stats.damaged = self.stats.damaged.saturating_add(1);
        self.rows.push(svma, Row::plain(0, Cfa::Unsupported))
    }

    /// Returns the table.
    pub(super) fn finish(mut self, source: Digest) -> Table {
        self.rows.finish();
        let unsupported = Row::plain(0, Cfa::Unsupported).rules;
        let count = self.rows.list.iter().filter(|row| row.rules == unsupported).count();
        self.stats.unsupported_rows = u32::try_from(count).unwrap_or(u32::MAX);
        Table {
            arch: self.arch,
            source,
            first_page: self.rows.first_page,
            pages: self.rows.pages,
            rows: self.rows.list,
            stats: self.stats,
        }
    }
}
