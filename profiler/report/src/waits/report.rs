//! The tables of `ngmi waits`: the selected waits by reason, function, stack, system call, file, waker, process and thread.
//! Each table adds up to the totals.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::select::Selector;
use super::tally::WaitTally;
use super::view::View;
use crate::functions::FunctionId;
use crate::grid::{
    GroupName, GroupRow, GroupTable, GroupTables, Grouping, Groupings, Measure as _, by, by_parts, ranked,
};
use crate::histogram::Histogram;
use crate::lifetime::LifetimeCheck;
use crate::lookup::{Lookup as _, process_name, thread_name};
use crate::owner::{by_cgroup, cgroup_name};
use fact::About;
use fact::reclaim::ReclaimLimit;
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
    pub totals: WaitTally,
    /// Selected waits whose stack was reused from an earlier wait with identical registers, because of rate limiting.
    pub like_earlier: u64,
    /// The tables: `by_reason`, `by_function`, and so on.
    #[serde(flatten)]
    pub tables: GroupTables<WaitTally>,
    /// Comparison of on-CPU and off-CPU time with the lifetimes of the threads, for the whole recording.
    pub lives: LifetimeCheck,
    /// Description of a mismatch in `lives`.
    pub problem: Option<String>,
}

/// The waker of a wait, for grouping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum WakerKey {
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
    pub(super) fn of(waker: Option<&WakerFact>) -> Self {
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

impl WaitReport {
    /// Summarizes the selected waits.
    pub fn new(view: &View<'_>, selector: &Selector) -> Self {
        let mut groupings = groupings(view);
        let (mut waits_in_file, mut like_earlier) = (0_u64, 0_u64);
        for wait in view.waits() {
            waits_in_file = waits_in_file.saturating_add(u64::from(wait.count));
            if !selector.takes(view, &wait) {
                continue;
            }
            groupings.add(&wait, &WaitTally::of(&wait));
            if wait.coverage == Coverage::StackReused {
                like_earlier = like_earlier.saturating_add(u64::from(wait.count));
            }
        }
        let lives = view.lives();
        let (totals, tables) = groupings.finish();
        Self {
            recording: view.tables.recording.without_usage(),
            waits_in_file,
            totals,
            like_earlier,
            tables,
            problem: lives.problem(view.tables),
            lives,
        }
    }
}

fn groupings<'v>(view: &'v View<'_>) -> Groupings<'v, WaitFact, WaitTally> {
    let tables = view.tables;
    Groupings::new(vec![
        Box::new(ByReason::default()),
        by_parts(
            ("by_function", "by function (main reason)"),
            |wait: &WaitFact| (view.function(wait.stack), wait.reason),
            |parts| functions(view, parts),
        ),
        by_parts(
            ("by_stack", ""),
            |wait: &WaitFact| (wait.stack, wait.reason),
            |groups| stacks(view, groups),
        ),
        by(
            ("by_call", "by system call"),
            |wait: &WaitFact| wait.call.as_ref().map(|call| call.number),
            |number: Option<u32>| {
                let name = number.and_then(|number| view.call_name(number));
                GroupName::new(name.unwrap_or("(no system call)")).field("call", name.map(str::to_owned))
            },
        ),
        by(
            ("by_file", "by file"),
            |wait: &WaitFact| About::of(wait).and_then(|about| about.shown(tables)),
            |file: Option<String>| match file {
                Some(file) => GroupName::path(file.clone()).field("file", file),
                None => GroupName::new("(no known file)").field("file", None::<String>),
            },
        ),
        by(
            ("by_waker", "by waker"),
            |wait: &WaitFact| WakerKey::of(wait.waker.as_ref()),
            |key| waker(view, key),
        ),
        by(
            ("by_process", "by process"),
            |wait: &WaitFact| tables.thread(wait.thread).map(|thread| thread.process),
            |id| process_name(tables, id),
        ),
        by(
            by_cgroup(&view.owners),
            |wait: &WaitFact| view.owners.place_of_thread(tables, wait.thread),
            |place| cgroup_name(&view.owners, place),
        ),
        by(
            ("by_limit", if view.has_limits() { "by limit of memory" } else { "" }),
            |wait: &WaitFact| view.limit(wait),
            |limit: Option<ReclaimLimit>| {
                let words = limit.map(|limit| view.limit_words(limit));
                GroupName::new(words.clone().unwrap_or_else(|| "(other waits)".to_owned())).field("limit", words)
            },
        ),
        by(
            ("by_thread", "by thread"),
            |wait: &WaitFact| wait.thread,
            |id| thread_name(tables, id, None),
        ),
    ])
}

/// Waits by reason, with the distribution of their durations.
#[derive(Default)]
struct ByReason(BTreeMap<WaitReason, (WaitTally, Histogram)>);

impl Grouping<WaitFact, WaitTally> for ByReason {
    fn add(&mut self, wait: &WaitFact, more: &WaitTally) {
        let (tally, lengths) = self.0.entry(wait.reason).or_default();
        tally.merge(more);
        lengths.add(wait);
    }

    fn finish(self: Box<Self>) -> GroupTable<WaitTally> {
        let mut groups: Vec<_> = self.0.into_iter().collect();
        groups.sort_by_key(|(_, (tally, _))| std::cmp::Reverse(tally.rank()));
        let row = |(reason, (tally, lengths)): (WaitReason, _)| {
            let name = GroupName::new(reason.name()).field("reason", reason.name());
            GroupRow::new(name.lengths("lengths", Box::new(lengths)), tally)
        };
        GroupTable {
            key: "by_reason",
            title: "by reason",
            rows: groups.into_iter().map(row).collect(),
        }
    }
}

/// One row per function, with the reason that has the most time.
fn functions(view: &View<'_>, parts: Vec<((Option<FunctionId>, WaitReason), WaitTally)>) -> Vec<GroupRow<WaitTally>> {
    let mut reasons = FxHashMap::default();
    let mut functions: FxHashMap<Option<FunctionId>, WaitTally> = FxHashMap::default();
    for ((function, reason), tally) in parts {
        functions.entry(function).or_default().merge(&tally);
        reasons.entry(function).or_insert(reason);
    }
    let row = |(id, tally)| {
        let reason = reasons.get(&id).copied().unwrap_or_default().name();
        let name = view.functions.group_name(view.tables, id).with_id(reason);
        GroupRow::new(name.field("reason", reason), tally)
    };
    ranked(functions).into_iter().map(row).collect()
}

fn stacks(view: &View<'_>, groups: Vec<((Option<StackId>, WaitReason), WaitTally)>) -> Vec<GroupRow<WaitTally>> {
    let row = |((stack, reason), tally): ((Option<StackId>, WaitReason), _)| {
        let frames = stack.into_iter().flat_map(|stack| view.frames(stack));
        let name = GroupName::new(reason.name()).names("frames", frames.map(std::borrow::Cow::into_owned).collect());
        GroupRow::new(name.field("reason", reason.name()), tally)
    };
    groups.into_iter().take(STACKS).map(row).collect()
}

fn waker(view: &View<'_>, key: WakerKey) -> GroupName {
    let (shown, name, pid, tid) = match key {
        WakerKey::Thread(id) => {
            let thread = view.tables.thread(id);
            let (name, tid) = (
                thread.map(|thread| thread.name.clone()),
                thread.map(|thread| thread.tid),
            );
            let shown = match (&name, tid) {
                (Some(name), Some(tid)) => GroupName::new(name).with_id(tid),
                _ => GroupName::new("(none or unknown)"),
            };
            (shown, name, view.tables.process(id).map(|process| process.pid), tid)
        }
        WakerKey::Unrecorded(pid, tid) => {
            let shown = GroupName::new(format!("(thread {tid}, not recorded)"));
            (shown, None, Some(pid), Some(tid))
        }
        WakerKey::Interrupt => (GroupName::new("(interrupt)"), Some("interrupt".to_owned()), None, None),
        WakerKey::Unknown => (GroupName::new("(none or unknown)"), None, None, None),
    };
    shown.field("waker", name).field("pid", pid).field("tid", tid)
}
