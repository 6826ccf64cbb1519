//! Ids of address spaces, and runs as words.

use std::collections::HashSet;

use profiler_common::space::{MAX_PLACES, Run, first_space_id, space_id};

#[test]
fn a_run_round_trips_through_its_word() {
    let mut words = HashSet::new();
    for first in [0, 1, 1 << 16, MAX_PLACES - 1] {
        for count in [0, 1, 1 << 16, MAX_PLACES] {
            for version in [0, 1, 1 << 16, (1 << 23) - 1] {
                let run = Run { first, count, version };
                assert_eq!(Run::from_word(run.to_word()), run);
                assert!(words.insert(run.to_word()), "two runs share a word");
            }
        }
    }
    let (last, after) = ((1 << 23) - 1, 1 << 23);
    let of = |version| {
        Run {
            first: 7,
            count: 9,
            version,
        }
        .to_word()
    };
    assert_eq!((of(after), of(after + last)), (of(0), of(last)), "versions wrap around");
}

#[test]
fn ids_are_never_zero_and_of_one_process_differ() {
    let second = 1_000_000_000;
    let mut ids = HashSet::new();
    for pid in [1, 2, 4_194_304, u32::MAX] {
        assert!(ids.insert(first_space_id(pid)));
        // Repeated exec, as fast as a process can.
        for number in 0..1000 {
            let id = space_id(pid, 77 * second + number * 1024);
            assert!(id != 0 && ids.insert(id), "{pid} {number}");
            assert_eq!(id >> 32, u64::from(pid));
        }
    }
}

#[test]
fn an_id_comes_back_after_minutes_at_the_earliest() {
    let wrap = 1_u64 << 40;
    assert_eq!(space_id(5, 1000), space_id(5, 1000 + wrap));
    for time in (1000..wrap - 1000).step_by(10_000_000_000) {
        assert_ne!(space_id(5, 1000), space_id(5, 1000 + time));
    }
}
