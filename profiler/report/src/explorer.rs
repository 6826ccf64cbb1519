//! Writes the document of the page-fault explorer: all data that the page (`web::explorer`) shows, in one compressed
//! file.
//!
//! # Format
//!
//! Compressed with gzip: `NGMIPAGE`, version (u32), length of the header (u32), the header in JSON, then the columns,
//! each at a multiple of eight bytes. Numbers are little endian. In the header, `columns` lists `{name, type, count,
//! long}` in order, and `strings` holds every name once. Types:
//!
//! - `u8`, `u16`, `u32`: numbers; in `u32`, 2³² − 1 means none.
//! - `time`: u32 of ns or bytes; 2³² − 1 is unknown, 2³² − 2 is in `long`: `[[row, value], …]`.
//! - `delta`: the same, added to the previous row: times in ns since the recording's start.
//!
//! One row is:
//!
//! - `fault_*`: a fault, by its start: start, duration, thread, file, page, byte in the page, class, phase, flags (`FLAG`
//!   in `web/page/document.js`; the failure in the highest four bits), function, stack, the adjacent pages that it
//!   mapped, and pages read meanwhile.
//! - `wait_*`: a part of a fault's time: fault, kind (`waits` of the header), time.
//! - `request_*`: the part of a disk read in one file: start, duration, time in the queue, bytes, offset, device, file,
//!   thread, flags (1: within a fault, 2: read ahead).
//! - `cause_*`: a fault, and a request that it waited for.
//! - `read_*`: pages that entered the cache: start, file, first, count, thread, flags (1: within a fault).
//! - `node_*`: a function of a stack: parent (an earlier row), function, source, line.
//! - `function_*`: name, module, kind (0 the program's, 1 the kernel's, 2 missing).
//! - `symbol_*`, `run_*`: symbols and runs of pages; `files` of the header assigns rows to files.

mod container;
mod facts;
mod faults;
mod files;
mod limits;
pub mod path;
mod reads;
mod stacks;
mod strings;

use std::io;

use serde::Serialize;

pub use facts::Facts;

use super::export::ns;
use super::faults::phase::Phase;
use super::faults::tally::Folded;
use super::faults::{Selector, View};
use container::Container;
use fact::fault::{Failure, FaultClass};
use fact::{Recording, Tables, ThreadId};
use files::Files;
use stacks::Stacks;
use strings::Strings;

/// Facts about the recording itself.
#[derive(Debug, Serialize)]
struct About {
    command: String,
    ngmi: String,
    kernel: String,
    start_unix_ms: u64,
    duration_ns: u64,
    /// The number of events that were lost while recording; neither the log nor the profile has more detail.
    losses: u64,
    is_profile: bool,
}

/// Numbers of faults and their times.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
struct Totals {
    /// All faults in the input.
    in_input: u64,
    /// Faults that match the selection.
    selected: u64,
    /// Time of the selected faults, in ns.
    selected_ns: u64,
    /// Selected faults in the document.
    shown: u64,
    /// Selected faults beyond the document's capacity.
    left_out: u64,
    /// Time of the faults that are left out, in ns.
    left_out_ns: u64,
    /// Faults that the profile's budget aggregated and that have no row.
    folded: u64,
    /// Time of the folded faults, in ns.
    folded_ns: u64,
}

#[derive(Debug, Serialize)]
struct ThreadRow {
    tid: u32,
    name: u32,
    /// `None` if unknown.
    process: Option<u32>,
}

#[derive(Debug, Serialize)]
struct ProcessRow {
    pid: u32,
    name: u32,
}

