//! Waits that ended in vain, or by chance: something else than what was waited for.

use base::addr::{Timestamp, ns};
use fact::{ThreadId, WaitReason};

use super::lanes::{EndedBy, Lane, LaneWait, Lanes};

/// Most waits of a thread that are searched.
const MAX_WAITS: usize = 64;
/// A thread that was woken in vain runs for at most this long before it waits again, in ns: longer, and it was work.
const GLANCE: u64 = 1_000_000;

/// Whether a thread was at work at that moment because a timer or a device had woken it, rather than another thread.
pub(super) fn acts_on_its_own(lanes: &Lanes, thread: ThreadId, time: Timestamp) -> bool {
    last_idle(lanes, thread, time)
        .is_some_and(|wait| wait.woken <= time && wait.ended_by == EndedBy::Interrupt && wait.request.is_none())
}

/// Whether a thread was at work at that moment because a condition had not come true in time: like one that keeps
/// timers for others, who may have set it any time before.
pub(super) fn keeps_timers(lanes: &Lanes, thread: ThreadId, time: Timestamp) -> bool {
    last_idle(lanes, thread, time)
        .is_some_and(|wait| wait.reason == WaitReason::Condition && wait.ended_by == EndedBy::Interrupt)
}

/// When the thread waited again, if this wait ended in vain: nothing that a recorded thread did ended it, or a thread
/// that nothing of that kind had woken, and the thread soon waited again like that.
pub(super) fn again(lanes: &Lanes, thread: ThreadId, wait: &LaneWait) -> Option<Timestamp> {
    let is_external = || match wait.ended_by {
        EndedBy::Thread(by) => {
            last_idle(lanes, by, wait.woken).is_some_and(|idle| !matches!(idle.ended_by, EndedBy::Thread(_)))
        }
        _ => true,
    };
    if !wait.reason.is_idle() || wait.request.is_some() || !is_external() {
        return None;
    }
    let waits = lanes.get(thread)?.waits();
    let after = waits.partition_point(|other| other.start <= wait.start);
    let (mut last, mut ran) = (wait.end, 0_u64);
    for next in waits[after..].iter().take(MAX_WAITS) {
        ran = ran.saturating_add(ns(next.start.since(last)));
        last = next.end;
        if ran > GLANCE {
            break;
        }
        // It was preempted in between.
        if next.reason != WaitReason::RunQueue {
            return (next.reason == wait.reason).then_some(next.start);
        }
    }
    None
}

/// The last idle wait that a thread had begun before `time`.
fn last_idle(lanes: &Lanes, thread: ThreadId, time: Timestamp) -> Option<&LaneWait> {
    let waits = lanes.get(thread).map_or(&[][..], Lane::waits);
    let before = waits.partition_point(|wait| wait.start < time);
    let mut before = waits[..before].iter().rev().take(MAX_WAITS);
    before.find(|wait| wait.reason.is_idle())
}
