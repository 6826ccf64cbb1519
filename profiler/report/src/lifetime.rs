//! Checks whether a thread's time adds up: on CPUs + off CPUs = its lifetime, within a thousandth.

use std::time::Duration;

use profiler_common::Loss;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use crate::text::duration;
use base::addr::{Timestamp, ns};
use base::plural::{and_more, loss};
use fact::{FactSink, Mark, Recording, SampleFact, Tables, Thread, ThreadId, WaitFact};

/// One in this many parts of a lifetime may be missing.
const PART: u64 = 1000;
/// Minimum tolerance for a short lifetime, in ns: a thread runs before its first event and after its last.
const AT_LEAST: u64 = 100_000;

/// Times of threads while facts arrive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lifetimes {
    /// By thread: on CPUs and off CPUs, in ns.
    threads: Vec<Times>,
}

/// How a thread spent its time, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Times {
    on: u64,
    off: u64,
}

/// Totals over all threads' lifetimes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct LifetimeCheck {
    /// Threads that ran or waited.
    pub threads: u64,
    /// Their time on CPUs, in ns.
    pub on_ns: u64,
    /// Their time off CPUs, in ns.
    pub off_ns: u64,
    /// Their lifetimes within the recording, in ns.
    pub life_ns: u64,
    /// The part of their lifetimes that is neither, in ns.
    pub missing_ns: u64,
    /// Time that is counted as both, or outside their lifetimes, in ns.
    pub excess_ns: u64,
    /// Threads with times that do not add up.
    pub open: Vec<OpenLifetime>,
    /// Times of each thread.
    pub each: Vec<Lifetime>,
}

/// How a thread spent its lifetime within the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Lifetime {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// On CPUs, in ns.
    pub on_ns: u64,
    /// Off CPUs, in ns.
    pub off_ns: u64,
    /// Lifetime, in ns.
    pub life_ns: u64,
    /// The kernel's own CPU time, in ns, since birth and without time stolen by a hypervisor; `None` if the thread
    /// did not end.
    pub kernel_on_ns: Option<u64>,
}

/// A thread with times that do not add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct OpenLifetime {
    /// The thread.
    pub thread: ThreadId,
    /// Its lifetime, in ns.
    pub life_ns: u64,
    /// On CPUs plus off CPUs minus the lifetime, in ns.
    pub difference_ns: i64,
}

impl FactSink for Lifetimes {
    fn sample(&mut self, _: &Tables, sample: &SampleFact) {
        let on = &mut self.of(sample.thread).on;
        *on = on.saturating_add(ns(sample.cpu_time));
    }

    fn mark(&mut self, _: &Tables, _: &Mark) {}

    fn wait(&mut self, _: &Tables, wait: &WaitFact) {
        let off = &mut self.of(wait.thread).off;
        *off = off.saturating_add(ns(wait.off));
    }
}

impl Lifetimes {
    fn of(&mut self, thread: ThreadId) -> &mut Times {
        if thread.index() >= self.threads.len() {
            self.threads.resize(thread.index() + 1, Times::default());
        }
        &mut self.threads[thread.index()]
    }

