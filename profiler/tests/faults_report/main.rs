//! `ngmi faults`: tables that add up, selections that partition the faults, and rows that any
//! program can read, despite hostile names.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

mod cgroups;
mod explorer;
mod notes;
mod phases;
mod rows;
mod subcommand;
mod synthetic;
mod tables;

use profiler::fact::{FactSource as _, Tables};
use profiler::report::faults::{Facts, FaultReport, Selection, Selector, View};
use synthetic::Made;

/// What the subcommand does with a source.
fn collected(made: &Made) -> (Tables, Facts) {
    let mut facts = Facts::default();
    let tables = made.clone().replay(&mut facts).unwrap();
    (tables, facts)
}

fn report(made: &Made, selection: &Selection) -> FaultReport {
    let (tables, facts) = collected(made);
    let view = View::new(&tables, &facts);
    FaultReport::new(&view, &Selector::new(&view, selection).unwrap())
}

/// The tables as a person sees them, without styles.
fn text(report: &FaultReport, top: usize) -> String {
    let mut out = Vec::new();
    report::faults::text::write(&mut out, report, top).unwrap();
    plain(out)
}

fn plain(styled: Vec<u8>) -> String {
    let mut text = String::from_utf8(styled).unwrap();
    for style in ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[33m"] {
        text = text.replace(style, "");
    }
    text
}
