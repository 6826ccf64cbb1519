//! Waits for the CPU quota of a cgroup.

use std::time::Duration;

use profiler::addr::Timestamp;
use profiler_common::switch as sw;

use super::{Event, Wait, WaitReason, born, facts, only, wait};

/// Linux before 6.18: a thread that is woken while its cgroup has no CPU quota.
#[test]
fn a_wakeup_without_cpu_quota_ends_one_wait_and_begins_another() {
    let woken = |flags| {
        Event::Wait(Wait {
            queued: 30,
            flags,
            ..wait(200, 300)
        })
    };
    let (tables, parts) = facts(&[born(7), woken(sw::WAIT_THROTTLED)]);
    let [first, second] = &parts[..] else {
        panic!("{parts:?}")
    };
    let ns = Duration::from_nanos;
    assert_eq!(
        (first.start, first.end, first.off),
        (Timestamp(200), Timestamp(270), ns(70))
    );
    assert_eq!(
        (second.start, second.end, second.off),
        (Timestamp(270), Timestamp(300), ns(30))
    );
    assert!(first.reason != WaitReason::Throttled && second.reason == WaitReason::Throttled);
    assert!(parts.iter().all(|part| part.queued.is_zero() && part.count == 1));
    assert_eq!(tables.recording.waits_seen, 2);
    let (_, whole) = only(&[born(7), woken(sw::WAIT_THROTTLED | sw::WAIT_PREEMPTED)]);
    assert_eq!(
        (whole.reason, whole.blocked(), whole.queued),
        (WaitReason::Throttled, ns(70), ns(30))
    );
}
