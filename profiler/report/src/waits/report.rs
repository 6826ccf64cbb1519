//! The tables of `ngmi waits`: the selected waits by reason, function, stack, system call, file, waker, process and thread.
//! Each table adds up to the totals.

use std::collections::BTreeMap;

use serde::Serialize;

use super::select::Selector;
use super::tally::{Groups, Histogram, Tally};
use super::view::View;
use crate::functions::FunctionId;
use crate::lifetime::LifetimeCheck;
use fact::About;
use fact::wait::{Coverage, WakerFact};
use fact::{Recording, StackId, ThreadId, WaitFact, WaitReason};

/// Number of stacks in a report.
const STACKS: usize = 100;

/// Summary of the selected waits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WaitReport {
    /// Metadata of the recording.
    pub recording: Recording,
    /// Waits in the input, selected or not.
    pub waits_in_file: u64,
    /// Sums over the selected waits.
    pub totals: Tally,
    /// Selected waits whose stack was reused from an earlier wait with identical registers, because of rate limiting.
    pub like_earlier: u64,
    /// Rows by reason.
    pub by_reason: Vec<ReasonRow>,
    /// Rows by waiting function.
    pub by_function: Vec<FunctionRow>,
    /// Rows by stack: the hundred with the most time.
    pub by_stack: Vec<StackRow>,
    /// Rows by system call.
    pub by_call: Vec<CallRow>,
    /// Rows by the file of the system call, or by the path it was called with.
    pub by_file: Vec<FileRow>,
    /// Rows by waker.
    pub by_waker: Vec<WakerRow>,
    /// Rows by process.
    pub by_process: Vec<ProcessRow>,
    /// Rows by thread.
    pub by_thread: Vec<ThreadRow>,
    /// Comparison of on-CPU and off-CPU time with the lifetimes of the threads, for the whole recording.
    pub lives: LifetimeCheck,
    /// Description of a mismatch in `lives`.
    pub problem: Option<String>,
}

/// Waits for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReasonRow {
    /// Reason of the waits.
    pub reason: WaitReason,
    /// Number of waits, and times.
    #[serde(flatten)]
    pub tally: Tally,
    /// Distribution of the durations.
    pub lengths: Histogram,
}

/// Waits of a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FunctionRow {
    /// Function name; `None`: waits without a function of a program in the stack.
    pub function: Option<String>,
    /// The function's module.
    pub module: Option<String>,
    /// Reason with the most time.
    pub reason: WaitReason,
    /// Number of waits, and times.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Waits with one stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StackRow {
    /// Function names, innermost first; empty if there is no stack.
    pub frames: Vec<String>,
    /// Reason of the waits.
    pub reason: WaitReason,
    /// Number of waits, and times.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Waits in a system call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallRow {
    /// System call name; `None`: outside of system calls.
    pub call: Option<String>,
    /// Number of waits, and times.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Waits in system calls on a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileRow {
    /// File path; `None`: no known file.
    pub file: Option<String>,
    /// Number of waits, and times.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Waits ended by one thread, or by interrupts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WakerRow {
    /// The thread's name, if it is recorded, or `interrupt`; `None`: unknown, or no waker was needed.
    pub waker: Option<String>,
    /// Process ID, if the waker is a thread.
    pub pid: Option<u32>,
    /// Thread ID, if the waker is a thread.
    pub tid: Option<u32>,
    /// Number of waits, and times.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Waits of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessRow {
    /// Process ID.
    pub pid: u32,
    /// Process name.
    pub process: String,
    /// Number of waits, and times.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Waits of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadRow {
    /// Process ID.
    pub pid: u32,
    /// Thread ID.
    pub tid: u32,
    /// Thread name.
    pub thread: String,
    /// Number of waits, and times.
    #[serde(flatten)]
    pub tally: Tally,
}

/// The waker of a wait, for grouping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WakerKey {
    /// A recorded thread.
    Thread(ThreadId),
    /// An unrecorded thread: process ID and thread ID.
    Unrecorded(u32, u32),
    /// An interrupt, such as a timer or a device, regardless of the thread it interrupted.
    Interrupt,
    /// Unknown or none: a runnable thread needs no waker.
    Unknown,
}

impl WakerKey {
    /// Key of a wait's waker.
    pub fn of(waker: Option<&WakerFact>) -> Self {
        match waker {
            None => Self::Unknown,
            Some(waker) if waker.by_interrupt == Some(true) || waker.tid == 0 => Self::Interrupt,
            Some(waker) => match waker.thread {
                Some(thread) => Self::Thread(thread),
                None => Self::Unrecorded(waker.pid, waker.tid),
            },
        }
    }
}

/// Accumulates the sums of all tables.
#[derive(Default)]
struct Sums {
    totals: Tally,
    like_earlier: u64,
    reasons: Groups<WaitReason>,
    lengths: BTreeMap<WaitReason, Histogram>,
    functions: Groups<Option<FunctionId>>,
    functions_by_reason: Groups<(Option<FunctionId>, WaitReason)>,
    stacks: Groups<(Option<StackId>, WaitReason)>,
    calls: Groups<Option<u32>>,
    call_names: BTreeMap<u32, String>,
    files: Groups<Option<String>>,
    wakers: Groups<WakerKey>,
    processes: Groups<Option<u32>>,
    threads: Groups<ThreadId>,
}

