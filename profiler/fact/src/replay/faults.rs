//! Converts a page fault's record to a fact: class, access, parts, failure. Pure; docs/page-faults.md has the rules.

use std::time::Duration;

use profiler_common::fault::{
    FAULT_EXCEPTION, FAULT_FAILED, FAULT_HANDLED, FAULT_HUGE, FAULT_MAJOR, FAULT_REMOTE, FAULT_STARTED,
    FAULT_SWITCH_MISSED, asked, error_code, returned,
};
use profiler_common::stack::FLAG_IN_KERNEL;

use crate::fault::{Access, Failure, FaultClass, FaultFact, FaultWaits, FilePlace, Mapped, OtherFaults};
use crate::{StackId, ThreadId};
use base::event::{Fault, FaultVma};
use task::space::{MappedFile, Region};

/// `MMAP_LOTSAMISS` of mm/filemap.c: above this many misses the kernel does not read around a fault.
const LOTS_OF_MISSES: u32 = 100;
/// `FAULT_FLAG_UNSHARE`: a page to be read only must be the process's own.
const UNSHARE: u32 = 0x400;
const SIGBUS: u32 = 7;
const SIGSEGV: u32 = 11;

/// Bits of `vm_flags` (include/linux/mm.h), the same from 6.1 to 7.x.
mod vm {
    pub const WRITE: u64 = 0x2;
    pub const SHARED: u64 = 0x8;
    pub const UFFD_MISSING: u64 = 0x200;
    pub const PFNMAP: u64 = 0x400;
    pub const UFFD_WP: u64 = 0x1000;
    pub const IO: u64 = 0x4000;
    pub const HUGETLB: u64 = 0x40_0000;
}

/// Magic numbers of file systems (include/uapi/linux/magic.h).
mod magic {
    pub const TMPFS: u32 = 0x0102_1994;
    pub const HUGETLBFS: u32 = 0x9584_58f6;
}

/// The touched memory, as far as it matters for a fault's class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a bit of the mapping")]
pub struct Memory {
    /// A file is mapped there.
    file: bool,
    /// Its file system keeps files in memory only.
    shmem: bool,
    /// Writes go to the file.
    shared: bool,
    /// The mapping is writable.
    writable: bool,
    /// It consists of huge pages.
    huge: bool,
    /// A program supplies missing pages.
    supplied: bool,
    /// A program monitors writes.
    watched: bool,
    /// A device's memory, or the kernel's: neither a file page nor the process's own.
    foreign: bool,
}

impl Memory {
    /// From the kernel's mapping, and the time line's mapping there, which alone knows names.
    pub fn of_vma(vma: &FaultVma, mapped: Option<&MappedFile>) -> Self {
        let has = |bit| vma.flags & bit != 0;
        let shared = has(vm::SHARED);
        // The driver of /dev/zero makes a private mapping ordinary memory (drivers/char/mem.c: mmap_zero).
        let zeroes = !shared && mapped.is_some_and(is_zeroes);
        let file = vma.file.filter(|_| !zeroes);
        let magic = file.map(|file| file.magic);
        Self {
            file: file.is_some(),
            shmem: magic == Some(magic::TMPFS),
            shared,
            writable: has(vm::WRITE),
            huge: has(vm::HUGETLB) || magic == Some(magic::HUGETLBFS),
            supplied: has(vm::UFFD_MISSING),
            watched: has(vm::UFFD_WP),
            foreign: has(vm::PFNMAP | vm::IO) || (file.is_none() && mapped.is_some_and(MappedFile::is_vdso)),
        }
    }