    /// Compares each thread's times with its lifetime.
    pub fn check(&self, tables: &Tables) -> LifetimeCheck {
        let mut check = LifetimeCheck::default();
        let mut folded: FxHashMap<ThreadId, u64> = FxHashMap::default();
        for more in &tables.recording.folded_waits {
            let off = folded.entry(more.thread).or_default();
            *off = off.saturating_add(more.off);
        }
        let merged_threads: FxHashSet<ThreadId> = tables
            .recording
            .merged_threads
            .iter()
            .map(|merged| merged.thread)
            .collect();
        for (thread, id) in tables.threads.iter().zip((0..).map(ThreadId)) {
            // A thread with neither samples nor waits may still have run, after its last switch.
            let times = self.threads.get(id.index()).copied().unwrap_or_default();
            let on = times.on.saturating_add(thread.cpu_time_after_last_sample);
            let off = times.off.saturating_add(folded.get(&id).copied().unwrap_or(0));
            // Times of merged threads overlap, and do not add up to a lifetime.
            if on == 0 && off == 0 || merged_threads.contains(&id) {
                continue;
            }
            let life = ns(lifetime(tables, thread));
            let known = on.saturating_add(off);
            let difference = i64::try_from(i128::from(known) - i128::from(life)).unwrap_or(i64::MAX);
            check.threads += 1;
            for (sum, part) in [
                (&mut check.on_ns, on),
                (&mut check.off_ns, off),
                (&mut check.life_ns, life),
                (&mut check.missing_ns, life.saturating_sub(known)),
                (&mut check.excess_ns, known.saturating_sub(life)),
            ] {
                *sum = sum.saturating_add(part);
            }
            let process = tables.processes.get(thread.process.index());
            check.each.push(Lifetime {
                pid: process.map_or(0, |process| process.pid),
                tid: thread.tid,
                on_ns: on,
                off_ns: off,
                life_ns: life,
                kernel_on_ns: thread.sum_exec_runtime,
            });
            if difference.unsigned_abs() > (life / PART).max(AT_LEAST) {
                check.open.push(OpenLifetime {
                    thread: id,
                    life_ns: life,
                    difference_ns: difference,
                });
            }
        }
        check
    }
}

impl LifetimeCheck {
    /// The largest difference, in one line; `None` if all times add up.
    pub fn problem(&self, tables: &Tables) -> Option<String> {
        let worst = self.open.iter().max_by_key(|open| open.difference_ns.unsigned_abs())?;
        let tid = tables.threads.get(worst.thread.index()).map_or(0, |thread| thread.tid);
        let more = and_more(self.open.len() - 1, "thread");
        let what = if worst.difference_ns < 0 {
            "unaccounted for"
        } else {
            "too much"
        };
        let time = duration(worst.difference_ns.unsigned_abs());
        // The time after a missed switch counts as on or off CPUs, whichever it was before.
        let missed = tables.recording.lost(Loss::SwitchMissed);
        let missed = missed.map_or_else(String::new, |times| {
            format!("; {}", loss(Loss::SwitchMissed.name(), times))
        });
        Some(format!(
            "thread times do not add up: {time} {what} in thread {tid}{more}{missed}"
        ))
    }
}

/// Length of a thread's lifetime within the recording.
pub fn lifetime(tables: &Tables, thread: &Thread) -> Duration {
    let (start, end) = life(&tables.recording, thread);
    end.since(start)
}

