//! Ids of address spaces and runs as words.

use std::collections::HashSet;

use profiler_common::space::{Run, first_space_id, space_id};

#[test]
fn a_run_survives_its_word() {
    for first in [0, 1, 1 << 31, u32::MAX] {
        for count in [0, 1, 1 << 16, u32::MAX] {
            let run = Run { first, count };
            assert_eq!(Run::from_word(run.to_word()), run);
        }
    }
    // Two runs never share a word.
    assert_ne!(
        Run { first: 1, count: 0 }.to_word(),
        Run { first: 0, count: 1 }.to_word()
    );
}

#[test]
fn ids_are_never_zero_and_of_one_process_differ() {
    let second = 1_000_000_000;
    let mut ids = HashSet::new();
    for pid in [1, 2, 4_194_304, u32::MAX] {
        assert!(ids.insert(first_space_id(pid)));
        // exec after exec, as fast as a process can.
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
