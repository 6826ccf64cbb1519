//! Summary of a recording in at most twelve lines: the results first, then how reliable they are.

mod cost;
mod faults;
mod nameless;
mod path;
pub(crate) mod stacks;
mod text;
mod waits;

use std::borrow::Cow;
use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::findings::{Finding, find};
use super::text::WIDTH;
use base::addr::ns;
use fact::reduce::budget::Collected;
use fact::{FactSink, FrameId, Location, Mark, MergedThreads, ModuleId, SampleFact, Tables, Thread, ThreadId};

pub use cost::CostSummary;
pub use faults::FaultSummary;
pub use nameless::{NamelessModule, nameless_modules};
pub use path::PathSummary;
pub use stacks::StackSummary;
use text::list;
pub use waits::WaitSummary;

/// Maximum number of hottest functions.
const HOTTEST: usize = 3;
/// Maximum number of listed processes that outlive the command.
const LEFT: usize = 100;
/// Name of the recorder's own programs among the hottest functions.
const OWN: &str = "ngmi's own hooks";

/// Key results of a finished recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The command's main thread, or the busiest thread if there is no command.
    pub main_thread: Option<MainThread>,
    /// The threads of a recording without a command in which no thread ran.
    pub asleep: Option<Asleep>,
    /// Off-CPU time of the main thread, or of all threads if none ran; `None`: waits were not traced.
    pub waits: Option<WaitSummary>,
    /// The critical path of the command's first thread; `None`: unknown.
    pub path: Option<PathSummary>,
    /// Findings, the most important first.
    pub findings: Vec<Finding>,
    /// Functions with the most self samples.
    pub hottest: Vec<HotFunction>,
    /// Modules with the most self samples in functions without a name.
    #[serde(default)]
    pub nameless: Vec<NamelessModule>,
    /// Number of samples.
    pub samples: u64,
    /// Number of samples without a stack, which are in no call tree.
    pub samples_without_stack: u64,
    /// On-CPU time of all threads, in ns.
    pub cpu_time_ns: u64,
    /// Processes with at least one sample.
    pub processes: u64,
    /// Threads with at least one sample.
    pub threads: u64,
    /// Losses by name; only those above zero.
    pub losses: Vec<(String, u64)>,
    /// Completeness of the user stacks.
    pub stacks: StackSummary,
    /// Page faults; `None`: they were not traced.
    pub faults: Option<FaultSummary>,
    /// Number of samples that each sample of the profile represents (1: all are in it).
    pub sample_thinning: u32,
    /// Markers left out of the profile.
    pub marks_left_out: u64,
    /// Waits aggregated in the profile, not listed individually.
    pub waits_folded: u64,
    /// Block requests aggregated in the profile, not listed individually.
    pub requests_folded: u64,
    /// Threads that are merged into shared rows of the profile.
    pub threads_together: u64,
    /// Number of shared rows.
    pub shared_rows: u64,
    /// Cost of the recording itself; `None`: unknown.
    pub cost: Option<CostSummary>,
    /// Notes, each with its remedy.
    pub notes: Vec<String>,
    /// IDs and names of processes still alive after the command ended.
    pub left: Vec<(u32, String)>,
    /// Path of the profile; set by its writer.
    pub output: Option<String>,
    /// Size of the profile file in bytes.
    pub output_bytes: Option<u64>,
    /// Size of the uncompressed profile in bytes.
    pub output_text_bytes: Option<u64>,
}

/// The main thread of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MainThread {
    /// Name of its process.
    pub process: String,
    /// Process ID.
    pub pid: u32,
    /// Thread ID.
    pub tid: u32,
    /// Lifetime within the recording, in ns.
    pub wall_ns: u64,
    /// On-CPU time within the recording, in ns.
    pub cpu_ns: u64,
    /// The thread's name.
    pub name: String,
    /// It is the command's first thread; otherwise it is the busiest thread.
    pub is_commands: bool,
    /// ID in the tables.
    #[serde(skip)]
    pub id: Option<ThreadId>,
}

/// The threads of a recording in which none ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asleep {
    /// Number of threads.
    pub threads: u64,
    /// Number of their processes.
    pub processes: u64,
    /// Sum of their lifetimes within the recording, in ns.
    pub wall_ns: u64,
}

