//! What the two halves say to each other: one JSON message a packet (`SOCK_SEQPACKET`), descriptors as `SCM_RIGHTS`.

use serde::{Deserialize, Serialize};

use crate::addr::Timestamp;
use crate::event::{FileId, Header, Segment};

/// Longest message, in bytes; a longer one is refused unread.
pub const MESSAGE_LIMIT: usize = 256 << 10;

/// record → capture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Attach and begin, by the terms of the command line. Carries one descriptor: the event log to write to.
    Start(Start),
    /// The unwind table of a file. Carries one descriptor: the table's bytes in a sealed memory file.
    Table(TableOf),
    /// A file that no unwind table can be made for: its code may keep frame pointers.
    NoTable(FileId),
    /// Detach, drain and answer [`Reply::Ended`].
    Stop,
}

/// Whose unwind table it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableOf {
    /// The file; `None`: the kernel's `[vdso]`.
    pub file: Option<FileId>,
    /// Its path, for messages.
    pub name: String,
    /// Its executable segments.
    pub segments: Vec<Segment>,
}

/// What is there only now; everything else is settled by [`super::terms::Terms`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// The process that waits to become the command, if that is what is recorded.
    pub pid: Option<u32>,
    /// The command as typed, for the log's header.
    pub command: Vec<String>,
}

/// capture → record.
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
    /// So far; about every 200 ms, with the losses of the last second.
    Progress(Progress),
    /// A recording that goes on has a problem worth telling.
    Warning(String),
    /// The log can't be written any more: recording goes no further.
    LogFailed(String),
    /// Everything is drained and written, except what the record half appends.
    Ended(Ended),
}

/// A newly mapped executable file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapped {
    /// A process that maps it.
    pub pid: u32,
    /// The file as the mapping names it.
    pub file: FileId,
    /// Path as the mapping spells it, lossy.
    pub path: String,
    /// Why no descriptor comes along.
    pub problem: Option<String>,
    /// Its file system does not answer: nobody is to ask it again.
    pub is_silent: bool,
}

/// A perf map: names of code that a process made at run time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerfMap {
    /// The process that wrote it.
    pub pid: u32,
    /// Path as the process sees it.
    pub path: String,
}

/// Counts so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Samples written.
    pub samples: u64,
    /// Page faults written.
    pub faults: u64,
    /// Everything lost.
    pub lost: u64,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Processes seen.
    pub processes: u32,
    /// Recorded threads that are alive.
    pub threads: u32,
}

/// The end of capturing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ended {
    /// Last counts.
    pub progress: Progress,
    /// When the last event was drained.
    pub time: Timestamp,
    /// Peak resident memory of the capture half, in KiB.
    pub peak_rss_kib: u64,
}
