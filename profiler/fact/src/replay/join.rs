//! The one file that crosses columns: matches faults and waits to requests, and finds what delayed the holder of a
//! lock.
//!
//! Facts arrive in order of their ends, and a request completes before what it delays continues. So each fault and
//! wait is compared with recent completions; only a request that a fault began may arrive later, and then finds the
//! fault here. What is kept is bounded by number, not by the length of the recording. docs/io.md has the rules;
//! everything else stays unknown.

mod recent;

use std::collections::VecDeque;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::cause::{Cause, Effect, EffectKind, HolderRef, Reason, RequestRef};
use crate::fault::FaultFact;
use crate::reasons::is_signal;
use crate::request::RequestFact;
use crate::wait::{Coverage, WaitFact, WaitReason};
use crate::{Tables, ThreadId};
use base::addr::{Timestamp, ns};
use base::event::FileId;
use recent::{Link, Recent, Span};

/// Longest time from a completion to the wakeup of its waiter: pages are checked and decrypted in between.
const WAKING: Duration = Duration::from_millis(10);
/// The same where only the file connects the two.
const WAKING_FOR_FILE: Duration = Duration::from_millis(1);
/// A completion is recorded slightly before it wakes its waiter, which may sleep in between: the longest time
/// between both.
const LEAD: Duration = Duration::from_millis(1);
/// How long after its end a thread may have held up another, or wait for what it requested.
const AFTER_END: Duration = Duration::from_mins(1);
/// Maximum number, per thread, of bios, faults with bios, waits within a fault, and hold-ups.
const MAX_ASKED: usize = 256;
const MAX_FAULTS: usize = 64;
const MAX_WAITS: usize = 16;
const MAX_HOLD_UPS: usize = 32;

/// Recent facts of a thread.
#[derive(Debug, Default)]
struct Lane {
    /// Times of its last bios.
    asked: VecDeque<Timestamp>,
    /// Finished faults that submitted some of those.
    faults: VecDeque<Span>,
    /// Waits within a fault that is still in progress.
    waits: VecDeque<Ended>,
    /// Faults and waits that may have held up others too.
    hold_ups: VecDeque<(EffectKind, Span)>,
    /// The end of its last wait: earlier completions no longer matter.
    awake: Timestamp,
}

/// A wait that a completion may have ended.
#[derive(Debug, Clone, Copy)]
struct Ended {
    effect: Effect,
    /// From the switch-out to the wakeup.
    span: Span,
    /// Earliest record of the completion: slightly before the switch-out, but after the end of the thread's last wait.
    since: Timestamp,
}

impl Ended {
    /// Extended by the time before it in which the completion may have been recorded.
    fn earlier(self) -> Self {
        let start = self.since.min(self.span.start);
        Self {
            span: Span { start, ..self.span },
            ..self
        }
    }
}

/// Finds causes: pass in every fact in replay order, and drain [`Join::take`] after each.
#[derive(Debug, Default)]
pub struct Join {
    recent: Recent,
    lanes: FxHashMap<ThreadId, Lane>,
    /// Threads that ended, and when.
    ended: VecDeque<(Timestamp, ThreadId)>,
    found: VecDeque<Cause>,
}

impl Join {
    /// The next cause found.
    pub fn take(&mut self) -> Option<Cause> {
        self.found.pop_front()
    }

    /// A thread ended: it is forgotten some time later.
    pub fn ended(&mut self, thread: ThreadId, now: Timestamp) {
        self.ended.push_back((now, thread));
        while let Some((_, thread)) = self.ended.pop_front_if(|(time, _)| now.since(*time) >= AFTER_END) {
            self.waits_of(thread, None);
            self.lanes.remove(&thread);
        }
    }

    /// A thread submitted a bio.
    pub fn asked(&mut self, thread: ThreadId, time: Timestamp) {
        push(&mut self.lanes.entry(thread).or_default().asked, time, MAX_ASKED);
    }

