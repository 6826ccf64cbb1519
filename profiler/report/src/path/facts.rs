//! Collects the facts of a recording that its paths consist of.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use super::lanes::{EndedBy, Lane, LaneRead, LaneRequest, LaneSample, LaneWait, Lanes};
use base::addr::{Timestamp, ns};
use fact::{
    Cause, EffectKind, EventKind, FactSink, FaultFact, Mark, ProcessId, Reason, SampleFact, Tables, ThreadId, Visit,
    WaitFact, WaitReason, visit_stack,
};

/// Most waits, samples, requests and page faults that read, which are kept together: some 2.3 GiB with their lanes and the replay.
const MAX_KEPT: usize = 1 << 23;

/// Facts of a recording, by thread.
#[derive(Debug)]
pub struct PathFacts {
    threads: Vec<ThreadRows>,
    requests: FxHashMap<(ThreadId, Timestamp), LaneRequest>,
    most: usize,
    keeps_samples: bool,
    kept: usize,
    left_out: u64,
}

#[derive(Debug, Default)]
struct ThreadRows {
    waits: Vec<LaneWait>,
    samples: Vec<LaneSample>,
    reads: Vec<LaneRead>,
    /// On CPUs, in ns.
    cpu: u64,
}

impl Default for PathFacts {
    fn default() -> Self {
        Self {
            threads: Vec::new(),
            requests: FxHashMap::default(),
            most: MAX_KEPT,
            keeps_samples: true,
            kept: 0,
            left_out: 0,
        }
    }
}

impl PathFacts {
    /// Keeps at most `most` waits and requests, and no samples: for a path whose functions are not needed.
    pub fn without_samples(most: usize) -> Self {
        Self {
            most: most.min(MAX_KEPT),
            keeps_samples: false,
            ..Self::default()
        }
    }

    /// Whether it contains no waits.
    pub fn is_empty(&self) -> bool {
        self.threads.iter().all(|rows| rows.waits.is_empty())
    }

    /// Facts that exceeded the limit, and are missing.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Each thread with its time on CPUs, in ns, and its number of waits.
    pub(crate) fn threads(&self) -> impl Iterator<Item = (ThreadId, u64, usize)> {
        let threads = (0..).map(ThreadId).zip(&self.threads);
        threads.map(|(id, rows)| (id, rows.cpu, rows.waits.len()))
    }

    /// The thread that ran longest.
    pub(super) fn busiest(&self) -> Option<ThreadId> {
        let threads = (0..).map(ThreadId).zip(&self.threads);
        // The first of several.
        threads
            .max_by_key(|(id, rows)| (rows.cpu, Reverse(*id)))
            .map(|(id, _)| id)
    }

    /// The lanes of the recording's threads.
    pub fn lanes(self, tables: &Tables) -> Lanes {
        let Self {
            mut threads, requests, ..
        } = self;
        threads.resize_with(tables.threads.len(), ThreadRows::default);
        let rows = threads.into_iter().zip(&tables.threads).zip((0..).map(ThreadId));
        let lanes = rows.map(|((mut rows, thread), id)| {
            for wait in &mut rows.waits {
                wait.request = requests.get(&(id, wait.start)).copied();
            }
            let process = thread.process.index();
            let parent = tables.processes.get(process).and_then(|process| process.parent);
            let parent = parent.map(ProcessId::index).filter(|_| thread.is_main);
            let lane = Lane::new(thread.start, rows.waits, rows.samples);
            let lane = lane.with_reads(rows.reads);
            let lane = lane.of_process(process, parent).created_by(thread.creator);
            lane.ended(thread.end)
        });
        Lanes::new(lanes.collect())
    }

    /// The rows of a thread, if there is capacity for one more.
    fn rows(&mut self, thread: ThreadId) -> Option<&mut ThreadRows> {
        if self.kept >= self.most {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        self.kept += 1;
        self.existing(thread)
    }

    /// The rows of a thread.
    fn existing(&mut self, thread: ThreadId) -> Option<&mut ThreadRows> {
        if thread.index() >= self.threads.len() {
            self.threads.resize_with(thread.index() + 1, ThreadRows::default);
        }
        self.threads.get_mut(thread.index())
    }
}

impl FactSink for PathFacts {
    fn wants_stacks(&self, kind: EventKind) -> bool {
        kind != EventKind::Fault
    }

    fn sample(&mut self, _: &Tables, sample: &SampleFact) {
        let (time, stack) = (sample.time, sample.stack);
        let keeps = self.keeps_samples;
        let rows = if keeps {
            self.rows(sample.thread)
        } else {
            self.existing(sample.thread)
        };
        let Some(rows) = rows else { return };
        rows.cpu = rows.cpu.saturating_add(ns(sample.cpu_time));
        if keeps {
            rows.samples.push(LaneSample { time, stack });
        }
    }

    fn mark(&mut self, _: &Tables, _: &Mark) {}

    fn shows_stacks(&self) -> bool {
        true
    }

    fn visit(&mut self, visit: &mut dyn Visit) {
        for rows in &mut self.threads {
            rows.waits
                .iter_mut()
                .for_each(|wait| visit_stack(&mut wait.stack, visit));
            let samples = rows.samples.iter_mut();
            samples.for_each(|sample| visit_stack(&mut sample.stack, visit));
        }
    }

