//! What a thread did in a time span, in sums.

use rustc_hash::FxHashMap;

use crate::path::lanes::{Lane, LaneWait, Lanes};
use base::addr::{Timestamp, ns};
use fact::{ThreadId, WaitReason};

/// How a thread spent its time, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Doing {
    /// On a CPU.
    pub cpu: u64,
    /// Blocked in page faults.
    pub fault: u64,
    /// Blocked for a disk, outside of page faults.
    pub disk: u64,
    /// Waiting for a CPU, or for CPU quota.
    pub queue: u64,
    /// Blocked for something else.
    pub other: u64,
}

impl Doing {
    /// A wait up to `time`.
    fn of(wait: &LaneWait, time: Timestamp) -> Self {
        let until = |start: Timestamp, end: Timestamp| ns(end.min(time).since(start.min(time)));
        let (blocked, queue) = (until(wait.start, wait.woken), until(wait.woken, wait.end));
        let mut doing = Self {
            queue,
            ..Self::default()
        };
        let to = match wait.reason {
            WaitReason::RunQueue | WaitReason::Throttled => &mut doing.queue,
            _ if wait.in_fault => &mut doing.fault,
            WaitReason::Disk => &mut doing.disk,
            _ => &mut doing.other,
        };
        *to = to.saturating_add(blocked);
        doing
    }

    fn combined(self, other: Self, with: fn(u64, u64) -> u64) -> Self {
        Self {
            cpu: with(self.cpu, other.cpu),
            fault: with(self.fault, other.fault),
            disk: with(self.disk, other.disk),
            queue: with(self.queue, other.queue),
            other: with(self.other, other.other),
        }
    }

    /// Time off CPUs.
    fn off(&self) -> u64 {
        self.fault + self.disk + self.queue + self.other
    }
}

/// A lane with the sums of its waits, so that each question takes logarithmic time.
#[derive(Debug)]
pub struct Timeline<'l> {
    waits: &'l [LaneWait],
    /// Sums of the waits before each one, and of all.
    sums: Vec<Doing>,
}

impl<'l> Timeline<'l> {
    /// Sums up a lane.
    pub fn new(lane: &'l Lane) -> Self {
        let waits = lane.waits();
        let mut sum = Doing::default();
        let mut sums = vec![sum];
        sums.extend(waits.iter().map(|wait| {
            sum = sum.combined(Doing::of(wait, wait.end), u64::saturating_add);
            sum
        }));
        Self { waits, sums }
    }

    /// What the thread did from `start` to `end`: the parts add up to that time.
    pub fn between(&self, start: Timestamp, end: Timestamp) -> Doing {
        let doing = self.before(end).combined(self.before(start), u64::saturating_sub);
        Doing {
            cpu: ns(end.since(start)).saturating_sub(doing.off()),
            ..doing
        }
    }

    /// The waits before a moment.
    fn before(&self, time: Timestamp) -> Doing {
        let ended = self.waits.partition_point(|wait| wait.end <= time);
        let sum = self.sums.get(ended).copied().unwrap_or_default();
        let current = self.waits.get(ended).map(|wait| Doing::of(wait, time));
        sum.combined(current.unwrap_or_default(), u64::saturating_add)
    }
}

/// The timelines of threads, each computed once.
#[derive(Debug)]
pub struct Timelines<'l> {
    lanes: &'l Lanes,
    known: FxHashMap<ThreadId, Option<Timeline<'l>>>,
}

impl<'l> Timelines<'l> {
    /// The timelines of a recording.
    pub fn new(lanes: &'l Lanes) -> Self {
        Self {
            lanes,
            known: FxHashMap::default(),
        }
    }

    /// That of a thread.
    pub fn of(&mut self, thread: ThreadId) -> Option<&Timeline<'l>> {
        let lane = || self.lanes.get(thread).map(Timeline::new);
        self.known.entry(thread).or_insert_with(lane).as_ref()
    }
}
