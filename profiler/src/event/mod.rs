//! The event log: everything that was captured, in the order in which it was drained. See docs/event-log.md.
//!
//! [`Event`] is what a log holds; `write` makes a log, `read` takes one apart (hostile input), `order` sorts by time.

mod block;
pub mod bytes;
pub mod cost;
mod decode;
mod encode;
mod fault;
pub mod format;
pub mod order;
pub mod read;
mod scan;
mod stack_copy;
mod switch;
pub mod write;

use std::borrow::Cow;

use profiler_common::fault::FaultCounts;
use profiler_common::stack::UserRegs;
use serde::{Deserialize, Serialize};

pub use block::{Bio, Device, DeviceName, Request};
pub use cost::{Cost, HalfCost, ProgramCost, ProgramCosts, RingCost};
pub use fault::{Attempts, Fault, FaultFile, FaultVma, MAX_ORDER, PagesRead};
pub use switch::{Call, CallPath, FileName, OpenFile, StackAhead, Wait, Waker};

use crate::addr::{Avma, FileOffset, KernelOffset, Timestamp};

/// The log's first chunk: what was recorded, where and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Version of ngmi that wrote the log.
    pub ngmi_version: String,
    /// The command as typed; empty for `-p` and `-a`.
    pub command: Vec<String>,
    /// `CLOCK_MONOTONIC` at the start of the recording.
    pub start: Timestamp,
    /// Milliseconds since 1970 at the same moment.
    pub start_unix_ms: u64,
    /// `uname -r`
    pub kernel: String,
    /// `uname -m`
    pub arch: String,
    /// Random id of this boot: kernel symbols can be read later only in the same boot.
    pub boot_id: String,
    /// Number of online CPUs.
    pub cpus: u32,
    /// Samples per second and CPU.
    pub sample_hz: u32,
    /// The event that samples: `cycles` or `cpu-clock`.
    pub sample_event: String,
    /// Bytes of stack copied at most with each sample.
    pub stack_copy: u32,
    /// What was recorded: `command`, `pids` or `system`.
    pub scope: String,
    /// How each hook was attached, for the profile-info panel.
    pub hooks: Vec<HookStatus>,
}

/// Begins [`HookStatus::hook`] of a recording during which the kernel mapped no page around a fault.
pub const EXACT_TOUCH: &str = "exact touch";

/// One hook and the tier that it got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookStatus {
    /// The noun it serves: `sample`, `task`, ...
    pub noun: String,
    /// Its name: `tp_btf/sched_switch`, `perf mmap2`, ...
    pub hook: String,
    /// Why it is not attached; `None`: attached.
    pub refused: Option<String>,
    /// What to do about a refusal.
    pub remedy: Option<String>,
}

/// The thread that an event belongs to, and when it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct At {
    /// When.
    pub time: Timestamp,
    /// Thread group.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
}

/// Which file a mapping shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct FileId {
    /// Major device number.
    pub major: u32,
    /// Minor device number.
    pub minor: u32,
    /// Inode number; 0: no file.
    pub inode: u64,
    /// Counts the files that had this number while the recording ran: a removed file's number is used again.
    #[serde(default)]
    pub generation: u32,
}