    fn wait(&mut self, _: &Tables, wait: &WaitFact) {
        if let Some(rows) = self.rows(wait.thread) {
            rows.waits.push(lane_wait(wait));
        }
    }

    fn fault(&mut self, _: &Tables, fault: &FaultFact) {
        let (true, Some(place), Some(_)) = (self.keeps_samples, fault.place, fault.latency) else {
            return;
        };
        if !(fault.major || fault.pages_read > 0 || fault.waited()) {
            return;
        }
        if let Some(rows) = self.rows(fault.thread) {
            rows.reads.push(LaneRead {
                start: fault.start,
                end: fault.end(),
                file: place.file,
            });
        }
    }

    fn joined(&mut self, _: &Tables, cause: &Cause) {
        let Reason::Request(request) = cause.reason else { return };
        let effect = cause.effect;
        if effect.kind != EffectKind::Wait || self.rows(effect.thread).is_none() {
            return;
        }
        let request = LaneRequest {
            start: request.start,
            by: request.by.filter(|by| *by != effect.thread && !request.own),
            device: request.device,
            file: request.file,
        };
        self.requests.insert((effect.thread, effect.start), request);
    }
}

/// A wait as its lane has it. Several merged waits are placed as one at the end of their time, since the order within
/// it is unknown.
fn lane_wait(wait: &WaitFact) -> LaneWait {
    let before = |time: Timestamp, by: u64| Timestamp(time.0.saturating_sub(by));
    let start = if wait.count > 1 {
        wait.start.max(before(wait.end, ns(wait.off)))
    } else {
        wait.start
    };
    let woken = match (wait.reason, &wait.waker) {
        (WaitReason::RunQueue, _) => start,
        (_, Some(waker)) if wait.count == 1 => waker.time.min(wait.end),
        _ => before(wait.end, ns(wait.queued)),
    };
    LaneWait {
        start,
        woken: woken.max(start),
        end: wait.end,
        reason: wait.reason,
        in_fault: wait.in_fault,
        ended_by: ended_by(wait),
        stack: wait.stack,
        file: wait.call.as_ref().and_then(|call| call.file),
        request: None,
        cpu: wait.cpu,
        priority: wait.priority,
    }
}

/// What ended a wait. An interrupt wakes in the name of the thread that it interrupts: where it is unknown whether it
/// was one, it was if the reason is a disk or a timeout.
///
/// Where that is unknown, it is the holder of the kernel's lock: an interrupt releases none.
pub(crate) fn ended_by(wait: &WaitFact) -> EndedBy {
    let lock = wait.lock.as_ref().filter(|_| wait.count == 1);
    let holder = lock.and_then(|lock| lock.holder.filter(|holder| !holder.is_reader));
    match woken_by(wait) {
        EndedBy::Unknown => holder
            .and_then(|holder| holder.thread)
            .map_or(EndedBy::Unknown, EndedBy::Thread),
        waker => waker,
    }
}

/// The waker of a wait.
pub(crate) fn woken_by(wait: &WaitFact) -> EndedBy {
    let Some(waker) = &wait.waker else {
        return EndedBy::Unknown;
    };
    let is_device = matches!(wait.reason, WaitReason::Disk | WaitReason::Sleep);
    if waker.tid == 0 || waker.by_interrupt.unwrap_or(is_device) {
        return EndedBy::Interrupt;
    }
    match waker.thread {
        Some(thread) => EndedBy::Thread(thread),
        None => EndedBy::Unrecorded(waker.tid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::tests::wait;
    use base::event::LockId;
    use fact::wait::WakerFact;
    use fact::{KernelLock, LockHolder, LockKind};

    fn ended(waker: Option<(u32, bool)>, is_reader: bool) -> EndedBy {
        let lock = KernelLock {
            id: LockId::Number(1),
            kind: LockKind::Rwsem,
            is_read: false,
            is_own_mmap: false,
            name: None,
            holder: Some(LockHolder {
                pid: 7,
                tid: 8,
                thread: Some(ThreadId(1)),
                is_reader,
            }),
        };
        let waker = waker.map(|(tid, by_interrupt)| WakerFact {
            time: Timestamp(5),
            pid: 7,
            tid,
            thread: (tid == 9).then_some(ThreadId(2)),
            stack: None,
            by_interrupt: Some(by_interrupt),
        });
        ended_by(&WaitFact {
            reason: WaitReason::Memory,
            lock: Some(Box::new(lock)),
            waker,
            ..wait(10, 1)
        })
    }

    #[test]
    fn without_a_waker_the_holder_ended_the_wait() {
        assert_eq!(ended(None, false), EndedBy::Thread(ThreadId(1)));
        assert_eq!(ended(Some((9, true)), false), EndedBy::Interrupt);
        assert_eq!(ended(Some((9, false)), false), EndedBy::Thread(ThreadId(2)));
        assert_eq!(ended(Some((4, false)), false), EndedBy::Unrecorded(4));
        // A reader may have released it long before.
        assert_eq!(ended(None, true), EndedBy::Unknown);
        assert_eq!(ended(Some((0, true)), true), EndedBy::Interrupt);
    }
}
