//! Memory and pressure of cgroups over time.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Recording, Tables};
use base::addr::Timestamp;
use base::event::usage::{CgroupUsage, MemoryEvents, Usage, UsageHierarchy, UsageSample};

/// Cgroups of a recording, at most.
const MAX_CGROUPS: usize = 1024;
/// Samples of a cgroup, at most: twice as many as a track has pixels. Those of a longer recording are merged in pairs.
const MAX_SAMPLES: usize = 8192;
/// Samples of all cgroups of a recording, at most: the longest are merged.
const MAX_ALL: usize = 1 << 16;
/// Cgroups left out that are counted, at most.
const MAX_DROPPED: usize = 1 << 14;

/// The kinds of events of a cgroup's memory, as the kernel calls them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitEvent {
    /// `memory.high` was exceeded.
    High,
    /// The limit was reached.
    Max,
    /// An allocation was about to fail.
    Oom,
    /// A process was killed.
    OomKill,
}

impl LimitEvent {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::High, Self::Max, Self::Oom, Self::OomKill];

    /// How often it has happened.
    pub fn count(self, events: &MemoryEvents) -> u64 {
        match self {
            Self::High => events.high,
            Self::Max => events.max,
            Self::Oom => events.oom,
            Self::OomKill => events.oom_kill,
        }
    }

    /// What happened, in words.
    pub fn words(self, hierarchy: UsageHierarchy) -> &'static str {
        match (self, hierarchy) {
            (Self::High, _) => "memory.high exceeded",
            (Self::Max, UsageHierarchy::Version2) => "memory.max reached",
            (Self::Max, UsageHierarchy::MemoryVersion1) => "memory limit reached",
            (Self::Oom, _) => "out of memory",
            (Self::OomKill, _) => "processes killed (out of memory)",
        }
    }
}

/// Some of the same events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitReached {
    /// The sample before them, and the one that shows them.
    pub within: (Timestamp, Timestamp),
    /// The kind.
    pub event: LimitEvent,
    /// How many.
    pub count: u64,
    /// The limit then, in bytes.
    pub limit: Option<u64>,
}

/// The events of a cgroup during the recording, by time.
pub fn limits_reached(usage: &CgroupUsage) -> impl Iterator<Item = LimitReached> {
    let pairs = usage.samples.iter().zip(usage.samples.iter().skip(1));
    pairs.flat_map(|(before, after)| {
        LimitEvent::ALL.into_iter().filter_map(|event| {
            let (earlier, later) = before.events.as_ref().zip(after.events.as_ref())?;
            let count = event.count(later).saturating_sub(event.count(earlier));
            (count > 0).then_some(LimitReached {
                within: (before.time, after.time),
                event,
                count,
                limit: if event == LimitEvent::High {
                    after.high
                } else {
                    after.max
                },
            })
        })
    })
}

/// The most memory that a cgroup was seen to use, in bytes.
pub fn peak(usage: &CgroupUsage) -> Option<u64> {
    usage.samples.iter().filter_map(|sample| sample.memory).max()
}

/// Joins the parts of a log.
#[derive(Debug, Default)]
pub struct UsageParts {
    cgroups: BTreeMap<(UsageHierarchy, String), Vec<UsageSample>>,
    /// Samples of all of them.
    samples: usize,
    /// Those that the recorder left out, so far.
    left_out: u64,
    /// Those of the log that are left out here.
    dropped: BTreeSet<(UsageHierarchy, String)>,
    is_below_others: bool,
}

impl UsageParts {
    /// Adds a part.
    pub fn add(&mut self, usage: Usage) {
        self.left_out = self.left_out.max(usage.left_out);
        self.is_below_others |= usage.is_below_others;
        for CgroupUsage {
            path,
            hierarchy,
            samples,
        } in usage.cgroups
        {
            let key = (hierarchy, path);
            if self.cgroups.len() >= MAX_CGROUPS && !self.cgroups.contains_key(&key) {
                if self.dropped.len() < MAX_DROPPED {
                    self.dropped.insert(key);
                }
                continue;
            }
            let all = self.cgroups.entry(key).or_default();
            self.samples -= all.len();
            for sample in samples {
                all.push(sample);
                if all.len() > MAX_SAMPLES {
                    *all = in_pairs(all);
                }
            }
            self.samples += all.len();
            if self.samples > 4 * MAX_ALL {
                self.merge_longest();
            }
        }
    }

