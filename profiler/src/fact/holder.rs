//! Who held up a wait for a lock, and by what: the thread that ended the wait, and what it waited for itself meanwhile. Pure.
//!
//! The rule: a wait for a lock is ended by the thread that gives the lock away, and so *what that thread waited for between the wait's
//! beginning and the wake-up held up the wait*. It says nothing where the wake-up does not show a holder: nobody knows the waker, an interrupt
//! may have done it, the fact stands for several waits, or its end was not seen. It sees the last holder only, and takes it to have
//! held the lock all the while.

use std::time::Duration;

use super::wait::Sight;
use super::{FaultFact, ThreadId, WaitFact, WaitReason};
use crate::addr::Timestamp;

/// What a thread was busy with, without running: a wait, or a page fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held<N> {
    /// When it began.
    pub start: Timestamp,
    /// When it was over.
    pub end: Timestamp,
    /// What it is to the caller.
    pub what: N,
}

/// What kept the holder of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeper {
    /// A page fault.
    Fault,
    /// A wait for this.
    Wait(WaitReason),
}

/// A wait for a lock, explained by what its holder waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldUp<N> {
    /// Who held the lock.
    pub holder: ThreadId,
    /// What kept the holder, with the time that overlaps the wait; the longest first.
    pub by: Vec<(N, Duration)>,
    /// The part of the wait in which the holder waited, whatever for.
    pub kept: Duration,
}

/// Who ended a wait for a lock by giving the lock away, and when; `None`: it does not show. `reason` is the wait's, as far as it
/// is known by now ([`super::reasons::refined`]).
pub fn holder(wait: &WaitFact, reason: WaitReason) -> Option<(ThreadId, Timestamp)> {
    let waker = wait.waker.as_ref()?;
    let shows = reason == WaitReason::Lock && wait.count == 1 && waker.by_interrupt == Some(false);
    let ended = wait.sight != Sight::NoEnd && waker.time >= wait.start && waker.time <= wait.end;
    let thread = waker.thread.filter(|thread| *thread != wait.thread)?;
    (shows && ended).then_some((thread, waker.time))
}

/// A page fault as something that keeps a thread; `None`: nobody knows how long it took.
pub fn kept_by_fault(fault: &FaultFact) -> Option<Held<Keeper>> {
    let end = fault
        .start
        .0
        .checked_add(u64::try_from(fault.latency?.as_nanos()).ok()?)?;
    Some(Held {
        start: fault.start,
        end: Timestamp(end),
        what: Keeper::Fault,
    })
}

/// A wait as something that keeps a thread; several in one have no place in time.
pub fn kept_by_wait(wait: &WaitFact) -> Option<Held<Keeper>> {
    (wait.count == 1).then_some(Held {
        start: wait.start,
        end: wait.end,
        what: Keeper::Wait(wait.reason),
    })
}

/// What of all that its holder waited for overlaps a wait. `None`: no holder shows, or it did not wait meanwhile.
pub fn held_up<N: Copy>(
    wait: &WaitFact,
    reason: WaitReason,
    of_holder: impl IntoIterator<Item = Held<N>>,
) -> Option<HeldUp<N>> {
    let (holder, woken) = holder(wait, reason)?;
    let mut parts: Vec<(Timestamp, Timestamp, N)> = of_holder
        .into_iter()
        .map(|held| (held.start.max(wait.start), held.end.min(woken), held.what))
        .filter(|(start, end, _)| start < end)
        .collect();
    if parts.is_empty() {
        return None;
    }
    parts.sort_by_key(|(start, end, _)| (*start, *end));
    // A fault holds the waits that are within it: what overlaps counts once.
    let (mut kept, mut until) = (Duration::ZERO, wait.start);
    for (start, end, _) in &parts {
        kept = kept.saturating_add(end.since((*start).max(until)));
        until = until.max(*end);
    }
    let mut by: Vec<(N, Duration)> = parts
        .into_iter()
        .map(|(start, end, what)| (what, end.since(start)))
        .collect();
    by.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    Some(HeldUp { holder, by, kept })
}

#[cfg(test)]
mod tests;
