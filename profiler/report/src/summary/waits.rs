//! Off-CPU time in a summary: of the main thread, or of all threads if none ran.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::{WIDTH, list};
use crate::export::ns;
use crate::functions::Functions;
use crate::text::{columns, duration, fit_middle};
use crate::waits::view::waiting;
use base::addr::Timestamp;
use fact::About;
use fact::reduce::budget::{Collected, ThreadFacts};
use fact::{FaultFact, MappedFileId, StackId, Tables, ThreadId, WaitFact, WaitReason, short_path};

/// Maximum number of functions and of files.
const MAX_LISTED: usize = 3;

/// Off-CPU time in ns by cause. Each wait counts once; its time in the run queue counts separately.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WaitSummary {
    /// Runnable, but waiting for a CPU.
    pub run_queue_ns: u64,
    /// Waiting for the CPU quota of their cgroups.
    #[serde(default)]
    pub throttled_ns: u64,
    /// Within page faults.
    pub fault_ns: u64,
    /// Waiting for disks outside of page faults.
    pub disk_ns: u64,
    /// Waiting for locks.
    pub lock_ns: u64,
    /// Nothing to do: conditions, poll, sleep, children, stopped.
    pub idle_ns: u64,
    /// All other causes.
    pub other_ns: u64,
    /// Functions that were held up longest: neither idle nor waiting for a CPU.
    pub functions: Vec<(String, u64)>,
    /// Files of system calls and page faults that were held up longest.
    pub files: Vec<(String, u64)>,
}

/// Time held up in ns by stack and by file.
#[derive(Default)]
struct HeldUp<'a> {
    stacks: FxHashMap<StackId, u64>,
    files: FxHashMap<MappedFileId, u64>,
    /// By path, for files that only a system call names.
    paths: FxHashMap<&'a str, u64>,
}

impl WaitSummary {
    /// Summarizes the waits of one thread, or of all. `None`: waits were not traced.
    pub fn new(tables: &Tables, collected: &Collected, thread: Option<ThreadId>) -> Option<Self> {
        if collected.waits.is_empty() {
            return None;
        }
        let mut summary = Self::default();
        let mut held = HeldUp::default();
        let whose = match thread {
            Some(thread) => thread.index()..thread.index().saturating_add(1),
            None => 0..collected.threads.len(),
        };
        for facts in collected.threads.get(whose)? {
            summary.add_facts(facts, &mut held);
        }
        let folded = collected.folded_wait_stacks.iter();
        for folded in folded.filter(|folded| thread.is_none_or(|thread| folded.thread == thread)) {
            if summary.add(folded.reason, folded.in_fault, folded.blocked, folded.queued) {
                add(&mut held.stacks, folded.stack, folded.blocked);
            }
        }
        summary.functions = functions(tables, held.stacks);
        let named = held.files.into_iter().filter_map(|(id, time)| {
            let file = tables.files.get(id.index())?;
            Some((file.short_name(), time))
        });
        let spelled = held.paths.into_iter();
        let spelled = spelled.map(|(path, time)| (short_path(path).to_owned(), time));
        summary.files = most(named.chain(spelled));
        Some(summary)
    }

