//! The registry of losses: each kind of loss has a name, a per-CPU counter in the kernel or a counter
//! in user space, a line at the end of `record`, and an entry in the profile.

use crate::numbered;

numbered! {
    /// A kind of loss.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Loss: u32 {
        /// The ring for task events was full.
        TaskRingFull = 0 => "task ring full",
        /// The bulk ring was full: a sample was not recorded.
        SampleRingFull = 1 => "sample ring full",
        /// The table of recorded threads was full: a thread was not recorded.
        ThreadTableFull = 2 => "thread table full",
        /// The kernel skipped a program because it was already running on that CPU (recursion misses).
        ProgramMissed = 3 => "program missed (recursion)",
        /// `PERF_RECORD_LOST`: mapping records that did not fit in perf's own ring.
        PerfRecordLost = 4 => "perf records lost",
        /// The sampling event was throttled by the kernel.
        SampleThrottled = 5 => "sampling throttled",
        /// A record could not be written to the event log (disk full, limit reached).
        LogWriteFailed = 6 => "log write failed",
        /// A chunk of the event log was damaged and skipped.
        LogDamaged = 7 => "log chunk damaged",
        /// An event arrived too late to be sorted.
        EventLate = 8 => "event too late",
        /// The bulk ring was full: a stack was not sent, and its sample has none.
        StackRingFull = 9 => "stack not sent (ring full)",
        /// The table of address spaces was full: stacks of a process were not walked in the kernel.
        SpaceTableFull = 10 => "address space table full",
        /// A sample refers to a stack that is not in the log (its chunk was damaged).
        StackUnknown = 11 => "stack missing from the log",
        /// Programs that interrupted each other used all walks of a CPU: an event has no stack.
        WalkerBusy = 12 => "walker in use",
        /// The bulk ring was full: a page fault was not recorded.
        FaultRingFull = 13 => "fault ring full",
        /// Faults were nested too deep: the outermost was dropped.
        FaultNested = 14 => "faults nested too deep",
        /// The bulk ring was full: pages that were read were not recorded.
        PagesRingFull = 15 => "pages read (ring full)",
        /// The bulk ring was full: a wait was not recorded.
        WaitRingFull = 16 => "wait ring full",
        /// The bulk ring was full: a bio or a request was not recorded.
        BlockRingFull = 17 => "block request ring full",
        /// The table of requests in flight was full: the times of a request are unknown.
        RequestTableFull = 18 => "request table full",
        /// The bulk ring was full: the name of a file was not recorded.
        NameRingFull = 19 => "file names (ring full)",
        /// The completion of a block request was missed.
        RequestEndMissed = 20 => "block request's end missed",
        /// A thread ran although its switch-in was not recorded, or vice versa: a wait is missing.
        SwitchMissed = 21 => "switches missed",
        /// Only in logs up to version 6: the kernel skipped the program that recorded which pages are mapped around a fault.
        AroundMissed = 22 => "pages mapped around faults (program missed)",
        /// The table of cgroups and processes to record was full: threads of one were not recorded.
        SelectionFull = 23 => "table of cgroups to record full",
        /// There were too many cgroups, or their paths were too long: those of some processes are not in the log.
        CgroupLeftOut = 24 => "cgroups of processes left out",
        /// A system call mapped more pages at once than are looked at.
        PopulatedCut = 25 => "large ranges mapped by system calls (cut)",
    }
}

/// Number of losses in the registry.
pub const LOSS_COUNT: usize = Loss::ALL.len();
