//! Keeps the recording's cost below a limit: the time in our programs as a share of the recorded threads' CPU time.
//!
//! While the kernel measures the programs ([`super::meter`]), the share is compared with the limit. Above it, one group
//! of stacks is thinned further: that which is cheapest to lose, of those that cost enough to matter. Well below it for a
//! while, the last step is taken back.

use anyhow::Context as _;
use aya::Ebpf;
use aya::maps::{Array, MapData, PerCpuArray};
use profiler_common::thinning::{GROUPS, Group, Levels, MOST};
use serde::{Deserialize, Serialize};

use super::meter::Counters;
use base::addr::Timestamp;
use base::event::cost::MAX_STEPS;
use base::event::{Thinning, ThinningStep};

/// Hundredths of a percent in the whole.
const WHOLE: u64 = 10_000;
/// CPU time of the recorded threads that a measurement needs: with less, chance decides.
const LEAST_CPU: u64 = 50_000_000;
/// A group is thinned only if its stacks cost this fraction of the limit.
const MATTERS: u64 = 3;
/// A step is taken back below this many tenths of the limit.
const WELL_BELOW: u64 = 6;
/// CPU time for which the share has to be that low; doubled whenever a step that was taken back has to be repeated.
const PATIENCE: u64 = 500_000_000;

/// The highest share of the recorded threads' CPU time, in hundredths of a percent; at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit(pub u32);

impl Default for Limit {
    /// 5 %.
    fn default() -> Self {
        Self(500)
    }
}

/// What was measured up to a moment or between two, in ns.
#[derive(Debug, Clone, Copy, Default)]
struct Measured {
    /// In all programs, whichever thread they interrupted.
    programs: u64,
    /// In the walks of each group, which are for recorded threads only.
    walks: [u64; GROUPS],
    /// The recorded threads' CPU time.
    cpu: u64,
    /// All threads' CPU time, about.
    busy: u64,
}

impl Measured {
    fn since(&self, before: &Self) -> Self {
        let mut walks = self.walks;
        for (time, earlier) in walks.iter_mut().zip(before.walks) {
            *time = time.saturating_sub(earlier);
        }
        Self {
            programs: self.programs.saturating_sub(before.programs),
            walks,
            cpu: self.cpu.saturating_sub(before.cpu),
            busy: self.busy.saturating_sub(before.busy),
        }
    }

    fn add(&mut self, more: &Self) {
        for (time, more) in self.walks.iter_mut().zip(more.walks) {
            *time = time.saturating_add(more);
        }
        self.programs = self.programs.saturating_add(more.programs);
        self.cpu = self.cpu.saturating_add(more.cpu);
        self.busy = self.busy.saturating_add(more.busy);
    }

    /// The programs' share in hundredths of a percent. Programs that record nothing, mostly that of the scheduler, also
    /// run for threads that are not recorded: of their time, the part counts that the recorded threads have of the busy
    /// CPUs.
    fn share(&self) -> u64 {
        let walks = self.walks.iter().fold(0, |sum: u64, time| sum.saturating_add(*time));
        let others = u128::from(self.programs.saturating_sub(walks));
        let ours = others * u128::from(self.cpu) / u128::from(self.busy.max(self.cpu).max(1));
        let sum = u128::from(walks).saturating_add(ours) * u128::from(WHOLE) / u128::from(self.cpu.max(1));
        u64::try_from(sum).unwrap_or(u64::MAX)
    }
}

/// Decides, from measurements alone.
#[derive(Debug)]
struct Control {
    limit: u64,
    levels: Levels,
    /// Groups in the order in which they were thinned, one entry for each level.
    thinned: Vec<Group>,
    /// CPU time for which the share has been low.
    low: u64,
    patience: u64,
    /// The last step was one back.
    gave_back: bool,
}

impl Control {
    fn new(limit: Limit) -> Self {
        Self {
            limit: u64::from(limit.0.max(1)),
            levels: Levels::default(),
            thinned: Vec::new(),
            low: 0,
            patience: PATIENCE,
            gave_back: false,
        }
    }