    /// A request completed.
    pub fn request(&mut self, tables: &Tables, request: &RequestFact) {
        let Some(done) = self.recent.push(tables, request) else {
            return;
        };
        // Finished faults that began it.
        let mut emitted: Vec<Effect> = Vec::new();
        for part in &done.parts {
            let Some(thread) = part.thread else { continue };
            let faults = self.lanes.get(&thread).map(|lane| &lane.faults);
            let fault = faults.and_then(|faults| faults.iter().find(|fault| fault.holds(part.time)));
            let Some(fault) = fault else { continue };
            let effect = effect(EffectKind::Fault, thread, fault.start);
            if !emitted.contains(&effect) {
                emitted.push(effect);
                let reason = Reason::Request(done.seen_by(thread, part));
                self.found.push_back(Cause { effect, reason });
            }
        }
    }

    /// A fault ended: it began requests, waited for the one that read its page, or both.
    pub fn fault(&mut self, tables: &Tables, fault: &FaultFact) {
        let Some(latency) = fault.latency else { return };
        let span = Span::lasting(fault.start, latency);
        let page = fault
            .place
            .and_then(|place| Some((tables.files.get(place.file.index())?.id, place.offset.0)));
        let may_have_waited = fault.waited() || (fault.waits.disk.is_none() && fault.waits.other_read.is_none());
        let effect = effect(EffectKind::Fault, fault.thread, fault.start);
        if let Some(lane) = self.lanes.get(&fault.thread) {
            let mut asked = lane.asked.iter().rev().take_while(|time| **time >= span.start);
            let has_asked = asked.any(|time| span.holds(*time));
            let mut links: Vec<Link> = Vec::new();
            if has_asked {
                links = self.recent.asked_within(fault.thread, span);
            }
            if let Some(brought) = page
                .filter(|_| may_have_waited)
                .and_then(|page| self.recent.brought(page, span))
                && !links.iter().any(|link| link.request == brought.request)
            {
                links.push(brought);
            }
            self.add_causes(effect, &links);
            self.waits_of(fault.thread, Some((span, page)));
            let lane = self.lanes.entry(fault.thread).or_default();
            if has_asked {
                push(&mut lane.faults, span, MAX_FAULTS);
            }
        } else if may_have_waited && let Some(brought) = page.and_then(|page| self.recent.brought(page, span)) {
            self.add_causes(effect, &[brought]);
        }
        if fault.waited() {
            self.hold_up(EffectKind::Fault, fault.thread, span);
        }
    }

    /// A wait ended: a completion ended it, or the thread that woke it had been held up.
    pub fn wait(&mut self, tables: &Tables, wait: &WaitFact) {
        let lane = self.lanes.entry(wait.thread).or_default();
        let awake = lane.awake;
        lane.awake = awake.max(wait.end);
        if wait.count != 1 || matches!(wait.coverage, Coverage::StartMissed | Coverage::EndMissed) {
            return;
        }
        let woken = wait.waker.as_ref().map_or_else(
            || Timestamp(wait.end.0.saturating_sub(ns(wait.queued))),
            |waker| waker.time.min(wait.end),
        );
        let ended = Ended {
            effect: effect(EffectKind::Wait, wait.thread, wait.start),
            span: Span {
                start: wait.start,
                end: woken,
            },
            since: Timestamp(wait.start.0.saturating_sub(ns(LEAD))).max(awake),
        };
        if wait.in_fault {
            // When the fault ends, it shows which page the wait was for.
            let lane = self.lanes.entry(wait.thread).or_default();
            let oldest = (lane.waits.len() >= MAX_WAITS)
                .then(|| lane.waits.pop_front())
                .flatten();
            lane.waits.push_back(ended);
            if let Some(oldest) = oldest {
                let _ = self.ended_by_own(oldest) || self.ended_by_own(oldest.earlier());
            }
            return;
        }
        self.waits_of(wait.thread, None);
        if wait.reason == WaitReason::Disk {
            let earlier = ended.earlier();
            let _ = self.ended_by_own(ended)
                || self.ended_by_others(tables, wait, ended)
                || self.ended_by_own(earlier)
                || self.ended_by_others(tables, wait, earlier);
        }
        match wait.reason {
            WaitReason::Disk | WaitReason::FileSystem | WaitReason::Memory => {
                let span = Span {
                    end: wait.end,
                    ..ended.span
                };
                self.hold_up(EffectKind::Wait, wait.thread, span);
            }
            WaitReason::Lock => self.held_up_holder(tables, wait, ended),
            _ => {}
        }
    }

