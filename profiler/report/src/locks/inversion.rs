//! Priority inversion: a thread waits for a lock, and its holder for a CPU that a third thread has, whose priority is
//! between theirs. Lower numbers are better priorities.

use std::collections::BTreeMap;

use serde::Serialize;

use super::preemption::Ran;
use super::view::LockWait;
use crate::lookup::Lookup as _;
use crate::path::lanes::Lanes;
use base::addr::ns;
use fact::{Tables, ThreadId};

/// Most comparisons with waits for a report.
const MAX_STEPS: usize = 1 << 24;

/// `MAX_RT_PRIO` of include/linux/sched/prio.h: better ones are real-time priorities.
const MAX_RT_PRIO: i16 = 100;

/// A thread and its priority.
type Ranked = (ThreadId, i16);

/// The threads of an inversion: the waiter, the holder, and the one that ran.
type Trio = (Ranked, Ranked, Ranked);

/// Number of rows of a lock.
const ROWS: usize = 20;

/// A time in which a thread waited for one with a worse priority, which a third one with a priority between kept from
/// running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inversion {
    /// The thread that waited for the lock.
    pub waiter: RankedThread,
    /// The thread that held it.
    pub holder: RankedThread,
    /// The thread that ran.
    pub ran: RankedThread,
    /// For how long the waiter was blocked meanwhile, in ns.
    pub time_ns: u64,
}

/// A thread and its priority.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RankedThread {
    /// Process id.
    pub pid: Option<u32>,
    /// Thread id.
    pub tid: Option<u32>,
    /// Its name.
    pub thread: Option<String>,
    /// The kernel's number of its priority: lower ones run first.
    pub priority: i16,
}

/// Inversions, with the time for which the waiters were blocked.
#[derive(Debug, Default)]
pub struct Inversions {
    times: BTreeMap<Trio, u64>,
    steps: usize,
}

impl Inversions {
    /// The rows of a lock, longest first; starts with the next one.
    pub fn take(&mut self, tables: &Tables) -> Vec<Inversion> {
        let times = std::mem::take(&mut self.times);
        let ranked = |(id, priority): Ranked| RankedThread {
            pid: tables.process(id).map(|process| process.pid),
            tid: tables.thread(id).map(|thread| thread.tid),
            thread: tables.thread(id).map(|thread| thread.name.clone()),
            priority,
        };
        let mut rows: Vec<Inversion> = times
            .into_iter()
            .map(|((waiter, holder, ran), time_ns)| Inversion {
                waiter: ranked(waiter),
                holder: ranked(holder),
                ran: ranked(ran),
                time_ns,
            })
            .collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.time_ns));
        rows.truncate(ROWS);
        rows
    }

    /// Adds a time in which `ran` had the CPU that the `holder` waited for. `waits` are those for the lock, by their
    /// start.
    pub fn add(&mut self, lanes: &Lanes, waits: &[LockWait], (holder, priority): (ThreadId, Option<i16>), ran: Ran) {
        // A thread's priority is recorded when it is switched out; that of a new one when it is switched in.
        let of_ran = lanes.get(ran.thread).and_then(|lane| {
            let next = lane.next(ran.to).or_else(|| lane.waits().last());
            next?.priority
        });
        let (Some(own), Some(of_ran)) = (priority, of_ran) else {
            return;
        };
        // Under the fair scheduler a better priority does not keep another thread from running.
        if of_ran >= own || of_ran >= MAX_RT_PRIO {
            return;
        }
        let begun = waits.partition_point(|wait| wait.turn.start < ran.to);
        for wait in waits.iter().take(begun) {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return;
            }
            let (from, to) = (wait.turn.start.max(ran.from), wait.turn.woken.min(ran.to));
            let is_one = wait.is_selected && wait.is_one() && wait.turn.thread != ran.thread;
            if let Some(waiter) = wait.priority.filter(|waiter| is_one && *waiter < of_ran && from < to) {
                let trio = ((wait.turn.thread, waiter), (holder, own), (ran.thread, of_ran));
                let sum = self.times.entry(trio).or_default();
                *sum = sum.saturating_add(ns(to.since(from)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locks::holds::Holder;
    use crate::locks::patterns::Turn;
    use crate::path::lanes::{Lane, LaneWait};
    use crate::waits::tally::WaitTally;
    use base::addr::Timestamp;
    use fact::WaitReason;

    /// Thread 0 waits from 10 to 50.
    fn waiter(priority: i16) -> LockWait {
        LockWait {
            turn: Turn {
                thread: ThreadId(0),
                start: Timestamp(10),
                woken: Timestamp(50),
                end: Timestamp(51),
                by: Holder::Thread(ThreadId(1)),
                is_selected: true,
            },
            since: Timestamp(10),
            stack: None,
            released: None,
            holder: None,
            priority: Some(priority),
            tally: WaitTally {
                waits: 1,
                ..WaitTally::default()
            },
            is_selected: true,
        }
    }

    /// The time for which a holder with priority 90 is held up by thread 2, which runs from 20 to 60.
    fn inverted(waiter_priority: i16, ran: Option<i16>) -> u64 {
        let out = LaneWait {
            start: Timestamp(60),
            woken: Timestamp(99),
            end: Timestamp(99),
            reason: WaitReason::Sleep,
            in_fault: false,
            ended_by: crate::path::lanes::EndedBy::Unknown,
            stack: None,
            file: None,
            request: None,
            cpu: None,
            priority: ran,
        };
        let lane = |waits| Lane::new(Timestamp(0), waits, Vec::new());
        let lanes = Lanes::new(vec![lane(vec![]), lane(vec![]), lane(vec![out])]);
        let mut inversions = Inversions::default();
        let ran = Ran {
            thread: ThreadId(2),
            from: Timestamp(20),
            to: Timestamp(60),
        };
        let waits = [waiter(waiter_priority)];
        inversions.add(&lanes, &waits, (ThreadId(1), Some(90)), ran);
        inversions.add(&lanes, &waits, (ThreadId(1), None), ran);
        let rows = inversions.take(&Tables::default());
        rows.iter().map(|row| row.time_ns).sum()
    }

    #[test]
    fn the_third_priority_is_between_the_others() {
        assert_eq!(inverted(70, Some(80)), 30);
        // The one that ran is as important as the waiter, or the holder is as important as it.
        assert_eq!(inverted(80, Some(80)), 0);
        assert_eq!(inverted(70, Some(90)), 0);
        assert_eq!(inverted(120, Some(80)), 0);
        assert_eq!(inverted(70, None), 0);
    }
}
