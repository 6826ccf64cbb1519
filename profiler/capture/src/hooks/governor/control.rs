//! What to leave out, decided from measurements alone.

use profiler_common::thinning::{GROUPS, Group, Levels, MOST};

use super::Limit;

/// Hundredths of a percent in the whole.
const WHOLE: u64 = 10_000;
/// A group is thinned only if its stacks cost more than this fraction of the limit.
const MATTERS: u64 = 3;
/// Where the rest alone is above the limit, only if they cost more than this fraction of the rest.
const BESIDE: u64 = 4;
/// A step is taken back if the share would then stay below this many tenths of the limit.
const WELL_BELOW: u64 = 8;
/// Measured CPU time for which that has to be so.
const PATIENCE: u64 = 200_000_000;
/// That time is doubled up to this when a step that was taken back has to be repeated soon.
const MOST_PATIENCE: u64 = 16 * PATIENCE;

/// What was measured up to a moment or between two; times in ns.
#[derive(Debug, Clone, Copy, Default)]
pub struct Measured {
    /// In the walks of each group, which are for recorded threads only.
    pub walks: [u64; GROUPS],
    /// In all programs that run for recorded threads only, walks included.
    pub ours: u64,
    /// In those of the scheduler, which run for every thread of the machine.
    pub scheduler: u64,
    /// How often these ran.
    pub scheduler_runs: u64,
    /// Waits of recorded threads.
    pub waits: u64,
    /// Samples of recorded threads.
    pub samples: u64,
    /// The recorded threads' CPU time.
    pub cpu: u64,
}

impl Measured {
    /// Applies a function to each pair of values.
    pub fn with(&self, other: &Self, of: fn(u64, u64) -> u64) -> Self {
        let mut walks = self.walks;
        for (value, other) in walks.iter_mut().zip(other.walks) {
            *value = of(*value, other);
        }
        Self {
            walks,
            ours: of(self.ours, other.ours),
            scheduler: of(self.scheduler, other.scheduler),
            scheduler_runs: of(self.scheduler_runs, other.scheduler_runs),
            waits: of(self.waits, other.waits),
            samples: of(self.samples, other.samples),
            cpu: of(self.cpu, other.cpu),
        }
    }

    /// The share of what is never left out. Of the scheduler's programs, apart from walks, that part counts which ran for
    /// recorded threads: at the beginning, at the waking and at the end of a wait.
    fn rest(&self) -> u64 {
        let [faults, waits, samples] = self.walks;
        let own = self.ours.saturating_sub(faults).saturating_sub(samples);
        let scheduler = u128::from(self.scheduler.saturating_sub(waits));
        let runs = u128::from(self.waits.saturating_mul(3).min(self.scheduler_runs));
        let scheduler = scheduler * runs / u128::from(self.scheduler_runs.max(1));
        self.share_of(own.saturating_add(u64::try_from(scheduler).unwrap_or(u64::MAX)))
    }