    /// End of input.
    pub fn finish(&mut self) {
        let mut threads: Vec<ThreadId> = self.lanes.keys().copied().collect();
        threads.sort_unstable();
        for thread in threads {
            self.waits_of(thread, None);
        }
    }

    /// Matches the waits within a fault that ended; for those outside any fault, only the thread's own requests are
    /// known.
    fn waits_of(&mut self, thread: ThreadId, fault: Option<(Span, Option<(FileId, u64)>)>) {
        let waits = self.lanes.get_mut(&thread).map(|lane| std::mem::take(&mut lane.waits));
        for ended in waits.unwrap_or_default() {
            let page = fault.and_then(|(span, page)| page.filter(|_| span.holds(ended.span.start)));
            let window = ended.earlier().span.last(WAKING);
            match page.and_then(|page| self.recent.brought(page, window)) {
                Some(link) => self.add_causes(ended.effect, &[link]),
                None => {
                    let _ = self.ended_by_own(ended) || self.ended_by_own(ended.earlier());
                }
            }
        }
    }

    /// The latest of the thread's own requests that completed before it was woken.
    fn ended_by_own(&mut self, ended: Ended) -> bool {
        let link = self.recent.completed(ended.effect.thread, ended.span.last(WAKING));
        self.add_causes(ended.effect, link.as_slice());
        link.is_some()
    }

    /// The completion that interrupted the waker, if it read pages of the file that the thread reads.
    fn ended_by_others(&mut self, tables: &Tables, wait: &WaitFact, ended: Ended) -> bool {
        let by_interrupt = wait
            .waker
            .as_ref()
            .is_some_and(|waker| waker.by_interrupt == Some(true));
        let file = wait.call.as_ref().and_then(|call| tables.files.get(call.file?.index()));
        let link = file
            .filter(|_| by_interrupt)
            .and_then(|file| self.recent.of_file(file.id, ended.span.last(WAKING_FOR_FILE)));
        self.add_causes(ended.effect, link.as_slice());
        link.is_some()
    }

    /// What held up the thread that released the lock, while this one waited for it.
    fn held_up_holder(&mut self, tables: &Tables, wait: &WaitFact, ended: Ended) {
        let waker = wait.waker.as_ref().filter(|waker| waker.by_interrupt != Some(true));
        let holder = waker
            .and_then(|waker| waker.thread)
            .filter(|holder| *holder != wait.thread);
        let Some((holder, lane)) = holder.and_then(|holder| Some((holder, self.lanes.get(&holder)?))) else {
            return;
        };
        let overlaps = lane
            .hold_ups
            .iter()
            .map(|(kind, span)| (span.overlap(ended.span), *kind, *span));
        let longest = overlaps.max_by_key(|(overlap, _, span)| (*overlap, span.start));
        if let Some((_, kind, span)) = longest.filter(|(overlap, ..)| !overlap.is_zero()) {
            // Last, since few get here.
            let stack = waker.and_then(|waker| waker.stack);
            if stack.is_some_and(|stack| is_signal(tables, stack)) {
                return;
            }
            let reason = Reason::Holder(HolderRef {
                effect: effect(kind, holder, span.start),
                end: span.end,
            });
            let effect = ended.effect;
            self.found.push_back(Cause { effect, reason });
        }
    }

    fn hold_up(&mut self, kind: EffectKind, thread: ThreadId, span: Span) {
        let lane = self.lanes.entry(thread).or_default();
        push(&mut lane.hold_ups, (kind, span), MAX_HOLD_UPS);
    }

    fn add_causes(&mut self, effect: Effect, links: &[Link]) {
        let reasons = links
            .iter()
            .filter_map(|link| self.recent.describe(effect.thread, *link));
        let causes = reasons.map(|request: RequestRef| Cause {
            effect,
            reason: Reason::Request(request),
        });
        self.found.extend(causes);
    }
}

fn effect(kind: EffectKind, thread: ThreadId, start: Timestamp) -> Effect {
    Effect { kind, thread, start }
}

/// Appends an item and keeps the last `most`.
fn push<T>(queue: &mut VecDeque<T>, item: T, most: usize) {
    if queue.len() >= most {
        queue.pop_front();
    }
    queue.push_back(item);
}

#[cfg(test)]
mod tests;
