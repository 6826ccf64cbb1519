//! Columns of the rows of memory that a recording knows of: one row per process, file and section.

use super::known::KnownRow;
use crate::export::columns;

columns! {
    /// The cells of a row, in the order of [`COLUMNS`].
    pub fn cells<'r>(row: &'r KnownRow);
    "pid": Number = row.pid;
    "process": Text = row.process.as_deref();
    "file": Text = row.file.as_str();
    "section": Text = row.section.as_deref();
    "touched_bytes": Number = row.touched_bytes;
    "written_bytes": Number = row.written_bytes;
    "touched_by": Text = row.functions.first().and_then(|first| first.function);
    "touched_by_bytes": Number = row.functions.first().map(|first| first.bytes);
}
