//! The merge of one file: process by process, thread by thread.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::Value;

use super::clock::Clock;
use super::convert::Converter;
use super::raw::{RawProcess, RawThread};
use super::rows::ThreadRows;
use super::schema::Schemas;
use super::text::Tool;
use super::threads::{self, Recorded, Threads};
use super::{GeckoError, Merged, counters, limits, pages};
use fact::gecko::{GeckoCategory, GeckoTables};
use fact::{FactSink, Mark, MarkKind, Tables, ThreadId};
use rustc_hash::FxHashSet;

/// Colors of categories that the front end knows.
const COLORS: [&str; 14] = [
    "transparent",
    "lightblue",
    "red",
    "lightred",
    "orange",
    "blue",
    "green",
    "purple",
    "yellow",
    "brown",
    "magenta",
    "lightgreen",
    "grey",
    "darkgray",
];
/// Names of categories of ours: the front end treats one of them by its name.
const OWN: [&str; 3] = ["Idle", "Other", "User"];

/// A merge under way.
pub struct Merge {
    /// The result.
    pub merged: Merged,
    /// The recorded threads.
    pub threads: Threads,
    /// What the markers refer to.
    pub gecko: GeckoTables,
    /// Types of payloads.
    pub schemas: Schemas,
    /// Our numbers of categories, by name.
    categories: FxHashMap<String, u16>,
    /// The markers.
    pub marks: Vec<Mark>,
    /// Number of markers that had not ended when the browser wrote them: they get the recording's end.
    pub unended: usize,
    /// Names of markers of a trace.
    pub texts: FxHashMap<String, Arc<str>>,
    /// Threads that have markers, with the names that the browser gave them.
    pub names: Vec<(ThreadId, Option<String>)>,
    seen_threads: usize,
    /// Bytes of pictures.
    images: usize,
    /// Bytes of payloads.
    pub payloads: usize,
}

impl Merge {
    /// For the threads of a recording.
    pub fn new(tables: &Tables) -> Self {
        Self::for_threads(Threads::Known(Recorded::new(tables)))
    }

    /// For these threads.
    pub fn for_threads(threads: Threads) -> Self {
        Self {
            merged: Merged::default(),
            threads,
            gecko: GeckoTables {
                // Of markers whose category does not exist.
                categories: vec![category("Other", "grey", Tool::Firefox)],
                ..GeckoTables::default()
            },
            schemas: Schemas::default(),
            categories: FxHashMap::default(),
            marks: Vec::new(),
            unended: 0,
            texts: FxHashMap::default(),
            names: Vec::new(),
            seen_threads: 0,
            images: 0,
            payloads: 0,
        }
    }

