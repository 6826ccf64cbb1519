//! The event log: all captured events, in the order in which they were drained. See
//! docs/event-log.md.
//!
//! [`Event`] is an entry of the log; `write` writes a log, `read` reads one (untrusted input),
//! `order` sorts by time.

mod block;
pub mod bytes;
pub mod cost;
mod decode;
mod encode;
mod fault;
mod fields;
pub mod format;
mod mapping;
pub mod order;
pub mod owners;
pub mod read;
mod scan;
mod stack_copy;
mod switch;
pub mod usage;
pub mod write;

use std::borrow::Cow;

use profiler_common::fault::FaultCounts;
use profiler_common::stack::{REPRESENTS_MASK, REPRESENTS_SHIFT, UserRegs};
use profiler_common::thinning::MOST;
use serde::{Deserialize, Serialize};

pub use block::{Bio, Device, DeviceName, Request};
pub use cost::{Cost, ProcessCost, ProgramCost, ProgramCosts, RingCost, Thinning, ThinningStep};
pub use fault::{Attempts, Fault, FaultFile, FaultVma, MAX_ORDER, OtherFaults, PagesPopulated, PagesRead};
pub use mapping::{MAP_SHARED, Mapping, PROT_EXEC};
pub use owners::Owners;
pub use switch::{Call, CallPath, FileName, KernelLock, LockId, OpenFile, StackAhead, Wait, Waker};
pub use usage::Usage;

use crate::addr::{KernelOffset, Timestamp};

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
    /// Page size of the machine in bytes; 0: unknown, in logs of earlier versions.
    #[serde(default)]
    pub page_size: u64,
    /// Random id of this boot: kernel symbols can be read later only in the same boot.
    pub boot_id: String,
    /// Number of online CPUs.
    pub cpus: u32,
    /// Samples per second and CPU.
    pub sample_hz: u32,
    /// The sampling event: `cycles` or `cpu-clock`.
    pub sample_event: String,
    /// Maximum bytes of stack copied with each sample.
    pub stack_copy: u32,
    /// What was recorded: `command`, `pids` or `system`.
    pub scope: String,
    /// How each hook was attached, for the profile-info panel.
    pub hooks: Vec<HookStatus>,
}

/// Prefix of [`HookStatus::hook`] for a recording with fault-around turned off.
pub const EXACT_TOUCH: &str = "exact touch";

/// A hook and its status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookStatus {
    /// The event kind of the hook: `sample`, `task`, ...
    pub noun: String,
    /// Its name: `tp_btf/sched_switch`, `perf mmap2`, ...
    pub hook: String,
    /// Why it is not attached; `None`: attached.
    pub refused: Option<String>,
    /// Remedy for a refusal.
    pub remedy: Option<String>,
}

/// The thread of an event, and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct At {
    /// Time of the event.
    pub time: Timestamp,
    /// Thread group.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
}

/// Identity of a mapped file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct FileId {
    /// Major device number.
    pub major: u32,
    /// Minor device number.
    pub minor: u32,
    /// Inode number; 0: no file.
    pub inode: u64,
    /// Generation of the number: the kernel reuses a removed file's number, and this counts its
    /// uses during the recording.
    #[serde(default)]
    pub generation: u32,
}

/// One event of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    /// A thread or process started, or existed when the recording began.
    TaskNew(TaskNew),
    /// A process replaced its program.
    TaskExec(TaskExec),
    /// A thread ended.
    TaskExit(TaskExit),
    /// A thread was alive when the recording ended.
    TaskAlive {
        /// The thread, and the end of the recording.
        at: At,
        /// CPU time since the thread's last sample, in ns.
        cpu_time: u64,
    },
    /// A thread changed its name.
    TaskRename {
        /// The thread, and the time of the change.
        at: At,
        /// The new name, bytes up to the first NUL.
        name: Vec<u8>,
    },
    /// A mapping was created, or existed when the recording began.
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
    /// Pages that a system call mapped.
    PagesPopulated(PagesPopulated),
    /// A thread was off-CPU.
    Wait(Wait),
    /// The stack of a record that follows later.
    StackAhead(StackAhead<'a>),
    /// The path argument of a system call whose wait follows later.
    CallPath(CallPath),
    /// The name of a file that later events refer to.
    FileName(FileName),
    /// A thread submitted a bio to the block layer.
    Bio(Bio),
    /// A block request has completed.
    Request(Request),
    /// The name of a block device, and its statistics before and after.
    DeviceName(DeviceName),
    /// A loss counter's value since the start of the recording; the last one counts.
    Loss {
        /// Number in [`profiler_common::Loss`].
        loss: u32,
        /// Number of losses so far.
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
    /// Information about a mapped file.
    Module(Module),
    /// A file that the program wrote about itself, complete.
    Attachment(Attachment),
    /// The cost of the recording.
    Cost(Box<Cost>),
    /// Cgroups of processes, and names of containers.
    Owners(Box<Owners>),
    /// Memory and pressure of cgroups.
    Usage(Box<Usage>),
    /// The recording ended normally; absent after a crash.
    End(End),
    /// Names, lines and unwound stacks: the last chunk of a log that requires neither binaries nor
    /// this machine.
    Resolved(Vec<u8>),
}

/// Start of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskNew {
    /// The new thread and its start time, even if it existed already.
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
    /// The program was running when the recording began: mappings are kept.
    pub existed: bool,
    /// The thread that called execve.
    pub old_tid: u32,
    /// Name after exec.
    pub name: Vec<u8>,
    /// Path of the program as passed to execve.
    pub path: Vec<u8>,
    /// Arguments separated by NUL; may be truncated.
    pub command_line: Vec<u8>,
}

