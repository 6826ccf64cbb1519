//! Waits that ended in vain.

use super::what_if::saved;
use super::*;

/// The first lane polls from 10 to 40, which `ended_by` ends, and until thread 1 wakes it at 80. Thread 2 sleeps until 40.
fn interrupted(ended_by: EndedBy) -> [Lane; 3] {
    let polls = [
        wait(10, 40, 40, WaitReason::Poll, ended_by),
        wait(41, 80, 80, WaitReason::Poll, by(1)),
    ];
    let worker = lane(
        0,
        &[
            wait(1, 5, 5, WaitReason::Condition, by(0)),
            wait(90, 99, 99, WaitReason::Poll, by(0)),
        ],
    );
    let sleeper = wait(3, 40, 40, WaitReason::Sleep, EndedBy::Interrupt);
    [lane(0, &polls), worker, lane(0, &[sleeper])]
}

#[test]
fn a_wait_that_ended_in_vain_is_what_the_next_one_was_for() {
    let cpu = |start, end, thread| (start, end, thread, Kind::Cpu);
    let expected = [
        cpu(0, 10, 0),
        cpu(10, 40, 1),
        cpu(40, 41, 0),
        cpu(41, 80, 1),
        cpu(80, 100, 0),
    ];
    for ended_by in [EndedBy::Interrupt, EndedBy::Unknown, EndedBy::Unrecorded(7), by(2)] {
        assert_eq!(path(interrupted(ended_by).to_vec()), expected);
    }
    // Preempted in between, and what woke the first thread had been woken by thread 1 itself.
    let [first, worker, sleeper] = interrupted(EndedBy::Interrupt);
    let mut waits = first.waits().to_vec();
    waits.insert(1, wait(40, 40, 41, RUN, EndedBy::Unknown));
    waits[2].start = Timestamp(42);
    waits[2].ended_by = by(3);
    let messenger = lane(0, &[wait(2, 75, 75, WaitReason::Poll, by(1))]);
    let pieces = path(vec![lane(0, &waits), worker.clone(), sleeper, messenger.clone()]);
    assert_eq!(pieces[1], cpu(10, 40, 1), "{pieces:?}");
    // In these, it is not known to be the same: a thread that waits for another one, a wait for something else, and one
    // that a thread with a task ended.
    let sleep = (10, 40, 0, Kind::Wait(WaitReason::Poll));
    let idle = lane(0, &[wait(5, 60, 60, WaitReason::Condition, by(0))]);
    let [first, ..] = interrupted(EndedBy::Interrupt);
    assert_eq!(path(vec![first.clone(), idle])[1], sleep);
    let mut waits = first.waits().to_vec();
    waits[0].reason = WaitReason::Socket;
    assert_eq!(
        path(vec![lane(0, &waits), worker.clone()])[1],
        (10, 40, 0, Kind::Wait(WaitReason::Socket))
    );
    waits[0] = wait(10, 40, 40, WaitReason::Poll, by(2));
    let told = lane(
        0,
        &[
            wait(3, 30, 30, WaitReason::Poll, by(1)),
            wait(50, 99, 99, WaitReason::Poll, by(1)),
        ],
    );
    assert_eq!(path(vec![lane(0, &waits), worker, told])[2], cpu(30, 40, 2));
}

#[test]
fn a_thread_that_works_before_it_waits_again_was_not_woken_in_vain() {
    let ms = 1_000_000;
    let piece_at_3_ms = |works: u64| {
        let polls = [
            wait(ms, 4 * ms, 4 * ms, WaitReason::Poll, EndedBy::Interrupt),
            wait(4 * ms + works, 9 * ms, 9 * ms, WaitReason::Poll, by(1)),
        ];
        let pieces = walk(
            &Lanes::new(vec![lane(0, &polls), lane(0, &[])]),
            ThreadId(0),
            window(0, 9 * ms),
        );
        let at = pieces.iter().find(|piece| piece.end.0 > 3 * ms);
        at.map(|piece| (piece.spent.thread.0, piece.spent.kind))
    };
    assert_eq!(piece_at_3_ms(ms), Some((1, Kind::Cpu)));
    assert_eq!(piece_at_3_ms(ms + 1), Some((0, Kind::Wait(WaitReason::Poll))));
}

#[test]
fn a_wait_in_vain_is_no_second_path() {
    // The first one waits for thread 1; at 40 a timer wakes it, its own or that of thread 2.
    for ended_by in [EndedBy::Interrupt, by(2)] {
        let lanes = interrupted(ended_by);
        assert_eq!(saved(&lanes, &[1]), 69, "but for 10 ns before and 1 ns in between");
        assert_eq!(saved(&lanes, &[2]), 0);
        assert_eq!(saved(&lanes, &[0]), 24, "4 until it wakes thread 1, and 20 at the end");
    }
}
