//! The end of a recording in at most ten lines: the answer first, then how far it can be trusted.

mod cost;
mod faults;
mod stacks;
mod text;
mod waits;

use std::borrow::Cow;
use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::findings::{Finding, find};
use super::text::WIDTH;
use crate::addr::ns;
use crate::fact::budget::Collected;
use crate::fact::{Crowd, FactSink, FrameId, Location, Mark, ModuleId, SampleFact, Tables, Thread, ThreadId};

pub use cost::CostSummary;
pub use faults::FaultSummary;
pub use stacks::StackSummary;
use text::list;
pub use waits::WaitSummary;

/// Hottest functions that are told.
const HOTTEST: usize = 3;
/// Processes that outlive the command, at most.
const LEFT: usize = 100;
/// What stands for the recorder's own programs among the hottest functions.
const OWN: &str = "ngmi's own hooks";

/// A finished recording in figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The command's main thread, or the busiest thread if no command was run.
    pub main_thread: Option<MainThread>,
    /// Of a recording without a command in which nobody ran: who was there.
    pub asleep: Option<Asleep>,
    /// Where the main thread's time off CPUs went, or everybody's if nobody ran; `None`: waits were not watched.
    pub waits: Option<WaitSummary>,
    /// What to look at first.
    pub findings: Vec<Finding>,
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
    /// Threads that share a row of the profile with others.
    pub threads_together: u64,
    /// How many such rows it has.
    pub shared_rows: u64,
    /// What the recording itself cost; `None`: unknown.
    pub cost: Option<CostSummary>,
    /// Notes, each with its remedy.
    pub notes: Vec<String>,
    /// Processes that were alive when the command had ended, with their ids.
    pub left: Vec<(u32, String)>,
    /// Where the profile is; set by who wrote it.
    pub output: Option<String>,
    /// Size of that file in bytes.
    pub output_bytes: Option<u64>,
    /// Bytes of its text, which is packed there.
    pub output_text_bytes: Option<u64>,
}

/// The thread that the recording is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The thread's name.
    pub name: String,
    /// It is the first thread of the command; otherwise the busiest thread of all.
    pub is_commands: bool,
    /// In the tables.
    #[serde(skip)]
    pub id: Option<ThreadId>,
}

/// Threads of which none ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asleep {
    /// How many.
    pub threads: u64,
    /// Processes that they are of.
    pub processes: u64,
    /// The sum of their lives within the recording, in ns.
    pub wall_ns: u64,
}

/// A function and the samples of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
        let whose = main.filter(|_| summary.asleep.is_none());
        Self {
            marks_left_out,
            faults: FaultSummary::new(tables, &collected.faults),
            waits: main.and_then(|_| WaitSummary::new(tables, collected, whose)),
            findings: find(tables, &collected.clues),
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
        // A row that stands for several counts as one above.
        let more = |count: fn(&Crowd) -> u64| sum(recording.crowds.iter().map(|crowd| count(crowd).saturating_sub(1)));
        Summary {
            main_thread: main_thread(tables, &cpu),
            asleep: asleep(tables, &cpu),
            waits: None,
            findings: Vec::new(),
            hottest: hottest(tables, &self.self_samples),
            samples: self.samples,
            samples_without_stack: self.samples_without_stack,
            cpu_time_ns: cpu.iter().fold(0, |sum, cpu| sum.saturating_add(*cpu)),
            processes: (processes.len() as u64).saturating_add(more(|crowd| crowd.processes_ran)),
            threads: (ran.count() as u64).saturating_add(more(|crowd| crowd.ran)),
            losses: recording.losses.clone(),
            stacks: StackSummary::new(&recording.stack_ends, &recording.walks),
            faults: None,
            sample_thinning: recording.sample_thinning.max(1),
            marks_left_out: 0,
            waits_folded: sum(recording.folded_waits.iter().map(|folded| folded.waits)),
            requests_folded: sum(recording.folded_requests.iter().map(|folded| folded.requests)),
            threads_together: sum(recording.crowds.iter().map(|crowd| crowd.threads)),
            shared_rows: recording.crowds.len() as u64,
            cost: CostSummary::new(recording),
            notes: recording.notes.clone(),
            left: left(tables),
            output: None,
            output_bytes: None,
            output_text_bytes: None,
        }
    }
}

/// Processes that outlive the command; none, if it was not its end that ended the recording.
fn left(tables: &Tables) -> Vec<(u32, String)> {
    let command = tables.command_process().and_then(|id| tables.processes.get(id.index()));
    if command.is_none_or(|command| command.end.is_none()) {
        return Vec::new();
    }
    let alive = tables.processes.iter().filter(|process| process.end.is_none());
    alive
        .map(|process| (process.pid, process.name.clone()))
        .take(LEFT)
        .collect()
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
    Some(MainThread {
        process: process.name.clone(),
        pid: process.pid,
        tid: thread.tid,
        name: thread.name.clone(),
        is_commands: command.is_some(),
        id: Some(id),
        wall_ns: life_ns(tables, thread),
        cpu_ns: cpu.get(id.index()).copied().unwrap_or(0),
    })
}

/// Its life within the recording, in ns.
fn life_ns(tables: &Tables, thread: &Thread) -> u64 {
    let recording = &tables.recording;
    let end = thread.end.unwrap_or(recording.end).min(recording.end);
    ns(end.since(thread.start.max(recording.start)))
}

fn asleep(tables: &Tables, cpu: &[u64]) -> Option<Asleep> {
    if tables.command_process().is_some() || tables.threads.is_empty() || cpu.iter().any(|time| *time > 0) {
        return None;
    }
    let mut processes: Vec<_> = tables.threads.iter().map(|thread| thread.process).collect();
    processes.sort_unstable();
    processes.dedup();
    Some(Asleep {
        threads: tables.threads.len() as u64,
        processes: processes.len() as u64,
        wall_ns: sum(tables.threads.iter().map(|thread| life_ns(tables, thread))),
    })
}

/// The kernel's functions that run programs at an event: a sample within one of ours is told there, where interrupts are let in again.
fn runs_hooks(function: &str) -> bool {
    let begins = [
        "bpf_prog_",
        "bpf_trace_run",
        "__bpf_prog_",
        "perf_swevent_",
        "__perf_sw_event",
        "___perf_sw_event",
    ];
    let is = ["bpf_overflow_handler", "trace_call_bpf", "perf_trace_run_bpf_submit"];
    begins.iter().any(|start| function.starts_with(start)) || is.contains(&function)
}

fn hottest(tables: &Tables, self_samples: &[u64]) -> Vec<HotFunction> {
    let mut functions: FxHashMap<(Option<ModuleId>, Cow<'_, str>), u64> = FxHashMap::default();
    for (samples, id) in self_samples
        .iter()
        .zip((0..).map(FrameId))
        .filter(|(samples, _)| **samples > 0)
    {
        let location = tables.frames.get(id.index()).map(|frame| &frame.location);
        let mut name = tables.function_name(id);
        if matches!(location, Some(Location::Kernel { .. })) && runs_hooks(&name) {
            name = Cow::Borrowed(OWN);
        }
        let module = location.and_then(Location::module);
        let sum = functions.entry((module, name)).or_default();
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

#[cfg(test)]
mod tests;
