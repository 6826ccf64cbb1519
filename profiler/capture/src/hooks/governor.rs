//! Keeps the recording's cost near a limit: the time in our programs as a share of the recorded threads' CPU time.
//!
//! While the kernel measures the programs ([`super::meter`]), the share is compared with the limit. Above it, the first of
//! [`Group::ALL`] that costs enough to matter is thinned further, if that helps. What has become affordable is taken back.

mod control;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use aya::Ebpf;
use aya::maps::{Array, MapData, PerCpuArray};
use profiler_common::thinning::{GROUPS, Group};
use serde::{Deserialize, Serialize};

use self::control::{Control, Measured};
use super::meter::{self, Meter};
use base::addr::Timestamp;
use base::event::cost::MAX_STEPS;
use base::event::{Thinning, ThinningStep};

/// Programs that run for every thread of the machine.
const SCHEDULER: [&str; 2] = ["sched_switch", "sched_waking"];
/// CPU time of the recorded threads that a measurement needs, and samples: with fewer, chance decides.
const LEAST_CPU: u64 = 50_000_000;
const LEAST_SAMPLES: u64 = 30;
/// Readings are at least this far apart: the kernel's counters take a system call for each program.
const APART: Duration = Duration::from_millis(20);
/// The highest share of the recorded threads' CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// In hundredths of a percent.
    pub share: u32,
    /// The user named it.
    pub is_asked: bool,
}

impl Default for Limit {
    /// 5 %.
    fn default() -> Self {
        Self {
            share: 500,
            is_asked: false,
        }
    }
}

/// What was recorded so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Samples.
    pub samples: u64,
    /// Waits, also those that were aggregated.
    pub waits: u64,
    /// The threads' CPU time, in ns.
    pub cpu_time: u64,
}

/// Counters at a moment.
#[derive(Debug, Clone, Copy)]
struct Reading {
    /// Number of the period in which the kernel measures.
    stretch: u64,
    taken: Instant,
    at: Measured,
}

/// Measures, decides, and has the programs follow.
pub struct Governor {
    levels: Array<MapData, [u32; GROUPS]>,
    spent: PerCpuArray<MapData, [u64; GROUPS]>,
    control: Control,
    limit: Limit,
    before: Option<Reading>,
    /// Since the last decision.
    measured: Measured,
    steps: VecDeque<ThinningStep>,
    earlier_steps: u64,
    highest: [u32; GROUPS],
}

impl Governor {
    /// Takes its maps out of the object.
    ///
    /// # Errors
    /// When a map is missing.
    pub fn new(ebpf: &mut Ebpf, limit: Limit) -> anyhow::Result<Self> {
        let mut take = |name: &str| {
            let map = ebpf.take_map(name);
            map.with_context(|| format!("the eBPF object has no map {name}: run `scripts/build-ebpf`"))
        };
        Ok(Self {
            levels: Array::try_from(take("LEVELS")?)?,
            spent: PerCpuArray::try_from(take("SPENT")?)?,
            control: Control::new(limit),
            limit,
            before: None,
            measured: Measured::default(),
            steps: VecDeque::new(),
            earlier_steps: 0,
            highest: [0; GROUPS],
        })
    }

    /// Compares with the limit what was spent since the last call, if that was a while ago.
    pub fn turn(&mut self, meter: &Meter, ebpf: &Ebpf, counts: Counts, now: Timestamp) {
        let Some(stretch) = meter.stretch() else { return };
        let is_same = |before: &Reading| before.stretch == stretch;
        if self
            .before
            .as_ref()
            .is_some_and(|before| is_same(before) && before.taken.elapsed() < APART)
        {
            return;
        }
        let Ok(at) = self.read(ebpf, counts) else { return };
        let taken = Instant::now();
        let Some(before) = self.before.replace(Reading { stretch, taken, at }).filter(is_same) else {
            return;
        };
        // A period may be too short by itself.
        let since = at.with(&before.at, u64::saturating_sub);
        self.measured = self.measured.with(&since, u64::saturating_add);
        if self.measured.cpu < LEAST_CPU || self.measured.samples < LEAST_SAMPLES {
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

    fn read(&self, ebpf: &Ebpf, counts: Counts) -> anyhow::Result<Measured> {
        let mut walks = [0_u64; GROUPS];
        for each in self.spent.get(&0, 0)?.iter() {
            for (sum, time) in walks.iter_mut().zip(each) {
                *sum = sum.saturating_add(*time);
            }
        }
        let mut at = Measured {
            walks,
            waits: counts.waits,
            samples: counts.samples,
            cpu: counts.cpu_time,
            ..Measured::default()
        };
        for (name, (runs, time)) in meter::counts(ebpf) {
            if SCHEDULER.contains(&name) {
                at.scheduler_runs = at.scheduler_runs.saturating_add(runs);
                at.scheduler = at.scheduler.saturating_add(time);
            } else if name == "sample" {
                // It also runs for threads that are not recorded, and does nothing there.
                at.ours = at.ours.saturating_add(walks[Group::Sample as usize]);
            } else {
                at.ours = at.ours.saturating_add(time);
            }
        }
        Ok(at)
    }

    fn note(&mut self, step: ThinningStep) {
        for (highest, level) in self.highest.iter_mut().zip(step.levels) {
            *highest = (*highest).max(level);
        }
        if self.steps.len() == MAX_STEPS {
            self.steps.pop_front();
            self.earlier_steps += 1;
        }
        self.steps.push_back(step);
    }

    /// What was done.
    pub fn result(&self) -> Thinning {
        Thinning {
            limit: self.limit.share.max(1),
            highest: self.highest,
            steps: self.steps.iter().copied().collect(),
            earlier_steps: self.earlier_steps,
        }
    }
}
