//! Which threads ran while the holder of a lock waited for a CPU.

use std::collections::BTreeMap;

use super::holds::Contention;
use crate::path::holders;
use crate::path::lanes::Lanes;
use base::addr::{Timestamp, ns};
use fact::{ThreadId, WaitReason};

/// Most steps for a report; what remains is unknown.
const MAX_STEPS: usize = 1 << 24;

/// Times of the threads that ran instead of holders. `None`: the CPU was another program's, or idle, or it is unknown
/// which one it was.
#[derive(Debug, Default)]
pub struct Preemption {
    /// Time by thread, in ns.
    pub times: BTreeMap<Option<ThreadId>, u64>,
    steps: usize,
}

/// A thread ran while a holder waited for that CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    /// The thread.
    pub thread: ThreadId,
    /// From when.
    pub from: Timestamp,
    /// Until when.
    pub to: Timestamp,
}

impl Preemption {
    /// Starts with the next lock.
    pub fn take(&mut self) -> BTreeMap<Option<ThreadId>, u64> {
        std::mem::take(&mut self.times)
    }

    /// Adds the time between two moments in which a holder waited for a CPU, once for each of the threads that waited
    /// for the holder. Calls `each` with the parts of it in which a known thread ran, and the holder's priority.
    pub fn add(&mut self, lanes: &Lanes, holder: ThreadId, part: &Contention, mut each: impl FnMut(Ran, Option<i16>)) {
        let (from, to) = (part.start, part.end);
        let waits = lanes.get(holder).map_or(&[][..], |lane| lane.waits());
        let first = waits.partition_point(|wait| wait.end <= from);
        for wait in waits.iter().skip(first).take_while(|wait| wait.start < to) {
            let runnable = match wait.reason {
                WaitReason::RunQueue | WaitReason::Throttled => wait.start,
                _ => wait.woken,
            };
            let (start, mut now) = (runnable.max(from), wait.end.min(to));
            while now > start {
                self.steps += 1;
                // No other thread is the reason for missing quota.
                let is_throttled = wait.reason == WaitReason::Throttled && now <= wait.woken;
                let (since, thread) = if is_throttled || self.steps > MAX_STEPS {
                    (start, None)
                } else {
                    holders::holder(lanes, holder, wait, (start, now))
                };
                let time = ns(now.since(since)).saturating_mul(part.waiters);
                let sum = self.times.entry(thread).or_default();
                *sum = sum.saturating_add(time);
                if let Some(thread) = thread {
                    each(
                        Ran {
                            thread,
                            from: since,
                            to: now,
                        },
                        wait.priority,
                    );
                }
                now = since;
            }
        }
    }
}
