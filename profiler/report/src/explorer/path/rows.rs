//! The tables of `ngmi path` for the page.

use serde::Serialize;

use crate::explorer::limits;
use crate::explorer::strings::Strings;
use crate::grid::GroupRow;
use crate::path::PathReport;
use crate::path::tally::PathTally;

/// The first rows of a table.
#[derive(Debug, Serialize)]
pub struct TableRows {
    key: &'static str,
    title: &'static str,
    rows: Vec<Row>,
    /// Rows that are not here, and their time.
    others: usize,
    others_ns: u64,
}

/// A row; names are indices of strings, and null where the row is not about them.
#[derive(Debug, Serialize)]
struct Row {
    name: u32,
    #[serde(flatten)]
    tally: PathTally,
    pid: Option<u64>,
    tid: Option<u64>,
    reason: Option<u32>,
    via: Option<u32>,
    function: Option<u32>,
    file: Option<u32>,
    device: Option<u32>,
}

/// The tables of a report.
pub fn of(report: &PathReport, strings: &mut Strings) -> Vec<TableRows> {
    let tables = report.tables.0.iter();
    let table = tables.map(|table| {
        let (shown, others) = table.rows.split_at(limits::PATH_ROWS.min(table.rows.len()));
        TableRows {
            key: table.key,
            title: table.title,
            rows: shown.iter().map(|found| row(found, strings)).collect(),
            others: others.len(),
            others_ns: others.iter().map(|row| row.tally.time_ns).fold(0, u64::saturating_add),
        }
    });
    table.collect()
}

fn row(row: &GroupRow<PathTally>, strings: &mut Strings) -> Row {
    let mut text = |key| row.text(key).map(|text| strings.id(text));
    let (reason, via) = (text("reason"), text("via"));
    let (function, file, device) = (text("function"), text("file"), text("device"));
    Row {
        name: strings.id(&row.title()),
        tally: row.tally,
        pid: row.number("pid"),
        tid: row.number("tid"),
        reason,
        via,
        function,
        file,
        device,
    }
}
