//! Allocates runs of adjacent places in the array of code ranges, and decides when freed places may be reused.

use std::time::{Duration, Instant};

use profiler_common::space::Run;

/// How long freed places rest. A walk that began before its run was replaced has ended by then: it takes well under a
/// millisecond. A child that started with its parent's old run has its own by then: cycles are 10 ms apart while
/// processes start. It is not longer because each new table writes the runs of all spaces that contain the file
/// (docs/measurements.md, "Complete stacks").
pub const GRACE: Duration = Duration::from_millis(200);

/// The free places of an array.
#[derive(Debug)]
pub struct Room {
    /// Start and length of each gap, by start.
    gaps: Vec<(u32, u32)>,
    /// Runs that were freed, and when, oldest first.
    resting: std::collections::VecDeque<(Instant, Run)>,
    /// Version of the last run that was taken.
    version: u32,
}

impl Room {
    /// Creates it with all `size` places free.
    pub fn new(size: u32) -> Self {
        Self {
            gaps: vec![(0, size)],
            resting: std::collections::VecDeque::new(),
            version: 0,
        }
    }

    /// Takes `count` adjacent places; `None`: there is no such gap.
    pub fn take(&mut self, count: u32, now: Instant) -> Option<Run> {
        self.wake(now);
        if count == 0 {
            return Some(Run::default());
        }
        let index = self.gaps.iter().position(|&(_, len)| len >= count)?;
        let (start, len) = self.gaps.get_mut(index)?;
        self.version = self.version.wrapping_add(1);
        let run = Run {
            first: *start,
            count,
            version: self.version,
        };
        (*start, *len) = (*start + count, *len - count);
        if *len == 0 {
            self.gaps.remove(index);
        }
        Some(run)
    }

    /// The length of the longest run that could be taken.
    pub fn largest(&mut self, now: Instant) -> u32 {
        self.wake(now);
        self.gaps.iter().map(|&(_, len)| len).max().unwrap_or(0)
    }

    /// Frees the places that have rested long enough.
    fn wake(&mut self, now: Instant) {
        while let Some((_, run)) = self
            .resting
            .pop_front_if(|(since, _)| now.saturating_duration_since(*since) >= GRACE)
        {
            self.free(run);
        }
    }

    /// Returns places; they are not reused for a while.
    pub fn give_back(&mut self, run: Run, now: Instant) {
        if run.count > 0 {
            self.resting.push_back((now, run));
        }
    }

    fn free(&mut self, run: Run) {
        let index = self.gaps.partition_point(|&(start, _)| start < run.first);
        self.gaps.insert(index, (run.first, run.count));
        // Merged with the gap after it, then with the one before.
        for left in [index, index.wrapping_sub(1)] {
            if let (Some(&(start, len)), Some(&(next, more))) =
                (self.gaps.get(left), self.gaps.get(left.wrapping_add(1)))
                && start + len == next
            {
                self.gaps[left].1 = len + more;
                self.gaps.remove(left + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn freed_slots_are_not_reused_at_once() {
        let (mut room, now) = (Room::new(10), Instant::now());
        let runs: Vec<Run> = [4, 3, 3].map(|count| room.take(count, now).unwrap()).to_vec();
        assert_eq!(runs.iter().map(|run| run.first).collect::<Vec<_>>(), [0, 4, 7]);
        assert_eq!(room.take(1, now), None);
        for run in [runs[1], runs[0], runs[2]] {
            room.give_back(run, now);
        }
        assert_eq!((room.take(1, now), room.largest(now)), (None, 0));
        assert_eq!(room.largest(now + GRACE), 10);
        let again = room.take(10, now + GRACE).unwrap();
        assert_eq!((again.first, again.count), (0, 10));
        assert!(runs.iter().all(|run| run.version != again.version));
        assert!(room.gaps.is_empty());
    }

    /// A change to an array.
    #[derive(Debug, Clone)]
    enum Step {
        Take(u32),
        GiveBack(prop::sample::Index),
        Wait(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0..20_u32).prop_map(Step::Take),
            2 => any::<prop::sample::Index>().prop_map(Step::GiveBack),
            1 => (0..900_u64).prop_map(Step::Wait),
        ]
    }

    fn overlap(one: Run, other: Run) -> bool {
        one.first < other.first + other.count && other.first < one.first + one.count
    }

    proptest! {
        #[test]
        fn runs_never_overlap_and_all_slots_are_freed(size in 0..100_u32, steps in prop::collection::vec(step(), 0..200)) {
            let (mut room, mut now) = (Room::new(size), Instant::now());
            let (mut held, mut resting) = (Vec::<Run>::new(), Vec::<(Instant, Run)>::new());
            for step in steps {
                match step {
                    Step::Take(count) => {
                        resting.retain(|(since, _)| now - *since < GRACE);
                        let Some(run) = room.take(count, now) else { continue };
                        prop_assert!(run.count == count && run.first + count <= size);
                        let others = held.iter().chain(resting.iter().map(|(_, run)| run));
                        prop_assert!(count == 0 || others.into_iter().all(|other| !overlap(run, *other)));
                        held.push(run);
                    }
                    Step::GiveBack(index) if !held.is_empty() => {
                        let run = held.swap_remove(index.index(held.len()));
                        room.give_back(run, now);
                        resting.push((now, run));
                    }
                    Step::GiveBack(_) => {}
                    Step::Wait(ms) => now += Duration::from_millis(ms),
                }
            }
            for run in held {
                room.give_back(run, now);
            }
            prop_assert!(room.take(size, now + GRACE).is_some());
        }
    }

    #[test]
    fn an_empty_range_uses_no_slots() {
        let mut room = Room::new(0);
        assert_eq!(room.take(0, Instant::now()), Some(Run::default()));
        room.give_back(Run::default(), Instant::now());
        assert_eq!(room.take(1, Instant::now()), None);
    }
}
