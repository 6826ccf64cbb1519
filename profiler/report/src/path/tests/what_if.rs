//! What removing a part of a path saves.

use super::*;
use crate::path::everything::{Part, everything};
use crate::path::what_if::Removed;

fn parts(lanes: &Lanes, span: Window) -> Vec<Part> {
    everything(lanes, span).unwrap()
}

/// By how much the first lane's 100 ns would be shorter without the pieces of these threads.
pub(super) fn saved(lanes: &[Lane], threads: &[u32]) -> u64 {
    let lanes = Lanes::new(lanes.to_vec());
    let pieces = walk(&lanes, ThreadId(0), window(0, 100));
    let replay = Replay::new(&lanes, ThreadId(0), window(0, 100));
    replay.saved(pieces.iter().filter(|piece| threads.contains(&piece.spent.thread.0)))
}

#[test]
fn a_second_path_limits_what_can_be_saved() {
    // A fork-join: thread 1 takes until 60, thread 2 until 90; both are joined in this order.
    let lanes = [
        lane(
            0,
            &[
                wait(10, 60, 60, WaitReason::Condition, by(1)),
                wait(61, 90, 90, WaitReason::Condition, by(2)),
            ],
        ),
        lane(0, &[wait(60, 99, 99, WaitReason::Sleep, EndedBy::Interrupt)]),
        lane(0, &[wait(90, 99, 99, WaitReason::Sleep, EndedBy::Interrupt)]),
    ];
    assert_eq!(saved(&lanes, &[1]), 0, "thread 2 takes as long all the same");
    assert_eq!(saved(&lanes, &[2]), 29, "thread 1 was joined before");
    // Until 61 thread 2 is not on the path, and takes its time.
    assert_eq!(saved(&lanes, &[1, 2]), 29);
    assert_eq!(saved(&lanes, &[0]), 10, "only what follows the last join");
    assert_eq!(saved(&lanes, &[7]), 0);
}

#[test]
fn what_workers_do_alike_is_removed_from_all_of_them() {
    // Two workers decode (stack 1) until 80 and 90, in parallel, each after 10 ns of reading (stack 0).
    let worker = |end: u64| {
        let samples = [(10, 0), (end, 1)].map(|(time, stack)| LaneSample {
            time: Timestamp(time),
            stack: Some(StackId::new(stack)),
        });
        let sleep = wait(end, 200, 200, WaitReason::Sleep, EndedBy::Interrupt);
        Lane::new(Timestamp(0), vec![sleep], samples.to_vec())
    };
    let joins = [
        wait(1, 80, 80, WaitReason::Condition, by(1)),
        wait(81, 90, 90, WaitReason::Condition, by(2)),
    ];
    let lanes = Lanes::new(vec![lane(0, &joins), worker(80), worker(90)]);
    let (first, span) = (ThreadId(0), window(0, 100));
    let (pieces, replay) = (walk(&lanes, first, span), Replay::new(&lanes, first, span));
    let decodes = |piece: &&Piece| piece.spent.stack == Some(StackId::new(1));
    let all: Vec<Piece> = parts(&lanes, span).iter().map(|part| part.piece).collect();
    assert_eq!(total(all.iter().filter(decodes)), 70 + 80);
    assert_eq!(
        replay.saved(pieces.iter().filter(decodes)),
        9,
        "thread 2 decodes as long"
    );
    // 10 ns of reading, and those after each join, are left.
    assert_eq!(replay.saved(all.iter().filter(decodes)), 79);
    assert_eq!(replay.saved(pieces.iter().chain(&all).filter(decodes)), 79, "only once");
}

#[test]
fn a_removed_wait_leaves_no_wait_for_a_cpu() {
    // Written out from 10 to 30; the CPU was busy until 45. Then preempted until 60.
    let waits = [
        wait(10, 30, 45, WaitReason::Disk, EndedBy::Interrupt),
        wait(50, 50, 60, RUN, EndedBy::Unknown),
    ];
    let lanes = Lanes::new(vec![lane(0, &waits)]);
    let replay = |to: u64| Replay::new(&lanes, ThreadId(0), window(0, to));
    let saved = |to: u64, kind: Kind| {
        let all = parts(&lanes, window(0, to));
        replay(to).saved(all.iter().filter(|part| part.piece.spent.kind == kind))
    };
    assert_eq!(saved(100, Kind::Wait(WaitReason::Disk)), 35);
    assert_eq!(saved(100, RUN_QUEUE), 25);
    assert_eq!(saved(40, Kind::Wait(WaitReason::Disk)), 30, "the span ends within it");
    assert_eq!(saved(20, Kind::Wait(WaitReason::Disk)), 10);
}

