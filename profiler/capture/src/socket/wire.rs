//! Messages between the recorder and the privileged helper: one JSON message per packet (`SOCK_SEQPACKET`), descriptors as `SCM_RIGHTS`.

use serde::{Deserialize, Serialize};

use base::addr::Timestamp;
use base::event::{FileId, Header, Segment};

/// Longest message, in bytes; a longer one is refused unread.
pub const MESSAGE_LIMIT: usize = 256 << 10;

/// A message from the recorder to the privileged helper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Attach and begin, with the terms of the command line. Carries one descriptor: the event log to write to.
    Start(Start),
    /// The unwind table of a file. Carries one descriptor: the table's bytes in a sealed memory file.
    Table(TableOf),
    /// A file for which no unwind table can be built: its code may keep frame pointers.
    NoTable(FileId),
    /// Detach, drain and answer [`Reply::Ended`].
    Stop,
}

/// The file that an unwind table belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableOf {
    /// The file; `None`: the kernel's `[vdso]`.
    pub file: Option<FileId>,
    /// Its path, for messages.
    pub name: String,
    /// Its executable segments.
    pub segments: Vec<Segment>,
}

/// What is known only at the start; [`crate::privilege::terms::Terms`] settles everything else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// The process that waits to become the command, if that is what is recorded.
    pub pid: Option<u32>,
    /// The command as typed, for the log's header.
    pub command: Vec<String>,
}

/// A message from the privileged helper to the recorder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Everything that could be attached is attached; the log has its header.
    Ready(Box<Header>),
    /// Nothing can be recorded: the reason and the remedy in one sentence.
    Refused(String),
    /// A file was mapped executable for the first time. Carries its descriptor, if it could be opened.
    Mapped(Mapped),
    /// A perf map of a recorded process. Carries its descriptor.
    PerfMap(PerfMap),
    /// Counts so far; about every 200 ms, with losses at most a second old.
    Progress(Progress),
    /// A problem worth reporting, although the recording continues.
    Warning(String),
    /// The log can't be written any more: the recording stops here.
    LogFailed(String),
    /// Everything is drained and written, except what the recorder appends.
    Ended(Ended),
}

/// A newly mapped executable file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapped {
    /// A process that maps it.
    pub pid: u32,
    /// The file's identity in the mapping.
    pub file: FileId,
    /// Path as the mapping spells it, lossily decoded.
    pub path: String,
    /// Why the message has no descriptor.
    pub problem: Option<String>,
    /// Its file system does not answer: do not try it again.
    pub is_silent: bool,
}

/// A perf map: names of code that a process generated at run time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerfMap {
    /// The process that wrote it.
    pub pid: u32,
    /// Path as the process sees it.
    pub path: String,
}

/// Counts so far in the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Samples written.
    pub samples: u64,
    /// Page faults written.
    pub faults: u64,
    /// Lost events of any kind.
    pub lost: u64,
    /// Size of the log in bytes.
    pub log_bytes: u64,
    /// Processes seen.
    pub processes: u32,
    /// Recorded threads that are alive.
    pub threads: u32,
}

/// The end of capturing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ended {
    /// The last counts.
    pub progress: Progress,
    /// When the last event was drained.
    pub time: Timestamp,
    /// Peak resident memory of the privileged helper, in KiB.
    pub peak_rss_kib: u64,
}
