//! Which thread had the CPU that another one waited for.
//!
//! A switch has one time: one thread leaves the CPU and the next one gets it at the same nanosecond. So the thread that
//! was switched out when this one was switched in had that CPU, since it was switched in itself, when another one left.

use base::addr::Timestamp;
use fact::ThreadId;

use super::lanes::{Activity, LaneWait, Lanes};

/// Most switches at one nanosecond that are compared; only damaged recordings have more.
const MAX_AT_ONCE: usize = 64;

/// The thread that had the CPU just before `now`, and since when, but not before `from`. `None` if it is unknown, which
/// then holds down to `from`.
pub(super) fn holder(
    lanes: &Lanes,
    thread: ThreadId,
    wait: &LaneWait,
    (from, now): (Timestamp, Timestamp),
) -> (Timestamp, Option<ThreadId>) {
    // The last step usually ended at a switch.
    if let Some((holder, since)) = switched_out(lanes, thread, now) {
        return (since.max(from), Some(holder));
    }
    // Else from the switch that ended the wait back to the one before `now`.
    let mut switched = wait.end;
    while switched > from {
        let Some((holder, since)) = switched_out(lanes, thread, switched) else {
            break;
        };
        if since < now {
            return (since.max(from), Some(holder));
        }
        switched = since;
    }
    (from, None)
}

/// The thread that left a CPU at `time`, and since when it had had it.
fn switched_out(lanes: &Lanes, thread: ThreadId, time: Timestamp) -> Option<(ThreadId, Timestamp)> {
    let mut others = lanes.outs_at(time).take(MAX_AT_ONCE).filter(|other| *other != thread);
    others.find_map(|other| match lanes.at(other, time) {
        Activity::Ran(since) => Some((other, since)),
        _ => None,
    })
}