#[test]
fn whoever_comes_earlier_waits_no_longer_for_a_thread_that_was_met_by_chance() {
    // Thread 1 idles, works from `woken` to 80, and ends a wait of the first one, of this reason, that began at 75.
    let saved_of = |idles: WaitReason, woken: u64, woken_by: EndedBy, reason: WaitReason| {
        let worker = lane(0, &[wait(1, woken, woken, idles, woken_by)]);
        let other = lane(0, &[wait(75, 200, 200, WaitReason::Sleep, EndedBy::Interrupt)]);
        let lanes = Lanes::new(vec![lane(0, &[wait(75, 80, 80, reason, by(1))]), worker, other]);
        let before = Removed {
            thread: ThreadId(0),
            start: Timestamp(0),
            end: Timestamp(60),
        };
        Replay::new(&lanes, ThreadId(0), window(0, 100)).saved([before].into_iter())
    };
    let condition = WaitReason::Condition;
    let saved = |woken, woken_by, reason| saved_of(WaitReason::Poll, woken, woken_by, reason);
    assert_eq!(
        saved_of(condition, 78, EndedBy::Interrupt, condition),
        60,
        "a timer that thread 1 keeps may have been set late"
    );
    assert_eq!(saved(70, by(2), condition), 0, "what thread 2 began was needed");
    assert_eq!(saved(78, EndedBy::Interrupt, condition), 0, "the timer was waited for");
    assert_eq!(saved(70, EndedBy::Interrupt, condition), 60, "the timer had begun it");
    assert_eq!(
        saved(70, by(2), WaitReason::Lock),
        60,
        "it would have had the lock first"
    );
}

#[test]
fn a_thread_that_waits_until_a_timeout_can_be_woken_before() {
    // The first one works until 70, wakes thread 1 and waits until that is done. Thread 1 idles until then: until 60 it
    // waits for a timeout, after that for a wakeup.
    let saved = |reason: WaitReason, last: WaitReason| {
        let timed = [
            wait(5, 60, 60, reason, EndedBy::Interrupt),
            wait(61, 70, 70, last, by(0)),
        ];
        let lanes = Lanes::new(vec![
            lane(0, &[wait(71, 80, 80, WaitReason::Condition, by(1))]),
            lane(
                0,
                &[timed[0], timed[1], wait(81, 200, 200, WaitReason::Condition, by(0))],
            ),
        ]);
        let work = Removed {
            thread: ThreadId(0),
            start: Timestamp(0),
            end: Timestamp(50),
        };
        Replay::new(&lanes, ThreadId(0), window(0, 100)).saved([work].into_iter())
    };
    assert_eq!(saved(WaitReason::Condition, WaitReason::Condition), 50);
    assert_eq!(saved(WaitReason::Sleep, WaitReason::Condition), 9, "that ends no sleep");
    assert_eq!(
        saved(WaitReason::Sleep, WaitReason::Sleep),
        50,
        "a signal ends any sleep"
    );
}

proptest! {
    #[test]
    fn each_threads_time_is_counted_once(lanes in prop::collection::vec(any_lane(6), 1..6), start in 0..60_u64) {
        let span = window(start, start + 60);
        let lanes = Lanes::new(lanes);
        let mut all: Vec<Piece> = parts(&lanes, span).iter().map(|part| part.piece).collect();
        all.sort_by_key(|piece| (piece.lane, piece.start));
        for (piece, next) in all.iter().zip(all.iter().skip(1)) {
            prop_assert!(piece.lane != next.lane || piece.end <= next.start);
        }
        prop_assert!(all.iter().all(|piece| piece.start >= span.start && piece.start < piece.end && piece.end <= span.end));
        let replay = Replay::new(&lanes, ThreadId(0), span);
        let pieces = walk(&lanes, ThreadId(0), span);
        for thread in 0..6 {
            let is_of = |piece: &&Piece| piece.spent.thread.0 == thread;
            let both = || pieces.iter().chain(&all).filter(is_of);
            prop_assert!(replay.saved(both()) >= replay.saved(pieces.iter().filter(is_of)));
        }
    }
}
