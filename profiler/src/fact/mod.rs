//! Facts: what happened, in finished form. Verbs and the profile read these, never raw events.
//!
//! [`FactSource`] has two implementations: the event log (`fact::log`, exact and of any size) and the profile
//! (`profile::read`, a rendering with a budget). Facts stream through a [`FactSink`]; what they refer to sits in [`Tables`].

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// As an index into its table.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

mod about;
pub mod account;
mod blocks;
pub mod budget;
pub mod cause;
pub mod clues;
pub mod crowd;
pub mod dirty;
mod display;
pub mod fault;
mod faults;
pub mod files;
mod jit;
pub mod join;
pub mod life;
pub mod log;
#[cfg(test)]
pub(crate) mod made_up;
mod marker_file;
pub mod packed;
pub mod pages;
mod prune;
pub mod reasons;
mod replay;
pub mod request;
pub mod resolved;
pub mod sanitize;
mod sink;
mod stack;
mod stack_ends;
pub mod strings;
pub mod sums;
pub mod trim;
pub mod wait;
mod walks;

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

pub use about::About;
pub use cause::{Cause, Effect, EffectKind, HolderRef, Reason, RequestRef};
pub use crowd::Crowd;
pub use display::{nameless, place_of_nameless, short_path};
pub use fault::{FaultFact, FoldedFaults, FoldedReads, MappedFile, MappedFileId, PagesReadFact};
pub use prune::Visit;
pub(crate) use prune::{visit_keys, visit_stack};
pub use request::{BioFact, BlockDevice, DeviceId, FoldedRequests, RequestFact};
pub use sink::{FactSink, FactSource};
pub use stack::{
    Frame, FrameName, Location, Module, ModuleKind, Noun, SourceFrame, StackId, StackNode, TruncationReason, upwards,
};
pub use wait::{FoldedWaits, WaitFact, WaitReason};

use crate::addr::Timestamp;
use crate::event::{Cost, HookStatus};

id!(
    /// Index into [`Tables::processes`]: one life of a pid.
    ProcessId
);
id!(
    /// Index into [`Tables::threads`]: one life of a tid.
    ThreadId
);
id!(
    /// Index into [`Tables::modules`].
    ModuleId
);
id!(
    /// Index into [`Tables::frames`].
    FrameId
);

/// What facts refer to. Grows with distinct things, not with the length of the recording.
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
    /// Stacks by [`StackId`]; a parent comes before its children.
    pub stacks: Vec<StackNode>,
    /// Files that faults and reads touched, by [`MappedFileId`].
    pub files: Vec<MappedFile>,
    /// Block devices by [`DeviceId`].
    pub devices: Vec<BlockDevice>,
    /// Names of frames; a frame without an entry is not resolved (yet).
    pub names: FxHashMap<FrameId, FrameName>,
    /// Texts of source files by path, as [`SourceFrame::file`] spells it; only with `--include-source`.
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
    /// Why it ended; `None`: the recorder was killed.
    pub end_reason: Option<String>,
    /// Wait status of the command, if it ended.
    pub command_status: Option<i32>,
    /// `uname -r`
    pub kernel: String,
    /// `uname -m`
    pub arch: String,
    /// CPUs online.
    pub cpus: u32,
    /// Samples per second and CPU.
    pub sample_hz: u32,
    /// `cycles` or `cpu-clock`.
    pub sample_event: String,
    /// Bytes of stack copied at most with each sample.
    pub stack_copy: u32,
    /// How each hook was attached.
    pub hooks: Vec<HookStatus>,
    /// Losses by name; only those above zero.
    pub losses: Vec<(String, u64)>,
    /// How the user stacks ended, per module of the outermost frame that was reached.
    pub stack_ends: Vec<StackEnds>,
    /// The same of page faults: a storm of them would drown the samples.
    #[serde(default)]
    pub fault_stack_ends: Vec<StackEnds>,
    /// The same of waits.
    #[serde(default)]
    pub wait_stack_ends: Vec<StackEnds>,
    /// How the walks in the kernel fared.
    pub walks: Walks,
    /// How many samples went into each one that was kept (1: all are in the profile).
    pub sample_thinning: u32,
    /// Samples before thinning.
    pub samples_seen: u64,
    /// Page faults before any were folded into counters.
    pub faults_seen: u64,
    /// Waits, each of several that one fact stands for, before any were folded into counters.
    #[serde(default)]
    pub waits_seen: u64,
    /// Page faults that are no facts of their own in the profile any more, by thread and class.
    #[serde(default)]
    pub folded_faults: Vec<FoldedFaults>,
    /// The same of pages that were read, by file.
    #[serde(default)]
    pub folded_reads: Vec<FoldedReads>,
    /// Waits that are no facts of their own in the profile any more, by thread and reason.
    #[serde(default)]
    pub folded_waits: Vec<FoldedWaits>,
    /// Block requests before any were folded into sums.
    #[serde(default)]
    pub requests_seen: u64,
    /// Block requests that are no facts of their own in the profile any more, by device and operation.
    #[serde(default)]
    pub folded_requests: Vec<FoldedRequests>,
    /// Sum of the samples' and the exits' on-CPU time, in ns, before thinning.
    pub cpu_time_seen: u64,
    /// What the recording itself cost; `None`: the recorder was killed, or is of an older version.
    #[serde(default)]
    pub cost: Option<Cost>,
    /// Rows that stand for several threads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crowds: Vec<Crowd>,
    /// Notes for the person, each a sentence with its remedy.
    pub notes: Vec<String>,
}

