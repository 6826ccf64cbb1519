//! Which thread had the CPU that another one waited for.
//!
//! A thread that waits for a CPU does so until it gets one. Which CPU that was is recorded, and so is when each recorded
//! thread was switched in and out there.

use base::addr::Timestamp;
use fact::ThreadId;

use super::lanes::{LaneWait, Lanes};

/// The thread that had the CPU just before `now`, and since when, but not before `from`. `None`: no recorded thread
/// had it then.
pub(crate) fn holder(
    lanes: &Lanes,
    thread: ThreadId,
    wait: &LaneWait,
    (from, now): (Timestamp, Timestamp),
) -> (Timestamp, Option<ThreadId>) {
    match wait.cpu.and_then(|cpu| lanes.on_cpu(cpu, thread, now)) {
        Some(last) if last.end >= now => (last.start.max(from), Some(last.thread)),
        Some(last) => (last.end.max(from), None),
        None => (from, None),
    }
}
