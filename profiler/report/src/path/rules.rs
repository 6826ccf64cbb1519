//! The rules of the critical path: what a thread's time is replaced by. One function per rule; docs/path.md lists them.

use base::addr::Timestamp;
use fact::{ThreadId, WaitReason};

use super::holders;
use super::lanes::{Activity, EndedBy, LaneRequest, LaneWait, Lanes};
use super::vain;
use super::walk::{Kind, Next, Spent};

/// Most threads that a process had in all; beyond, the creators of its threads are unknown.
const MAX_CREATORS: usize = 4096;

/// Most threads that wait for each other.
const MAX_HOPS: usize = 64;

/// The next step of the path, backwards from a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The time since this moment was spent like that.
    Spent(Timestamp, Spent),
    /// It is the time of another thread, down to `floor`.
    Enter {
        /// The other thread; it ran just before the moment, or [waited too](waits_too).
        thread: ThreadId,
        /// Why this thread waited.
        via: WaitReason,
        /// When this thread began to wait, or the path leaves it.
        floor: Timestamp,
    },
    /// The thread did not exist before; this one created it.
    CreatedBy(ThreadId),
    /// The thread did not exist before, and its creator is unknown.
    Lost,
}

/// What `thread` did just before `now`, which is after `floor`. `next`: its next wait that was another thread's time.
pub(super) fn step(lanes: &Lanes, thread: ThreadId, next: Option<Next>, floor: Timestamp, now: Timestamp) -> Step {
    match lanes.at(thread, now) {
        Activity::Ran(since) => Step::Spent(since.max(floor), ran(thread)),
        Activity::Waited(wait) if now > wait.woken => queued(lanes, thread, wait, (floor.max(wait.woken), now)),
        Activity::Waited(wait) => {
            let span = (floor.max(wait.start), now);
            let interrupted = next.and_then(|next| interrupted(lanes, thread, wait, next, span));
            interrupted.unwrap_or_else(|| waited(lanes, thread, wait, span))
        }
        Activity::Unborn => created(lanes, thread, now),
    }
}

/// On a CPU: itself.
fn ran(thread: ThreadId) -> Spent {
    Spent {
        thread,
        kind: Kind::Cpu,
        stack: None,
        file: None,
        device: None,
        ended_by: EndedBy::Unknown,
    }
}

/// Nothing is known.
pub(super) fn unknown(thread: ThreadId) -> Spent {
    Spent {
        kind: Kind::Wait(WaitReason::Unknown),
        ..ran(thread)
    }
}

/// Waiting for a CPU: whichever thread had it.
fn queued(lanes: &Lanes, thread: ThreadId, wait: &LaneWait, (from, now): (Timestamp, Timestamp)) -> Step {
    let (since, holder) = holders::holder(lanes, thread, wait, (from, now));
    let spent = Spent {
        kind: Kind::Wait(WaitReason::RunQueue),
        stack: wait.stack.filter(|_| holder.is_none()),
        ..ran(holder.unwrap_or(thread))
    };
    Step::Spent(since, spent)
}

/// Blocked: the request that it waited for, else the thread that woke it, else the wait itself.
fn waited(lanes: &Lanes, thread: ThreadId, wait: &LaneWait, (from, now): (Timestamp, Timestamp)) -> Step {
    if let Some(request) = &wait.request {
        return requested(lanes, thread, (wait, request), (from, now));
    }
    woken(lanes, thread, wait, (from, now)).unwrap_or_else(|| Step::Spent(from, blocked(thread, wait)))
}

/// A request: the disk since it was submitted; before that, what the other thread that submitted it did.
fn requested(
    lanes: &Lanes,
    thread: ThreadId,
    (wait, request): (&LaneWait, &LaneRequest),
    (from, now): (Timestamp, Timestamp),
) -> Step {
    let start = request.start.clamp(from, now);
    let by = request.by.filter(|by| *by != thread && lanes.ran(*by, start));
    match by {
        Some(by) if start == now => Step::Enter {
            thread: by,
            via: wait.reason,
            floor: from,
        },
        Some(_) => Step::Spent(start, blocked(thread, wait)),
        None => Step::Spent(from, blocked(thread, wait)),
    }
}

