//! How long a time span would have taken without some of its path: every thread's time is replayed without those
//! pieces.
//!
//! A wait that a thread ended ends when that thread reaches its wakeup in the replay, at once if it is there first. If
//! they met by chance, at a lock, because a timer had woken that thread, or because that thread keeps a timer, it takes at
//! most as long as it took: a thread that comes earlier may be the first. A thread that waited [in vain](super::vain), or
//! idly until a timeout, could have been woken before. Any other wait takes as long as it took. So other threads that
//! would have been waited for next still are, as far as waits show them. It is an estimate: a thread that was ready in
//! time left no wait, and does not hold up the replay either.

use base::addr::{Timestamp, ns};
use fact::{ThreadId, WaitReason};

use super::lanes::{EndedBy, Lanes};
use super::rules::{creators, waits_too};
use super::vain::{acts_on_its_own, again, keeps_timers};
use super::walk::{Piece, Window};

/// What an [`Edge`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Relation {
    /// A thread created another one.
    Birth,
    /// A thread, `from` and `to`, waited in vain: another wakeup would have ended that; of a sleep, only what wakes it.
    InVain { asleep: bool },
    /// A thread ended the wait of another one, which may have been idle, or asleep.
    Wakeup { idle: bool, asleep: bool },
}

/// One thread had to wait for what another one reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    /// When.
    time: Timestamp,
    /// Births precede the wakeups of the same moment.
    relation: Relation,
    /// When it was recorded: later, if the span ends before. Of wakeups after the span, the first precedes.
    recorded: Timestamp,
    /// The thread that was waited for.
    from: ThreadId,
    /// The thread that waited.
    to: ThreadId,
    /// Since when.
    since: Timestamp,
    /// Whether they met by chance, so that it would not wait longer if it came earlier.
    by_chance: bool,
}

/// The dependencies between threads in a time span.
#[derive(Debug)]
pub struct Replay {
    window: Window,
    thread: ThreadId,
    threads: usize,
    edges: Vec<Edge>,
}

/// A removed part of a thread's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Removed {
    /// The thread.
    pub thread: ThreadId,
    /// Its start.
    pub start: Timestamp,
    /// Its end.
    pub end: Timestamp,
}

impl From<&Piece> for Removed {
    fn from(piece: &Piece) -> Self {
        Self {
            thread: piece.lane,
            start: piece.start,
            end: piece.end,
        }
    }
}

/// A thread in the replay.
#[derive(Debug, Clone, Copy)]
struct State {
    /// Up to where its recorded time is replayed.
    real: Timestamp,
    /// When it is there in the replay.
    replayed: u64,
    /// The next removed piece of it.
    next: usize,
    /// How much of that it waited in vain, but for sleeps, since another thread ended a wait of it.
    idle: u64,
    /// The same of sleeps.
    asleep: u64,
}

impl Replay {
    /// The dependencies of `thread` in the time span.
    pub fn new(lanes: &Lanes, thread: ThreadId, window: Window) -> Self {
        let mut edges = Vec::new();
        let mut threads = 0;
        for (to, lane) in lanes.all() {
            threads += 1;
            if lane.born > window.start
                && lane.born < window.end
                && let Some(from) = creator(lanes, to, lane.born)
            {
                edges.push(Edge {
                    time: lane.born,
                    relation: Relation::Birth,
                    recorded: lane.born,
                    from,
                    to,
                    since: lane.born,
                    by_chance: false,
                });
            }
            for wait in lane.waits() {
                let end = match (&wait.request, wait.ended_by) {
                    (Some(request), _) => request.by.map(|by| (by, request.start)),
                    (None, EndedBy::Thread(waker)) => Some((waker, wait.woken)),
                    _ => None,
                };
                let since = wait.start.max(window.start);
                let asleep = wait.reason == WaitReason::Sleep;
                let is_timeout =
                    (asleep || wait.reason == WaitReason::Condition) && wait.ended_by == EndedBy::Interrupt;
                let is_interrupted = again(lanes, to, wait).is_some();
                if (is_timeout || is_interrupted) && wait.woken > since && wait.woken <= window.end {
                    edges.push(Edge {
                        time: wait.woken,
                        relation: Relation::InVain { asleep },
                        recorded: wait.woken,
                        from: to,
                        to,
                        since,
                        by_chance: false,
                    });
                }
                let Some((from, recorded)) = end.filter(|_| !is_interrupted) else {
                    continue;
                };
                // As the path does, where the span ends within the wait.
                let time = recorded.min(window.end);
                let waits_too = || wait.request.is_none() && waits_too(lanes, from, wait, time);
                if time > since && from != to && (lanes.ran(from, time) || waits_too()) {
                    edges.push(Edge {
                        time,
                        relation: Relation::Wakeup {
                            idle: wait.reason.is_idle(),
                            asleep,
                        },
                        recorded,
                        from,
                        to,
                        since,
                        by_chance: wait.reason == WaitReason::Lock
                            || acts_on_its_own(lanes, from, since)
                            || keeps_timers(lanes, from, wait.woken),
                    });
                }
            }
        }
        edges.sort_unstable();
        Self {
            window,
            thread,
            threads,
            edges,
        }
    }

