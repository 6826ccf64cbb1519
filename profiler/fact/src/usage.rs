//! Memory and pressure of cgroups over time.

use std::collections::BTreeMap;

use crate::{Recording, Tables};
use base::addr::Timestamp;
use base::event::usage::{CgroupUsage, MemoryEvents, Usage, UsageHierarchy, UsageSample};

/// Cgroups of a recording, at most.
const MAX_CGROUPS: usize = 1024;
/// Samples of a cgroup, at most: twice as many as a track has pixels. Those of a longer recording are merged in pairs.
const MAX_SAMPLES: usize = 8192;

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
    left_out: u64,
}

impl UsageParts {
    /// Adds a part.
    pub fn add(&mut self, usage: Usage) {
        self.left_out = self.left_out.max(usage.left_out);
        for CgroupUsage {
            path,
            hierarchy,
            samples,
        } in usage.cgroups
        {
            let key = (hierarchy, path);
            if self.cgroups.len() >= MAX_CGROUPS && !self.cgroups.contains_key(&key) {
                self.left_out = self.left_out.saturating_add(1);
                continue;
            }
            let all = self.cgroups.entry(key).or_default();
            for sample in samples {
                all.push(sample);
                if all.len() > MAX_SAMPLES {
                    *all = in_pairs(all);
                }
            }
        }
    }

    /// Moves the cgroups to a recording, with a note if some are missing.
    pub fn finish(self, recording: &mut Recording) {
        let all = self.cgroups.into_iter().map(|((hierarchy, path), mut samples)| {
            samples.sort_by_key(|sample| sample.time);
            CgroupUsage {
                path,
                hierarchy,
                samples,
            }
        });
        recording.cgroup_usage = all.collect();
        recording.cgroups_left_out = self.left_out;
        if self.left_out > 0 {
            recording.notes.push(format!(
                "memory and pressure of some cgroups were not read, since there were too many: {}; to read others, record only \
                 their processes (`ngmi record --cgroup`)",
                self.left_out
            ));
        }
    }
}

/// Half as many: each has the time and the totals of the later of two, and the larger memory.
fn in_pairs(samples: &[UsageSample]) -> Vec<UsageSample> {
    let pairs = samples.chunks(2).filter_map(|pair| {
        let (first, last) = (pair.first()?, pair.last()?);
        Some(UsageSample {
            memory: first.memory.max(last.memory),
            swap: first.swap.max(last.swap),
            ..*last
        })
    });
    pairs.collect()
}

/// Keeps what is within this time, and the sample before it.
pub fn cut_time(all: &mut Vec<CgroupUsage>, from: Option<Timestamp>, to: Option<Timestamp>) {
    for usage in &mut *all {
        let first = from.map_or(0, |from| usage.samples.partition_point(|sample| sample.time < from));
        usage.samples.drain(..first.saturating_sub(1));
        usage.samples.retain(|sample| to.is_none_or(|to| sample.time < to));
        if let (Some(from), Some(sample)) = (from, usage.samples.first_mut()) {
            sample.time = sample.time.max(from);
        }
    }
    all.retain(|usage| !usage.samples.is_empty());
}

/// Drops cgroups that contain none of the processes. Which ones are in a cgroup of version 1 is not known.
pub fn drop_unused(tables: &mut Tables) {
    let paths = tables.processes.iter().filter_map(|process| process.cgroup.as_deref());
    let paths: Vec<&str> = paths.collect();
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
            });
        }
        let (all, notes) = finished(parts);
        let samples = &all[0].samples;
        assert!(all.len() == 1 && samples.len() <= MAX_SAMPLES);
        assert!(samples.is_sorted_by_key(|sample| sample.time));
        assert_eq!(samples.last().unwrap().time, Timestamp(3 * MAX_SAMPLES as u64 - 1));
        assert_eq!(peak(&all[0]), Some(MAX_SAMPLES as u64 - 1));
        assert!(notes[0].contains(": 2;"));
    }

    #[test]
    fn too_many_cgroups_are_counted() {
        let mut parts = UsageParts::default();
        for number in 0..MAX_CGROUPS + 2 {
            parts.add(Usage {
                cgroups: vec![usage(&format!("/{number}"), vec![sample(1, 1, 1)])],
                left_out: 0,
            });
        }
        let (all, notes) = finished(parts);
        assert_eq!((all.len(), notes.len()), (MAX_CGROUPS, 1));
        assert_eq!(finished(UsageParts::default()), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_cut_begins_with_what_was_known_then() {
        let mut all = vec![
            usage("/a", vec![sample(1, 1, 0), sample(5, 2, 0), sample(9, 3, 0)]),
            usage("/b", vec![sample(9, 3, 0)]),
        ];
        cut_time(&mut all, Some(Timestamp(6)), Some(Timestamp(9)));
        assert_eq!(all, [usage("/a", vec![sample(6, 2, 0)])]);
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