    /// Reads a process and its child processes, which have no children of their own.
    pub fn all(&mut self, top: &RawProcess<'_>, tables: &Tables) {
        self.process(top, tables);
        for child in top.processes.iter().take(limits::PROCESSES) {
            match serde_json::from_str::<RawProcess<'_>>(child.get()) {
                Ok(child) => self.process(&child, tables),
                Err(_) => self.merged.left.damaged += 1,
            }
        }
        self.merged.left.damaged += top.processes.len().saturating_sub(limits::PROCESSES) as u64;
    }

    fn process(&mut self, process: &RawProcess<'_>, tables: &Tables) {
        let meta = process.meta();
        let Some(clock) = Clock::new(&meta, &tables.recording) else {
            self.merged.left.damaged += 1;
            return;
        };
        self.merged.processes += 1;
        self.merged.is_estimate |= clock.is_estimate;
        self.schemas.add(&meta, &mut self.gecko);
        let categories = self.categories_of(&meta);
        pages::add(&process.pages(), &mut self.gecko.pages);
        self.counters_of(process, &clock, tables);
        let shared = process.strings();
        for raw in &process.threads {
            self.seen_threads += 1;
            let thread = serde_json::from_str::<RawThread<'_>>(raw.get()).ok();
            let thread = thread.filter(|thread| thread.markers.has_phases() && self.seen_threads <= limits::THREADS);
            let Some(thread) = thread else {
                self.merged.left.damaged += 1;
                continue;
            };
            let strings = if thread.strings.is_empty() {
                &shared
            } else {
                &thread.strings
            };
            let before = self.marks.len();
            let rows = ThreadRows {
                raw: &thread,
                strings,
                categories: &categories,
                threads: &self.threads,
                recording: &tables.recording,
                convert: Converter {
                    schemas: &mut self.schemas,
                    tables: &mut self.gecko,
                    left: &mut self.merged.left,
                    clock,
                    images: &mut self.images,
                    payloads: &mut self.payloads,
                },
                marks: &mut self.marks,
                unended: &mut self.unended,
            };
            let found = rows.read().filter(|_| self.marks.len() > before);
            self.names
                .extend(found.map(|id| (id, thread.name().map(str::to_owned))));
        }
    }

    fn counters_of(&mut self, process: &RawProcess<'_>, clock: &Clock, tables: &Tables) {
        let counters = process.counters();
        if counters.is_empty() {
            return;
        }
        let mut threads = process.threads.iter();
        let pid = threads.find_map(|raw| serde_json::from_str::<RawThread<'_>>(raw.get()).ok()?.pid());
        let start = clock.at(0.0).unwrap_or(tables.recording.start);
        let main = pid.and_then(|pid| self.threads.find(pid, pid, start));
        let process = main.and_then(|main| self.threads.process_of(main, tables));
        for raw in counters {
            let room = self.gecko.counters.len() < limits::COUNTERS;
            let process = process.filter(|_| room);
            match process.map(|process| counters::read(raw, process, clock, &tables.recording)) {
                Some(Ok(counter)) => self.gecko.counters.extend(counter),
                _ => self.merged.left.counters += 1,
            }
        }
    }

    /// Our number of each category of a process.
    fn categories_of(&mut self, meta: &Value) -> Vec<u16> {
        let categories = meta["categories"].as_array().into_iter().flatten();
        let mut numbers = Vec::new();
        for raw in categories.take(limits::CATEGORIES) {
            let name = limits::short(raw["name"].as_str().unwrap_or("Other"), limits::NAME);
            numbers.push(self.category(name, raw["color"].as_str().unwrap_or_default()));
        }
        numbers
    }

    /// Our number of a category.
    pub fn category(&mut self, name: &str, color: &str) -> u16 {
        let name = limits::short(name, limits::NAME);
        self.categories.get(name).copied().unwrap_or_else(|| {
            let number = u16::try_from(self.gecko.categories.len()).unwrap_or(0);
            if usize::from(number) >= limits::CATEGORIES {
                return 0;
            }
            let category = category(name, color, self.merged.tool);
            self.gecko.categories.push(category);
            self.categories.insert(name.to_owned(), number);
            number
        })
    }

    /// Before anything is read: the program that wrote the file.
    pub fn use_tool(&mut self, tool: Tool) {
        self.merged.tool = tool;
        self.gecko.categories = vec![category("Other", "grey", tool)];
    }

    /// Passes the markers on, by time.
    pub fn finish(mut self, tables: &mut Tables, sink: &mut dyn FactSink) -> Result<Merged, GeckoError> {
        if self.marks.is_empty() {
            let (tool, left) = (self.merged.tool, &self.merged.left);
            return Err(match left.unrecorded.saturating_add(left.outside) {
                0 if self.merged.is_cut => GeckoError::Cut(tool),
                0 => GeckoError::Empty(tool),
                others => GeckoError::Other(tool, others),
            });
        }
        self.marks.sort_by_key(|mark| mark.start);
        self.merged.markers = self.marks.len() as u64;
        for mark in &self.marks {
            let MarkKind::Gecko(mark) = &mark.kind else { continue };
            self.merged.screenshots += u64::from(mark.image.is_some());
            if !self.merged.kinds.contains(&*mark.name) {
                self.merged.kinds.insert(mark.name.to_string());
            }
        }
        let threads: FxHashSet<ThreadId> = self.names.iter().map(|(id, _)| *id).collect();
        self.merged.threads = threads.len() as u64;
        self.merged.counters = self.gecko.counters.len() as u64;
        pages::root(&mut self.gecko.pages);
        tables.recording.gecko = Some(Box::new(self.gecko));
        for (id, name) in self.names {
            if let Some(name) = name {
                threads::rename(tables, id, &name, self.merged.tool);
            }
        }
        self.marks.iter().for_each(|mark| sink.mark(tables, mark));
        Ok(self.merged)
    }
}

fn category(name: &str, color: &str, tool: Tool) -> GeckoCategory {
    GeckoCategory {
        name: if OWN.contains(&name) {
            format!("{name} ({tool})")
        } else {
            name.to_owned()
        },
        color: if COLORS.contains(&color) { color } else { "grey" }.to_owned(),
    }
}