    /// The new levels, if they change.
    fn step(&mut self, measured: &Measured) -> Option<Levels> {
        let share = measured.share();
        if share > self.limit {
            self.low = 0;
            let group = self.cheapest(measured)?;
            // Each level saves half of what the walks cost at most, so what costs a multiple takes two at once.
            for _ in 0..if share > 2 * self.limit { 2 } else { 1 } {
                self.thin(group);
            }
            if std::mem::take(&mut self.gave_back) {
                self.patience = self.patience.saturating_mul(2);
            }
            return Some(self.levels);
        }
        self.low = if share * 10 < self.limit * WELL_BELOW {
            self.low.saturating_add(measured.cpu)
        } else {
            0
        };
        if self.low < self.patience {
            return None;
        }
        self.low = 0;
        let last = self.thinned.pop()?;
        self.gave_back = true;
        self.levels.0[last as usize] -= 1;
        Some(self.levels)
    }

    fn thin(&mut self, group: Group) {
        let level = &mut self.levels.0[group as usize];
        if *level < MOST {
            *level += 1;
            self.thinned.push(group);
        }
    }

    /// The first group that can still be thinned and costs enough for that.
    fn cheapest(&self, measured: &Measured) -> Option<Group> {
        let enough = measured.cpu.saturating_mul(self.limit) / WHOLE / MATTERS;
        let matters = |group: &Group| {
            let index = *group as usize;
            self.levels.0[index] < MOST && measured.walks[index] > enough
        };
        Group::ALL.into_iter().find(matters)
    }
}

/// Counters at a moment, in ns.
#[derive(Debug, Clone, Copy)]
struct Reading {
    /// Number of the stretch in which the kernel measures.
    stretch: u64,
    at: Measured,
}

/// Measures, decides, and has the programs follow.
pub struct Governor {
    levels: Array<MapData, [u32; GROUPS]>,
    spent: PerCpuArray<MapData, [u64; GROUPS]>,
    control: Control,
    limit: Limit,
    /// CPU time that a sample stands for, in ns.
    period: u64,
    before: Option<Reading>,
    /// Since the last decision.
    measured: Measured,
    steps: Vec<ThinningStep>,
    more_steps: u64,
}

impl Governor {
    /// Takes its maps out of the object. `hz`: samples per second and CPU. `None`: there is no limit.
    ///
    /// # Errors
    /// When a map is missing.
    pub fn new(ebpf: &mut Ebpf, limit: Option<Limit>, hz: u32) -> anyhow::Result<Option<Self>> {
        let Some(limit) = limit else { return Ok(None) };
        let mut take = |name: &str| {
            let map = ebpf.take_map(name);
            map.with_context(|| format!("the eBPF object has no map {name}: run `scripts/build-ebpf`"))
        };
        Ok(Some(Self {
            levels: Array::try_from(take("LEVELS")?)?,
            spent: PerCpuArray::try_from(take("SPENT")?)?,
            control: Control::new(limit),
            limit,
            period: 1_000_000_000 / u64::from(hz.max(1)),
            before: None,
            measured: Measured::default(),
            steps: Vec::new(),
            more_steps: 0,
        }))
    }

    /// Compares with the limit what was spent since the last call. `cpu`: the recorded threads' CPU time so far, in ns.
    pub fn turn(&mut self, counters: Option<Counters>, cpu: u64, now: Timestamp) {
        let Some(Counters { stretch, time, samples }) = counters else {
            return;
        };
        let Ok(walks) = self.walks() else { return };
        let at = Measured {
            programs: time,
            walks,
            cpu,
            busy: samples.saturating_mul(self.period),
        };
        let before = self.before.replace(Reading { stretch, at });
        let Some(before) = before.filter(|before| before.stretch == stretch) else {
            return;
        };
        // A stretch may be too short by itself.
        self.measured.add(&at.since(&before.at));
        if self.measured.cpu < LEAST_CPU {
            return;
        }
        let measured = std::mem::take(&mut self.measured);
        if let Some(levels) = self.control.step(&measured)
            && self.levels.set(0, levels.0, 0).is_ok()
        {
            self.note(ThinningStep {
                time: now,
                share: u32::try_from(measured.share()).unwrap_or(u32::MAX),
                levels: levels.0,
            });
        }
    }

