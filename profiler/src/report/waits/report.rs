//! The tables of `ngmi waits`: the selected waits by reason, function, stack, system call, file, waker, process and thread. Each table adds
//! up to the totals.

use std::collections::BTreeMap;

use serde::Serialize;

use super::select::Selector;
use super::tally::{Groups, Histogram, Tally};
use super::view::View;
use crate::fact::About;
use crate::fact::life::LifeCheck;
use crate::fact::wait::{Sight, WakerFact};
use crate::fact::{Recording, StackId, ThreadId, WaitFact, WaitReason};
use crate::report::functions::FunctionId;

/// Stacks that a report tells in full.
const STACKS: usize = 100;

/// Waits in figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WaitReport {
    /// What was recorded.
    pub recording: Recording,
    /// Waits in the input, selected or not.
    pub waits_in_file: u64,
    /// The selected ones.
    pub totals: Tally,
    /// Those of them whose stack is an earlier wait's with the same registers: they came too fast to look at each.
    pub like_earlier: u64,
    /// By reason.
    pub by_reason: Vec<ReasonRow>,
    /// By the function that waits.
    pub by_function: Vec<FunctionRow>,
    /// By stack: the hundred with the most time.
    pub by_stack: Vec<StackRow>,
    /// By system call.
    pub by_call: Vec<CallRow>,
    /// By the file of the system call, or the path that it was called with.
    pub by_file: Vec<FileRow>,
    /// By who ended them.
    pub by_waker: Vec<WakerRow>,
    /// By process.
    pub by_process: Vec<ProcessRow>,
    /// By thread.
    pub by_thread: Vec<ThreadRow>,
    /// Whether on-CPU and off-CPU time fill the lives of the threads; of the whole recording.
    pub lives: LifeCheck,
    /// What is wrong with them.
    pub problem: Option<String>,
}

/// Waits for one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReasonRow {
    /// What.
    pub reason: WaitReason,
    /// Sums.
    #[serde(flatten)]
    pub tally: Tally,
    /// How long they were.
    pub lengths: Histogram,
}

/// Waits of a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FunctionRow {
    /// Its name; `None`: waits whose stack has no function of a program.
    pub function: Option<String>,
    /// The module that it is in.
    pub module: Option<String>,
    /// What it waited for most of the time.
    pub reason: WaitReason,
    /// Sums.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Waits with one stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StackRow {
    /// Its functions, innermost first; empty: no stack.
    pub frames: Vec<String>,
    /// What for.
    pub reason: WaitReason,
    /// Sums.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Waits in a system call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallRow {
    /// Its name; `None`: in none.
    pub call: Option<String>,
    /// Sums.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Waits in system calls that are about a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileRow {
    /// Its path; `None`: about none that is known.
    pub file: Option<String>,
    /// Sums.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Waits that one thread, or interrupts, ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WakerRow {
    /// The thread's name, if it is recorded; `interrupt`; `None`: unknown, or nobody had to.
    pub waker: Option<String>,
    /// Its process, if it was a thread.
    pub pid: Option<u32>,
    /// Its id, if it was a thread.
    pub tid: Option<u32>,
    /// Sums.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Waits of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessRow {
    /// Its id.
    pub pid: u32,
    /// Its name.
    pub process: String,
    /// Sums.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Waits of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadRow {
    /// Its process.
    pub pid: u32,
    /// Its id.
    pub tid: u32,
    /// Its name.
    pub thread: String,
    /// Sums.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Who ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WakerKey {
    /// A recorded thread.
    Thread(ThreadId),
    /// Another: its process and its id.
    Stranger(u32, u32),
    /// A timer, a device, whatever ran meanwhile.
    Interrupt,
    /// Unknown, or nobody: a thread that could run needs no waker.
    Nobody,
}

impl WakerKey {
    /// Of a wait.
    pub fn of(waker: Option<&WakerFact>) -> Self {
        match waker {
            None => Self::Nobody,
            Some(waker) if waker.by_interrupt == Some(true) || waker.tid == 0 => Self::Interrupt,
            Some(waker) => match waker.thread {
                Some(thread) => Self::Thread(thread),
                None => Self::Stranger(waker.pid, waker.tid),
            },
        }
    }
}

/// Sums under construction.
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
        if wait.sight == Sight::LikeEarlier {
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
    /// Of the selected waits.
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
        WakerKey::Stranger(pid, tid) => (None, Some(pid), Some(tid)),
        WakerKey::Interrupt => (Some("interrupt".to_owned()), None, None),
        WakerKey::Nobody => (None, None, None),
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
