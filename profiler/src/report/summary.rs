//! The end of a recording in at most ten lines: the answer first, then how far it can be trusted.

mod cost;
mod faults;
mod stacks;
mod waits;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt;

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::text::{bytes, columns, count, duration, fit, percent};
use crate::addr::ns;
use crate::fact::budget::Collected;
use crate::fact::{FactSink, FrameId, Mark, ModuleId, SampleFact, Tables, ThreadId};

pub use cost::CostSummary;
pub use faults::FaultSummary;
pub use stacks::StackSummary;
pub use waits::WaitSummary;

/// Lines of the printed summary.
const LINES: usize = 10;
/// Hottest functions that are told.
const HOTTEST: usize = 3;
/// Columns of the printed summary.
const WIDTH: usize = 80;

/// A finished recording in figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The command's main thread, or the busiest thread if no command was run.
    pub main_thread: Option<MainThread>,
    /// Where that thread's time off CPUs went; `None`: waits were not watched.
    pub waits: Option<WaitSummary>,
    /// Functions with the most samples of their own.
    pub hottest: Vec<HotFunction>,
    /// Samples taken.
    pub samples: u64,
    /// Samples whose stack is in no call tree because there is none.
    pub samples_without_stack: u64,
    /// On-CPU time of all threads, in ns.
    pub cpu_time_ns: u64,
    /// Processes with at least one sample.
    pub processes: u64,
    /// Threads with at least one sample.
    pub threads: u64,
    /// Losses by name; only those above zero.
    pub losses: Vec<(String, u64)>,
    /// How the user stacks ended.
    pub stacks: StackSummary,
    /// Page faults; `None`: they were not watched.
    pub faults: Option<FaultSummary>,
    /// How many samples went into each one of the profile (1: all are in it).
    pub sample_thinning: u32,
    /// Markers that are not in the profile.
    pub marks_left_out: u64,
    /// Waits that are only sums in the profile.
    pub waits_folded: u64,
    /// Block requests that are only sums in the profile.
    pub requests_folded: u64,
    /// What the recording itself cost; `None`: unknown.
    pub cost: Option<CostSummary>,
    /// Notes, each with its remedy.
    pub notes: Vec<String>,
    /// Where the profile is; set by who wrote it.
    pub output: Option<String>,
    /// Size of that file in bytes.
    pub output_bytes: Option<u64>,
}

/// The thread that the recording is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MainThread {
    /// Its process.
    pub process: String,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Life within the recording, in ns.
    pub wall_ns: u64,
    /// On-CPU time within the recording, in ns.
    pub cpu_ns: u64,
    /// In the tables.
    #[serde(skip)]
    pub id: Option<ThreadId>,
}

/// A function and the samples of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HotFunction {
    /// Its name.
    pub function: String,
    /// The module that it is in.
    pub module: Option<String>,
    /// Samples that it was the innermost function of.
    pub samples: u64,
}

/// Collects what a [`Summary`] says.
///
/// Functions are told apart at the end, by the names that the tables have then: the ids of the facts have to be valid
/// in those tables. (Thinning renumbers stacks, so collect from [`Collected::replay`].)
#[derive(Debug, Default)]
pub struct Accumulator {
    /// By frame.
    self_samples: Vec<u64>,
    /// By thread: samples and CPU time.
    threads: Vec<(u64, u64)>,
    samples: u64,
    samples_without_stack: u64,
}

impl FactSink for Accumulator {
    fn sample(&mut self, tables: &Tables, sample: &SampleFact) {
        let weight = u64::from(sample.weight);
        self.samples = self.samples.saturating_add(weight);
        match sample.stack.and_then(|stack| tables.stacks.get(stack.index())) {
            Some(node) => add(&mut self.self_samples, node.frame.index(), tables.frames.len(), |sum| {
                *sum = sum.saturating_add(weight);
            }),
            None => self.samples_without_stack = self.samples_without_stack.saturating_add(weight),
        }
        let cpu = ns(sample.cpu_time);
        add(
            &mut self.threads,
            sample.thread.index(),
            tables.threads.len(),
            |(samples, sum)| {
                *samples = samples.saturating_add(weight);
                *sum = sum.saturating_add(cpu);
            },
        );
    }

    fn mark(&mut self, _tables: &Tables, _mark: &Mark) {}
}

/// Changes one cell of a column that grows with its table.
fn add<T: Default + Clone>(column: &mut Vec<T>, index: usize, len: usize, change: impl FnOnce(&mut T)) {
    if index >= column.len() {
        column.resize(len.max(column.len()), T::default());
    }
    if let Some(cell) = column.get_mut(index) {
        change(cell);
    }
}

