//! The table of locks, and of each lock that threads waited for long: its holders, where they released it, its waiters,
//! and patterns.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use super::doing::Timelines;
use super::holds::Holder;
use super::identity::{Lock, of_kernel};
use super::inversion::{Inversion, Inversions};
use super::patterns::{Convoy, Turn, convoy, is_preempted};
use super::preemption::Preemption;
use super::tally::HolderTally;
use super::view::{Contended, LockView};
use crate::functions::FunctionId;
use crate::grid::{GroupName, GroupTable, Measure, ranked};
use crate::lookup::{Lookup as _, thread_name};
use crate::waits::tally::WaitTally;
use fact::{Recording, StackId, Tables, ThreadId};

/// Number of locks with tables of their own in a report, those with most blocked time.
const DETAILED: usize = 100;
/// Number of stacks of a lock.
const STACKS: usize = 20;
/// Number of threads that ran instead of a lock's holders.
const PREEMPTORS: usize = 20;

/// Summary of the locks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LockReport {
    /// Metadata of the recording.
    pub recording: Recording,
    /// Waits in the input, selected or not.
    pub waits_in_file: u64,
    /// Sums over the selected waits for locks.
    pub totals: WaitTally,
    /// The locks by descending blocked time.
    pub locks: Vec<LockEntry>,
}

/// A lock.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct LockEntry {
    /// What it is called.
    pub lock: String,
    /// `futex`, `file`, or the kind of a kernel lock.
    pub kind: &'static str,
    /// The process that it belongs to.
    pub pid: Option<u32>,
    /// Its name.
    pub process: Option<String>,
    /// The address of a futex, in hexadecimal.
    pub address: Option<String>,
    /// The file in whose data the futex is, or that is locked.
    pub file: Option<String>,
    /// The distance from the start of that file's mappings.
    pub offset: Option<u64>,
    /// The variable there, such as `queue + 0x8`.
    pub symbol: Option<String>,
    /// The recording's number of a lock of the kernel that is not a variable.
    pub number: Option<u64>,
    /// The function that waited longest; for a lock of the kernel the kernel's one that wanted it.
    pub function: Option<String>,
    /// Sums over its waits.
    #[serde(flatten)]
    pub totals: WaitTally,
    /// Number of threads that waited.
    pub waiters: u64,
    /// Details, of the first 100 locks.
    #[serde(flatten)]
    pub details: Option<LockDetails>,
}

/// What is known of a lock's holders and waiters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LockDetails {
    /// Names of the patterns: `convoy`, `preempted holder`, `priority inversion`.
    pub patterns: Vec<&'static str>,
    /// Convoys.
    pub convoy: Convoy,
    /// Time in which threads were blocked while the holder waited for a CPU, in ns.
    pub preempted_ns: u64,
    /// Threads that ran instead of holders that waited for a CPU.
    pub preempted_by: Vec<Preemptor>,
    /// Priority inversions, by the waiters' time.
    pub inversions: Vec<Inversion>,
    /// Sums over its holders.
    pub held: HolderTally,
    /// By holder.
    pub by_holder: GroupTable<HolderTally>,
    /// By the function in which it was released.
    pub by_release: GroupTable<HolderTally>,
    /// By thread that waited.
    pub by_waiter: GroupTable<WaitTally>,
    /// By stack of the threads that waited.
    pub by_stack: GroupTable<WaitTally>,
}

/// A thread that ran while holders of a lock waited for a CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Preemptor {
    /// Process id; `None`: no recorded thread, or it is unknown which CPU it was.
    pub pid: Option<u32>,
    /// Thread id.
    pub tid: Option<u32>,
    /// Its name.
    pub thread: Option<String>,
    /// Time in which threads were blocked meanwhile, in ns.
    pub time_ns: u64,
}

impl LockReport {
    /// Summarizes the locks.
    pub fn new(view: &LockView<'_, '_>) -> Self {
        let mut totals = WaitTally::default();
        let mut sources = Sources {
            timelines: Timelines::new(&view.lanes),
            preemption: Preemption::default(),
            inversions: Inversions::default(),
        };
        let locks = view.locks.iter().enumerate().map(|(place, contended)| {
            totals.merge(&contended.totals);
            let mut entry = entry(view, contended);
            entry.details = (place < DETAILED).then(|| details(view, contended, &mut sources));
            entry
        });
        let locks = locks.collect();
        Self {
            recording: view.view.tables.recording.without_usage(),
            waits_in_file: view.waits_in_file,
            totals,
            locks,
        }
    }
}

