//! Which facts are kept, and which part of those that are partly outside.

use std::time::Duration;

use rustc_hash::FxHashSet;

use super::{Cut, Renumbering, new_number};
use crate::cause::{Cause, Effect, EffectKind, Reason, RequestRef};
use crate::wait::Coverage;
use crate::{BioFact, DeviceId, FaultFact, Mark, PagesReadFact, RequestFact, SampleFact, Tables, ThreadId, WaitFact};
use base::addr::{Timestamp, ns};

/// Identifies a request: device, sector, end.
pub type RequestKey = (DeviceId, u64, Timestamp);

/// Decides which facts are kept.
pub struct Filter<'a> {
    from: Timestamp,
    to: Timestamp,
    threads: &'a Renumbering,
    /// Whether only some processes are kept.
    some: bool,
    /// Requests that a kept fact waited for.
    requests: FxHashSet<RequestKey>,
    /// By new thread number: on-CPU time after the last sample in the interval and before its end, once known.
    rest: Vec<Option<u64>>,
}

/// The key of a request.
pub fn key_of(request: &RequestRef) -> RequestKey {
    (request.device, request.sector, request.end)
}

impl<'a> Filter<'a> {
    pub fn new(cut: &Cut, threads: &'a Renumbering) -> Self {
        Self {
            from: cut.from.unwrap_or(Timestamp(0)),
            to: cut.to.unwrap_or(Timestamp(u64::MAX)),
            threads,
            some: cut.processes.is_some(),
            requests: FxHashSet::default(),
            rest: vec![None; threads.iter().flatten().count()],
        }
    }

    pub fn with_requests(self, requests: FxHashSet<RequestKey>) -> Self {
        Self { requests, ..self }
    }

    fn thread(&self, old: ThreadId) -> Option<ThreadId> {
        new_number(self.threads, old.index()).map(ThreadId)
    }

    /// Whether an interval overlaps the kept time, or an instant is within it.
    pub fn is_in_time(&self, start: Timestamp, end: Timestamp) -> bool {
        let is_empty = self.from >= self.to;
        !is_empty && start < self.to && (end > self.from || (start == end && start >= self.from))
    }

    fn is_moment_in_time(&self, time: Timestamp) -> bool {
        self.from <= time && time < self.to
    }

    pub fn sample(&mut self, sample: &SampleFact) -> Option<SampleFact> {
        let thread = self.thread(sample.thread)?;
        let cpu_time = ns(sample.cpu_time);
        if sample.time >= self.to {
            let rest = self.rest.get_mut(thread.index())?;
            // At least this much of the time since the sample before was before the end.
            rest.get_or_insert(cpu_time.saturating_sub(sample.time.0 - self.to.0));
            return None;
        }
        if sample.time < self.from {
            return None;
        }
        let since_from = sample.time.0 - self.from.0;
        Some(SampleFact {
            thread,
            cpu_time: Duration::from_nanos(cpu_time.min(since_from)),
            ..*sample
        })
    }

    /// Sets in `tables` how long threads ran after their last samples.
    pub fn settle(&self, whole: &Tables, tables: &mut Tables) {
        for (old, kept) in whole.threads.iter().zip(self.threads) {
            let Some(thread) = kept.and_then(|kept| tables.threads.get_mut(kept as usize)) else {
                continue;
            };
            let rest = kept.and_then(|kept| self.rest.get(kept as usize).copied().flatten());
            let end = old.end.unwrap_or(whole.recording.end);
            let last = || {
                let before_end = end.0.saturating_sub(self.to.0);
                old.cpu_time_after_last_sample.saturating_sub(before_end)
            };
            let span = end.min(self.to).0.saturating_sub(self.from.0);
            thread.cpu_time_after_last_sample = rest.unwrap_or_else(last).min(span);
        }
    }

    pub fn mark(&self, mark: &Mark) -> Option<Mark> {
        let thread = self.thread(mark.thread)?;
        let fits = self.is_in_time(mark.start, mark.end.unwrap_or(mark.start));
        fits.then(|| Mark {
            start: mark.start.max(self.from),
            end: mark.end.map(|end| end.min(self.to)),
            thread,
            ..mark.clone()
        })
    }