/// End of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskExit {
    /// The thread, and its end.
    pub at: At,
    /// Wait status.
    pub exit_code: u32,
    /// CPU time since the thread's last sample, in ns.
    pub cpu_time: u64,
    /// The kernel's total CPU time of the thread, in ns (0: unknown).
    pub sum_exec_runtime: u64,
    /// Minor faults in the thread's lifetime.
    pub minor_faults: u64,
    /// Major faults in the thread's lifetime.
    pub major_faults: u64,
    /// What happened to them, if faults were traced.
    pub faults: Option<FaultCounts>,
}

/// A sample of a thread on a CPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sample<'a> {
    /// The thread, and the time of the sample.
    pub at: At,
    /// CPU number.
    pub cpu: u16,
    /// CPU time of the thread since its previous sample, in ns.
    pub cpu_time: u64,
    /// Its stack.
    pub stacks: Stacks<'a>,
}

/// The stack of a thread at an event, as captured by the eBPF programs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stacks<'a> {
    /// `profiler_common::stack::FLAG_*`
    pub flags: u32,
    /// Key of the [`UserStack`], as far as it was walked; 0: none.
    pub user: u64,
    /// Key of the [`KernelStack`]; 0: none.
    pub kernel: u64,
    /// User registers of the frame where the walk stopped (of the leaf without a walk), valid with
    /// `FLAG_USER_REGS`.
    pub regs: UserRegs,
    /// The user stack from `regs.sp` upward; empty if the walk reached the first frame.
    pub copy: Cow<'a, [u8]>,
}

impl Stacks<'_> {
    /// Binary logarithm of the number of samples that a sample with these stacks represents.
    pub fn represents(&self) -> u32 {
        (self.flags >> REPRESENTS_SHIFT & REPRESENTS_MASK).min(MOST)
    }
}

/// A user stack as walked by the eBPF programs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UserStack<'a> {
    /// Key in later events.
    pub key: u64,
    /// Number of the [`profiler_common::unwind::WalkEnd`].
    pub end: u8,
    /// Leaf first: instruction pointers of the leaf and of frames that a signal interrupted (marked
    /// with [`profiler_common::stack::INTERRUPTED`]), return addresses of all others.
    pub frames: Cow<'a, [u64]>,
}

/// A kernel stack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KernelStack<'a> {
    /// Key in later events.
    pub key: u64,
    /// Leaf first.
    pub frames: Cow<'a, [KernelOffset]>,
}

/// Information about a mapped file, so a log can be read without the file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Module {
    /// The file.
    pub file: FileId,
    /// Its path in the mapping.
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

/// A loadable segment of an ELF file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Segment {
    /// Offset in the file.
    pub offset: u64,
    /// Address in the ELF file.
    pub svma: u64,
    /// Length in the file, in bytes.
    pub file_size: u64,
}

/// Kinds of [`Attachment`] files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttachmentKind {
    /// `marker-PID.txt`: markers that the program wrote.
    Markers = 1,
    /// `perf-PID.map`: names of JIT code.
    PerfMap = 2,
    /// `jit-PID.dump`: JIT code with its times.
    JitDump = 3,
    /// `gecko-PID.json`: the profile of Firefox's own profiler.
    Gecko = 4,
}

/// A file that the program wrote about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// The kind of file.
    pub kind: AttachmentKind,
    /// Id of the process that wrote it, in the recorder's pid namespace.
    pub pid: u32,
    /// Its path.
    pub path: Vec<u8>,
    /// Its contents.
    pub bytes: Vec<u8>,
}

/// Why and when the recording ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct End {
    /// Time of the end.
    pub time: Timestamp,
    /// The reason in words: `command exited`, `interrupted`, `duration reached`, ...
    pub reason: String,
    /// Wait status of the command, if it ended.
    pub status: Option<i32>,
}