    /// Merges samples of the cgroups that have most, until few enough are left.
    fn merge_longest(&mut self) {
        let mut most = MAX_SAMPLES;
        while self.samples > MAX_ALL && most > 1 {
            most /= 2;
            for all in self.cgroups.values_mut().filter(|all| all.len() > most) {
                self.samples -= all.len();
                *all = in_pairs(all);
                self.samples += all.len();
            }
        }
    }

    /// Moves the cgroups to a recording, with a note if some are missing.
    pub fn finish(mut self, recording: &mut Recording) {
        self.merge_longest();
        let all = self.cgroups.into_iter().map(|((hierarchy, path), mut samples)| {
            samples.sort_by_key(|sample| sample.time);
            CgroupUsage {
                path,
                hierarchy,
                samples,
            }
        });
        recording.cgroup_usage = all.collect();
        let left_out = self.left_out.saturating_add(self.dropped.len() as u64);
        recording.has_unread_limits = left_out > 0 || self.is_below_others;
        if left_out > 0 {
            recording.notes.push(format!(
                "memory and pressure of some cgroups are missing, since there were too many, or they are outside of the \
                 recorder's own: {left_out}; to read others, record only their processes (`ngmi record --cgroup`)"
            ));
        }
    }
}

/// Half as many: each has the time and the totals of the later of two, and the larger memory. The first stays, since its
/// totals are those from before the recording.
fn in_pairs(samples: &[UsageSample]) -> Vec<UsageSample> {
    let Some((first, rest)) = samples.split_first() else {
        return Vec::new();
    };
    let pairs = rest.chunks(2).filter_map(|pair| {
        let (first, last) = (pair.first()?, pair.last()?);
        Some(UsageSample {
            memory: first.memory.max(last.memory),
            swap: first.swap.max(last.swap),
            ..*last
        })
    });
    std::iter::once(*first).chain(pairs).collect()
}

/// Keeps what is within this time, and the sample before it. Between two samples nothing changed, so the last one also
/// holds at the end.
pub fn cut_time(all: &mut Vec<CgroupUsage>, from: Option<Timestamp>, to: Option<Timestamp>) {
    for usage in &mut *all {
        let first = from.map_or(0, |from| usage.samples.partition_point(|sample| sample.time < from));
        usage.samples.drain(..first.saturating_sub(1));
        let until = to.map_or(usage.samples.len(), |to| {
            usage.samples.partition_point(|sample| sample.time < to)
        });
        let goes_on = until < usage.samples.len();
        usage.samples.truncate(until);
        if let (Some(time), true, Some(last)) = (to, goes_on, usage.samples.last().copied()) {
            usage.samples.push(UsageSample { time, ..last });
        }
        if let (Some(from), Some(sample)) = (from, usage.samples.first_mut()) {
            sample.time = sample.time.max(from);
        }
    }
    all.retain(|usage| !usage.samples.is_empty());
}