    fn add_facts<'a>(&mut self, facts: &'a ThreadFacts, held: &mut HeldUp<'a>) {
        for wait in &facts.waits {
            let blocked = ns(wait.blocked());
            if self.add(wait.reason, wait.in_fault, blocked, ns(wait.queued)) {
                add(&mut held.stacks, wait.stack, blocked);
                match About::of(wait).filter(|_| !wait.in_fault) {
                    Some(About::File(file)) => add(&mut held.files, Some(file), blocked),
                    Some(About::Path(path)) => add(&mut held.paths, Some(path), blocked),
                    None => {}
                }
            }
        }
        let in_faults = in_faults(&facts.waits);
        for fault in facts.faults.iter() {
            let waited = held_up(&fault, &in_faults);
            add(
                &mut held.files,
                fault.place.map(|place| place.file).filter(|_| waited > 0),
                waited,
            );
        }
    }

    /// Counts a wait. Returns true if the thread was held up.
    fn add(&mut self, reason: WaitReason, in_fault: bool, blocked: u64, queued: u64) -> bool {
        self.run_queue_ns = self.run_queue_ns.saturating_add(queued);
        let (sum, is_held_up) = match reason {
            WaitReason::Throttled => (&mut self.throttled_ns, false),
            _ if in_fault && reason != WaitReason::RunQueue => (&mut self.fault_ns, true),
            WaitReason::RunQueue => (&mut self.run_queue_ns, false),
            WaitReason::Disk => (&mut self.disk_ns, true),
            WaitReason::Lock => (&mut self.lock_ns, true),
            _ if reason.is_idle() => (&mut self.idle_ns, false),
            WaitReason::Unknown => (&mut self.other_ns, false),
            _ => (&mut self.other_ns, true),
        };
        *sum = sum.saturating_add(blocked);
        is_held_up && blocked > 0
    }

    /// Sum of all causes, in ns.
    pub fn sum(&self) -> u64 {
        let parts = self.parts();
        parts.iter().fold(0_u64, |sum, (_, part)| sum.saturating_add(*part))
    }

    fn parts(&self) -> [(&'static str, u64); 7] {
        [
            ("fault", self.fault_ns),
            ("disk", self.disk_ns),
            ("lock", self.lock_ns),
            ("idle", self.idle_ns),
            ("run queue", self.run_queue_ns),
            ("throttled", self.throttled_ns),
            ("other", self.other_ns),
        ]
    }

    /// At most three lines; `not_running` is the total off-CPU time to explain, in ns.
    pub fn lines(&self, not_running: u64) -> Vec<String> {
        let unknown = not_running.saturating_sub(self.sum());
        let mut parts: Vec<(&str, u64)> = self.parts().into_iter().chain([("unknown", unknown)]).collect();
        parts.retain(|(name, part)| *part > 0 && (*name != "unknown" || *part > not_running / 1000));
        parts.sort_by_key(|(_, part)| Reverse(*part));
        let parts = parts
            .into_iter()
            .map(|(name, part)| format!("{name} {}", duration(part)));
        let mut lines = vec![list("waited:  ", parts, "not at all")];
        for (head, all) in [("held up: ", &self.functions), ("by file: ", &self.files)] {
            let each = (WIDTH - columns(head)) / all.len().clamp(1, MAX_LISTED) - 2;
            let items = all.iter().map(|(name, time)| {
                let time = duration(*time);
                format!("{} {time}", fit_middle(name, each.saturating_sub(columns(&time) + 1)))
            });
            if !all.is_empty() {
                lines.push(list(head, items, ""));
            }
        }
        lines
    }
}

/// When each wait within a page fault began, ascending, and how long it was blocked, in ns.
fn in_faults(waits: &[WaitFact]) -> Vec<(Timestamp, u64)> {
    let blocked = waits.iter().filter(|wait| wait.in_fault);
    let mut blocked: Vec<_> = blocked.map(|wait| (wait.start, ns(wait.blocked()))).collect();
    blocked.sort_unstable();
    blocked
}

/// How long a page fault was blocked, in ns. Its own parts include the run queue, which its waits do not; but waits that
/// were merged have a start only for the first of them.
fn held_up(fault: &FaultFact, in_faults: &[(Timestamp, u64)]) -> u64 {
    let waits = &fault.waits;
    let parts = [waits.lock, waits.disk, waits.other_read, waits.blocked];
    let waited = parts.into_iter().flatten().map(ns).fold(0, u64::saturating_add);
    let end = Timestamp(fault.start.0.saturating_add(fault.latency.map_or(0, ns)));
    let first = in_faults.partition_point(|(start, _)| *start < fault.start);
    let within = in_faults.get(first..).unwrap_or_default().iter();
    let within = within
        .take_while(|(start, _)| *start <= end)
        .map(|(_, blocked)| *blocked);
    within
        .reduce(u64::saturating_add)
        .map_or(waited, |blocked| blocked.min(waited))
}

fn add<K: std::hash::Hash + Eq>(sums: &mut FxHashMap<K, u64>, key: Option<K>, time: u64) {
    if let Some(key) = key {
        let sum = sums.entry(key).or_default();
        *sum = sum.saturating_add(time);
    }
}

fn functions(tables: &Tables, stacks: FxHashMap<StackId, u64>) -> Vec<(String, u64)> {
    if stacks.is_empty() {
        return Vec::new();
    }
    let functions = Functions::new(tables);
    let waiting = waiting(tables, &functions);
    most(stacks.into_iter().filter_map(|(stack, time)| {
        let function = functions.get((*waiting.get(stack.index())?)?)?;
        Some((function.name.clone(), time))
    }))
}