    /// Number of threads, wakeups and births: a replay takes a step for each.
    pub fn steps(&self) -> usize {
        self.threads + self.edges.len()
    }

    /// By how many ns the span would have been shorter without these parts of any threads: an estimate. What several
    /// of them cover is removed once.
    pub fn saved(&self, without: impl Iterator<Item = impl Into<Removed>>) -> u64 {
        let removed = merged(without.map(Into::into).collect());
        let mut states: Vec<State> = (0..self.threads)
            .map(|thread| State {
                real: self.window.start,
                replayed: self.window.start.0,
                next: removed.partition_point(|part| part.thread.index() < thread),
                idle: 0,
                asleep: 0,
            })
            .collect();
        for edge in &self.edges {
            let (from, to) = (edge.from.index(), edge.to.index());
            if from >= states.len() || to >= states.len() {
                continue;
            }
            let reached = states[from].advance(edge.from, edge.until(), &removed);
            states[to].meet(edge, reached, &removed);
        }
        let end = match states.get_mut(self.thread.index()) {
            Some(state) => state.advance(self.thread, self.window.end, &removed),
            None => self.window.end.0,
        };
        self.window.end.0.saturating_sub(end)
    }
}

impl Edge {
    /// Up to where the thread that is waited for is replayed first.
    fn until(&self) -> Timestamp {
        match self.relation {
            Relation::InVain { .. } => self.since,
            Relation::Birth | Relation::Wakeup { .. } => self.time,
        }
    }
}

impl State {
    /// Takes an edge to this thread, at whose other end its thread was there at `reached` in the replay.
    fn meet(&mut self, edge: &Edge, reached: u64, removed: &[Removed]) {
        match edge.relation {
            Relation::Birth => {
                self.skip(edge.to, edge.time, removed);
                self.replayed = reached;
            }
            Relation::InVain { asleep } => {
                let waited = self.advance(edge.to, edge.time, removed).saturating_sub(reached);
                let idle = if asleep { &mut self.asleep } else { &mut self.idle };
                *idle = idle.saturating_add(waited);
            }
            Relation::Wakeup { idle, asleep } => {
                let arrived = self.advance(edge.to, edge.since, removed);
                // What was removed of the wait itself is behind the wakeup now.
                self.skip(edge.to, edge.time, removed);
                let in_vain = |counts: bool, time: u64| if counts { time } else { 0 };
                let ready = arrived.saturating_sub(in_vain(idle, self.idle));
                let ready = ready.saturating_sub(in_vain(asleep, self.asleep));
                self.replayed = ready.max(reached);
                if edge.by_chance {
                    let waited = ns(edge.time.since(edge.since));
                    self.replayed = self.replayed.min(arrived.saturating_add(waited));
                } else {
                    (self.idle, self.asleep) = (0, 0);
                }
            }
        }
    }

    /// Replays the thread up to `time`, without the removed pieces. Returns when it is there.
    fn advance(&mut self, thread: ThreadId, time: Timestamp, removed: &[Removed]) -> u64 {
        if time <= self.real {
            return self.replayed;
        }
        let (from, mut took) = (self.real, ns(time.since(self.real)));
        while let Some(part) = removed
            .get(self.next)
            .filter(|part| part.thread == thread && part.start < time)
        {
            let gone = ns(part.end.min(time).since(part.start.max(from)));
            took = took.saturating_sub(gone);
            if part.end > time {
                break;
            }
            self.next += 1;
        }
        self.real = time;
        self.replayed = self.replayed.saturating_add(took);
        self.replayed
    }

    /// Passes the thread's recorded time up to `time` without replaying it.
    fn skip(&mut self, thread: ThreadId, time: Timestamp, removed: &[Removed]) {
        let replayed = self.replayed;
        self.advance(thread, time, removed);
        self.replayed = replayed;
    }
}

/// Time of threads, sorted, without overlaps.
fn merged(mut removed: Vec<Removed>) -> Vec<Removed> {
    removed.sort_unstable();
    removed.dedup_by(|part, before| {
        let continues = part.thread == before.thread && part.start <= before.end;
        if continues {
            before.end = before.end.max(part.end);
        }
        continues
    });
    removed
}

/// The thread that created another one: the oldest of those that may have and ran then, mostly the first of its process.
fn creator(lanes: &Lanes, thread: ThreadId, born: Timestamp) -> Option<ThreadId> {
    creators(lanes, thread, born).find(|creator| lanes.ran(*creator, born))
}
