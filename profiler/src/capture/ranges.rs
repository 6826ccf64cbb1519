//! Room in the array of code ranges: runs of neighbours, and when their place may be used again.

use std::time::{Duration, Instant};

use profiler_common::space::Run;

/// A walk that began before its run was replaced has ended by then: it takes well under a millisecond. A child that was
/// born with its parent's old run has got one of its own.
const GRACE: Duration = Duration::from_millis(500);

/// The free places of an array.
#[derive(Debug)]
pub struct Room {
    /// Start and length of each gap, by start.
    gaps: Vec<(u32, u32)>,
    /// Runs that were given back, and when, oldest first.
    resting: std::collections::VecDeque<(Instant, Run)>,
}

impl Room {
    /// All `size` places are free.
    pub fn new(size: u32) -> Self {
        Self {
            gaps: vec![(0, size)],
            resting: std::collections::VecDeque::new(),
        }
    }

    /// Takes `count` neighbouring places; `None`: there is no such gap.
    pub fn take(&mut self, count: u32, now: Instant) -> Option<Run> {
        while let Some((_, run)) = self
            .resting
            .pop_front_if(|(since, _)| now.saturating_duration_since(*since) >= GRACE)
        {
            self.free(run);
        }
        if count == 0 {
            return Some(Run::default());
        }
        let index = self.gaps.iter().position(|&(_, len)| len >= count)?;
        let (start, len) = self.gaps.get_mut(index)?;
        let run = Run { first: *start, count };
        (*start, *len) = (*start + count, *len - count);
        if *len == 0 {
            self.gaps.remove(index);
        }
        Some(run)
    }

    /// Gives places back; they are not used again for a while.
    pub fn give_back(&mut self, run: Run, now: Instant) {
        if run.count > 0 {
            self.resting.push_back((now, run));
        }
    }

    fn free(&mut self, run: Run) {
        let index = self.gaps.partition_point(|&(start, _)| start < run.first);
        self.gaps.insert(index, (run.first, run.count));
        // Joined with the gap behind, then with the one before.
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
    use super::*;

    #[test]
    fn places_rest_before_they_are_used_again() {
        let (mut room, now) = (Room::new(10), Instant::now());
        let runs: Vec<Run> = [4, 3, 3].map(|count| room.take(count, now).unwrap()).to_vec();
        assert_eq!(runs.iter().map(|run| run.first).collect::<Vec<_>>(), [0, 4, 7]);
        assert_eq!(room.take(1, now), None);
        for run in [runs[1], runs[0], runs[2]] {
            room.give_back(run, now);
        }
        assert_eq!(room.take(1, now), None);
        assert_eq!(room.take(10, now + GRACE), Some(Run { first: 0, count: 10 }));
        assert!(room.gaps.is_empty());
    }

    #[test]
    fn nothing_takes_no_room() {
        let mut room = Room::new(0);
        assert_eq!(room.take(0, Instant::now()), Some(Run::default()));
        room.give_back(Run::default(), Instant::now());
        assert_eq!(room.take(1, Instant::now()), None);
    }
}
