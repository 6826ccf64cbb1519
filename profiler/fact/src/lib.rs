//! Facts: what happened, in finished form. Subcommands and the profile read these, never raw events.
//!
//! This module and its files are the vocabulary: types, and what can be said of one fact or of the tables alone.
//! `replay` makes facts of events; `reduce` makes fewer of them. Neither needs the other.
//!
//! [`FactSource`] has three implementations: the event log (`fact::replay::log`, exact and of any size), the profile
//! (`profile::read`, limited by a budget), and other programs' profiles (`profile::foreign`). Facts stream through a [`FactSink`]; what they refer to is in [`Tables`].
//!
//! Counting the page faults of a log without opening the files that it names:
//!
//! ```
//! use std::io::Cursor;
//!
//! use base::event::read::LogReader;
//! use fact::replay::log::LogSource;
//! use fact::{FactSink, FactSource, FaultFact, Mark, SampleFact, Tables};
//! use unwind::NoBinaries;
//!
//! #[derive(Default)]
//! struct Count(u64);
//!
//! impl FactSink for Count {
//!     fn sample(&mut self, _: &Tables, _: &SampleFact) {}
//!     fn mark(&mut self, _: &Tables, _: &Mark) {}
//!     fn fault(&mut self, _: &Tables, _: &FaultFact) {
//!         self.0 += 1;
//!     }
//! }
//!
//! fn faults(log: Vec<u8>) -> anyhow::Result<u64> {
//!     let mut count = Count::default();
//!     LogSource::new(LogReader::new(Cursor::new(log))?, &NoBinaries).replay(&mut count)?;
//!     Ok(count.0)
//! }
//! assert!(faults(b"not a log".to_vec()).is_err());
//! ```

mod about;
pub mod account;
pub mod cause;
mod display;
pub mod fault;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
mod folded;
pub mod gecko;
pub mod lock;
mod mapped;
pub mod owner;
mod prune;
pub mod reasons;
pub mod reclaim;
pub mod reduce;
pub mod replay;
pub mod request;
mod sink;
mod stack;
pub mod usage;
pub mod wait;

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

pub use about::About;
pub use cause::{Cause, Effect, EffectKind, HolderRef, Reason, RequestRef};
pub use display::{nameless, place_of_nameless, short_path};
pub use fault::{FaultFact, MappedFile, MappedFileId, PagesBy, PagesReadFact};
pub use folded::{FoldedFaults, FoldedReads, MergedThreads};
pub use gecko::{GeckoMark, GeckoTables};
pub use lock::{KernelLock, LockHolder, LockKind};
pub use prune::{Visit, visit_keys, visit_stack};
pub use request::{BioFact, BlockDevice, DeviceId, FoldedRequests, RequestFact};
pub use sink::{FactSink, FactSource};
pub use stack::{EventKind, Frame, FrameName, Location, Module, ModuleKind, SourceFrame, StackId, StackNode, upwards};
pub use task::{FaultAccount, Process, ProcessId, Thread, ThreadId};
pub use unwind::TruncationReason;
pub use wait::{FoldedWaits, WaitFact, WaitReason};

use base::addr::Timestamp;
use base::event::owners::Container;
use base::event::usage::CgroupUsage;
use base::event::{Cost, HookStatus};
use base::id;
use profiler_common::Loss;

id!(
    /// Index into [`Tables::modules`].
    ModuleId
);
id!(
    /// Index into [`Tables::frames`].
    FrameId
);

/// The tables that facts refer to. Grows with distinct entries, not with the length of the recording.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tables {
    /// The recording itself.
    pub recording: Recording,
    /// Processes by [`ProcessId`].
    pub processes: Vec<Process>,
    /// Threads by [`ThreadId`].
    pub threads: Vec<Thread>,
    /// Modules by [`ModuleId`].
    pub modules: Vec<Module>,
    /// Frames by [`FrameId`]; distinct.
    pub frames: Vec<Frame>,
    /// Stacks by [`StackId`]; a parent precedes its children.
    pub stacks: Vec<StackNode>,
    /// Files that faults and reads touched, by [`MappedFileId`].
    pub files: Vec<MappedFile>,
    /// Block devices by [`DeviceId`].
    pub devices: Vec<BlockDevice>,
    /// Names of frames; a frame without an entry is not resolved (yet).
    pub names: FxHashMap<FrameId, FrameName>,
    /// Texts of source files by path, as spelled in [`SourceFrame::file`]; only with `--include-source`.
    pub sources: FxHashMap<String, String>,
}

