//! The explorer's critical paths: each is computed when the page requests it, and sent as JSON.
//!
//! # Format
//!
//! `why_empty` is null, or a sentence: then there is nothing else. Names are indices into `strings`, threads of pieces
//! indices into `threads`, and `reasons` has the names of reasons. In `columns`, as in the [document](super), `node_*`
//! and `function_*` are the stacks; null is a missing reference. One row is:
//!
//! - `piece_*`: a piece of the path, by time; each begins where the one before ends, the first at `start_ns`: duration in
//!   ns, thread on the path (`lane`), thread that would have had to be faster (`thread`), reason, the reason of the wait
//!   that led there (`via`), function, file, device, part, stack, tid of what ended a wait that is not replaced
//!   (`waker`), and how many pieces it stands for (`count`): more than one if there were too many, then the rest is about
//!   the longest of them.
//! - `part_*`: thread, reason and place: what the first table has a row for.

mod columns;
mod merge;
mod rows;

use serde::Serialize;

use super::limits;
use super::strings::Strings;
use crate::lookup::Lookup as _;
use crate::path::lanes::Lanes;
use crate::path::select::{default_thread, of_thread};
use crate::path::walk::Kind;
use crate::path::{PathFacts, PathReport, PathView};
use crate::select::Span;
use columns::Columns;
use fact::{Tables, ThreadId};
use profiler_common::Loss;
use rows::TableRows;

/// Whose path over which time a page requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathRequest {
    /// The thread, as [`ThreadRow::number`] has it; `None`: the command's first, or the one that ran longest.
    pub thread: Option<u32>,
    /// From this time on, in ns since the start of the recording; `None`: from the thread's start.
    pub from_ns: Option<u64>,
    /// Up to this time; `None`: to the thread's end.
    pub to_ns: Option<u64>,
}

/// What the paths of a recording are followed through.
#[derive(Debug)]
pub struct PathSource {
    tables: Tables,
    lanes: Lanes,
    default: Option<ThreadId>,
    choices: Vec<(ThreadId, u64, usize)>,
    left_out: u64,
}

/// A thread of the answer.
#[derive(Debug, Serialize)]
struct ThreadRow {
    /// What a request names it by; ids of threads are used again.
    number: u32,
    pid: u32,
    tid: u32,
    name: u32,
    process: u32,
}

/// A thread that can be chosen.
#[derive(Debug, Serialize)]
struct Choice {
    #[serde(flatten)]
    thread: ThreadRow,
    cpu_ns: u64,
    waits: usize,
}

#[derive(Debug, Serialize)]
struct Empty<'a> {
    why_empty: &'a str,
}

#[derive(Debug, Serialize)]
struct Answer<'a> {
    why_empty: Option<&'a str>,
    /// The thread that the path is of.
    thread: ThreadRow,
    start_ns: u64,
    end_ns: u64,
    /// When the thread began and ended, as far as it was recorded.
    born_ns: u64,
    ended_ns: u64,
    /// All pieces, before some are merged.
    pieces: u64,
    /// Waits, samples and requests beyond the memory limit.
    left_out: u64,
    /// Waits that the profile has only as sums.
    folded: u64,
    /// Switches that the kernel did not show.
    missed: u64,
    reasons: Vec<&'static str>,
    threads: Vec<ThreadRow>,
    choices: Vec<Choice>,
    /// Threads that can't be chosen, since there are too many.
    other_choices: usize,
    tables: Vec<TableRows>,
    columns: Columns,
    strings: &'a [String],
}

impl PathSource {
    /// Prepares the paths of a recording. `None`: it contains no waits.
    pub fn new(tables: Tables, facts: PathFacts) -> Option<Self> {
        if facts.is_empty() {
            return None;
        }
        let default = default_thread(&tables, &facts);
        let mut choices: Vec<_> = facts
            .threads()
            .filter(|(_, cpu, waits)| *cpu > 0 || *waits > 0)
            .collect();
        choices.sort_by_key(|(id, cpu, waits)| (Some(*id) != default, std::cmp::Reverse((*cpu, *waits)), *id));
        let left_out = facts.left_out();
        let lanes = facts.lanes(&tables);
        Some(Self {
            tables,
            lanes,
            default,
            choices,
            left_out,
        })
    }

    /// The answer to a request. Where there is no path, it contains the reason.
    ///
    /// # Errors
    /// If a number can't be written; none that the recording causes.
    pub fn answer(&self, request: &PathRequest) -> serde_json::Result<Vec<u8>> {
        let number = request.thread.map(ThreadId).or(self.default);
        let Some(thread) = number.filter(|id| id.index() < self.tables.threads.len()) else {
            return empty("This recording has no such thread; choose another one.");
        };
        let time = |ns: Option<u64>| ns.map(std::time::Duration::from_nanos);
        let chosen = of_thread(
            &self.tables,
            thread,
            Span::new(time(request.from_ns), time(request.to_ns)),
        );
        match chosen {
            Ok(chosen) => self.path(&PathView::of_lanes(&self.tables, &self.lanes, chosen)),
            Err(error) => empty(&format!("No path: {error}.")),
        }
    }

    fn path(&self, view: &PathView<'_>) -> serde_json::Result<Vec<u8>> {
        let tables = &self.tables;
        let recording = &tables.recording;
        let mut strings = Strings::limited(limits::PATH_STRINGS, limits::PATH_STRING, limits::PATH_TEXT);
        let (columns, threads) = columns::of(view, &mut strings);
        let report = PathReport::new(view);
        let choices = self.choices.iter().take(limits::CHOICES);
        let choices = choices.map(|(id, cpu, waits)| Choice {
            thread: thread_row(tables, *id, &mut strings),
            cpu_ns: *cpu,
            waits: *waits,
        });
        let choices = choices.collect();
        let window = view.chosen.window;
        let lifetime = of_thread(tables, view.chosen.thread, Span::default()).map_or(window, |chosen| chosen.window);
        let answer = Answer {
            why_empty: None,
            thread: thread_row(tables, view.chosen.thread, &mut strings),
            start_ns: tables.time_ns(window.start),
            end_ns: tables.time_ns(window.end),
            born_ns: tables.time_ns(lifetime.start),
            ended_ns: tables.time_ns(lifetime.end),
            pieces: report.totals.pieces,
            left_out: self.left_out,
            folded: recording
                .folded_waits
                .iter()
                .fold(0, |sum, waits| sum.saturating_add(waits.waits)),
            missed: recording.lost(Loss::SwitchMissed).unwrap_or(0),
            reasons: Kind::all().map(Kind::name).collect(),
            threads: threads
                .into_iter()
                .map(|id| thread_row(tables, id, &mut strings))
                .collect(),
            choices,
            other_choices: self.choices.len().saturating_sub(limits::CHOICES),
            tables: rows::of(&report, &mut strings),
            columns,
            strings: strings.all(),
        };
        serde_json::to_vec(&answer)
    }
}

/// An answer without a path.
///
/// # Errors
/// None that the text causes.
pub fn empty(why: &str) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Empty { why_empty: why })
}

fn thread_row(tables: &Tables, id: ThreadId, strings: &mut Strings) -> ThreadRow {
    let (thread, process) = (tables.thread(id), tables.process(id));
    ThreadRow {
        number: id.0,
        pid: process.map_or(0, |process| process.pid),
        tid: thread.map_or(0, |thread| thread.tid),
        name: strings.id(thread.map_or("(unknown)", |thread| thread.name.as_str())),
        process: strings.id(process.map_or("(unknown)", |process| process.name.as_str())),
    }
}
