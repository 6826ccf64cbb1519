//! Functions and inline chains of Go programs without symbols or DWARF.

use std::cell::OnceCell;

use super::SourceFrame;
use super::frames::NAMELESS_INLINED;
use crate::elf::ElfFile;
use crate::gopclntab::{GoFrame, GoFunction, GoTable};

/// The table of a file, read when it is first needed.
pub(super) struct Go<'elf> {
    elf: &'elf ElfFile,
    table: OnceCell<Option<GoTable>>,
}

impl<'elf> Go<'elf> {
    pub(super) fn of(elf: &'elf ElfFile) -> Self {
        Self {
            elf,
            table: OnceCell::new(),
        }
    }

    /// The function at `svma`.
    pub(super) fn function(&self, svma: u64) -> Option<GoFunction> {
        self.table()?.function(svma)
    }

    /// The last function that starts at or before `svma`.
    pub(super) fn last_before(&self, svma: u64) -> Option<GoFunction> {
        self.table()?.last_before(svma)
    }

    /// The functions at `svma`, innermost first; empty if unknown. The outermost one starts at `start` and is called
    /// `symbol`.
    pub(super) fn frames(&self, svma: u64, start: u64, symbol: &str) -> Vec<SourceFrame> {
        let Some((table, function)) = self.table().and_then(|table| Some((table, table.function(svma)?))) else {
            return Vec::new();
        };
        if function.range.start != start {
            return Vec::new();
        }
        let mut frames = table.frames(svma, &function);
        if let Some(outermost) = frames.last_mut() {
            outermost.name = Some(symbol.to_owned());
        }
        let source_frame = |frame: GoFrame| SourceFrame {
            function: frame.name.unwrap_or_else(|| NAMELESS_INLINED.to_owned()),
            file: frame.file,
            line: frame.line,
        };
        frames.into_iter().map(source_frame).collect()
    }

    fn table(&self) -> Option<&GoTable> {
        self.table.get_or_init(|| GoTable::of(self.elf)).as_ref()
    }
}
