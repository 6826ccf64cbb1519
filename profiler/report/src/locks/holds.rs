//! Which thread had a lock when: an inference from the wakeups of the threads that waited for it.

use base::addr::{Timestamp, ns};
use fact::{StackId, ThreadId};

/// The thread that had a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Holder {
    /// A recorded thread.
    Thread(ThreadId),
    /// One that is not recorded, by its tid.
    Unrecorded(u32),
    /// Unknown: nothing is known to have released it afterwards.
    Unknown,
}

/// A thread released a lock: it woke one that waited for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// When.
    pub time: Timestamp,
    /// The thread.
    pub holder: Holder,
    /// When its own last wait for the lock had ended, if it had waited before.
    pub got: Option<Timestamp>,
    /// When the thread began, or the recording did: it did not have the lock before.
    pub born: Timestamp,
    /// Its stack.
    pub stack: Option<StackId>,
}

/// A time in which a lock was one thread's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// Its start.
    pub start: Timestamp,
    /// Its end; after `start`.
    pub end: Timestamp,
    /// The thread.
    pub holder: Holder,
    /// The lock was free for this thread, which had waited for it and did not run yet.
    pub is_hand_over: bool,
    /// The thread's stack when it released the lock.
    pub stack: Option<StackId>,
}

/// The holders of a lock, from its releases by time: they partition the time from `from` to `to`.
///
/// Between two releases it was that of the thread that released it next: held since that thread's own wait for the
/// lock ended, or since the release before. After the last release the holder is unknown.
pub fn holds((from, to): (Timestamp, Timestamp), releases: &[Release]) -> Vec<Hold> {
    let mut holds = Vec::with_capacity(releases.len());
    let mut at = from;
    for release in releases {
        let end = release.time.min(to);
        if end <= at {
            continue;
        }
        let hold = |start, end, holder, is_hand_over| Hold {
            start,
            end,
            holder,
            is_hand_over,
            stack: release.stack.filter(|_| holder == release.holder),
        };
        let got = release.got.filter(|got| *got > at && *got <= end);
        let since = got.unwrap_or(release.born.clamp(at, end));
        if since > at {
            let holder = got.map_or(Holder::Unknown, |_| release.holder);
            holds.push(hold(at, since, holder, got.is_some()));
        }
        if end > since {
            holds.push(hold(since, end, release.holder, false));
        }
        at = end;
    }
    if to > at {
        holds.push(Hold {
            start: at,
            end: to,
            holder: Holder::Unknown,
            is_hand_over: false,
            stack: None,
        });
    }
    holds
}

/// A part of a hold in which the same number of threads waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contention {
    /// Its start.
    pub start: Timestamp,
    /// Its end; after `start`.
    pub end: Timestamp,
    /// How many threads waited; not 0.
    pub waiters: u64,
}

impl Contention {
    /// The time of all waiters together, in ns.
    pub fn blocked(&self) -> u64 {
        ns(self.end.since(self.start)).saturating_mul(self.waiters)
    }
}

/// Divides the time of waits, given by start and end in any order, among holds that are sorted by time: calls `each`
/// with the index of a hold and a part of it, by time.
pub fn contention(holds: &[Hold], waits: &[(Timestamp, Timestamp)], mut each: impl FnMut(usize, Contention)) {
    let sorted = |of: fn(&(Timestamp, Timestamp)) -> Timestamp| {
        let real = waits.iter().filter(|(start, end)| start < end);
        let mut times: Vec<Timestamp> = real.map(of).collect();
        times.sort_unstable();
        times
    };
    let (starts, ends) = (sorted(|wait| wait.0), sorted(|wait| wait.1));
    let (mut started, mut ended) = (0, 0);
    for (index, hold) in holds.iter().enumerate() {
        let mut at = hold.start;
        while at < hold.end {
            let advance = |times: &[Timestamp], from: usize| {
                let behind = times.iter().skip(from).take_while(|time| **time <= at);
                from + behind.count()
            };
            started = advance(&starts, started);
            ended = advance(&ends, ended);
            let next = starts.get(started).into_iter().chain(ends.get(ended));
            let next = next.copied().fold(hold.end, Timestamp::min);
            let waiters = started.saturating_sub(ended) as u64;
            if waiters > 0 {
                let (start, end) = (at, next);
                each(index, Contention { start, end, waiters });
            }
            at = next;
        }
    }
}