/// A wait that ended in vain, if it went on soon: the thread that the path was in when the next one began, if that was at
/// work, else the one that ended the next one, if it waited for work.
fn interrupted(
    lanes: &Lanes,
    thread: ThreadId,
    wait: &LaneWait,
    next: Next,
    (floor, now): (Timestamp, Timestamp),
) -> Option<Step> {
    if vain::again(lanes, thread, wait) != Some(next.start) {
        return None;
    }
    let mut candidates = [next.within, next.ended_by].into_iter();
    let other = candidates.find(|other| *other != thread && at_work(lanes, *other, thread, now))?;
    Some(Step::Enter {
        thread: other,
        via: wait.reason,
        floor,
    })
}

/// Whether a thread ran then, or waited for something else than `not`: for a CPU, a request, or a thread of which that is true.
fn at_work(lanes: &Lanes, mut thread: ThreadId, not: ThreadId, now: Timestamp) -> bool {
    for _ in 0..MAX_HOPS {
        let wait = match lanes.at(thread, now) {
            Activity::Ran(_) => return true,
            Activity::Unborn => return false,
            Activity::Waited(wait) => wait,
        };
        if let Some(request) = wait.request {
            return request.by != Some(not);
        }
        if now > wait.woken {
            return true;
        }
        match waker(lanes, thread, wait, now) {
            Some(by) if by == not => return false,
            Some(by) => thread = by,
            None => return !wait.reason.is_idle(),
        }
    }
    false
}

/// A wakeup by a thread, over whatever: what that thread did, if it ran, or waited for a third one.
fn woken(lanes: &Lanes, thread: ThreadId, wait: &LaneWait, (floor, now): (Timestamp, Timestamp)) -> Option<Step> {
    waker(lanes, thread, wait, now).map(|thread| Step::Enter {
        thread,
        via: wait.reason,
        floor,
    })
}

/// The other thread that ended a wait, if it is known what that did just before `now`.
fn waker(lanes: &Lanes, thread: ThreadId, wait: &LaneWait, now: Timestamp) -> Option<ThreadId> {
    let EndedBy::Thread(waker) = wait.ended_by else {
        return None;
    };
    let is_known = lanes.ran(waker, now) || waits_too(lanes, waker, wait, now);
    (waker != thread && is_known).then_some(waker)
}

/// Whether the span ends within the wait at a moment at which the waker was off CPUs itself. What it waits for then has
/// to end earlier than this wait, so that no threads wait for each other in a circle.
pub(super) fn waits_too(lanes: &Lanes, waker: ThreadId, wait: &LaneWait, now: Timestamp) -> bool {
    now < wait.woken && matches!(lanes.at(waker, now), Activity::Waited(other) if other.woken < wait.woken)
}

/// A wait that is not replaced.
pub(super) fn blocked(thread: ThreadId, wait: &LaneWait) -> Spent {
    let request = wait.request.as_ref();
    Spent {
        kind: if wait.in_fault && !matches!(wait.reason, WaitReason::RunQueue | WaitReason::Throttled) {
            Kind::Fault
        } else {
            Kind::Wait(wait.reason)
        },
        stack: wait.stack,
        file: request.and_then(|request| request.file).or(wait.file),
        device: request.map(|request| request.device),
        ended_by: wait.ended_by,
        ..ran(thread)
    }
}

/// Before a thread's birth: its creator. If it is unknown, the thread of the right process that ran then, if only one did.
fn created(lanes: &Lanes, thread: ThreadId, now: Timestamp) -> Step {
    let creator = creators(lanes, thread, now).filter(|creator| lanes.ran(*creator, now));
    let mut creator = creator.take(2);
    match (creator.next(), creator.next()) {
        (Some(creator), None) => Step::CreatedBy(creator),
        _ => Step::Lost,
    }
}

/// The threads that may have created a thread at that moment, if they live: the one that did, else those of its process, or
/// of the process that created it.
pub(super) fn creators(lanes: &Lanes, thread: ThreadId, now: Timestamp) -> impl Iterator<Item = ThreadId> {
    let lane = lanes.get(thread);
    let process = lane.map(|lane| lane.parent.unwrap_or(lane.process));
    let threads = process.map_or(&[][..], |process| lanes.of_process(process));
    let few = match lane.map_or(&[][..], |lane| lane.creator.as_slice()) {
        [] if threads.len() <= MAX_CREATORS => threads,
        known => known,
    };
    let lives = move |creator: &ThreadId| lanes.get(*creator).is_some_and(|lane| lane.has_not_ended(now));
    few.iter()
        .copied()
        .filter(move |creator| *creator != thread)
        .filter(lives)
}