    /// From the time line.
    pub fn of_region(region: &Region, mapped: &MappedFile) -> Self {
        let zeroes = !region.shared && is_zeroes(mapped);
        // Only the name indicates it: perf's records do not name the file system.
        let in_memory = ["/memfd:", "/dev/shm/", "/dev/zero", "/SYSV"];
        Self {
            file: mapped.file.inode != 0 && !zeroes,
            shmem: in_memory.iter().any(|start| mapped.path.starts_with(start)),
            shared: region.shared,
            writable: region.writable,
            huge: region.huge,
            foreign: mapped.is_vdso()
                || mapped.path.starts_with("/dev/") && !mapped.path.starts_with("/dev/shm/") && !is_zeroes(mapped),
            ..Self::default()
        }
    }
}

fn is_zeroes(mapped: &MappedFile) -> bool {
    &*mapped.path == "/dev/zero"
}

/// How the address was touched: according to the processor, else the kernel.
fn access(fault: &Fault<'_>) -> Access {
    let access_of = |bits: u32, instruction: u32, write: u32| {
        if bits & instruction != 0 {
            Access::Execute
        } else if bits & write != 0 {
            Access::Write
        } else {
            Access::Read
        }
    };
    let attempts = &fault.attempts;
    if fault.flags & FAULT_EXCEPTION != 0 {
        access_of(attempts.error_code, error_code::INSTRUCTION, error_code::WRITE)
    } else if fault.flags & FAULT_HANDLED != 0 {
        access_of(attempts.asked, asked::INSTRUCTION, asked::WRITE)
    } else {
        Access::Unknown
    }
}

/// The kind of memory that the fault mapped.
fn class(fault: &Fault<'_>, access: Access, memory: Option<Memory>) -> FaultClass {
    let is = |flag: u32| fault.flags & flag != 0;
    if is(FAULT_FAILED) {
        return FaultClass::Error;
    }
    if is(FAULT_HUGE) || memory.is_some_and(|memory| memory.huge) {
        return FaultClass::Huge;
    }
    let Some(memory) = memory else {
        return FaultClass::Unknown;
    };
    let present = is(FAULT_EXCEPTION).then_some(fault.attempts.error_code & error_code::PRESENT != 0);
    let write = match access {
        Access::Write => Some(true),
        Access::Read | Access::Execute => Some(is(FAULT_HANDLED) && fault.attempts.asked & UNSHARE != 0),
        Access::Unknown => (!memory.writable).then_some(false),
    };
    if by_program(fault, memory, present, write) {
        FaultClass::Userfaultfd
    } else if memory.foreign {
        FaultClass::Unknown
    } else if memory.file {
        of_file(memory, write)
    } else {
        of_anonymous(present, write, is(FAULT_MAJOR))
    }
}

/// Whether a program that monitors the memory through userfaultfd handled it: the kernel's attempt ended with a
/// retry, after which the page was there.
fn by_program(fault: &Fault<'_>, memory: Memory, present: Option<bool>, write: Option<bool>) -> bool {
    let handled = fault.flags & FAULT_HANDLED != 0;
    let retried = fault.attempts.returned & returned::RETRY != 0;
    let missing = memory.supplied && present != Some(true) && (retried || !handled);
    let watched = memory.watched && present == Some(true) && write == Some(true);
    missing || (watched && if handled { retried } else { fault.waits.blocked > 0 })
}

fn of_file(memory: Memory, write: Option<bool>) -> FaultClass {
    match write {
        Some(true) if !memory.shared => FaultClass::FileCow,
        _ if memory.shmem && (memory.shared || write.is_some()) => FaultClass::Shmem,
        Some(true) => FaultClass::SharedDirty,
        Some(false) => FaultClass::FileRead,
        None => FaultClass::Unknown,
    }
}

fn of_anonymous(present: Option<bool>, write: Option<bool>, major: bool) -> FaultClass {
    match write {
        Some(true) if present == Some(true) => FaultClass::Cow,
        _ if major => FaultClass::SwapIn,
        Some(true) => FaultClass::Anonymous,
        Some(false) => FaultClass::ZeroPage,
        None => FaultClass::Unknown,
    }
}