/// Start and end of a thread's lifetime within the recording.
pub fn life(recording: &Recording, thread: &Thread) -> (Timestamp, Timestamp) {
    let end = thread.end.unwrap_or(recording.end).min(recording.end);
    (thread.start.max(recording.start), end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fact::fixtures;
    use fact::wait::{Coverage, WaitReason};
    use fact::{FoldedWaits, MergedThreads, StackId};

    const MS: u64 = 1_000_000;

    fn thread(start: u64, end: Option<u64>, after: u64) -> Thread {
        Thread {
            start: Timestamp(start),
            end: end.map(Timestamp),
            cpu_time_after_last_sample: after,
            ..fixtures::thread(0, u32::try_from(70 + start / MS).unwrap_or(0))
        }
    }

    fn sample(thread: u32, ms: u64) -> SampleFact {
        SampleFact {
            time: Timestamp(0),
            thread: ThreadId(thread),
            stack: Some(StackId::new(0)),
            cpu_time: Duration::from_millis(ms),
            in_kernel: false,
            weight: 1,
        }
    }

    fn wait(thread: u32, ms: u64) -> WaitFact {
        WaitFact {
            start: Timestamp(0),
            end: Timestamp(0),
            thread: ThreadId(thread),
            stack: None,
            off: Duration::from_millis(ms),
            queued: Duration::ZERO,
            longest: Duration::ZERO,
            count: 3,
            reason: WaitReason::Poll,
            call: None,
            waker: None,
            coverage: Coverage::Full,
            in_fault: false,
            cpu: None,
            futex: None,
            lock: None,
            priority: None,
        }
    }

    #[test]
    fn lifetimes_add_up_or_are_reported() {
        let mut tables = Tables {
            threads: vec![
                thread(0, Some(500 * MS), 20 * MS),
                thread(200 * MS, None, 0),
                thread(900 * MS, Some(950 * MS), 0),
                thread(0, None, 0),
            ],
            ..Tables::default()
        };
        tables.recording.end = Timestamp(1000 * MS);
        let mut lives = Lifetimes::default();
        lives.sample(&tables, &sample(0, 100));
        lives.sample(&tables, &sample(0, 80));
        lives.wait(&tables, &wait(0, 300));
        // 800 ms, with 790 known; 50 ms, with 60 known.
        lives.wait(&tables, &wait(1, 790));
        lives.wait(&tables, &wait(2, 60));
        let check = lives.check(&tables);
        assert_eq!((check.threads, check.on_ns, check.off_ns), (3, 200 * MS, 1150 * MS));
        assert_eq!(
            (check.life_ns, check.missing_ns, check.excess_ns),
            (1350 * MS, 10 * MS, 10 * MS)
        );
        let differences: Vec<_> = check
            .open
            .iter()
            .map(|open| (open.thread.0, open.difference_ns))
            .collect();
        assert_eq!(differences, [(1, -10_000_000), (2, 10_000_000)]);
        let each: Vec<_> = check
            .each
            .iter()
            .map(|life| (life.on_ns, life.off_ns, life.life_ns))
            .collect();
        assert_eq!(
            each,
            [
                (200 * MS, 300 * MS, 500 * MS),
                (0, 790 * MS, 800 * MS),
                (0, 60 * MS, 50 * MS)
            ]
        );
        let problem = check.problem(&tables).unwrap();
        assert_eq!(
            problem,
            "thread times do not add up: 10.0 ms too much in thread 970, and 1 more thread"
        );
        tables.recording.losses.push((Loss::SwitchMissed.name().to_owned(), 2));
        let problem = check.problem(&tables).unwrap();
        assert!(problem.ends_with("more thread; 2 context switches missed"), "{problem}");
        // A thousandth is negligible.
        lives.wait(&tables, &wait(1, 10));
        assert_eq!(lives.check(&tables).open.len(), 1);
    }

    #[test]
    fn aggregated_waits_count_and_merged_threads_do_not() {
        let mut tables = Tables {
            threads: vec![thread(0, Some(20 * MS), 5 * MS), thread(0, Some(30 * MS), 90 * MS)],
            ..Tables::default()
        };
        tables.recording.end = Timestamp(100 * MS);
        tables.recording.folded_waits = vec![FoldedWaits {
            thread: ThreadId(0),
            reason: WaitReason::Lock,
            waits: 7,
            off: 15 * MS,
            queued: 0,
            longest: MS,
        }];
        tables.recording.merged_threads = vec![MergedThreads {
            thread: ThreadId(1),
            threads: 4,
            ran: 4,
            processes_ran: 2,
        }];
        let check = Lifetimes::default().check(&tables);
        assert_eq!((check.threads, check.off_ns, check.open), (1, 15 * MS, Vec::new()));
    }

    #[test]
    fn a_thread_that_only_ran_counts() {
        let mut tables = Tables {
            threads: vec![thread(0, Some(20 * MS), 0), thread(0, Some(30 * MS), 30 * MS)],
            ..Tables::default()
        };
        tables.recording.end = Timestamp(100 * MS);
        let check = Lifetimes::default().check(&tables);
        assert_eq!((check.threads, check.on_ns, check.missing_ns), (1, 30 * MS, 0));
    }

    #[test]
    fn damaged_counts_do_not_panic() {
        let tables = Tables {
            threads: vec![thread(u64::MAX, Some(0), u64::MAX)],
            ..Tables::default()
        };
        let mut lives = Lifetimes::default();
        lives.wait(&tables, &wait(0, u64::MAX / MS));
        lives.wait(&tables, &wait(9, u64::MAX / MS));
        assert_eq!(lives.check(&tables).open.len(), 1);
    }
}
