//! Holders that are known, and properties of what held a wait up.

use proptest::prelude::*;

use super::*;
use crate::fact::wait::WakerFact;

fn wait(start: u64, woken: u64, end: u64) -> WaitFact {
    let off = Duration::from_nanos(end - start);
    WaitFact {
        start: Timestamp(start),
        end: Timestamp(end),
        thread: ThreadId(1),
        stack: None,
        off,
        queued: Duration::from_nanos(end - woken),
        longest: off,
        count: 1,
        reason: WaitReason::Lock,
        call: None,
        waker: Some(WakerFact {
            time: Timestamp(woken),
            pid: 5,
            tid: 6,
            thread: Some(ThreadId(2)),
            stack: None,
            by_interrupt: Some(false),
        }),
        sight: Sight::Whole,
        in_fault: false,
    }
}

fn held<N>(start: u64, end: u64, what: N) -> Held<N> {
    let (start, end) = (Timestamp(start), Timestamp(end));
    Held { start, end, what }
}

#[test]
fn the_holders_fault_held_up_the_wait() {
    let fault = held(90, 160, "fault");
    let of_holder = [
        held(10, 50, "earlier"),
        fault,
        held(100, 150, "disk"),
        held(170, 300, "after the wake-up"),
    ];
    let found = held_up(&wait(120, 180, 200), WaitReason::Lock, of_holder).unwrap();
    assert_eq!(found.holder, ThreadId(2));
    let ns = Duration::from_nanos;
    assert_eq!(
        found.by,
        [("fault", ns(40)), ("disk", ns(30)), ("after the wake-up", ns(10))]
    );
    assert_eq!(found.kept, ns(50), "the disk is within the fault");
}

#[test]
fn where_no_holder_shows_nothing_is_said() {
    let lock = wait(100, 180, 200);
    let mut unknown = vec![(lock.clone(), WaitReason::Condition)];
    let mut change = |change: fn(&mut WaitFact)| {
        let mut wait = lock.clone();
        change(&mut wait);
        unknown.push((wait, WaitReason::Lock));
    };
    change(|wait| wait.count = 2);
    change(|wait| wait.sight = Sight::NoEnd);
    change(|wait| wait.waker = None);
    change(|wait| wait.waker.as_mut().unwrap().by_interrupt = None);
    change(|wait| wait.waker.as_mut().unwrap().by_interrupt = Some(true));
    change(|wait| wait.waker.as_mut().unwrap().thread = None);
    change(|wait| wait.waker.as_mut().unwrap().thread = Some(wait.thread));
    change(|wait| wait.waker.as_mut().unwrap().time = Timestamp(99));
    for (wait, reason) in unknown {
        assert_eq!(held_up(&wait, reason, [held(100, 180, ())]), None, "{wait:?}");
    }
    assert_eq!(
        held_up(&lock, WaitReason::Lock, [held(0, 100, ()), held(180, 190, ())]),
        None
    );
    assert!(held_up(&lock, WaitReason::Lock, [held(0, 101, ())]).is_some());
}

proptest! {
    #[test]
    fn nothing_is_counted_twice_or_outside_the_wait(
        (start, woken, end) in (0..100_u64, 0..100_u64, 0..100_u64),
        spans in prop::collection::vec((0..400_u64, 0..100_u64), 0..20),
    ) {
        let wait = wait(100 + start, 100 + start + woken, 100 + start + woken + end);
        let of_holder = spans.iter().zip(0..).map(|((start, len), number)| held(*start, start + len, number));
        // Counted nanosecond by nanosecond.
        let covers = |at: u64| spans.iter().any(|(start, len)| (*start..start + len).contains(&at));
        let expected = (wait.start.0..wait.start.0 + woken).filter(|at| covers(*at)).count() as u64;
        match held_up(&wait, WaitReason::Lock, of_holder) {
            None => prop_assert_eq!(expected, 0),
            Some(found) => {
                prop_assert_eq!(found.kept, Duration::from_nanos(expected));
                prop_assert!(expected > 0 && !found.by.is_empty());
                for (number, time) in &found.by {
                    let (start, len) = spans[*number as usize];
                    prop_assert!(*time <= found.kept && *time <= Duration::from_nanos(len) && *time > Duration::ZERO);
                    prop_assert!(start < wait.end.0);
                }
                prop_assert!(found.by.is_sorted_by_key(|(_, time)| std::cmp::Reverse(*time)));
            }
        }
    }

    /// Another wait of the holder never makes the explanation smaller.
    #[test]
    fn more_is_never_less(spans in prop::collection::vec((0..300_u64, 1..100_u64), 1..10)) {
        let wait = wait(100, 200, 210);
        let kept = |spans: &[(u64, u64)]| {
            let of_holder = spans.iter().map(|(start, len)| held(*start, start + len, ()));
            held_up(&wait, WaitReason::Lock, of_holder).map_or(Duration::ZERO, |found| found.kept)
        };
        prop_assert!(kept(&spans[..spans.len() - 1]) <= kept(&spans));
    }
}