fn entry(view: &LockView<'_, '_>, contended: &Contended) -> LockEntry {
    let tables = view.view.tables;
    let name = contended.name.clone();
    let process = name.process.and_then(|id| tables.processes.get(id.index()));
    let mut threads: FxHashSet<ThreadId> = FxHashSet::default();
    for wait in contended.waits.iter().filter(|wait| wait.is_selected) {
        threads.insert(wait.turn.thread);
    }
    let longest = contended.longest(|wait| view.view.function(wait.stack));
    let waiting = longest.and_then(|id| view.view.functions.get(id));
    let taker = name.taker.clone().or_else(|| mostly_taken_by(tables, contended));
    LockEntry {
        lock: name.text,
        kind: name.kind,
        pid: process.map(|process| process.pid),
        process: process.map(|process| process.name.clone()),
        address: name.address.map(|address| format!("{address:#x}")),
        file: name.file,
        offset: name.offset,
        symbol: name.symbol,
        number: name.number,
        function: taker
            .map(|taker| taker.to_string())
            .or_else(|| waiting.map(|function| function.name.clone())),
        totals: contended.totals,
        waiters: threads.len() as u64,
        details: None,
    }
}

/// The function of the kernel that waited longest for a lock of its own.
fn mostly_taken_by(tables: &Tables, contended: &Contended) -> Option<Arc<str>> {
    if !matches!(contended.lock, Lock::Space(..) | Lock::OfKernel(_)) {
        return None;
    }
    let mut takers: FxHashMap<Arc<str>, WaitTally> = FxHashMap::default();
    for wait in contended.waits.iter().filter(|wait| wait.is_selected) {
        if let Some((_, taker)) = wait.stack.and_then(|stack| of_kernel(tables, stack)) {
            takers.entry(taker).or_default().merge(&wait.tally);
        }
    }
    ranked(takers).into_iter().map(|(taker, _)| taker).next()
}

/// What is computed from the threads' lanes, with its limits for the whole report.
struct Sources<'l> {
    timelines: Timelines<'l>,
    preemption: Preemption,
    inversions: Inversions,
}

fn details(view: &LockView<'_, '_>, contended: &Contended, sources: &mut Sources<'_>) -> LockDetails {
    let Sources {
        timelines,
        preemption,
        inversions,
    } = sources;
    let mut held = HolderTally::default();
    let mut holders: FxHashMap<Holder, HolderTally> = FxHashMap::default();
    let mut releases: FxHashMap<(Holder, Option<StackId>), HolderTally> = FxHashMap::default();
    let mut add = |holder, stack, tally: &HolderTally| {
        held.merge(tally);
        holders.entry(holder).or_default().merge(tally);
        releases.entry((holder, stack)).or_default().merge(tally);
    };
    view.each_hold(contended, timelines, |hold, part, tally| {
        add(hold.holder, hold.stack, &tally);
        if let (Holder::Thread(holder), 1..) = (hold.holder, tally.queue_ns) {
            preemption.add(&view.lanes, holder, part, |ran, priority| {
                inversions.add(&view.lanes, &contended.waits, (holder, priority), ran);
            });
        }
    });
    let several = contended.waits.iter().filter(|wait| wait.is_selected && !wait.is_one());
    for wait in several {
        add(Holder::Unknown, None, &HolderTally::unknown(wait.tally.blocked_ns));
    }
    let turns: Vec<Turn> = contended.waits.iter().map(|wait| wait.turn).collect();
    let convoy = convoy(&turns);
    let preempted_ns = held.queue_ns;
    let mut patterns = Vec::new();
    if convoy.is_named() {
        patterns.push("convoy");
    }
    if is_preempted(preempted_ns, held.blocked_ns) {
        patterns.push("preempted holder");
    }
    let inversions = inversions.take(view.view.tables);
    if !inversions.is_empty() {
        patterns.push("priority inversion");
    }
    LockDetails {
        patterns,
        convoy,
        preempted_ns,
        preempted_by: preempted_by(view, preemption.take()),
        inversions,
        held,
        by_release: by_release(view, &releases),
        by_holder: by_holder(view, holders, releases),
        by_waiter: waits_by(
            contended,
            ("by_waiter", "waiters"),
            |wait| wait.turn.thread,
            |id| thread_name(view.view.tables, id, None),
        ),
        by_stack: by_stack(view, contended),
    }
}

