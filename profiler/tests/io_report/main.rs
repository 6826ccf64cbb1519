//! `ngmi io`: tables that add up, devices with their own counters, selections, and rows that any
//! program can read.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

mod subcommand;
mod synthetic;
mod tables;

use profiler::fact::{FactSource as _, Tables};
use profiler::report::io::{Facts, IoReport, Selection, Selector, View};
use synthetic::Made;

/// What the subcommand does with a source.
fn collected(made: &Made) -> (Tables, Facts) {
    let mut facts = Facts::default();
    let tables = made.clone().replay(&mut facts).unwrap();
    (tables, facts)
}

fn report(made: &Made, selection: &Selection) -> IoReport {
    let (tables, facts) = collected(made);
    let view = View::new(&tables, &facts);
    IoReport::new(&view, &Selector::new(&view, selection).unwrap())
}

/// The tables as a person sees them, without styles.
fn text(report: &IoReport, top: usize) -> String {
    let mut out = Vec::new();
    report::io::text::write(&mut out, report, top).unwrap();
    let mut text = String::from_utf8(out).unwrap();
    for style in ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[33m"] {
        text = text.replace(style, "");
    }
    text
}
