//! A simulated machine with known causes.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// A fault of the simulated machine: thread, page, microseconds until the next one; and how long the disk takes.
type Draw = (u32, u64, u64, u64);

/// Threads fault on the pages of a file; one that finds a page missing reads it and its neighbours, one that finds
/// it in flight waits.
fn machine(draws: &[Draw]) -> (Vec<Step>, Vec<Joined>) {
    let mut now = 100;
    let mut busy = [0_u64; 3];
    // When each page arrives, and which thread reads it.
    let mut there: HashMap<u64, (u64, u32)> = HashMap::new();
    let (mut steps, mut truth): (Vec<(u64, u8, Step)>, Vec<Joined>) = (Vec::new(), Vec::new());
    for &(thread, page, gap, disk) in draws {
        now += gap;
        let start = now.max(busy[thread as usize] + 1);
        let mut fault_end = start + 1;
        let mut fact = fault(thread, page, start, start + 1);
        fact.waits.disk = Some(Duration::ZERO);
        match there.get(&page).copied() {
            Some((at, _)) if at < start => {}
            Some((at, reader)) => {
                fault_end = at + 2;
                truth.push((OfFault, thread, start, at, reader == thread));
            }
            None => {
                let first = page / 4 * 4;
                let missing: Vec<u64> = (first..first + 4).filter(|page| !there.contains_key(page)).collect();
                for stretch in missing.chunk_by(|a, b| a + 1 == *b) {
                    // The disk completes one request at a time.
                    let mut at = start + 2 + disk;
                    while there.values().any(|(other, _)| *other == at) {
                        at += 1;
                    }
                    there.extend(stretch.iter().map(|page| (*page, (at, thread))));
                    let bio = bio(thread, start + 1, stretch[0], stretch.len() as u64);
                    steps.push((start + 1, 0, Step::Asked(thread, start + 1)));
                    steps.push((at, 1, Step::Request(request(at, vec![bio]))));
                    truth.push((OfFault, thread, start, at, true));
                }
                fault_end = there[&page].0 + 2;
            }
        }
        if fault_end > start + 1 {
            fact = fault(thread, page, start, fault_end);
        }
        busy[thread as usize] = fault_end;
        steps.push((fault_end, 2, Step::Fault(fact)));
    }
    steps.sort_by_key(|(time, rank, _)| (*time, *rank));
    truth.sort_unstable();
    (steps.into_iter().map(|(_, _, step)| step).collect(), truth)
}

proptest! {
    #[test]
    fn causes_match_the_model(
        draws in prop::collection::vec((0..3_u32, 0..24_u64, 0..60_u64, 1..200_u64), 1..40),
    ) {
        let (steps, truth) = machine(&draws);
        let mut found = joined(&steps);
        found.sort_unstable();
        prop_assert_eq!(found, truth);
    }
}