/// User stacks that were walked in the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Walks {
    /// How they ended, and how many samples had such a one; a copy of the stack takes over where a walk ends early.
    pub ends: Vec<(String, u64)>,
    /// Distinct stacks that were sent, kernel stacks too.
    pub stacks: u64,
    /// Stacks that were sent again: the table of those sent was full.
    pub resent: u64,
    /// With `--check-walks`: walks that framehop agrees with, and others.
    pub checked: Option<(u64, u64)>,
}

/// User stacks that ended the same way in the same module.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StackEnds {
    /// Display name of the module of the outermost frame.
    pub module: String,
    /// `None`: complete.
    pub reason: Option<TruncationReason>,
    /// How many samples, or faults.
    pub samples: u64,
}

/// One life of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Thread group id.
    pub pid: u32,
    /// Base name of the program, or the thread's name.
    pub name: String,
    /// Path of the program, empty if it never called exec and its parent's is unknown.
    pub path: String,
    /// Arguments; may be cut. Its exec and those that it forks share them.
    pub command_line: Arc<Vec<String>>,
    /// Birth, or the recording's start.
    pub start: Timestamp,
    /// It was alive when the recording began.
    pub existed: bool,
    /// Death; `None`: it outlived the recording.
    pub end: Option<Timestamp>,
    /// Wait status at its end.
    pub exit_code: Option<u32>,
    /// Who created it, if recorded.
    pub parent: Option<ProcessId>,
    /// Its first thread.
    pub main_thread: Option<ThreadId>,
}

impl Process {
    /// A process of which only the birth is known.
    pub fn born(pid: u32, name: String, start: Timestamp) -> Self {
        Self {
            pid,
            name,
            path: String::new(),
            command_line: Arc::default(),
            start,
            existed: false,
            end: None,
            exit_code: None,
            parent: None,
            main_thread: None,
        }
    }
}

/// One life of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Its process.
    pub process: ProcessId,
    /// Thread id.
    pub tid: u32,
    /// Its last name.
    pub name: String,
    /// It is its process's first thread.
    pub is_main: bool,
    /// Birth, or the recording's start.
    pub start: Timestamp,
    /// Death; `None`: it outlived the recording.
    pub end: Option<Timestamp>,
    /// On-CPU time after its last sample, in ns.
    pub cpu_time_after_last_sample: u64,
    /// On-CPU time of its whole life as the kernel counts it, in ns.
    pub sum_exec_runtime: Option<u64>,
    /// Minor faults of its whole life, if it ended.
    pub minor_faults: Option<u64>,
    /// Major faults of its whole life, if it ended.
    pub major_faults: Option<u64>,
    /// What became of its faults, if it ended and they were watched.
    pub faults: Option<fault::FaultAccount>,
}

impl Thread {
    /// One of which nothing is known yet but its beginning.
    pub fn born(process: ProcessId, tid: u32, name: String, start: Timestamp) -> Self {
        Self {
            process,
            tid,
            name,
            is_main: false,
            start,
            end: None,
            cpu_time_after_last_sample: 0,
            sum_exec_runtime: None,
            minor_faults: None,
            major_faults: None,
            faults: None,
        }
    }
}

/// A CPU sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleFact {
    /// When.
    pub time: Timestamp,
    /// Whose.
    pub thread: ThreadId,
    /// Innermost frame of user and kernel stack together.
    pub stack: Option<StackId>,
    /// On-CPU time of the thread since its previous sample.
    pub cpu_time: Duration,
    /// The CPU was in the kernel.
    pub in_kernel: bool,
    /// How many samples it stands for (1 unless thinned).
    pub weight: u32,
}

/// Something with a name at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// When it began or happened.
    pub start: Timestamp,
    /// When it ended, for an interval.
    pub end: Option<Timestamp>,
    /// On which thread.
    pub thread: ThreadId,
    /// Its backtrace, if it has one.
    pub stack: Option<StackId>,
    /// What.
    pub kind: MarkKind,
}

/// What a [`Mark`] says.
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
}
