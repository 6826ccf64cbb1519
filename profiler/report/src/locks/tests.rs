//! Holders, what they did, and patterns: on waits that are written down, and invariants on random ones.

use proptest::prelude::*;

use super::doing::{Doing, Timeline};
use super::holds::{Contention, Hold, Holder, Release, contention, holds};
use super::patterns::{Convoy, Turn, convoy, is_preempted};
use super::preemption::Preemption;
use crate::path::lanes::{EndedBy, Lane, LaneWait, Lanes};
use base::addr::{Timestamp, ns};
use fact::{ThreadId, WaitReason};

fn thread(id: u32) -> Holder {
    Holder::Thread(ThreadId(id))
}

fn release(time: u64, id: u32, got: Option<u64>) -> Release {
    Release {
        time: Timestamp(time),
        holder: thread(id),
        got: got.map(Timestamp),
        born: Timestamp(0),
        stack: None,
    }
}

/// Start, end, holder, and whether it is a hand-over.
fn shown(holds: &[Hold]) -> Vec<(u64, u64, Holder, bool)> {
    let shown = holds
        .iter()
        .map(|hold| (hold.start.0, hold.end.0, hold.holder, hold.is_hand_over));
    shown.collect()
}

fn between(from: u64, to: u64, releases: &[Release]) -> Vec<(u64, u64, Holder, bool)> {
    shown(&holds((Timestamp(from), Timestamp(to)), releases))
}

#[test]
fn a_lock_was_held_by_the_thread_that_released_it_next() {
    // Thread 1 had it from the beginning, 2 waited until 32, 3 had not waited.
    let releases = [release(30, 1, None), release(50, 2, Some(32)), release(60, 3, None)];
    let expected = [
        (10, 30, thread(1), false),
        (30, 32, thread(2), true),
        (32, 50, thread(2), false),
        (50, 60, thread(3), false),
        (60, 70, Holder::Unknown, false),
    ];
    assert_eq!(between(10, 70, &releases), expected);
    assert_eq!(between(10, 55, &releases)[3], (50, 55, thread(3), false));
    assert_eq!(between(5, 5, &releases), []);
    assert_eq!(between(5, 7, &[]), [(5, 7, Holder::Unknown, false)]);
}

#[test]
fn a_thread_held_nothing_before_its_birth_or_its_own_wait() {
    let newborn = Release {
        born: Timestamp(20),
        ..release(30, 1, None)
    };
    let expected = [(10, 20, Holder::Unknown, false), (20, 30, thread(1), false)];
    assert_eq!(between(10, 30, &[newborn]), expected);
    // A wait that ended before the last release by another thread says nothing.
    let releases = [release(30, 1, None), release(50, 2, Some(12))];
    let expected = [(10, 30, thread(1), false), (30, 50, thread(2), false)];
    assert_eq!(between(10, 50, &releases), expected);
}

#[test]
fn the_time_of_several_waiters_adds_up() {
    let holds = holds(
        (Timestamp(0), Timestamp(60)),
        &[release(30, 1, None), release(60, 2, None)],
    );
    let wait = |start, end| (Timestamp(start), Timestamp(end));
    let mut parts = Vec::new();
    contention(
        &holds,
        &[wait(10, 30), wait(0, 60), wait(40, 50), wait(7, 7)],
        |index, part| {
            parts.push((index, part.start.0, part.end.0, part.waiters));
        },
    );
    let expected = [
        (0, 0, 10, 1),
        (0, 10, 30, 2),
        (1, 30, 40, 1),
        (1, 40, 50, 2),
        (1, 50, 60, 1),
    ];
    assert_eq!(parts, expected);
}

fn lane_wait((start, woken, end): (u64, u64, u64), reason: WaitReason, in_fault: bool) -> LaneWait {
    LaneWait {
        start: Timestamp(start),
        woken: Timestamp(woken),
        end: Timestamp(end),
        reason,
        in_fault,
        ended_by: EndedBy::Unknown,
        stack: None,
        file: None,
        request: None,
        cpu: None,
        priority: None,
    }
}