    pub fn fault(&self, fault: &FaultFact) -> Option<FaultFact> {
        let thread = self.thread(fault.thread)?;
        let end = Timestamp(fault.start.0.saturating_add(ns(fault.time())));
        self.is_in_time(fault.start, end)
            .then_some(FaultFact { thread, ..*fault })
    }

    pub fn read(&self, read: &PagesReadFact) -> Option<PagesReadFact> {
        let thread = self.thread(read.thread)?;
        self.is_moment_in_time(read.time)
            .then_some(PagesReadFact { thread, ..*read })
    }

    pub fn wait(&self, wait: &WaitFact) -> Option<WaitFact> {
        let thread = self.thread(wait.thread)?;
        if !self.is_in_time(wait.start, wait.end) {
            return None;
        }
        let mut kept = WaitFact { thread, ..wait.clone() };
        if let Some(waker) = &mut kept.waker {
            waker.thread = waker.thread.and_then(|waker| self.thread(waker));
            if self.some && waker.thread.is_none() {
                waker.stack = None;
            }
        }
        if let Some(holder) = kept.lock.as_mut().and_then(|lock| lock.holder.as_mut()) {
            holder.thread = holder.thread.and_then(|holder| self.thread(holder));
        }
        self.shorten(&mut kept);
        Some(kept)
    }

    fn shorten(&self, wait: &mut WaitFact) {
        let whole = wait.end.since(wait.start);
        let (start, end) = (wait.start.max(self.from), wait.end.min(self.to));
        if (start, end) == (wait.start, wait.end) {
            return;
        }
        let (late, left) = (wait.end.since(end), end.since(start));
        if wait.count <= 1 {
            // The wait for a CPU is the last part.
            wait.off = left;
            wait.queued = wait.queued.saturating_sub(late).min(left);
        } else {
            // Of several waits, a share proportional to the kept part of their interval.
            wait.off = share(wait.off, left, whole);
            wait.queued = share(wait.queued, left, whole).min(wait.off);
        }
        wait.longest = wait.longest.min(wait.off);
        if !late.is_zero() {
            wait.coverage = Coverage::EndMissed;
            wait.waker = None;
        }
        (wait.start, wait.end) = (start, end);
    }

    pub fn request(&self, request: &RequestFact) -> Option<RequestFact> {
        if !self.is_in_time(request.start, request.end) {
            return None;
        }
        let mut kept = request.clone();
        let mut ours = !self.some || self.requests.contains(&(request.device, request.sector, request.end));
        for bio in &mut kept.bios {
            ours |= self.bio(bio);
        }
        ours.then_some(kept)
    }

    /// Whether a kept thread submitted it.
    fn bio(&self, bio: &mut BioFact) -> bool {
        bio.thread = bio.thread.and_then(|thread| self.thread(thread));
        if self.some && bio.thread.is_none() {
            bio.stack = None;
        }
        bio.thread.is_some()
    }

    pub fn cause(&self, cause: &Cause) -> Option<Cause> {
        let effect = self.effect(&cause.effect)?;
        let reason = match cause.reason {
            Reason::Request(mut request) => {
                request.by = request.by.and_then(|by| self.thread(by));
                self.is_in_time(request.start, request.end).then_some(())?;
                Reason::Request(request)
            }
            Reason::Holder(mut holder) => {
                self.is_in_time(holder.effect.start, holder.end).then_some(())?;
                holder.effect = self.effect(&holder.effect)?;
                holder.end = holder.end.min(self.to);
                Reason::Holder(holder)
            }
        };
        Some(Cause { effect, reason })
    }

    fn effect(&self, effect: &Effect) -> Option<Effect> {
        let start = match effect.kind {
            EffectKind::Wait => effect.start.max(self.from),
            EffectKind::Fault => effect.start,
        };
        let thread = self.thread(effect.thread)?;
        Some(Effect {
            thread,
            start,
            ..*effect
        })
    }
}

/// `time * part / whole`.
fn share(time: Duration, part: Duration, whole: Duration) -> Duration {
    let ns = time.as_nanos().saturating_mul(part.as_nanos()) / whole.as_nanos().max(1);
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}