/// Sums times by name and returns the largest.
fn most(items: impl Iterator<Item = (String, u64)>) -> Vec<(String, u64)> {
    let mut sums: FxHashMap<String, u64> = FxHashMap::default();
    for (name, time) in items {
        add(&mut sums, Some(name), time);
    }
    let mut all: Vec<(String, u64)> = sums.into_iter().collect();
    all.sort_unstable_by(|(a, a_time), (b, b_time)| (b_time, a).cmp(&(a_time, b)));
    all.truncate(MAX_LISTED);
    all
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use fact::MappedFile;
    use fact::reduce::budget::WaitSum;
    use fact::wait::{Coverage, WaitCall};

    const MS: u64 = 1_000_000;

    fn wait(reason: WaitReason, ms: u64, in_fault: bool, file: Option<u32>) -> WaitFact {
        let off = Duration::from_millis(ms);
        WaitFact {
            start: Timestamp(0),
            end: Timestamp(ms * MS),
            thread: ThreadId(0),
            stack: None,
            off,
            queued: Duration::from_millis(1),
            longest: off,
            count: 1,
            reason,
            call: file.map(|file| WaitCall {
                number: 0,
                name: "read".into(),
                file: Some(MappedFileId(file)),
                path: None,
            }),
            waker: None,
            coverage: Coverage::Full,
            in_fault,
            cpu: None,
            futex: None,
            lock: None,
            priority: None,
        }
    }

    fn summary(waits: Vec<WaitFact>) -> Option<WaitSummary> {
        let mut collected = Collected::default();
        for wait in &waits {
            collected.waits.insert((ThreadId(0), wait.reason), WaitSum::default());
        }
        let facts = ThreadFacts {
            waits,
            ..ThreadFacts::default()
        };
        collected.threads = vec![facts];
        let mut tables = Tables::default();
        for path in ["/lib/libxul.so", "/home/x.db", "/a/b", "/z"] {
            tables.files.push(MappedFile {
                path: path.into(),
                ..MappedFile::default()
            });
        }
        WaitSummary::new(&tables, &collected, Some(ThreadId(0)))
    }

    #[test]
    fn descriptor_and_path_name_the_same_file() {
        let mut open = wait(WaitReason::Disk, 3, false, Some(0));
        open.call = Some(WaitCall {
            number: 257,
            name: "openat".into(),
            file: None,
            path: Some("../lib/libxul.so".into()),
        });
        let summary = summary(vec![wait(WaitReason::Disk, 5, false, Some(0)), open]).unwrap();
        assert_eq!(summary.files, [("libxul.so".to_owned(), 6 * MS)]);
    }

    #[test]
    fn every_wait_is_listed_once() {
        use WaitReason as Is;
        let summary = summary(vec![
            wait(Is::Disk, 21, false, Some(1)),
            wait(Is::Disk, 31, true, Some(1)),
            wait(Is::Lock, 6, false, None),
            wait(Is::Poll, 101, false, None),
            wait(Is::RunQueue, 1, false, None),
            wait(Is::Pipe, 41, false, Some(2)),
        ])
        .unwrap();
        let parts = summary.parts().map(|(_, part)| part / MS);
        // Fault, disk, lock, idle, run queue, other; a millisecond of each is spent waiting for a CPU.
        assert_eq!(parts, [30, 20, 5, 100, 6, 0, 40]);
        assert_eq!(summary.sum(), 201 * MS);
        let files = [("b".to_owned(), 40 * MS), ("x.db".to_owned(), 20 * MS)];
        assert_eq!(summary.files, files, "a fault's wait counts for the fault's file");
        assert_eq!(
            summary.lines(250 * MS),
            [
                "waited:  idle 100 ms, unknown 49.0 ms, other 40.0 ms, fault 30.0 ms, 3 more",
                "by file: b 40.0 ms, x.db 20.0 ms"
            ]
        );
    }

    #[test]
    fn a_fault_counts_without_its_time_in_the_run_queue() {
        let fault = |start| FaultFact {
            start: Timestamp(start),
            latency: Some(Duration::from_millis(31)),
            waits: fact::fault::FaultWaits {
                disk: Some(Duration::from_millis(30)),
                ..fact::fault::FaultWaits::default()
            },
            ..fact::fixtures::fault()
        };
        let mut queued = wait(WaitReason::Disk, 30, true, None);
        queued.queued = Duration::from_millis(28);
        let waits = in_faults(&[queued, wait(WaitReason::Disk, 9, false, None)]);
        assert_eq!(held_up(&fault(0), &waits), 2 * MS);
        assert_eq!(
            held_up(&fault(1), &waits),
            30 * MS,
            "its wait was merged with an earlier one"
        );
    }

    #[test]
    fn without_waits_nothing_is_printed() {
        assert_eq!(summary(Vec::new()), None);
    }
}
