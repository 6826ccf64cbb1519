//! The header of every record.

#[cfg(feature = "user")]
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The kind of a record; the first field of its header.
#[repr(u16)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// [`crate::sample::SampleHead`] and a copy of one of [`crate::stack::STACK_CLASSES`], or none.
    Sample = 1,
    /// [`crate::stack::StackHead`] and frames in user space.
    UserStack = 2,
    /// [`crate::stack::StackHead`] and frames in the kernel.
    KernelStack = 3,
    /// [`crate::fault::FaultHead`] and a copy, as above.
    Fault = 4,
    /// [`crate::fault::PagesRead`]
    PagesRead = 5,
    /// [`crate::switch::Wait`]
    Wait = 6,
    /// [`crate::switch::StackAheadHead`] and a copy, as above.
    StackAhead = 7,
    /// [`crate::switch::CallPath`]
    CallPath = 8,
    /// [`crate::switch::FileNameHead`] and names.
    FileName = 9,
    /// [`crate::block::Bio`]
    Bio = 10,
    /// [`crate::block::Request`]
    Request = 11,
    /// [`crate::fault::PagesPopulated`]
    PagesPopulated = 12,
    /// [`crate::task::TaskNew`]
    TaskNew = 16,
    /// [`crate::task::TaskExec`]
    TaskExec = 17,
    /// [`crate::task::TaskExit`]
    TaskExit = 18,
    /// [`crate::task::TaskRename`]
    TaskRename = 19,
    /// Only a header: the bulk ring fills quickly ([`crate::Config::doorbell`]).
    Doorbell = 20,
}

/// The start of every record.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct RecordHeader {
    /// A [`RecordKind`].
    pub kind: u16,
    /// The CPU of the event.
    pub cpu: u16,
    /// Size of the whole record in bytes, including the header.
    pub len: u32,
    /// `bpf_ktime_get_ns`: `CLOCK_MONOTONIC` in ns.
    pub time: u64,
    /// The thread group, as `getpid` returns it.
    pub pid: u32,
    /// The thread, as `gettid` returns it.
    pub tid: u32,
}

const _: () = assert!(size_of::<RecordHeader>() == 24);
