//! How long a time span would have taken without some of its path: every thread's time is replayed without those
//! pieces.
//!
//! A wait that a thread ended ends when that thread reaches its wakeup in the replay, at once if it is there first; any
//! other wait takes as long as it took. So other threads that would have been waited for next still are, as far as
//! waits show them. It is an estimate: a thread that was ready in time left no wait, and does not hold up the replay
//! either; and what the same code does off the path keeps its time.

use base::addr::{Timestamp, ns};
use fact::ThreadId;

use super::lanes::{EndedBy, Lanes};
use super::rules::{creators, waits_too};
use super::walk::{Piece, Window};

/// One thread had to wait for what another one reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    /// When.
    time: Timestamp,
    /// Births precede the wakeups of the same moment.
    is_wakeup: bool,
    /// When it was recorded: later, if the span ends before. Of wakeups after the span, the first precedes.
    recorded: Timestamp,
    /// The thread that was waited for.
    from: ThreadId,
    /// The thread that waited.
    to: ThreadId,
    /// Since when.
    since: Timestamp,
}

/// The dependencies between threads in a time span.
#[derive(Debug)]
pub struct Replay {
    window: Window,
    thread: ThreadId,
    threads: usize,
    edges: Vec<Edge>,
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
                    is_wakeup: false,
                    recorded: lane.born,
                    from,
                    to,
                    since: lane.born,
                });
            }
            for wait in lane.waits() {
                let end = match (&wait.request, wait.ended_by) {
                    (Some(request), _) => request.by.map(|by| (by, request.start)),
                    (None, EndedBy::Thread(waker)) => Some((waker, wait.woken)),
                    _ => None,
                };
                let Some((from, recorded)) = end else { continue };
                let since = wait.start.max(window.start);
                // As the path does, where the span ends within the wait.
                let time = recorded.min(window.end);
                let waits_too = || wait.request.is_none() && waits_too(lanes, from, wait, time);
                if time > since && from != to && (lanes.ran(from, time) || waits_too()) {
                    edges.push(Edge {
                        time,
                        is_wakeup: true,
                        recorded,
                        from,
                        to,
                        since,
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

    /// By how many ns the span would have been shorter without these pieces of its path: an estimate.
    pub fn saved<'p>(&self, without: impl Iterator<Item = &'p Piece>) -> u64 {
        let mut removed: Vec<(ThreadId, Timestamp, Timestamp)> =
            without.map(|piece| (piece.lane, piece.start, piece.end)).collect();
        removed.sort_unstable();
        let mut states: Vec<State> = (0..self.threads)
            .map(|thread| State {
                real: self.window.start,
                replayed: self.window.start.0,
                next: removed.partition_point(|(of, ..)| of.index() < thread),
            })
            .collect();
        for edge in &self.edges {
            let (from, to) = (edge.from.index(), edge.to.index());
            if from >= states.len() || to >= states.len() {
                continue;
            }
            let reached = states[from].advance(edge.from, edge.time, &removed);
            let state = &mut states[to];
            if edge.is_wakeup {
                let arrived = state.advance(edge.to, edge.since, &removed);
                // What was removed of the wait itself is behind the wakeup now.
                state.skip(edge.to, edge.time, &removed);
                state.replayed = arrived.max(reached);
            } else {
                state.skip(edge.to, edge.time, &removed);
                state.replayed = reached;
            }
        }
        let end = match states.get_mut(self.thread.index()) {
            Some(state) => state.advance(self.thread, self.window.end, &removed),
            None => self.window.end.0,
        };
        self.window.end.0.saturating_sub(end)
    }
}

impl State {
    /// Replays the thread up to `time`, without the removed pieces. Returns when it is there.
    fn advance(&mut self, thread: ThreadId, time: Timestamp, removed: &[(ThreadId, Timestamp, Timestamp)]) -> u64 {
        if time <= self.real {
            return self.replayed;
        }
        let (from, mut took) = (self.real, ns(time.since(self.real)));
        while let Some((_, start, end)) = removed
            .get(self.next)
            .filter(|(of, start, _)| *of == thread && *start < time)
        {
            let gone = ns(end.min(&time).since(*start.max(&from)));
            took = took.saturating_sub(gone);
            if *end > time {
                break;
            }
            self.next += 1;
        }
        self.real = time;
        self.replayed = self.replayed.saturating_add(took);
        self.replayed
    }

    /// Passes the thread's recorded time up to `time` without replaying it.
    fn skip(&mut self, thread: ThreadId, time: Timestamp, removed: &[(ThreadId, Timestamp, Timestamp)]) {
        let replayed = self.replayed;
        self.advance(thread, time, removed);
        self.replayed = replayed;
    }
}

/// The thread that created another one: the oldest of those that may have and ran then, mostly the first of its process.
fn creator(lanes: &Lanes, thread: ThreadId, born: Timestamp) -> Option<ThreadId> {
    creators(lanes, thread, born).find(|creator| lanes.ran(*creator, born))
}