fn preempted_by(view: &LockView<'_, '_>, times: BTreeMap<Option<ThreadId>, u64>) -> Vec<Preemptor> {
    let tables = view.view.tables;
    let row = |(id, time_ns): (Option<ThreadId>, u64)| Preemptor {
        pid: id.and_then(|id| tables.process(id)).map(|process| process.pid),
        tid: id.and_then(|id| tables.thread(id)).map(|thread| thread.tid),
        thread: id.and_then(|id| tables.thread(id)).map(|thread| thread.name.clone()),
        time_ns,
    };
    let mut rows: Vec<Preemptor> = times.into_iter().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.time_ns));
    rows.truncate(PREEMPTORS);
    rows
}

fn by_holder(
    view: &LockView<'_, '_>,
    holders: FxHashMap<Holder, HolderTally>,
    releases: FxHashMap<(Holder, Option<StackId>), HolderTally>,
) -> GroupTable<HolderTally> {
    let mut stacks: FxHashMap<Holder, StackId> = FxHashMap::default();
    for ((holder, stack), _) in ranked(releases) {
        if let Some(stack) = stack {
            stacks.entry(holder).or_insert(stack);
        }
    }
    GroupTable::new(("by_holder", "held by"), holders, |holder| {
        let stack = stacks.get(&holder).copied();
        let function = view.view.function_name(stack).map(str::to_owned);
        let name = holder_name(view, holder).field("function", function);
        name.names("frames", frames(view, stack))
    })
}

fn by_release(
    view: &LockView<'_, '_>,
    releases: &FxHashMap<(Holder, Option<StackId>), HolderTally>,
) -> GroupTable<HolderTally> {
    let mut functions: FxHashMap<Option<FunctionId>, HolderTally> = FxHashMap::default();
    for ((_, stack), tally) in releases {
        functions.entry(view.view.function(*stack)).or_default().merge(tally);
    }
    GroupTable::new(("by_release", "released in"), functions, |id| {
        view.view.functions.group_name(view.view.tables, id)
    })
}

fn by_stack(view: &LockView<'_, '_>, contended: &Contended) -> GroupTable<WaitTally> {
    let name = |stack| GroupName::new("").names("frames", frames(view, stack));
    let mut table = waits_by(contended, ("by_stack", ""), |wait| wait.stack, name);
    table.rows.truncate(STACKS);
    table
}

fn frames(view: &LockView<'_, '_>, stack: Option<StackId>) -> Vec<String> {
    let frames = stack.into_iter().flat_map(|stack| view.view.frames(stack));
    frames.map(std::borrow::Cow::into_owned).collect()
}

fn waits_by<K: Hash + Ord>(
    contended: &Contended,
    titles: (&'static str, &'static str),
    of: impl Fn(&super::view::LockWait) -> K,
    name: impl Fn(K) -> GroupName,
) -> GroupTable<WaitTally> {
    let mut groups: FxHashMap<K, WaitTally> = FxHashMap::default();
    for wait in contended.waits.iter().filter(|wait| wait.is_selected) {
        groups.entry(of(wait)).or_default().merge(&wait.tally);
    }
    GroupTable::new(titles, groups, name)
}

/// Names the row of a holder.
pub(super) fn holder_name(view: &LockView<'_, '_>, holder: Holder) -> GroupName {
    match holder {
        Holder::Thread(id) if view.view.tables.thread(id).is_some() => thread_name(view.view.tables, id, None),
        Holder::Unrecorded(tid) => GroupName::new(format!("(thread {tid}, not recorded)"))
            .field("pid", None::<u32>)
            .field("tid", tid)
            .field("thread", None::<String>),
        _ => GroupName::new("(unknown)")
            .field("pid", None::<u32>)
            .field("tid", None::<u32>)
            .field("thread", None::<String>),
    }
}
