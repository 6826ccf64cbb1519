//! Memory and pressure of cgroups while they were recorded, as the files of each cgroup showed them.
//!
//! Sources: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst and Documentation/accounting/psi.rst of Linux.

use std::fmt;

use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::owners::MAX_CGROUP;
use crate::addr::Timestamp;

/// Maximum number of cgroups in one chunk, several times those that are read.
pub const MAX_CGROUPS: usize = 256;
/// Maximum number of readings of a cgroup in one chunk.
pub const MAX_SAMPLES: usize = 1024;

/// What was read since the chunk before.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Each cgroup that was read.
    pub cgroups: Vec<CgroupUsage>,
    /// Cgroups that were not read because there were too many, so far.
    #[serde(default)]
    pub left_out: u64,
    /// There may be cgroups above those that can be read, with limits that apply to all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_below_others: bool,
}

/// One cgroup.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CgroupUsage {
    /// Its path in the hierarchy: `/` or `/a/b`.
    pub path: String,
    /// The hierarchy.
    pub hierarchy: UsageHierarchy,
    /// What was read, by time; between two of these, every reading showed the same as the first of them.
    #[serde(deserialize_with = "few")]
    pub samples: Vec<UsageSample>,
}

/// Readings of a cgroup in one chunk, a fraction of what the text of a hostile one could hold.
fn few<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<UsageSample>, D::Error> {
    struct Few;
    impl<'de> Visitor<'de> for Few {
        type Value = Vec<UsageSample>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(out, "at most {MAX_SAMPLES} readings")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut readings: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(reading) = readings.next_element()? {
                if all.len() >= MAX_SAMPLES {
                    return Err(de::Error::invalid_length(all.len() + 1, &self));
                }
                all.push(reading);
            }
            Ok(all)
        }
    }
    deserializer.deserialize_seq(Few)
}

/// A hierarchy of cgroups whose files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum UsageHierarchy {
    /// Version 2: pressure and, unless version 1 has the controller, memory.
    #[default]
    Version2,
    /// The memory controller of version 1, which has no pressure.
    MemoryVersion1,
}

/// What the files of a cgroup showed. `None`: the cgroup has no such file, or no such limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UsageSample {
    /// When they were read.
    pub time: Timestamp,
    /// `memory.current`, or `memory.usage_in_bytes` of version 1: in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// `memory.swap.current`, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap: Option<u64>,
    /// `memory.max`, or `memory.limit_in_bytes` of version 1: in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// `memory.high`, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<u64>,
    /// How often its memory reached a limit since it was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<MemoryEvents>,
    /// `cpu.pressure`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Pressure>,
    /// `memory.pressure`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_pressure: Option<Pressure>,
    /// `io.pressure`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<Pressure>,
}

/// `memory.events`, or `memory.failcnt` of version 1 as `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryEvents {
    /// Processes were throttled because `memory.high` was exceeded.
    pub high: u64,
    /// The limit would have been exceeded.
    pub max: u64,
    /// An allocation was about to fail.
    pub oom: u64,
    /// Processes were killed.
    pub oom_kill: u64,
}

/// Time for which tasks waited for a resource, in µs since the cgroup was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pressure {
    /// At least one waited.
    pub some: u64,
    /// All that were not idle waited.
    #[serde(default)]
    pub full: u64,
}

impl Usage {
    /// Whether all texts are within their limits.
    pub(super) fn fits(&self) -> bool {
        self.cgroups.len() <= MAX_CGROUPS && self.cgroups.iter().all(|cgroup| cgroup.path.len() <= MAX_CGROUP)
    }
}

impl CgroupUsage {
    /// Whether a cgroup of the same hierarchy is this one or below it. One outside the recorder's cgroup namespace
    /// (`/../a`) is not.
    pub fn contains(&self, path: &str) -> bool {
        let below = path.strip_prefix(self.path.trim_end_matches('/'));
        below.is_some_and(|below| below.is_empty() || below.starts_with('/')) && !path.starts_with("/..")
    }
}

impl UsageSample {
    /// Whether another one shows the same, whenever it was read.
    pub fn equals(&self, other: &Self) -> bool {
        *self
            == Self {
                time: self.time,
                ..*other
            }
    }

    /// The lowest limit of memory, in bytes.
    pub fn limit(&self) -> Option<u64> {
        self.max.into_iter().chain(self.high).min()
    }
}