impl Sums {
    fn add(&mut self, view: &View<'_>, wait: &WaitFact) {
        self.totals.add(wait);
        if wait.coverage == Coverage::StackReused {
            self.like_earlier = self.like_earlier.saturating_add(u64::from(wait.count));
        }
        self.reasons.of(wait.reason).add(wait);
        self.lengths.entry(wait.reason).or_default().add(wait);
        let function = view.function(wait.stack);
        self.functions.of(function).add(wait);
        self.functions_by_reason.of((function, wait.reason)).add(wait);
        self.stacks.of((wait.stack, wait.reason)).add(wait);
        let call = wait.call.as_ref();
        self.calls.of(call.map(|call| call.number)).add(wait);
        if let Some(call) = call {
            self.call_names.entry(call.number).or_insert_with(|| call.name.clone());
        }
        let file = About::of(wait).and_then(|about| about.shown(view.tables));
        self.files.of(file).add(wait);
        self.wakers.of(WakerKey::of(wait.waker.as_ref())).add(wait);
        let process = view.thread(wait.thread).map(|thread| thread.process.0);
        self.processes.of(process).add(wait);
        self.threads.of(wait.thread).add(wait);
    }
}

impl WaitReport {
    /// Summarizes the selected waits.
    pub fn new(view: &View<'_>, selector: &Selector) -> Self {
        let mut sums = Sums::default();
        let mut waits_in_file = 0_u64;
        for wait in view.waits() {
            waits_in_file = waits_in_file.saturating_add(u64::from(wait.count));
            if selector.takes(view, &wait) {
                sums.add(view, &wait);
            }
        }
        let lives = view.lives();
        let reason = |(reason, tally)| ReasonRow {
            reason,
            tally,
            lengths: sums.lengths.get(&reason).copied().unwrap_or_default(),
        };
        let call = |(number, tally): (Option<u32>, _)| CallRow {
            call: number.and_then(|number| sums.call_names.get(&number).cloned()),
            tally,
        };
        Self {
            recording: view.tables.recording.clone(),
            waits_in_file,
            totals: sums.totals,
            like_earlier: sums.like_earlier,
            by_reason: sums.reasons.sorted().into_iter().map(reason).collect(),
            by_function: functions(view, sums.functions, sums.functions_by_reason),
            by_stack: stacks(view, sums.stacks),
            by_call: sums.calls.sorted().into_iter().map(call).collect(),
            by_file: (sums.files.sorted().into_iter())
                .map(|(file, tally)| FileRow { file, tally })
                .collect(),
            by_waker: (sums.wakers.sorted().into_iter())
                .map(|(key, tally)| waker(view, key, tally))
                .collect(),
            by_process: processes(view, sums.processes),
            by_thread: threads(view, sums.threads),
            problem: lives.problem(view.tables),
            lives,
        }
    }
}

fn functions(
    view: &View<'_>,
    groups: Groups<Option<FunctionId>>,
    by_reason: Groups<(Option<FunctionId>, WaitReason)>,
) -> Vec<FunctionRow> {
    let mut most = BTreeMap::new();
    for ((function, reason), _) in by_reason.sorted() {
        most.entry(function).or_insert(reason);
    }
    let row = |(id, tally): (Option<FunctionId>, _)| {
        let function = id.and_then(|id| view.functions.get(id));
        FunctionRow {
            function: function.map(|function| function.name.clone()),
            module: function.and_then(|function| Some(view.tables.module_name(function.module?).to_owned())),
            reason: most.get(&id).copied().unwrap_or_default(),
            tally,
        }
    };
    groups.sorted().into_iter().map(row).collect()
}

fn stacks(view: &View<'_>, groups: Groups<(Option<StackId>, WaitReason)>) -> Vec<StackRow> {
    let row = |((stack, reason), tally): ((Option<StackId>, _), _)| {
        let frames = stack.into_iter().flat_map(|stack| view.frames(stack));
        StackRow {
            frames: frames.map(std::borrow::Cow::into_owned).collect(),
            reason,
            tally,
        }
    };
    groups.sorted().into_iter().take(STACKS).map(row).collect()
}

fn waker(view: &View<'_>, key: WakerKey, tally: Tally) -> WakerRow {
    let (waker, pid, tid) = match key {
        WakerKey::Thread(id) => {
            let name = view.thread(id).map(|thread| thread.name.clone());
            (
                name,
                view.process(id).map(|process| process.pid),
                view.thread(id).map(|thread| thread.tid),
            )
        }
        WakerKey::Unrecorded(pid, tid) => (None, Some(pid), Some(tid)),
        WakerKey::Interrupt => (Some("interrupt".to_owned()), None, None),
        WakerKey::Unknown => (None, None, None),
    };
    WakerRow { waker, pid, tid, tally }
}

fn processes(view: &View<'_>, groups: Groups<Option<u32>>) -> Vec<ProcessRow> {
    let row = |(id, tally): (Option<u32>, _)| {
        let process = id.and_then(|id| view.tables.processes.get(id as usize));
        ProcessRow {
            pid: process.map_or(0, |process| process.pid),
            process: process.map_or_else(String::new, |process| process.name.clone()),
            tally,
        }
    };
    groups.sorted().into_iter().map(row).collect()
}

fn threads(view: &View<'_>, groups: Groups<ThreadId>) -> Vec<ThreadRow> {
    let row = |(id, tally): (ThreadId, _)| ThreadRow {
        pid: view.process(id).map_or(0, |process| process.pid),
        tid: view.thread(id).map_or(0, |thread| thread.tid),
        thread: view.thread(id).map_or_else(String::new, |thread| thread.name.clone()),
        tally,
    };
    groups.sorted().into_iter().map(row).collect()
}