/// Why it failed: according to the kernel, else by the signal that followed.
fn failure(fault: &Fault<'_>) -> Option<Failure> {
    if fault.flags & FAULT_FAILED == 0 {
        return None;
    }
    let word = fault.attempts.returned;
    let is = |bits: u32| word & bits != 0;
    Some(
        if is(returned::SIGBUS | returned::HWPOISON | returned::HWPOISON_LARGE) {
            Failure::Bus
        } else if is(returned::SIGSEGV) {
            Failure::Segv
        } else if is(returned::OOM) {
            Failure::OutOfMemory
        } else {
            match fault.signal {
                SIGBUS => Failure::Bus,
                SIGSEGV => Failure::Segv,
                _ => Failure::Other,
            }
        },
    )
}

/// The parts of the latency that its tier can see.
fn waits(fault: &Fault<'_>, class: FaultClass) -> FaultWaits {
    let is = |flag: u32| fault.flags & flag != 0;
    if !is(FAULT_STARTED) || fault.start.is_none() {
        return FaultWaits::default();
    }
    let waits = &fault.waits;
    let own = fault.read > 0 || fault.attempts.returned & returned::MAJOR != 0 || class == FaultClass::SwapIn;
    let (disk, other) = if own { (waits.disk, 0) } else { (0, waits.disk) };
    let time = |nanoseconds: u64| Some(Duration::from_nanos(nanoseconds));
    let off = |nanoseconds| time(nanoseconds).filter(|_| !is(FAULT_SWITCH_MISSED));
    FaultWaits {
        lock: if is(FAULT_HANDLED) { time(waits.lock) } else { None },
        disk: off(disk),
        other_read: off(other),
        blocked: off(waits.blocked),
        preempted: off(waits.preempted),
        reclaim: time(waits.reclaim),
    }
}

/// What the replay found out about a fault in addition to its record.
#[derive(Debug, Clone, Copy)]
pub struct Found {
    /// The faulting thread.
    pub thread: ThreadId,
    /// Its call stack.
    pub stack: Option<StackId>,
    /// The memory, if known.
    pub memory: Option<Memory>,
    /// The page of a file.
    pub place: Option<FilePlace>,
    /// The pages that it mapped, if they were read.
    pub mapped: Option<Mapped>,
}

/// Builds the fact of a fault.
pub fn fact(fault: &Fault<'_>, found: Found) -> FaultFact {
    let is = |flag: u32| fault.flags & flag != 0;
    let access = access(fault);
    let class = class(fault, access, found.memory);
    let end = fault.at.time;
    // Clocks of hostile logs may go backwards.
    let start = fault.start.unwrap_or(end).min(end);
    let user_mode = if is(FAULT_EXCEPTION) {
        fault.attempts.error_code & error_code::USER != 0
    } else if is(FAULT_HANDLED) {
        fault.attempts.asked & asked::USER != 0
    } else {
        fault.stacks.flags & FLAG_IN_KERNEL == 0
    };
    let misses = fault.vma.and_then(|vma| vma.file).map_or(0, |file| file.mmap_miss);
    FaultFact {
        start,
        latency: fault.start.map(|_| end.since(start)),
        thread: found.thread,
        stack: found.stack,
        address: fault.address,
        access,
        class,
        place: found.place,
        major: is(FAULT_MAJOR),
        in_kernel: !user_mode,
        remote: is(FAULT_REMOTE),
        failed: failure(fault),
        waits: waits(fault, class),
        retries: is(FAULT_HANDLED).then_some(fault.attempts.retries),
        mapped: found
            .mapped
            .or_else(|| (class == FaultClass::FileCow).then(Mapped::own)),
        pages_read: fault.read,
        read_around_off: misses > LOTS_OF_MISSES,
        others: OtherFaults {
            count: fault.others.count,
            time: Duration::from_nanos(fault.others.time),
        },
    }
}

#[cfg(test)]
mod tests;