/// The document's JSON header: everything except the columns.
#[derive(Debug, Serialize)]
struct Header<'a> {
    about: About,
    totals: Totals,
    /// If there are no faults, a sentence with the reason and the remedy.
    why_empty: Option<&'a str>,
    classes: Vec<&'static str>,
    phases: Vec<&'static str>,
    waits: [&'static str; 6],
    failures: [&'static str; 4],
    processes: Vec<ProcessRow>,
    threads: Vec<ThreadRow>,
    devices: Vec<u32>,
    files: Vec<files::FileRow>,
    columns: &'a [container::Described],
    /// All names; other fields and columns refer to them by index.
    strings: &'a [String],
}

/// Writes the compressed document of the selected faults. Disk reads and file pages cover the whole recording.
///
/// # Errors
/// If writing fails.
pub fn write(
    out: &mut dyn io::Write,
    view: &View<'_>,
    selector: &Selector,
    facts: &Facts,
    why_empty: Option<&str>,
) -> io::Result<()> {
    let tables = view.tables;
    let mut strings = Strings::default();
    let mut stacks = Stacks::new(tables, &view.functions, limits::NODES);
    let mut files = Files::default();
    let mut container = Container::default();
    let mut totals = totals(view, selector, &tables.recording);
    let shown = faults::columns(&mut container, view, selector, &mut stacks, &mut files, &mut strings);
    totals.shown = shown.count;
    totals.left_out = totals.selected.saturating_sub(shown.count);
    totals.left_out_ns = totals.selected_ns.saturating_sub(shown.time_ns);
    let requests = reads::columns(&mut container, tables, facts, &mut files);
    reads::causes(&mut container, facts, &shown, &requests);
    stacks.tree().add_to(&mut container);
    let files = files.rows(&mut container, view, &mut strings);
    let name = |strings: &mut Strings, name: &str| strings.id(name);
    let header = Header {
        about: about(tables, !view.knows_bss()),
        totals,
        why_empty,
        classes: FaultClass::ALL.map(FaultClass::name).to_vec(),
        phases: Phase::ALL.map(Phase::name).to_vec(),
        waits: faults::WAITS,
        failures: Failure::ALL.map(Failure::name),
        processes: (tables.processes.iter())
            .map(|process| ProcessRow {
                pid: process.pid,
                name: name(&mut strings, &process.name),
            })
            .collect(),
        threads: (tables.threads.iter())
            .map(|thread| ThreadRow {
                tid: thread.tid,
                name: name(&mut strings, &thread.name),
                process: (thread.process.index() < tables.processes.len()).then_some(thread.process.0),
            })
            .collect(),
        devices: (tables.devices.iter())
            .map(|device| name(&mut strings, &device.name))
            .collect(),
        files,
        columns: container.described(),
        strings: strings.all(),
    };
    container.write(out, &header)
}

fn totals(view: &View<'_>, selector: &Selector, recording: &Recording) -> Totals {
    let folded = Folded::of(recording);
    let mut totals = Totals {
        in_input: view.count(),
        folded: folded.faults,
        folded_ns: folded.time_ns,
        ..Totals::default()
    };
    for fault in view.faults().filter(|fault| selector.takes(view, fault)) {
        totals.selected = totals.selected.saturating_add(fault.count());
        totals.selected_ns = totals.selected_ns.saturating_add(ns(fault.total_time()));
    }
    totals
}

/// The index of a thread, or [`container::NONE`] if the tables do not contain it.
fn thread_id(tables: &Tables, thread: Option<ThreadId>) -> u32 {
    let there = thread.filter(|thread| thread.index() < tables.threads.len());
    there.map_or(container::NONE, |thread| thread.0)
}

fn about(tables: &Tables, is_profile: bool) -> About {
    let recording = &tables.recording;
    About {
        command: strings::cut(&recording.command.join(" ")),
        ngmi: strings::cut(&recording.ngmi_version),
        kernel: strings::cut(&recording.kernel),
        start_unix_ms: recording.start_unix_ms,
        duration_ns: ns(recording.end.since(recording.start)),
        losses: recording
            .losses
            .iter()
            .fold(0, |sum, (_, count)| sum.saturating_add(*count)),
        is_profile,
    }
}