    fn walks(&self) -> anyhow::Result<[u64; GROUPS]> {
        let mut sums = [0_u64; GROUPS];
        for each in self.spent.get(&0, 0)?.iter() {
            for (sum, time) in sums.iter_mut().zip(each) {
                *sum = sum.saturating_add(*time);
            }
        }
        Ok(sums)
    }

    fn note(&mut self, step: ThinningStep) {
        if self.steps.len() < MAX_STEPS {
            self.steps.push(step);
        } else {
            self.more_steps += 1;
        }
    }

    /// What was done.
    pub fn result(&self) -> Thinning {
        Thinning {
            limit: self.limit.0,
            steps: self.steps.clone(),
            more_steps: self.more_steps,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    /// 100 ms of CPU time; walks take `walks` ms without thinning, and the programs `rest` ms besides.
    fn measured(levels: Levels, walks: [u64; GROUPS], rest: u64) -> Measured {
        let mut thinned = walks.map(|time| time * MS);
        for (time, level) in thinned.iter_mut().zip(levels.0) {
            *time >>= level;
        }
        Measured {
            programs: rest * MS + thinned.iter().sum::<u64>(),
            walks: thinned,
            cpu: 100 * MS,
            busy: 100 * MS,
        }
    }

    #[test]
    fn faults_are_thinned_first_and_only_as_far_as_needed() {
        let mut control = Control::new(Limit::default());
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
            busy: 1000 * MS,
            ..measured(Levels::default(), [2, 0, 0], 20)
        };
        assert_eq!(busy.share(), 400);
    }

    #[test]
    fn what_costs_little_is_left_alone() {
        let mut control = Control::new(Limit::default());
        assert_eq!(control.step(&measured(Levels::default(), [1, 1, 1], 20)), None);
    }

    #[test]
    fn what_was_left_out_is_recorded_again_once_there_is_room() {
        let mut control = Control::new(Limit::default());
        for _ in 0..20 {
            control.step(&measured(control.levels, [20, 10, 10], 1));
        }
        assert!(control.levels.0.iter().all(|level| *level > 0), "{:?}", control.levels);
        for _ in 0..200 {
            control.step(&measured(control.levels, [0, 0, 0], 1));
        }
        assert_eq!(control.levels, Levels::default());
    }

    #[test]
    fn a_step_that_has_to_be_repeated_takes_longer_to_be_taken_back() {
        let mut control = Control::new(Limit::default());
        let steps: Vec<u32> = (0..2000)
            .filter(|_| control.step(&measured(control.levels, [8, 0, 0], 0)).is_some())
            .collect();
        // 8 % and 4 %: never well below the limit.
        assert_eq!(steps.len(), 1);
        let mut control = Control::new(Limit::default());
        let burst = |index: u64| if index.is_multiple_of(50) { 60 } else { 0 };
        let steps: Vec<u64> = (0..2000)
            .filter(|index| {
                control
                    .step(&measured(control.levels, [burst(*index), 0, 0], 0))
                    .is_some()
            })
            .collect();
        assert!(steps.len() < 100, "{} steps", steps.len());
    }

    proptest! {
        #[test]
        fn the_share_is_kept_or_nothing_is_left_to_thin(
            walks in [0_u64..60, 0_u64..60, 0_u64..60],
            rest in 0_u64..40,
            limit in 1_u32..2000,
        ) {
            let mut control = Control::new(Limit(limit));
            for _ in 0..40 {
                control.step(&measured(control.levels, walks, rest));
            }
            let now = measured(control.levels, walks, rest);
            let can = control.cheapest(&now).is_some();
            prop_assert!(now.share() <= u64::from(limit) || !can, "{:?} {:?}", control, now);
            prop_assert!(control.levels.0.iter().all(|level| *level <= MOST));
        }
    }
}
