//! The registry of losses: each kind of loss has a name, a per-CPU counter in the kernel or a counter
//! in user space, a line at the end of `record`, and an entry in the profile.

/// A kind of loss.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Loss {
    /// The ring for task events was full.
    TaskRingFull = 0,
    /// The bulk ring was full: a sample was not recorded.
    SampleRingFull = 1,
    /// The table of recorded threads was full: a thread was not recorded.
    ThreadTableFull = 2,
    /// The kernel skipped a program because it was already running on that CPU (recursion misses).
    ProgramMissed = 3,
    /// `PERF_RECORD_LOST`: mapping records that did not fit in perf's own ring.
    PerfRecordLost = 4,
    /// The sampling event was throttled by the kernel.
    SampleThrottled = 5,
    /// A record could not be written to the event log (disk full, limit reached).
    LogWriteFailed = 6,
    /// A chunk of the event log was damaged and skipped.
    LogDamaged = 7,
    /// An event arrived too late to be sorted.
    EventLate = 8,
    /// The bulk ring was full: a stack was not sent, and its sample has none.
    StackRingFull = 9,
    /// The table of address spaces was full: stacks of a process were not walked in the kernel.
    SpaceTableFull = 10,
    /// A sample refers to a stack that is not in the log (its chunk was damaged).
    StackUnknown = 11,
    /// Programs that interrupted each other used all walks of a CPU: an event has no stack.
    WalkerBusy = 12,
    /// The bulk ring was full: a page fault was not recorded.
    FaultRingFull = 13,
    /// Faults were nested too deep: the outermost was dropped.
    FaultNested = 14,
    /// The bulk ring was full: pages that were read were not recorded.
    PagesRingFull = 15,
    /// The bulk ring was full: a wait was not recorded.
    WaitRingFull = 16,
    /// The bulk ring was full: a bio or a request was not recorded.
    BlockRingFull = 17,
    /// The table of requests in flight was full: the times of a request are unknown.
    RequestTableFull = 18,
    /// The bulk ring was full: the name of a file was not recorded.
    NameRingFull = 19,
    /// The completion of a block request was missed.
    RequestEndMissed = 20,
    /// A thread ran although its switch-in was not recorded, or vice versa: a wait is missing.
    SwitchMissed = 21,
    /// The kernel skipped the program that records which pages are mapped around a fault: it was running on that CPU.
    AroundMissed = 22,
}

/// Number of losses in the registry.
pub const LOSS_COUNT: usize = 23;

impl Loss {
    /// All losses, in numeric order.
    pub const ALL: [Self; LOSS_COUNT] = [
        Self::TaskRingFull,
        Self::SampleRingFull,
        Self::ThreadTableFull,
        Self::ProgramMissed,
        Self::PerfRecordLost,
        Self::SampleThrottled,
        Self::LogWriteFailed,
        Self::LogDamaged,
        Self::EventLate,
        Self::StackRingFull,
        Self::SpaceTableFull,
        Self::StackUnknown,
        Self::WalkerBusy,
        Self::FaultRingFull,
        Self::FaultNested,
        Self::PagesRingFull,
        Self::WaitRingFull,
        Self::BlockRingFull,
        Self::RequestTableFull,
        Self::NameRingFull,
        Self::RequestEndMissed,
        Self::SwitchMissed,
        Self::AroundMissed,
    ];

    /// The name for users and in machine-readable output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TaskRingFull => "task ring full",
            Self::SampleRingFull => "sample ring full",
            Self::ThreadTableFull => "thread table full",
            Self::ProgramMissed => "program missed (recursion)",
            Self::PerfRecordLost => "perf records lost",
            Self::SampleThrottled => "sampling throttled",
            Self::LogWriteFailed => "log write failed",
            Self::LogDamaged => "log chunk damaged",
            Self::EventLate => "event too late",
            Self::StackRingFull => "stack not sent (ring full)",
            Self::SpaceTableFull => "address space table full",
            Self::StackUnknown => "stack missing from the log",
            Self::WalkerBusy => "walker in use",
            Self::FaultRingFull => "fault ring full",
            Self::FaultNested => "faults nested too deep",
            Self::PagesRingFull => "pages read (ring full)",
            Self::WaitRingFull => "wait ring full",
            Self::BlockRingFull => "block request ring full",
            Self::RequestTableFull => "request table full",
            Self::NameRingFull => "file names (ring full)",
            Self::RequestEndMissed => "block request's end missed",
            Self::SwitchMissed => "switches missed",
            Self::AroundMissed => "pages mapped around faults (program missed)",
        }
    }

    /// The loss with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }
}
