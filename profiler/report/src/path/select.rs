//! Which thread's path, and over which time span.

use super::facts::PathFacts;
use super::walk::Window;
use crate::functions::Functions;
use crate::lifetime::life;
use crate::select::{Names, SelectError, Selection, Span, Words, takes};
use crate::text::{duration, fit};
use base::addr::{Timestamp, ns};
use fact::{Tables, ThreadId};

/// Words for error messages; `ngmi waits` lists the threads.
const WORDS: Words = Words {
    subcommand: "waits",
    of: "waits",
};

/// There is no path for what was selected.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// A name matches nothing.
    #[error(transparent)]
    Name(#[from] SelectError),
    /// No thread is in all selected processes and threads.
    #[error("no thread matches both --process and --thread; `ngmi waits FILE` lists them")]
    NoThread,
    /// The thread did not live then.
    #[error("thread {thread} lived from {from} to {to}, not in the selected time range; select another time range")]
    Elsewhere {
        /// Its name and id.
        thread: String,
        /// Its birth, since the start of the recording.
        from: String,
        /// Its end.
        to: String,
    },
}

/// What a path is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chosen {
    /// The thread.
    pub thread: ThreadId,
    /// The part of its lifetime that is selected.
    pub window: Window,
    /// How many threads match.
    pub matching: usize,
}

/// The thread that matches; of several, the one that lived longest in the time span. By default, the command's first
/// thread, or the one that ran longest.
///
/// # Errors
/// If nothing matches, or the time span is empty.
pub fn choose(tables: &Tables, facts: &PathFacts, selection: &Selection) -> Result<Chosen, PathError> {
    let names = Names {
        words: WORDS,
        tables,
        functions: &Functions::default(),
    };
    let threads = names.threads(&selection.threads)?;
    let processes = names.processes(&selection.processes)?;
    let is_default = threads.is_none() && processes.is_none();
    let default = is_default.then(|| default_thread(tables, facts)).flatten();
    let all = (0..).map(ThreadId).zip(&tables.threads);
    let matching: Vec<ThreadId> = all
        .filter(|(id, thread)| match default {
            Some(default) => *id == default,
            None => {
                takes(threads.as_deref(), Some(id.index())) && takes(processes.as_deref(), Some(thread.process.index()))
            }
        })
        .map(|(id, _)| id)
        .collect();
    let span = Span::new(selection.from, selection.to);
    let (thread, _) = longest(tables, &matching, span).ok_or(PathError::NoThread)?;
    let chosen = of_thread(tables, thread, span)?;
    Ok(Chosen {
        matching: matching.len(),
        ..chosen
    })
}

/// The path of one thread in a time span.
///
/// # Errors
/// If the thread did not live then.
pub(crate) fn of_thread(tables: &Tables, thread: ThreadId, span: Span) -> Result<Chosen, PathError> {
    let window = window(tables, thread, span);
    if window.start >= window.end {
        return Err(elsewhere(tables, thread));
    }
    Ok(Chosen {
        thread,
        window,
        matching: 1,
    })
}

/// Which of the threads lived longest in a time range, and when.
pub(crate) fn longest(tables: &Tables, threads: &[ThreadId], span: Span) -> Option<(ThreadId, Window)> {
    let windows = threads.iter().map(|id| (*id, window(tables, *id, span)));
    // The first of several.
    windows.rev().max_by_key(|(_, window)| window.end.since(window.start))
}

/// The command's first thread, or the one that ran longest.
pub(crate) fn default_thread(tables: &Tables, facts: &PathFacts) -> Option<ThreadId> {
    let process = tables.command_process();
    let first = process.and_then(|process| tables.processes.get(process.index())?.main_thread);
    first.or_else(|| facts.busiest())
}

fn window(tables: &Tables, thread: ThreadId, span: Span) -> Window {
    let recording = &tables.recording;
    let since = |time| Timestamp(recording.start.0.saturating_add(ns(time)));
    let (born, end) = match tables.threads.get(thread.index()) {
        Some(thread) => life(recording, thread),
        None => (recording.start, recording.end),
    };
    Window {
        start: born.max(since(span.start())),
        end: span.end().map_or(end, |to| end.min(since(to))),
    }
}

fn elsewhere(tables: &Tables, id: ThreadId) -> PathError {
    let lived = window(tables, id, Span::default());
    let shown = |time: Timestamp| duration(ns(time.since(tables.recording.start)));
    let thread = tables.threads.get(id.index());
    PathError::Elsewhere {
        thread: thread.map_or_else(String::new, |thread| {
            format!("{} ({})", fit(&thread.name, 40), thread.tid)
        }),
        from: shown(lived.start),
        to: shown(lived.end),
    }
}