#[test]
fn a_holders_time_is_divided_by_what_it_did() {
    let waits = vec![
        lane_wait((10, 20, 21), WaitReason::Disk, true),
        lane_wait((30, 40, 42), WaitReason::Disk, false),
        lane_wait((50, 50, 53), WaitReason::RunQueue, false),
        lane_wait((60, 70, 74), WaitReason::Sleep, false),
    ];
    let lane = Lane::new(Timestamp(0), waits, Vec::new());
    let timeline = Timeline::new(&lane);
    let between = |start, end| timeline.between(Timestamp(start), Timestamp(end));
    let all = Doing {
        cpu: 80,
        fault: 10,
        disk: 10,
        queue: 1 + 2 + 3 + 4,
        other: 10,
    };
    assert_eq!(between(0, 120), Doing { cpu: 120 - 40, ..all });
    let asleep = Doing {
        other: 5,
        ..Doing::default()
    };
    assert_eq!(between(61, 66), asleep);
    let woken = Doing {
        cpu: 1,
        other: 2,
        queue: 4,
        ..Doing::default()
    };
    assert_eq!(between(68, 75), woken);
    assert_eq!(between(5, 5), Doing::default());
}

#[test]
fn the_thread_that_had_the_cpu_ran_instead() {
    let on_cpu = |wait: LaneWait| LaneWait { cpu: Some(0), ..wait };
    let queued = on_cpu(lane_wait((20, 20, 60), WaitReason::RunQueue, false));
    let slept = on_cpu(lane_wait((70, 80, 90), WaitReason::Sleep, false));
    // Thread 1 had the CPU from 30 to 50; who had it before and after is not recorded.
    let before = on_cpu(lane_wait((0, 25, 30), WaitReason::Sleep, false));
    let after = on_cpu(lane_wait((50, 99, 99), WaitReason::Sleep, false));
    let lane = |waits| Lane::new(Timestamp(0), waits, Vec::new());
    let lanes = Lanes::new(vec![lane(vec![queued, slept]), lane(vec![before, after])]);
    let mut preemption = Preemption::default();
    let part = |start, end, waiters| Contention {
        start: Timestamp(start),
        end: Timestamp(end),
        waiters,
    };
    let times = |preemption: &mut Preemption| preemption.take().into_iter().collect::<Vec<_>>();
    preemption.add(&lanes, ThreadId(0), &part(0, 75, 2), |_, _| ());
    assert_eq!(times(&mut preemption), [(None, 2 * 20), (Some(ThreadId(1)), 2 * 20)]);
    preemption.add(&lanes, ThreadId(0), &part(40, 45, 1), |_, _| ());
    assert_eq!(times(&mut preemption), [(Some(ThreadId(1)), 5)]);
    // Ready to run after it slept.
    preemption.add(&lanes, ThreadId(0), &part(75, 100, 1), |_, _| ());
    assert_eq!(times(&mut preemption), [(None, 10)]);
    preemption.add(&lanes, ThreadId(7), &part(0, 100, 1), |_, _| ());
    assert_eq!(times(&mut preemption), []);
}

fn turn(id: u32, start: u64, woken: u64, by: u32) -> Turn {
    Turn {
        thread: ThreadId(id),
        start: Timestamp(start),
        woken: Timestamp(woken),
        end: Timestamp(woken + 1),
        by: thread(by),
        is_selected: true,
    }
}

#[test]
fn waits_that_hand_a_lock_over_in_a_row_are_a_convoy() {
    // Thread 0 has it; 1 to 4 queue up and hand it over to each other.
    let queue = [
        turn(1, 10, 30, 0),
        turn(2, 11, 60, 1),
        turn(3, 12, 70, 2),
        turn(4, 13, 90, 3),
    ];
    let found = convoy(&queue);
    let expected = Convoy {
        hand_overs: 3,
        waits: 4,
        blocked_ns: 20 + 49 + 58 + 77,
    };
    assert_eq!(found, expected);
    assert!(found.is_named());
    // Without the last one, two hand-overs are left: no convoy.
    let found = convoy(&queue[..3]);
    assert_eq!((found.hand_overs, found.waits, found.is_named()), (2, 0, false));
    // The queue was empty when thread 3 got the lock: 4 came later.
    let mut late = queue;
    late[3].start = Timestamp(80);
    assert_eq!(convoy(&late).hand_overs, 2);
    // Ended by a timer, or by itself.
    let mut by_itself = queue;
    by_itself[2].by = thread(3);
    assert_eq!(convoy(&by_itself).hand_overs, 1);
    by_itself[2].by = Holder::Unknown;
    assert_eq!(convoy(&by_itself).hand_overs, 1);
}

#[test]
fn two_threads_that_take_turns_are_a_convoy_only_if_one_always_waits() {
    // Each waits again before the other one releases it.
    let always: Vec<Turn> = (0..6_u64)
        .map(|round| {
            let (id, other) = if round % 2 == 0 { (1, 2) } else { (2, 1) };
            turn(id, 10 * round, 10 * round + 15, other)
        })
        .collect();
    assert_eq!(convoy(&always).hand_overs, 5);
    let pauses: Vec<Turn> = (0..6_u64)
        .map(|round| {
            let (id, other) = if round % 2 == 0 { (1, 2) } else { (2, 1) };
            turn(id, 10 * round, 10 * round + 5, other)
        })
        .collect();
    assert_eq!(convoy(&pauses), Convoy::default());
}

