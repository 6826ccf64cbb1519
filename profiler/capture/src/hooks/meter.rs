//! Measures the cost of the recording itself: time in our programs, CPU time and memory of the privileged helper.
//!
//! The kernel counts the runs of eBPF programs only on request (`BPF_ENABLE_STATS`), and then each run reads a clock
//! twice: some 55 ns, which is 4 % of a thread that does nothing but switch. So it counts for the first half second
//! and then for a tenth of the time, and each stretch is extrapolated up to the next one (docs/reliability.md). With
//! `--self-account` it counts all the time.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use aya::Ebpf;
use aya::sys::{Stats, enable_stats};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;

use base::addr::ns;
use base::event::{Cost, ProcessCost, ProgramCost, ProgramCosts, RingCost};

/// The first stretch; recordings shorter than this are counted completely.
const FIRST: Duration = Duration::from_millis(500);
/// Length of later stretches, rounded to cycles.
const STRETCH: Duration = Duration::from_millis(20);
/// A stretch is extrapolated to this multiple of its length.
const EVERY: u32 = 10;

/// CPU time of this process so far.
pub fn cpu_time() -> Duration {
    let time = |time: nix::sys::time::TimeVal| u64::try_from(time.num_microseconds()).unwrap_or(0);
    getrusage(UsageWho::RUSAGE_SELF).map_or(Duration::ZERO, |usage| {
        Duration::from_micros(time(usage.user_time()).saturating_add(time(usage.system_time())))
    })
}

/// Peak of this process's resident memory, in bytes.
pub fn peak_rss() -> u64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| {
        u64::try_from(usage.max_rss()).unwrap_or(0).saturating_mul(1024)
    })
}

/// CPU time of this process, by phase of the recording.
#[derive(Debug, Clone, Copy)]
pub struct Phases {
    begun: Duration,
    stopped: Option<Duration>,
}

impl Phases {
    /// Marks the beginning of the recording.
    pub fn begin() -> Self {
        Self {
            begun: cpu_time(),
            stopped: None,
        }
    }

    /// Marks its end. Only the first call counts.
    pub fn stop(&mut self) {
        self.stopped.get_or_insert_with(cpu_time);
    }

    /// The times up to now.
    pub fn cost(&self) -> ProcessCost {
        let now = cpu_time();
        let stopped = self.stopped.unwrap_or(now);
        ProcessCost {
            before_ns: ns(self.begun),
            during_ns: ns(stopped.saturating_sub(self.begun)),
            after_ns: ns(now.saturating_sub(stopped)),
            peak_rss_bytes: peak_rss(),
        }
    }
}

/// Runs and time of each program, in ns.
type Counts = BTreeMap<String, (u64, u64)>;

/// A stretch in which the kernel counts.
struct Stretch {
    _counting: OwnedFd,
    since: Instant,
    before: Counts,
}

/// What the kernel counted in a stretch, until the time it represents is known.
struct Counted {
    since: Instant,
    length: Duration,
    counts: Counts,
}

/// Measures from its creation to [`Meter::cost`].
pub struct Meter {
    phases: Phases,
    always: bool,
    begun: Instant,
    ended: Option<Instant>,
    open: Option<Stretch>,
    closed: Option<Counted>,
    counted: Duration,
    /// Number of the stretch that is open, or of the last one.
    number: u64,
    totals: Counts,
    refused: Option<String>,
}

/// Whether the kernel counts the time in programs for us.
pub fn is_possible() -> bool {
    enable_stats(Stats::RunTime).is_ok()
}

impl Meter {
    /// Begins to measure; `always`: the kernel counts all the time.
    pub fn begin(ebpf: &Ebpf, always: bool) -> Self {
        let now = Instant::now();
        let mut meter = Self {
            phases: Phases::begin(),
            always,
            begun: now,
            ended: None,
            open: None,
            closed: None,
            counted: Duration::ZERO,
            number: 0,
            totals: Counts::new(),
            refused: None,
        };
        meter.open(ebpf, now);
        meter
    }

    /// Begins or ends a stretch, if that is due. True: one begins.
    pub fn turn(&mut self, ebpf: &Ebpf) -> bool {
        let before = self.number;
        let now = Instant::now();
        if let Some(open) = &self.open {
            let first = self.closed.is_none() && self.counted.is_zero();
            let long_enough = if first { FIRST } else { STRETCH };
            if !self.always && now.duration_since(open.since) >= long_enough {
                self.close(ebpf, now);
            }
        } else if let Some(closed) = &self.closed
            && is_due(closed.length, now.duration_since(closed.since))
        {
            self.settle(now);
            self.open(ebpf, now);
        }
        self.number != before
    }

    /// The number of the stretch in which the kernel counts; `None`: it does not count now.
    pub fn stretch(&self) -> Option<u64> {
        self.open.as_ref().map(|_| self.number)
    }

