//! The classic report: every fault on a page of a file, by time. Only the function may exceed 80 columns.

use std::io::{self, Write};

use super::select::Selector;
use super::view::View;
use crate::export::ns;
use crate::text::{duration, escaped, fit, padded};
use fact::{FaultFact, short_path};

/// Width of the file column, which is shown if there are several files.
const FILE: usize = 20;

/// Writes a line per fault, in ANSI styles.
///
/// # Errors
/// If writing fails.
pub fn write(out: &mut dyn Write, view: &View<'_>, selector: &Selector) -> io::Result<()> {
    let bold = anstyle::Style::new().bold();
    let of_files = || {
        let selected = view.faults().filter(|fault| selector.takes(view, fault));
        selected.filter_map(|fault| Some((fault, fault.place?)))
    };
    let mut files = of_files().map(|(_, place)| place.file);
    let first = files.next();
    let several = files.any(|file| Some(file) != first);
    if first.is_none() {
        return writeln!(out, "no selected fault is on a page of a file");
    }
    let file = if several { column("file", FILE) } else { String::new() };
    writeln!(
        out,
        "{bold}{:>12} {file}{:>10} {:<14} {:<12} {:>8} function{bold:#}",
        "time [s]", "offset", "section", "class", "latency"
    )?;
    for (fault, place) in of_files() {
        let file = match view.file(place) {
            Some(file) if several => column(short_path(&file.path), FILE),
            _ => String::new(),
        };
        writeln!(
            out,
            "{} {file}{}",
            time(view.time_ns(&fault)),
            rest(view, &fault, place.offset.0)
        )?;
    }
    Ok(())
}

fn rest(view: &View<'_>, fault: &FaultFact, offset: u64) -> String {
    let latency = fault
        .latency
        .map_or_else(|| "-".to_owned(), |_| duration(ns(fault.time())));
    let function = view
        .function_name(fault)
        .map_or_else(|| "-".to_owned(), |name| escaped(name.as_bytes()));
    let section = column(view.section(fault).unwrap_or("-"), 14);
    format!(
        "{offset:>10x} {section}{:<12} {latency:>8} {function}",
        fault.class.name()
    )
}

/// Formats a time as seconds with microseconds.
fn time(ns: u64) -> String {
    let us = ns / 1000;
    format!("{:>5}.{:06}", us / 1_000_000, us % 1_000_000)
}

/// Pads or cuts an untrusted name to a column of `width`, followed by a space.
fn column(name: &str, width: usize) -> String {
    padded(&fit(name, width), width + 1)
}
