//! What to record, and how: options that the command line has checked.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::servers::NameServers;
use crate::capture::hooks::disks::BlockMode;
use crate::capture::hooks::faults::Faults;
use crate::capture::hooks::governor::Limit;
use crate::capture::hooks::waits::OffCpu;
use crate::capture::proc::selection::Selection;

/// Highest supported sampling rate in Hz, for the kernel's timers and the ring buffer.
pub const RATE_LIMIT: u32 = 20_000;
/// The largest stack copy, in bytes: the largest class of [`profiler_common::stack::STACK_CLASSES`].
pub const STACK_COPY_LIMIT: u32 = 64 << 10;

/// What to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A command to run.
    Command(Vec<OsString>),
    /// Running processes.
    Pids(Vec<u32>),
    /// The whole system, until the command ends if there is one.
    System(Option<Vec<OsString>>),
    /// Threads by what they are, until the command ends if there is one.
    Selected(Box<Selection>, Option<Vec<OsString>>),
}

impl Target {
    /// The command to run, if there is one.
    pub fn command(&self) -> Option<&[OsString]> {
        match self {
            Self::Command(command) => Some(command),
            Self::System(command) | Self::Selected(_, command) => command.as_deref(),
            Self::Pids(_) => None,
        }
    }
}

/// Checked options of `ngmi record`.
#[allow(clippy::struct_excessive_bools)] // Each is a command-line flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordOptions {
    /// What to record.
    pub target: Target,
    /// Output file.
    pub output: PathBuf,
    /// Samples per second and CPU, 1 to [`RATE_LIMIT`].
    pub rate: u32,
    /// When to stop recording.
    pub duration: Option<Duration>,
    /// User to run the command as.
    pub user: Option<String>,
    /// File to keep the event log in.
    pub keep_events: Option<PathBuf>,
    /// Maximum stack copy in bytes, at most [`STACK_COPY_LIMIT`].
    pub stack_copy: u32,
    /// Copy each stack even if it was walked, and compare both results.
    pub check_walks: bool,
    /// Measure the time in our eBPF programs all the time.
    pub self_account: bool,
    /// Leave out what costs more than this.
    pub max_overhead: Option<Limit>,
    /// Which page faults to record, and by which hooks.
    pub faults: Faults,
    /// Which waits to record.
    pub off_cpu: OffCpu,
    /// Which block requests to record.
    pub block: BlockMode,
    /// Turn off fault-around during the recording.
    pub exact_touch: bool,
    /// Let Firefox name its JIT code.
    pub firefox_jit: bool,
    /// Whether Firefox's own profiler collects markers.
    pub gecko: Gecko,
    /// State of the page cache at the start of the command.
    pub page_cache: Option<PageCache>,
    /// Folders to read sources from, in addition to the default ones.
    pub source_roots: Vec<PathBuf>,
    /// Servers for names that this machine does not have.
    pub servers: NameServers,
    /// How the result is reported.
    pub result: ResultOptions,
}

/// Whether Firefox's own profiler collects markers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gecko {
    /// If the command is Firefox.
    Auto,
    /// Whatever the command is: it may start Firefox.
    On,
    /// As `On`, with markers of the messages between Firefox's processes.
    Ipc,
    /// Never.
    Off,
}

/// State of the page cache at the start of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageCache {
    /// Cold or warm.
    pub wanted: Wanted,
    /// Additional files and folders.
    pub also: Vec<PathBuf>,
}

/// Cold or warm page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Evict the files of the command.
    Cold,
    /// Drop everything that can be dropped; root only.
    ColdSystem,
    /// Read the files of the command.
    Warm,
}

/// Checked options of the report at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultOptions {
    /// Print JSON.
    pub json: bool,
    /// Fail if events were lost.
    pub fail_on_loss: bool,
    /// Maximum number of samples in the profile.
    pub max_samples: u32,
    /// Include the sources of hot functions in the profile.
    pub include_source: bool,
}