    /// Marks the end of the recording.
    pub fn stop(&mut self, ebpf: &Ebpf) {
        let now = Instant::now();
        self.close(ebpf, now);
        self.settle(now);
        self.ended = Some(now);
        self.phases.stop();
    }

    /// The privileged helper's part of the cost.
    pub fn cost(&self, ring: Option<RingCost>, log_bytes: u64) -> Cost {
        let ran = self.totals.iter().filter(|(_, (runs, _))| *runs > 0);
        let programs = self.refused.is_none().then(|| ProgramCosts {
            counted_ns: ns(self.counted),
            of_ns: ns(self.ended.map_or(Duration::ZERO, |end| end.duration_since(self.begun))),
            programs: ran.map(|(name, count)| program(name, *count)).collect(),
        });
        Cost {
            capture: Some(self.phases.cost()),
            programs,
            programs_refused: self.refused.clone(),
            ring,
            log_bytes: Some(log_bytes),
            ..Cost::default()
        }
    }

    fn open(&mut self, ebpf: &Ebpf, now: Instant) {
        match enable_stats(Stats::RunTime) {
            Ok(counting) => {
                self.number += 1;
                self.open = Some(Stretch {
                    _counting: counting,
                    since: now,
                    before: owned_counts(ebpf),
                });
            }
            Err(error) => {
                let reason = format!(
                    "the kernel does not count the time in eBPF programs: {}",
                    error.io_error
                );
                self.refused.get_or_insert(reason);
            }
        }
    }

    fn close(&mut self, ebpf: &Ebpf, now: Instant) {
        let Some(open) = self.open.take() else { return };
        let mut counts = owned_counts(ebpf);
        for (name, (runs, time)) in &mut counts {
            let (runs_before, time_before) = open.before.get(name).copied().unwrap_or_default();
            *runs = runs.saturating_sub(runs_before);
            *time = time.saturating_sub(time_before);
        }
        let length = now.duration_since(open.since);
        self.counted += length;
        self.closed = Some(Counted {
            since: open.since,
            length,
            counts,
        });
    }

    /// Extrapolates the last counts up to now.
    fn settle(&mut self, now: Instant) {
        let Some(closed) = self.closed.take() else { return };
        let stands_for = now.duration_since(closed.since);
        for (name, (runs, time)) in closed.counts {
            let total = self.totals.entry(name).or_default();
            total.0 = total.0.saturating_add(scaled(runs, stands_for, closed.length));
            total.1 = total.1.saturating_add(scaled(time, stands_for, closed.length));
        }
    }
}

/// The first, long stretch represents only itself: one-time costs of starting a program must not count ten times.
fn is_due(length: Duration, passed: Duration) -> bool {
    length >= FIRST || passed >= length.saturating_mul(EVERY)
}

fn scaled(count: u64, stands_for: Duration, length: Duration) -> u64 {
    let scaled = u128::from(count) * stands_for.as_nanos() / length.as_nanos().max(1);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// The kernel's counts of all loaded programs: name, runs, and time in ns since it was loaded, as far as it counted.
pub fn counts(ebpf: &Ebpf) -> impl Iterator<Item = (&str, (u64, u64))> {
    ebpf.programs().filter_map(|(name, program)| {
        let info = program.info().ok()?;
        Some((name, (info.run_count(), ns(info.run_time()))))
    })
}

fn owned_counts(ebpf: &Ebpf) -> Counts {
    counts(ebpf).map(|(name, count)| (name.to_owned(), count)).collect()
}

fn program(name: &str, (runs, time_ns): (u64, u64)) -> ProgramCost {
    ProgramCost {
        name: name.to_owned(),
        runs,
        time_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measured_stretch_extrapolates_to_the_next() {
        let ms = Duration::from_millis;
        assert_eq!(scaled(1000, ms(200), ms(20)), 10_000);
        assert_eq!(scaled(u64::MAX, ms(200), ms(20)), u64::MAX);
        assert_eq!(scaled(1000, ms(200), Duration::ZERO), 200_000_000_000);
        assert!(is_due(FIRST, FIRST), "a second interval follows the first");
        assert!(!is_due(ms(50), ms(499)) && is_due(ms(50), ms(500)));
    }

    #[test]
    fn cpu_time_is_reported_by_phase() {
        let mut phases = Phases::begin();
        let burn = |least: Duration| {
            let begun = cpu_time();
            while cpu_time() < begun + least {}
        };
        burn(Duration::from_millis(20));
        phases.stop();
        burn(Duration::from_millis(10));
        phases.stop();
        let cost = phases.cost();
        assert!(cost.during_ns >= 20_000_000 && cost.after_ns >= 10_000_000, "{cost:?}");
        assert!(cost.peak_rss_bytes > 1 << 20, "{cost:?}");
    }
}