impl Summary {
    /// Of what was kept for the profile; totals are those of all samples.
    pub fn new(tables: &Tables, collected: &Collected) -> Self {
        let mut accumulator = Accumulator::default();
        collected.replay(tables, &mut accumulator);
        let marks_left_out = collected.marks_dropped;
        let summary = accumulator.finish(tables);
        let main = summary.main_thread.as_ref().and_then(|main| main.id);
        Self {
            marks_left_out,
            faults: FaultSummary::new(tables, &collected.faults),
            waits: main.and_then(|main| WaitSummary::new(tables, collected, main)),
            ..summary
        }
    }
}

impl Accumulator {
    /// The figures, with the names that are known now.
    pub fn finish(mut self, tables: &Tables) -> Summary {
        self.threads.resize(tables.threads.len(), (0, 0));
        let cpu: Vec<u64> = (tables.threads.iter().zip(&self.threads))
            .map(|(thread, (_, cpu))| cpu.saturating_add(thread.cpu_time_after_last_sample))
            .collect();
        let ran = tables
            .threads
            .iter()
            .zip(&self.threads)
            .filter(|(_, (samples, _))| *samples > 0);
        let mut processes: Vec<_> = ran.clone().map(|(thread, _)| thread.process).collect();
        processes.sort_unstable();
        processes.dedup();
        let recording = &tables.recording;
        Summary {
            main_thread: main_thread(tables, &cpu),
            waits: None,
            hottest: hottest(tables, &self.self_samples),
            samples: self.samples,
            samples_without_stack: self.samples_without_stack,
            cpu_time_ns: cpu.iter().fold(0, |sum, cpu| sum.saturating_add(*cpu)),
            processes: processes.len() as u64,
            threads: ran.count() as u64,
            losses: recording.losses.clone(),
            stacks: StackSummary::new(&recording.stack_ends, &recording.walks),
            faults: None,
            sample_thinning: recording.sample_thinning.max(1),
            marks_left_out: 0,
            waits_folded: sum(recording.folded_waits.iter().map(|folded| folded.waits)),
            requests_folded: sum(recording.folded_requests.iter().map(|folded| folded.requests)),
            cost: CostSummary::new(recording),
            notes: recording.notes.clone(),
            output: None,
            output_bytes: None,
        }
    }
}

fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

fn main_thread(tables: &Tables, cpu: &[u64]) -> Option<MainThread> {
    let command = tables
        .command_process()
        .and_then(|process| tables.processes.get(process.index())?.main_thread);
    let busiest = || {
        let ranked = cpu.iter().zip((0..).map(ThreadId));
        ranked.max_by_key(|(cpu, id)| (**cpu, Reverse(*id))).map(|(_, id)| id)
    };
    let id = command.or_else(busiest)?;
    let thread = tables.threads.get(id.index())?;
    let process = tables.processes.get(thread.process.index())?;
    let recording = &tables.recording;
    let end = thread.end.unwrap_or(recording.end).min(recording.end);
    let wall = end.since(thread.start.max(recording.start));
    Some(MainThread {
        process: process.name.clone(),
        pid: process.pid,
        tid: thread.tid,
        id: Some(id),
        wall_ns: ns(wall),
        cpu_ns: cpu.get(id.index()).copied().unwrap_or(0),
    })
}

fn hottest(tables: &Tables, self_samples: &[u64]) -> Vec<HotFunction> {
    let mut functions: FxHashMap<(Option<ModuleId>, Cow<'_, str>), u64> = FxHashMap::default();
    for (samples, id) in self_samples
        .iter()
        .zip((0..).map(FrameId))
        .filter(|(samples, _)| **samples > 0)
    {
        let module = tables.frames.get(id.index()).and_then(|frame| frame.location.module());
        let sum = functions.entry((module, tables.function_name(id))).or_default();
        *sum = sum.saturating_add(*samples);
    }
    let mut functions: Vec<_> = functions.into_iter().collect();
    functions.sort_unstable_by(|(a, a_samples), (b, b_samples)| (b_samples, a).cmp(&(a_samples, b)));
    let told = functions.into_iter().take(HOTTEST);
    told.map(|((module, function), samples)| HotFunction {
        function: function.into_owned(),
        module: module.map(|module| tables.module_name(module).to_owned()),
        samples,
    })
    .collect()
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.lines() {
            writeln!(f, "{}", fit(&line, WIDTH))?;
        }
        Ok(())
    }
}