/// Drops cgroups that contain none of the processes. Which ones are in a cgroup of version 1 is not known.
pub fn drop_unused(tables: &mut Tables) {
    let paths = tables.processes.iter().filter_map(|process| process.cgroup.as_deref());
    let paths: BTreeSet<&str> = paths.collect();
    tables
        .recording
        .cgroup_usage
        .retain(|usage| usage.hierarchy == UsageHierarchy::Version2 && paths.iter().any(|path| usage.contains(path)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    fn sample(time: u64, memory: u64, max: u64) -> UsageSample {
        UsageSample {
            time: Timestamp(time),
            memory: Some(memory),
            max: Some(100),
            events: Some(MemoryEvents {
                max,
                ..MemoryEvents::default()
            }),
            ..UsageSample::default()
        }
    }

    fn usage(path: &str, samples: Vec<UsageSample>) -> CgroupUsage {
        CgroupUsage {
            path: path.to_owned(),
            samples,
            ..CgroupUsage::default()
        }
    }

    #[test]
    fn events_are_between_the_samples_that_show_them() {
        let usage = usage(
            "/a",
            vec![sample(5, 1, 7), sample(8, 1, 7), sample(9, 1, 10), sample(12, 1, 2)],
        );
        let found: Vec<_> = limits_reached(&usage).collect();
        let expected = LimitReached {
            within: (Timestamp(8), Timestamp(9)),
            event: LimitEvent::Max,
            count: 3,
            limit: Some(100),
        };
        assert_eq!(found, [expected]);
    }

    fn finished(parts: UsageParts) -> (Vec<CgroupUsage>, Vec<String>) {
        let mut recording = Recording::default();
        parts.finish(&mut recording);
        (recording.cgroup_usage, recording.notes)
    }

    #[test]
    fn parts_are_joined_and_long_ones_merged() {
        let mut parts = UsageParts::default();
        for part in 0..3 {
            let samples = (0..MAX_SAMPLES as u64).map(|time| sample(part * MAX_SAMPLES as u64 + time, time, time));
            parts.add(Usage {
                cgroups: vec![usage("/a", samples.collect())],
                left_out: part,
                is_below_others: false,
            });
        }
        let (all, notes) = finished(parts);
        let samples = &all[0].samples;
        assert!(all.len() == 1 && samples.len() <= MAX_SAMPLES);
        assert!(samples.is_sorted_by_key(|sample| sample.time));
        assert_eq!(samples.last().unwrap().time, Timestamp(3 * MAX_SAMPLES as u64 - 1));
        assert_eq!(peak(&all[0]), Some(MAX_SAMPLES as u64 - 1));
        // `memory.events` as at the first sample.
        assert_eq!(samples[0], sample(0, 0, 0));
        assert!(notes[0].contains(": 2;"));
    }

    #[test]
    fn too_many_cgroups_are_counted() {
        let mut parts = UsageParts::default();
        for number in 0..MAX_CGROUPS + 2 {
            parts.add(Usage {
                cgroups: vec![usage(&format!("/{number}"), vec![sample(1, 1, 1)])],
                ..Usage::default()
            });
        }
        // Each is counted once.
        parts.add(Usage {
            cgroups: vec![usage(&format!("/{MAX_CGROUPS}"), vec![sample(2, 1, 1)])],
            ..Usage::default()
        });
        let (all, notes) = finished(parts);
        assert_eq!((all.len(), notes.len()), (MAX_CGROUPS, 1));
        assert!(notes[0].contains(": 2;"), "{notes:?}");
        assert_eq!(finished(UsageParts::default()), (Vec::new(), Vec::new()));
    }

    #[test]
    fn many_long_ones_are_merged() {
        let mut parts = UsageParts::default();
        for number in 0..100 {
            parts.add(Usage {
                cgroups: vec![usage(
                    &format!("/{number}"),
                    (0..5000).map(|time| sample(time, 1, time)).collect(),
                )],
                ..Usage::default()
            });
            assert!(parts.samples <= 4 * MAX_ALL);
        }
        let (all, _) = finished(parts);
        let samples: usize = all.iter().map(|one| one.samples.len()).sum();
        assert!(samples <= MAX_ALL && samples > MAX_ALL / 4, "{samples}");
        for one in &all {
            let reached: u64 = limits_reached(one).map(|reached| reached.count).sum();
            assert_eq!(reached, 4999, "{}", one.path);
        }
    }

    #[test]
    fn a_cut_begins_with_what_was_known_then() {
        let mut all = vec![
            usage("/a", vec![sample(1, 1, 0), sample(5, 2, 0), sample(9, 3, 0)]),
            usage("/b", vec![sample(9, 3, 0)]),
        ];
        cut_time(&mut all, Some(Timestamp(6)), Some(Timestamp(9)));
        assert_eq!(all, [usage("/a", vec![sample(6, 2, 0), sample(9, 2, 0)])]);
    }

    #[test]
    fn cgroups_without_processes_are_dropped() {
        let mut tables = Tables::default();
        let mut process = fixtures::process(1, "p");
        process.cgroup = Some("/pod/a".into());
        tables.processes = vec![process];
        let paths = ["/", "/pod", "/po", "/pod/a", "/pod/a/b", "/pod/ab"];
        tables.recording.cgroup_usage = paths.map(|path| usage(path, vec![sample(1, 1, 1)])).to_vec();
        let mut other = usage("/pod", vec![sample(1, 1, 1)]);
        other.hierarchy = UsageHierarchy::MemoryVersion1;
        tables.recording.cgroup_usage.push(other);
        drop_unused(&mut tables);
        let left: Vec<&str> = tables.recording.cgroup_usage.iter().map(|usage| &*usage.path).collect();
        assert_eq!(left, ["/", "/pod", "/pod/a"]);
    }
}