/// A function and its self samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotFunction {
    /// Function name.
    pub function: String,
    /// The function's module.
    pub module: Option<String>,
    /// Samples with this innermost function.
    pub samples: u64,
}

/// Accumulates the data of a [`Summary`].
///
/// Functions are distinguished at the end, by the names in the tables at that time: the IDs of the facts must be valid in
/// those tables. (Thinning renumbers stacks, so collect from [`Collected::replay`].)
#[derive(Debug, Default)]
pub struct Accumulator {
    /// Self samples by frame.
    self_samples: Vec<u64>,
    /// Samples and CPU time in ns by thread.
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

/// Changes a cell of a column that grows with its table.
fn add<T: Default + Clone>(column: &mut Vec<T>, index: usize, len: usize, change: impl FnOnce(&mut T)) {
    if index >= column.len() {
        column.resize(len.max(column.len()), T::default());
    }
    if let Some(cell) = column.get_mut(index) {
        change(cell);
    }
}

impl Summary {
    /// Summarizes the facts kept for the profile; totals cover all samples.
    pub fn new(tables: &Tables, collected: &Collected) -> Self {
        let mut accumulator = Accumulator::default();
        collected.replay(tables, &mut accumulator);
        let marks_left_out = collected.marks_dropped;
        let mut summary = accumulator.finish(tables);
        summary.notes.extend(faults::why_none(tables, &collected.faults));
        let main = summary.main_thread.as_ref().and_then(|main| main.id);
        let whose = main.filter(|_| summary.asleep.is_none());
        Self {
            marks_left_out,
            faults: FaultSummary::new(tables, &collected.faults),
            waits: main.and_then(|_| WaitSummary::new(tables, collected, whose)),
            path: PathSummary::new(tables, collected),
            findings: find(tables, &collected.inputs),
            ..summary
        }
    }
}

impl Accumulator {
    /// Builds the summary with the names that are known now.
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
        // A row of merged threads was counted as one above.
        let more = |count: fn(&MergedThreads) -> u64| {
            sum(recording
                .merged_threads
                .iter()
                .map(|merged| count(merged).saturating_sub(1)))
        };
        Summary {
            main_thread: main_thread(tables, &cpu),
            asleep: asleep(tables, &cpu),
            waits: None,
            path: None,
            findings: Vec::new(),
            hottest: hottest(tables, &self.self_samples),
            nameless: nameless::modules(tables, &self.self_samples),
            samples: self.samples,
            samples_without_stack: self.samples_without_stack,
            cpu_time_ns: cpu.iter().fold(0, |sum, cpu| sum.saturating_add(*cpu)),
            processes: (processes.len() as u64).saturating_add(more(|merged| merged.processes_ran)),
            threads: (ran.count() as u64).saturating_add(more(|merged| merged.ran)),
            losses: recording.losses.clone(),
            stacks: StackSummary::new(&recording.stack_ends, &recording.walks),
            faults: None,
            sample_thinning: recording.sample_thinning.max(1),
            marks_left_out: 0,
            waits_folded: sum(recording.folded_waits.iter().map(|folded| folded.waits)),
            requests_folded: sum(recording.folded_requests.iter().map(|folded| folded.requests)),
            threads_together: sum(recording.merged_threads.iter().map(|merged| merged.threads)),
            shared_rows: recording.merged_threads.len() as u64,
            cost: CostSummary::new(recording),
            notes: recording.notes.clone(),
            left: left(tables),
            output: None,
            output_bytes: None,
            output_text_bytes: None,
        }
    }
}

/// Processes that outlive the command; empty unless the recording ended with the command.
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

/// Lifetime of a thread within the recording, in ns.
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

/// Whether this kernel function runs eBPF programs at an event. Samples within our programs appear there, where interrupts are
/// enabled again.
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
    let hottest = functions.into_iter().take(HOTTEST);
    hottest
        .map(|((module, function), samples)| HotFunction {
            function: function.into_owned(),
            module: module.map(|module| tables.module_name(module).to_owned()),
            samples,
        })
        .collect()
}

#[cfg(test)]
mod tests;