/// The recording as a whole.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Recording {
    /// Version of ngmi that recorded.
    pub ngmi_version: String,
    /// The command as typed; empty for `-p` and `-a`.
    pub command: Vec<String>,
    /// `command`, `pids` or `system`.
    pub scope: String,
    /// First moment.
    pub start: Timestamp,
    /// Milliseconds since 1970 at `start`.
    pub start_unix_ms: u64,
    /// Last moment.
    pub end: Timestamp,
    /// Why it ended; `None` if the recorder was killed.
    pub end_reason: Option<String>,
    /// Wait status of the command, if it ended.
    pub command_status: Option<i32>,
    /// `uname -r`
    pub kernel: String,
    /// `uname -m`
    pub arch: String,
    /// Page size of the machine in bytes; see [`Recording::page`].
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub page_size: u64,
    /// CPUs online.
    pub cpus: u32,
    /// Samples per second and CPU.
    pub sample_hz: u32,
    /// `cycles` or `cpu-clock`.
    pub sample_event: String,
    /// Maximum number of stack bytes copied with each sample.
    pub stack_copy: u32,
    /// How each hook was attached.
    pub hooks: Vec<HookStatus>,
    /// Nonzero losses, by name.
    pub losses: Vec<(String, u64)>,
    /// How user stacks of samples ended, per module of the outermost frame reached.
    pub stack_ends: Vec<StackEnds>,
    /// The same for page faults: separate, since a fault storm would drown the samples.
    #[serde(default)]
    pub fault_stack_ends: Vec<StackEnds>,
    /// The same for waits.
    #[serde(default)]
    pub wait_stack_ends: Vec<StackEnds>,
    /// Results of the walks in the kernel.
    pub walks: Walks,
    /// How many samples each kept one represents (1: all are in the profile).
    pub sample_thinning: u32,
    /// Samples before thinning.
    pub samples_seen: u64,
    /// Page faults before any were folded into counters.
    pub faults_seen: u64,
    /// Waits before any were folded into counters; a fact may represent several.
    #[serde(default)]
    pub waits_seen: u64,
    /// Page faults that the profile holds only as sums, by thread and class.
    #[serde(default)]
    pub folded_faults: Vec<FoldedFaults>,
    /// The same for page-cache reads, by file.
    #[serde(default)]
    pub folded_reads: Vec<FoldedReads>,
    /// Waits that the profile holds only as sums, by thread and reason.
    #[serde(default)]
    pub folded_waits: Vec<FoldedWaits>,
    /// Block requests before any were folded into sums.
    #[serde(default)]
    pub requests_seen: u64,
    /// Block requests that the profile holds only as sums, by device and operation.
    #[serde(default)]
    pub folded_requests: Vec<FoldedRequests>,
    /// Sum of the samples' and the exits' on-CPU time, in ns, before thinning.
    pub cpu_time_seen: u64,
    /// What the recording itself cost; `None` if the recorder was killed, or is older.
    pub cost: Option<Cost>,
    /// Rows of merged threads.
    #[serde(rename = "merged_threads", default, skip_serializing_if = "Vec::is_empty")]
    pub merged_threads: Vec<MergedThreads>,
    /// What markers of Firefox's own profiler refer to; `None`: there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gecko: Option<Box<GeckoTables>>,
    /// Names of containers and pods that processes belong to, by the container's id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<Container>,
    /// Memory and pressure of the cgroups that processes belong to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cgroup_usage: Vec<CgroupUsage>,
    /// There may be other cgroups, with limits that are not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_unread_limits: bool,
    /// Notes for the user, each a sentence with its remedy.
    pub notes: Vec<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // As serde calls it.
fn is_unknown(page_size: &u64) -> bool {
    *page_size == 0
}

impl Recording {
    /// Page size of the machine in bytes: 4, 16 or 64 KiB. If it is unknown, or a file names another one, 4 KiB.
    pub fn page(&self) -> u64 {
        match self.page_size {
            known @ (0x4000 | 0x1_0000) => known,
            _ => base::addr::PAGE,
        }
    }

    /// The same without what cgroups used over time, which may be long.
    #[must_use]
    pub fn without_usage(&self) -> Self {
        Self {
            cgroup_usage: Vec::new(),
            ..self.clone()
        }
    }

    /// How many of these were lost; `None`: none.
    pub fn lost(&self, loss: Loss) -> Option<u64> {
        let mut losses = self.losses.iter();
        losses.find(|(name, _)| name == loss.name()).map(|(_, count)| *count)
    }
}

/// User stacks that were walked in the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Walks {
    /// How walks ended, with the number of samples; a copy of the stack takes over where a walk ends early.
    pub ends: Vec<(String, u64)>,
    /// Distinct stacks that were sent, including kernel stacks.
    pub stacks: u64,
    /// Stacks that were sent again because the table of sent stacks was full.
    pub resent: u64,
    /// With `--check-walks`: the number of walks that framehop agrees with, and of others.
    pub checked: Option<(u64, u64)>,
}

/// User stacks that ended the same way in the same module.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StackEnds {
    /// Display name of the module of the outermost frame.
    pub module: String,
    /// Why they are incomplete; `None` if complete.
    pub reason: Option<TruncationReason>,
    /// Number of samples, or faults.
    pub samples: u64,
}

/// A CPU sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleFact {
    /// When it was taken.
    pub time: Timestamp,
    /// The sampled thread.
    pub thread: ThreadId,
    /// Innermost frame of user and kernel stack together.
    pub stack: Option<StackId>,
    /// On-CPU time of the thread since its previous sample.
    pub cpu_time: Duration,
    /// Whether the CPU was in the kernel.
    pub in_kernel: bool,
    /// How many samples it represents (1 unless thinned).
    pub weight: u32,
}

/// A named instant or interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// When it began or happened.
    pub start: Timestamp,
    /// When it ended, for an interval.
    pub end: Option<Timestamp>,
    /// The thread it belongs to.
    pub thread: ThreadId,
    /// Its backtrace, if it has one.
    pub stack: Option<StackId>,
    /// What happened.
    pub kind: MarkKind,
}

/// The content of a [`Mark`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MarkKind {
    /// The process was born.
    ProcessStart,
    /// The process replaced its program.
    Exec {
        /// Path.
        path: String,
        /// Arguments.
        command_line: Arc<Vec<String>>,
    },
    /// The process ended.
    ProcessExit {
        /// Wait status.
        status: u32,
    },
    /// A marker that the program wrote itself.
    Program {
        /// Its text.
        text: String,
    },
    /// A marker of Firefox's own profiler.
    Gecko(Arc<GeckoMark>),
}