/// One event of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    /// A thread or process was born, or existed when the recording began.
    TaskNew(TaskNew),
    /// A process replaced its program.
    TaskExec(TaskExec),
    /// A thread ended.
    TaskExit(TaskExit),
    /// A thread was alive when the recording ended.
    TaskAlive {
        /// Who, and the recording's end.
        at: At,
        /// On-CPU time since the thread's last sample, in ns.
        cpu_time: u64,
    },
    /// A thread took another name.
    TaskRename {
        /// Who and when.
        at: At,
        /// The new name, bytes up to the first NUL.
        name: Vec<u8>,
    },
    /// A mapping was made, or existed when the recording began.
    Mapping(Mapping),
    /// A user stack that was walked while the program ran; later events refer to it by its key.
    UserStack(UserStack<'a>),
    /// A kernel stack; later events refer to it by its key.
    KernelStack(KernelStack<'a>),
    /// A CPU sample.
    Sample(Sample<'a>),
    /// A page fault.
    Fault(Fault<'a>),
    /// Pages that were read into the page cache.
    PagesRead(PagesRead),
    /// A thread did not run.
    Wait(Wait),
    /// The stack of a record that follows later.
    StackAhead(StackAhead<'a>),
    /// The path that a system call was called with, whose wait follows later.
    CallPath(CallPath),
    /// The name of a file that later events refer to.
    FileName(FileName),
    /// A thread handed a bio to the block layer.
    Bio(Bio),
    /// A block request is complete.
    Request(Request),
    /// The name of a block device, and its statistics before and after.
    DeviceName(DeviceName),
    /// A loss counter's value since the start of the recording (the last one counts).
    Loss {
        /// Number in [`profiler_common::Loss`].
        loss: u32,
        /// How many so far.
        count: u64,
    },
    /// Everything earlier than this time has been written.
    Watermark(Timestamp),
    /// The name of a kernel function that samples hit.
    KernelSymbol {
        /// The address that was looked up; for a return address, the one before it.
        offset: KernelOffset,
        /// Start of the function.
        start: KernelOffset,
        /// Its name, with ` [module]` for a module's.
        name: Vec<u8>,
    },
    /// What was learned about a mapped file.
    Module(Module),
    /// A file that the program wrote about itself, whole.
    Attachment(Attachment),
    /// What the recording itself cost.
    Cost(Box<Cost>),
    /// The recording ended in order; absent after a crash.
    End(End),
    /// Names, lines and unwound stacks: the last chunk of a log that needs neither binaries nor this machine.
    Resolved(Vec<u8>),
}

/// Birth of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskNew {
    /// The new thread and its birth time (start time of a thread that existed already).
    pub at: At,
    /// Creator: thread group and thread (0: unknown).
    pub parent: (u32, u32),
    /// It existed when the recording began; an `exec` path and command line may follow as [`TaskExec`].
    pub existed: bool,
    /// Clone flags.
    pub clone_flags: u64,
    /// Name, bytes up to the first NUL.
    pub name: Vec<u8>,
}

/// Exec.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskExec {
    /// The process after exec (tid = pid).
    pub at: At,
    /// The program was running when the recording began: mappings stay.
    pub existed: bool,
    /// The thread that called execve.
    pub old_tid: u32,
    /// Name after exec.
    pub name: Vec<u8>,
    /// Path of the program as execve got it.
    pub path: Vec<u8>,
    /// Arguments separated by NUL; may be cut.
    pub command_line: Vec<u8>,
}

/// End of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskExit {
    /// Who and when.
    pub at: At,
    /// Wait status.
    pub exit_code: u32,
    /// On-CPU time since the thread's last sample, in ns.
    pub cpu_time: u64,
    /// The kernel's own on-CPU figure for the whole life, in ns (0: unknown).
    pub sum_exec_runtime: u64,
    /// Minor faults of the whole life.
    pub minor_faults: u64,
    /// Major faults of the whole life.
    pub major_faults: u64,
    /// What became of them, if they were watched.
    pub faults: Option<FaultCounts>,
}

/// `PROT_*` bits of [`Mapping::protection`].
pub const PROT_EXEC: u32 = 4;

/// A mapping of a process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mapping {
    /// Who and when.
    pub at: At,
    /// First address.
    pub start: Avma,
    /// Bytes.
    pub len: u64,
    /// Offset of the first byte in the file.
    pub offset: FileOffset,
    /// The file; inode 0 for anonymous memory.
    pub file: FileId,
    /// `PROT_*`
    pub protection: u32,
    /// `MAP_*`
    pub flags: u32,
    /// Path or pseudo name as the kernel prints it (`[vdso]`, `//anon`, `/memfd:x (deleted)`).
    pub path: Vec<u8>,
    /// Build id, if it was known at once (`PROCMAP_QUERY`).
    pub build_id: Vec<u8>,
}

/// A sample of a thread on a CPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sample<'a> {
    /// Who and when.
    pub at: At,
    /// CPU number.
    pub cpu: u16,
    /// On-CPU time of the thread since its previous sample, in ns.
    pub cpu_time: u64,
    /// Where it was.
    pub stacks: Stacks<'a>,
}

/// Where a thread was at an event, as the kernel side captured it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stacks<'a> {
    /// `profiler_common::stack::FLAG_*`
    pub flags: u32,
    /// Key of the [`UserStack`], as far as it was walked; 0: none.
    pub user: u64,
    /// Key of the [`KernelStack`]; 0: none.
    pub kernel: u64,
    /// User registers of the frame where the walk stopped (the leaf's, if there was none), valid with `FLAG_USER_REGS`.
    pub regs: UserRegs,
    /// The user stack from `regs.sp` upward; empty where the walk reached the first frame.
    pub copy: Cow<'a, [u8]>,
}

/// A user stack as the kernel side walked it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UserStack<'a> {
    /// What events call it.
    pub key: u64,
    /// Number of the [`profiler_common::unwind::WalkEnd`].
    pub end: u8,
    /// Leaf first: instruction pointers of the leaf and of frames that a signal interrupted (these with
    /// [`profiler_common::stack::INTERRUPTED`]), return addresses of all others.
    pub frames: Cow<'a, [u64]>,
}

/// A kernel stack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KernelStack<'a> {
    /// What events call it.
    pub key: u64,
    /// Leaf first.
    pub frames: Cow<'a, [KernelOffset]>,
}

/// What is known about a mapped file, so that a log can be read where the file is not.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Module {
    /// The file.
    pub file: FileId,
    /// Its path as the mapping spelled it.
    pub path: String,
    /// Build id, empty if it has none.
    pub build_id: Vec<u8>,
    /// Loadable segments.
    pub segments: Vec<Segment>,
    /// Entry point.
    pub entry: u64,
    /// Why the file could not be read.
    pub problem: Option<String>,
}

/// One loadable segment of an ELF file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Segment {
    /// Offset in the file.
    pub offset: u64,
    /// Address in the file's own terms.
    pub svma: u64,
    /// Bytes in the file.
    pub file_size: u64,
}

/// What kind of file an [`Attachment`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttachmentKind {
    /// `marker-PID.txt`: markers that the program wrote.
    Markers = 1,
    /// `perf-PID.map`: names of JIT code.
    PerfMap = 2,
    /// `jit-PID.dump`: JIT code with its times.
    JitDump = 3,
}

/// A file that the program wrote about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// What it is.
    pub kind: AttachmentKind,
    /// The process that wrote it, as the recorder's pid namespace numbers it.
    pub pid: u32,
    /// Where it was.
    pub path: Vec<u8>,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Why and when the recording ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct End {
    /// When.
    pub time: Timestamp,
    /// In words: `command exited`, `interrupted`, `duration reached`, ...
    pub reason: String,
    /// Wait status of the command, if it ended.
    pub status: Option<i32>,
}