#[test]
fn a_holder_is_preempted_from_a_tenth_of_the_time_on() {
    assert!(is_preempted(10, 100) && is_preempted(100, 100));
    assert!(!is_preempted(9, 100) && !is_preempted(0, 0) && !is_preempted(0, 5));
}

prop_compose! {
    fn any_release()(
        time in 0..100_u64, id in 0..4_u32, got in prop::option::of(0..100_u64), born in 0..50_u64, is_known in any::<bool>(),
    ) -> Release {
        let holder = if is_known { thread(id) } else { Holder::Unrecorded(id) };
        Release { born: Timestamp(born), holder, ..release(time, id, got) }
    }
}

prop_compose! {
    fn any_turn()(id in 0..4_u32, start in 0..100_u64, blocked in 0..40_u64, queued in 0..5_u64, by in 0..5_u32) -> Turn {
        let by = if by < 4 { thread(by) } else { Holder::Unknown };
        let woken = start + blocked;
        Turn { end: Timestamp(woken + queued), by, ..turn(id, start, woken, 0) }
    }
}

proptest! {
    #[test]
    fn holds_partition_the_time(
        mut releases in prop::collection::vec(any_release(), 0..20),
        from in 0..60_u64,
        length in 0..60_u64,
        waits in prop::collection::vec((0..60_u64, 0..60_u64), 0..10),
    ) {
        releases.sort_by_key(|release| release.time);
        let (from, to) = (Timestamp(from), Timestamp(from + length));
        let holds = holds((from, to), &releases);
        let mut at = from;
        for hold in &holds {
            prop_assert!(hold.start == at && hold.end > at);
            at = hold.end;
        }
        prop_assert_eq!(at, to);
        // Waits within that time are divided without remainder.
        let within = |time: u64| Timestamp(from.0 + time.min(length));
        let waits: Vec<_> = waits.into_iter().map(|(a, b)| (within(a.min(b)), within(a.max(b)))).collect();
        let mut blocked = 0;
        let mut at = from;
        contention(&holds, &waits, |index, part| {
            assert!(part.start >= at && part.end > part.start && part.waiters > 0);
            assert!(holds[index].start <= part.start && part.end <= holds[index].end);
            at = part.end;
            blocked += part.blocked();
        });
        prop_assert_eq!(blocked, waits.iter().map(|(start, end)| ns(end.since(*start))).sum::<u64>());
    }

    #[test]
    fn what_a_thread_did_adds_up(
        waits in prop::collection::vec((0..100_u64, 0..20_u64, 0..20_u64, 0..14_usize, any::<bool>()), 0..12),
        start in 0..120_u64,
        first in 0..60_u64,
        second in 0..60_u64,
    ) {
        let waits = waits.into_iter().map(|(start, blocked, queued, reason, in_fault)| {
            let times = (start, start + blocked, start + blocked + queued);
            lane_wait(times, WaitReason::ALL[reason], in_fault)
        });
        let lane = Lane::new(Timestamp(0), waits.collect(), Vec::new());
        let timeline = Timeline::new(&lane);
        let sum = |doing: Doing| [doing.cpu, doing.fault, doing.disk, doing.queue, doing.other];
        let (from, middle, to) = (Timestamp(start), Timestamp(start + first), Timestamp(start + first + second));
        let whole = sum(timeline.between(from, to));
        prop_assert_eq!(whole.iter().sum::<u64>(), first + second);
        let (before, after) = (sum(timeline.between(from, middle)), sum(timeline.between(middle, to)));
        let both: Vec<u64> = before.iter().zip(after).map(|(before, after)| before + after).collect();
        prop_assert_eq!(both, whole);
    }

    #[test]
    fn a_convoy_has_no_more_than_its_waits(turns in prop::collection::vec(any_turn(), 0..30)) {
        let found = convoy(&turns);
        let all: u64 = turns.iter().map(|turn| ns(turn.woken.since(turn.start))).sum();
        prop_assert!(found.waits <= turns.len() as u64 && found.blocked_ns <= all);
        prop_assert!(found.hand_overs < turns.len().max(1) as u64);
        prop_assert_eq!(found.waits > 0, found.hand_overs >= super::patterns::CONVOY);
        let mut reversed = turns;
        reversed.reverse();
        prop_assert_eq!(convoy(&reversed).hand_overs, found.hand_overs);
    }
}