    /// A time as a share of the CPU time, in hundredths of a percent.
    fn share_of(&self, time: u64) -> u64 {
        let share = u128::from(time) * u128::from(WHOLE) / u128::from(self.cpu.max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    /// The share of the walks of a group.
    fn share_of_group(&self, group: Group) -> u64 {
        self.share_of(self.walks[group as usize])
    }

    /// The programs' share in hundredths of a percent.
    pub fn share(&self) -> u64 {
        let walks = Group::ALL.map(|group| self.share_of_group(group));
        walks.into_iter().fold(self.rest(), u64::saturating_add)
    }
}

/// Decides, from measurements alone.
#[derive(Debug)]
pub struct Control {
    limit: u64,
    levels: Levels,
    /// The group of the last step up, and its share before.
    last: Option<(Group, u64)>,
    /// Measured CPU time for which a group is not tried again, since a step did not make its walks fewer.
    in_vain: [u64; GROUPS],
    /// Measured CPU time for which a step could have been taken back.
    low: u64,
    /// Since one was.
    since_back: u64,
    patience: u64,
}

impl Control {
    pub fn new(limit: Limit) -> Self {
        Self {
            limit: u64::from(limit.share.max(1)),
            levels: Levels::default(),
            last: None,
            in_vain: [0; GROUPS],
            low: 0,
            since_back: u64::MAX,
            patience: PATIENCE,
        }
    }

    /// The new levels, if they change.
    pub fn step(&mut self, measured: &Measured) -> Option<Levels> {
        let before = self.levels;
        self.since_back = self.since_back.saturating_add(measured.cpu);
        for left in &mut self.in_vain {
            *left = left.saturating_sub(measured.cpu);
        }
        let was_in_vain = self.judge_last(measured);
        if measured.share() > self.limit {
            self.thin(measured);
        } else if !was_in_vain {
            self.give_back(measured);
        }
        (self.levels != before).then_some(self.levels)
    }

    /// Takes back the last step if the group's walks cost no less than before, and tries it no more.
    fn judge_last(&mut self, measured: &Measured) -> bool {
        let Some((group, share)) = self.last.take() else {
            return false;
        };
        let in_vain = measured.share_of_group(group) * 8 > share * 7;
        if in_vain {
            self.in_vain[group as usize] = MOST_PATIENCE;
            self.levels.0[group as usize] = self.levels.0[group as usize].saturating_sub(1);
        }
        in_vain
    }

    fn thin(&mut self, measured: &Measured) {
        self.low = 0;
        let Some(group) = self.first(measured) else {
            return;
        };
        if self.since_back < self.patience.saturating_mul(4) {
            self.patience = self.patience.saturating_mul(2).min(MOST_PATIENCE);
        }
        self.since_back = u64::MAX;
        // A level saves half at most, so several times the limit takes two at once.
        let levels = if measured.share() > 2 * self.limit { 2 } else { 1 };
        let level = &mut self.levels.0[group as usize];
        *level = (*level + levels).min(MOST);
        self.last = Some((group, measured.share_of_group(group)));
    }

    /// The first group, in the order of what it explains, least first, that can be thinned and costs enough for that.
    fn first(&self, measured: &Measured) -> Option<Group> {
        let rest = measured.rest();
        let matters = |group: &Group| {
            let share = measured.share_of_group(*group);
            // If the rest is above the limit, thinning loses data and does not keep it: only what is large beside the
            // rest is worth that.
            share * MATTERS > self.limit && (rest <= self.limit || share * BESIDE > rest)
        };
        let can = |group: &Group| self.levels.0[*group as usize] < MOST && self.in_vain[*group as usize] == 0;
        Group::ALL.into_iter().filter(can).find(matters)
    }

    /// Takes back a level that has become affordable: of what explains most first.
    fn give_back(&mut self, measured: &Measured) {
        let share = measured.share();
        let is_affordable = |group: &Group| {
            let twice = share.saturating_add(measured.share_of_group(*group));
            self.levels.0[*group as usize] > 0 && twice * 10 < self.limit * WELL_BELOW
        };
        let Some(group) = Group::ALL.into_iter().rev().find(is_affordable) else {
            self.low /= 2;
            return;
        };
        self.low = self.low.saturating_add(measured.cpu);
        if self.low < self.patience {
            return;
        }
        if self.since_back > self.patience.saturating_mul(8) {
            self.patience = (self.patience / 2).max(PATIENCE);
        }
        (self.low, self.since_back) = (0, 0);
        self.levels.0[group as usize] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    fn control() -> Control {
        Control::new(Limit::default())
    }

    /// 100 ms of CPU time; walks take `walks` ms without thinning, and the programs `rest` ms besides.
    fn measured(levels: Levels, walks: [u64; GROUPS], rest: u64) -> Measured {
        let mut thinned = walks.map(|time| time * MS);
        for (time, level) in thinned.iter_mut().zip(levels.0) {
            *time >>= level;
        }
        let [faults, waits, samples] = thinned;
        Measured {
            walks: thinned,
            ours: rest * MS + faults + samples,
            scheduler: waits,
            scheduler_runs: 3000,
            waits: 1000,
            samples: 100,
            cpu: 100 * MS,
        }
    }

    fn steps(control: &mut Control, times: usize, walks: [u64; GROUPS], rest: u64) -> usize {
        (0..times)
            .filter(|_| control.step(&measured(control.levels, walks, rest)).is_some())
            .count()
    }

    #[test]
    fn faults_are_thinned_first_and_only_as_far_as_needed() {
        let mut control = control();
        let mut step = |walks| control.step(&measured(control.levels, walks, 1)).map(|levels| levels.0);
        // 14 %, more than twice the limit; then 6.5 %; then 5.25 %, of which faults no longer matter; and 4.25 %.
        assert_eq!(step([10, 2, 1]), Some([2, 0, 0]));
        assert_eq!(step([10, 2, 1]), Some([3, 0, 0]));
        assert_eq!(step([10, 2, 1]), Some([3, 1, 0]));
        assert_eq!(step([10, 2, 1]), None);
    }

    #[test]
    fn other_programs_switches_do_not_count() {
        let busy = Measured {
            scheduler: 40 * MS,
            scheduler_runs: 60_000,
            ..measured(Levels::default(), [2, 0, 0], 1)
        };
        assert_eq!(busy.share(), 500);
    }

    #[test]
    fn what_thinning_cannot_change_is_left_alone() {
        let mut control = control();
        assert_eq!(steps(&mut control, 5, [1, 1, 1], 4), 0, "each costs too little");
        assert_eq!(steps(&mut control, 5, [2, 2, 2], 10), 0, "the rest is above the limit");
        let walks = [8, 0, 0];
        assert_eq!(
            control
                .step(&measured(Levels::default(), walks, 0))
                .map(|levels| levels.0),
            Some([1, 0, 0])
        );
        assert_eq!(
            control.step(&measured(Levels::default(), walks, 0)),
            Some(Levels::default()),
            "it cost no less"
        );
        assert_eq!(control.step(&measured(Levels::default(), walks, 0)), None);
    }

    #[test]
    fn a_storm_is_thinned_even_if_the_limit_cannot_be_kept() {
        let mut control = control();
        steps(&mut control, 20, [30, 0, 0], 20);
        // 30 beside 20, then 7.5, then less than 2, which is no longer worth it.
        assert_eq!(control.levels.0, [4, 0, 0]);
    }

    #[test]
    fn what_was_left_out_is_recorded_again_once_it_is_affordable() {
        let mut control = control();
        steps(&mut control, 20, [20, 10, 10], 1);
        assert!(control.levels.0.iter().all(|level| *level > 0), "{:?}", control.levels);
        // Waits keep the share above half of the limit; faults no longer cost anything.
        steps(&mut control, 200, [0, 12, 0], 1);
        assert_eq!(
            (control.levels.0[0], control.levels.0[2]),
            (0, 0),
            "{:?}",
            control.levels
        );
        assert!(control.levels.0[1] > 0);
        steps(&mut control, 200, [0, 0, 0], 1);
        assert_eq!(control.levels, Levels::default());
    }

    #[test]
    fn bursts_make_it_patient_for_a_while_only() {
        let mut control = control();
        let burst = |index: usize| if index.is_multiple_of(50) { 60 } else { 0 };
        let changes = (0..2000)
            .filter(|index| {
                control
                    .step(&measured(control.levels, [burst(*index), 0, 0], 0))
                    .is_some()
            })
            .count();
        assert!(changes < 200, "{changes} steps");
        assert!(control.patience <= MOST_PATIENCE);
        steps(&mut control, 20, [60, 0, 0], 0);
        for walks in [60, 0, 60, 0, 60, 0] {
            steps(&mut control, 1000, [walks, 0, 0], 0);
        }
        assert_eq!(control.patience, PATIENCE);
    }

    proptest! {
        #[test]
        fn the_share_is_kept_or_nothing_is_left_to_thin(
            walks in [0_u64..60, 0_u64..60, 0_u64..60],
            rest in 0_u64..40,
            limit in 1_u32..2000,
        ) {
            let mut control = Control::new(Limit { share: limit, is_asked: true });
            steps(&mut control, 40, walks, rest);
            let now = measured(control.levels, walks, rest);
            let can = control.first(&now).is_some();
            prop_assert!(now.share() <= control.limit || !can, "{:?} {:?}", control, now);
            prop_assert!(control.levels.0.iter().all(|level| *level <= MOST));
        }
    }
}
