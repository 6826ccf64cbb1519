//! Tests of which stacks are dropped.

use profiler_common::stack::INTERRUPTED;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn stack(key: u64) -> UserStack<'static> {
    UserStack {
        key,
        ..UserStack::default()
    }
}

/// The key number `number` of a pair.
fn key(pair: u32, number: u64) -> u64 {
    let key = number << 40 | u64::from(pair) << 21 | 1;
    assert_eq!(sent::pair(key), pair);
    key
}

fn second(second: u64) -> Timestamp {
    Timestamp(second * SECOND)
}

#[test]
fn frames_are_kept_whole() {
    let frames = [0x5555_0000_1000, 0x7fff_ffff_f000 | INTERRUPTED, 0, u64::MAX, 1];
    let mut kept = KeptStacks::default();
    let first = UserStack {
        frames: frames.as_slice().into(),
        ..stack(5)
    };
    assert_eq!(kept.add(&first, second(0)), Arrived::New);
    assert_eq!(kept.add(&first, second(0)), Arrived::Again);
    assert_eq!(&*kept.get(5).unwrap().frames, frames);
    assert_eq!(kept.add(&stack(5), second(0)), Arrived::InsteadOfAnother);
    assert!(kept.get(5).unwrap().frames.is_empty());
}

#[test]
fn unreferenced_stacks_are_forgotten_with_the_kernel() {
    let mut kept = KeptStacks::default();
    let keys: Vec<u64> = (1..=6).map(|number| key(9, number)).collect();
    for key in &keys[..4] {
        kept.add(&stack(*key), second(0));
    }
    kept.end_of(keys[0], Use::AtOnce, || None);
    kept.end_of(keys[1], Use::Later, || None);
    kept.end_of(keys[1], Use::AtOnce, || None);
    // The first two are evicted, and the third again returns.
    kept.add(&stack(keys[4]), second(1));
    kept.add(&stack(keys[5]), second(2));
    kept.arrived(key(8, 1), second(10));
    assert!(keys.iter().all(|key| kept.has(*key)), "more events may arrive");
    kept.arrived(key(8, 2), second(12));
    assert!(!kept.has(keys[0]));
    assert!(kept.has(keys[1]), "a wait may be in progress");
    assert!(keys[2..].iter().all(|key| kept.has(*key)));
}

#[test]
fn a_reused_stack_is_kept() {
    let mut kept = KeptStacks::default();
    let keys: Vec<u64> = (1..=5).map(|number| key(9, number)).collect();
    for key in &keys {
        kept.add(&stack(*key), second(0));
        kept.end_of(*key, Use::AtOnce, || None);
    }
    assert_eq!(kept.add(&stack(keys[0]), second(5)), Arrived::Again);
    kept.arrived(key(8, 1), second(60));
    assert!(kept.has(keys[0]), "remembered again");
    assert!(!kept.has(keys[1]), "that evicted another one");
    // Until an event refers to a stack, one may be on its way.
    for number in 6..10 {
        kept.add(&stack(key(9, number)), second(61));
    }
    kept.arrived(key(8, 2), second(90));
    assert!(kept.has(keys[0]) && !kept.has(keys[2]));
}

#[test]
fn stacks_of_ended_processes_are_forgotten_when_they_are_many() {
    let mut kept = KeptStacks::default();
    let key = |process: u32, number: u64| u64::from(process) << 32 | number;
    for process in 0..4 {
        for number in 1..=SWEPT as u64 / 2 {
            let key = key(process, number);
            kept.add(&stack(key), second(0));
            // The last one shares its address space.
            let owner = (process < 3).then_some(ProcessId(process));
            kept.end_of(key, Use::Later, || owner);
        }
    }
    (0..3).for_each(|process| kept.ended(ProcessId(process), second(u64::from(process))));
    assert_eq!(kept.next_ended(second(9)), None, "more events may arrive");
    for process in [0, 1] {
        assert!(kept.has(key(process, 1)));
        assert_eq!(kept.next_ended(second(11)), Some(ProcessId(process)));
        kept.forget(ProcessId(process));
    }
    assert_eq!(kept.next_ended(second(11)), None);
    let left = (0..4).map(|process| kept.has(key(process, 1)));
    assert_eq!(left.collect::<Vec<_>>(), [false, false, true, true]);
}