impl Summary {
    /// At most ten lines: the hottest functions fill what the rest leaves.
    fn lines(&self) -> Vec<String> {
        let (mut lines, mut rest) = (self.main_line(), self.rest());
        if let Some(cost) = self.cost.as_ref().filter(|_| !self.losses.is_empty())
            && lines.len() + rest.len() + 2 <= LINES
        {
            let output = rest.len() - usize::from(self.output.is_some());
            rest.insert(output, cost.line("cost:    "));
        }
        lines.extend(self.hottest_lines(LINES.saturating_sub(lines.len() + rest.len())));
        lines.extend(rest);
        lines
    }

    fn main_line(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(main) = &self.main_thread {
            let rest = main.wall_ns.saturating_sub(main.cpu_ns);
            let figures = format!(
                ": main thread {} = {} on CPU ({}) + {} not running",
                duration(main.wall_ns),
                duration(main.cpu_ns),
                percent(main.cpu_ns, main.wall_ns),
                duration(rest)
            );
            lines.push(fit(&main.process, WIDTH.saturating_sub(columns(&figures))) + &figures);
            lines.extend(self.waits.iter().flat_map(|waits| waits.lines(rest)));
        }
        lines
    }

    fn hottest_lines(&self, room: usize) -> Vec<String> {
        let mut lines = Vec::new();
        for (function, index) in self.hottest.iter().take(room).zip(0..) {
            let head = if index == 0 { "hottest:" } else { "" };
            let head = format!("{head:<9}{:>7} ", percent(function.samples, self.samples));
            let module = function
                .module
                .as_ref()
                .map_or(String::new(), |module| format!(" ({})", fit(module, 24)));
            let width = WIDTH.saturating_sub(columns(&head) + columns(&module));
            lines.push(head + &fit(&function.function, width) + &module);
        }
        lines
    }

    fn rest(&self) -> Vec<String> {
        let mut lines = Vec::new();
        lines.push(format!(
            "samples: {} of {} threads in {} processes, {} of CPU time",
            count(self.samples),
            count(self.threads),
            count(self.processes),
            duration(self.cpu_time_ns)
        ));
        lines.extend(self.faults.iter().flat_map(FaultSummary::lines));
        lines.push(self.lost_line());
        lines.push(self.stacks.line());
        if let Some((same, different)) = self.stacks.walks.checked {
            let all = same.saturating_add(different);
            lines.push(format!("walks:   {} of {} are as framehop's", count(same), count(all)));
        }
        lines.extend(self.thinning_line());
        lines.extend(self.output_line());
        lines
    }

    /// Where nothing was lost there is room for what the recording cost.
    fn lost_line(&self) -> String {
        let losses = self
            .losses
            .iter()
            .map(|(name, lost)| format!("{} {name}", count(*lost)));
        let line = list("lost:    ", losses, "nothing");
        match &self.cost {
            Some(cost) if self.losses.is_empty() => cost.line(&format!("{line}; cost ")),
            _ => line,
        }
    }

    fn thinning_line(&self) -> Option<String> {
        let samples = (self.sample_thinning > 1)
            .then(|| format!("each sample of the profile stands for {}", self.sample_thinning));
        let marks = (self.marks_left_out > 0).then(|| format!("{} markers are not in it", count(self.marks_left_out)));
        let folded = self.faults.as_ref().map_or(0, |faults| faults.folded);
        let faults = (folded > 0).then(|| format!("{} faults are sums in it", count(folded)));
        let sums = [(self.waits_folded, "waits"), (self.requests_folded, "requests")];
        let sums = sums.into_iter().filter(|(folded, _)| *folded > 0);
        let sums = sums.map(|(folded, what)| format!("{} {what} are sums in it", count(folded)));
        let parts: Vec<String> = samples.into_iter().chain(marks).chain(faults).chain(sums).collect();
        (!parts.is_empty()).then(|| format!("thinned: {}", parts.join("; ")))
    }

    fn output_line(&self) -> Option<String> {
        let output = self.output.as_ref()?;
        let size = self
            .output_bytes
            .map_or(String::new(), |size| format!(", {}", bytes(size)));
        Some(format!(
            "profile: {}{size}",
            fit(output, WIDTH.saturating_sub(9 + columns(&size)))
        ))
    }
}

/// As many of the items as fit in a line, and how many more there are.
fn list(head: &str, items: impl Iterator<Item = String>, none: &str) -> String {
    let items: Vec<String> = items.collect();
    if items.is_empty() {
        return format!("{head}{none}");
    }
    for told in (1..=items.len()).rev() {
        let more = items.len() - told;
        let rest = if more > 0 {
            format!(", {more} more")
        } else {
            String::new()
        };
        let line = format!("{head}{}{rest}", items[..told].join(", "));
        if told == 1 || columns(&line) <= WIDTH {
            return line;
        }
    }
    String::new()
}

#[cfg(test)]
mod tests;
