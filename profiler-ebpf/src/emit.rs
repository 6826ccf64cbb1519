//! The only place that submits a record or counts a loss.

use core::hint::black_box;

use aya_ebpf::helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns};
use aya_ebpf::maps::RingBuf;
use profiler_common::block::{Bio, Request, RequestBody};
use profiler_common::fault::{FaultHead, PagesPopulated, PagesRead};
use profiler_common::sample::SampleHead;
use profiler_common::stack::{STACK_CLASSES, Stacked, Stacks as Record};
use profiler_common::switch::{CallPath, StackAheadHead, Wait, WaitBody};
use profiler_common::{Loss, RecordHeader, RecordKind};

use crate::copy::{self, Captured};
use crate::maps::{BULK, LOSSES, SINCE_DOORBELL, TASKS, config};

/// `BPF_RB_NO_WAKEUP`: waking the recorder from here would cause the very switches that are measured.
const NO_WAKEUP: u64 = 1;
/// `BPF_RB_FORCE_WAKEUP`: a new program's stacks can't be walked before the recorder knows its mappings.
const WAKEUP: u64 = 2;
/// `BPF_RB_AVAIL_DATA`: bytes that have not been read yet.
const AVAILABLE: u64 = 0;
/// `BPF_RB_RING_SIZE`
const SIZE: u64 = 1;

/// A moment of a thread.
#[derive(Clone, Copy)]
pub struct At {
    pub time: u64,
    pub pid: u32,
    pub tid: u32,
}

impl At {
    #[inline(always)]
    pub fn now(pid: u32, tid: u32) -> Self {
        Self { time: now(), pid, tid }
    }

    /// The header of a record of `len` bytes.
    #[inline(always)]
    pub fn header(self, kind: RecordKind, len: u32) -> RecordHeader {
        RecordHeader {
            kind: kind as u16,
            // SAFETY: the helper has no preconditions.
            cpu: unsafe { bpf_get_smp_processor_id() } as u16,
            len,
            time: self.time,
            pid: self.pid,
            tid: self.tid,
        }
    }
}

/// `CLOCK_MONOTONIC` in ns.
#[inline(always)]
pub fn now() -> u64 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_ktime_get_ns() }
}

/// The time from one moment to another; 0 if the clocks of two CPUs disagree about the order.
#[inline(always)]
pub fn between(from: u64, to: u64) -> u64 {
    let time = to.wrapping_sub(from);
    // No branch: the verifier would follow what is behind it once more, with a time of 0.
    time & !black_box((time as i64 >> 63) as u64)
}

/// Reserves a task event, lets `fill` write everything behind its header, and submits it.
#[inline(always)]
pub fn task_event<T: 'static>(kind: RecordKind, at: At, fill: impl FnOnce(*mut T)) {
    if !record(&TASKS, kind, at, fill) {
        lose(Loss::TaskRingFull);
    }
}

/// Reserves a record with capacity for the rest of the user stack, lets `fill` write its head except for the header and the
/// stacks, and submits it. False: the ring was full.
#[inline(always)]
pub fn stacked<H: Stacks>(kind: RecordKind, at: At, captured: &Captured, fill: impl Fn(*mut H)) -> bool {
    const SMALL: usize = STACK_CLASSES[0];
    const MIDDLE: usize = STACK_CLASSES[1];
    const LARGE: usize = STACK_CLASSES[2];
    if captured.want == 0 {
        with_copy::<H, 0>(kind, at, captured, fill)
    } else if captured.want <= SMALL as u64 {
        with_copy::<H, SMALL>(kind, at, captured, fill)
    } else if captured.want <= MIDDLE as u64 {
        with_copy::<H, MIDDLE>(kind, at, captured, fill)
    } else {
        with_copy::<H, LARGE>(kind, at, captured, fill)
    }
}

#[inline(always)]
fn with_copy<H: Stacks, const N: usize>(kind: RecordKind, at: At, captured: &Captured, fill: impl Fn(*mut H)) -> bool {
    bulk(kind, at, |record: *mut Stacked<H, N>| {
        // SAFETY: a reserved record of this type.
        unsafe {
            let (copied, flags) = copy::copy(&raw mut (*record).copy, captured.stacks.regs.sp, captured.want);
            let head = &raw mut (*record).head;
            fill(head);
            let stacks = H::stacks(head);
            *stacks = captured.stacks;
            (*stacks).flags |= flags;
            (*stacks).copied = copied;
        }
    })
}

/// Sends pages that were read.
#[inline(always)]
pub fn pages_read(at: At, fill: impl FnOnce(*mut PagesRead)) {
    if !bulk(RecordKind::PagesRead, at, fill) {
        lose(Loss::PagesRingFull);
    }
}

/// Sends pages that a system call mapped.
#[inline(always)]
pub fn pages_populated(at: At, fill: impl FnOnce(*mut PagesPopulated)) {
    if !bulk(RecordKind::PagesPopulated, at, fill) {
        lose(Loss::PagesRingFull);
    }
}

/// Sends a wait. False: the ring was full.
///
/// # Safety
/// Both must be readable.
#[inline(always)]
pub unsafe fn wait(at: At, body: *const WaitBody, stacks: *const Record) -> bool {
    bulk(RecordKind::Wait, at, |record: *mut Wait| {
        // SAFETY: by this function's own condition, and a reserved record of this type.
        unsafe {
            (*record).body = *body;
            (*record).stacks = *stacks;
        }
    })
}

/// Sends the path of a system call.
#[inline(always)]
pub fn call_path(at: At, fill: impl FnOnce(*mut CallPath)) {
    if !bulk(RecordKind::CallPath, at, fill) {
        lose(Loss::WaitRingFull);
    }
}

/// Sends a bio. False: the ring was full.
#[inline(always)]
pub fn bio(at: At, fill: impl FnOnce(*mut Bio)) -> bool {
    bulk(RecordKind::Bio, at, fill)
}

/// Sends a request. False: the ring was full.
///
/// # Safety
/// `body` must be readable.
#[inline(always)]
pub unsafe fn request(at: At, body: *const RequestBody) -> bool {
    bulk(RecordKind::Request, at, |record: *mut Request| {
        // SAFETY: as above.
        unsafe { (*record).body = *body };
    })
}

/// The head of a record that contains the thread's stacks.
pub trait Stacks: 'static {
    /// Where the stacks are in the head.
    ///
    /// # Safety
    /// `head` must be a record's.
    unsafe fn stacks(head: *mut Self) -> *mut Record;
}

impl Stacks for SampleHead {
    #[inline(always)]
    unsafe fn stacks(head: *mut Self) -> *mut Record {
        // SAFETY: by this function's own condition.
        unsafe { &raw mut (*head).stacks }
    }
}

impl Stacks for StackAheadHead {
    #[inline(always)]
    unsafe fn stacks(head: *mut Self) -> *mut Record {
        // SAFETY: by this function's own condition.
        unsafe { &raw mut (*head).stacks }
    }
}

impl Stacks for FaultHead {
    #[inline(always)]
    unsafe fn stacks(head: *mut Self) -> *mut Record {
        // SAFETY: by this function's own condition.
        unsafe { &raw mut (*head).stacks }
    }
}

/// Copies a record of `len` bytes into the ring. False: the ring was full.
///
/// # Safety
/// `len` bytes must be readable at `record`.
#[inline(always)]
pub unsafe fn output(record: *const u8, len: usize) -> bool {
    // SAFETY: by this function's own condition.
    let bytes = unsafe { core::slice::from_raw_parts(record, len) };
    if BULK.output::<[u8]>(bytes, NO_WAKEUP).is_err() {
        return false;
    }
    count_for_doorbell(len as u64);
    true
}

#[inline(always)]
fn record<T: 'static>(ring: &RingBuf, kind: RecordKind, at: At, fill: impl FnOnce(*mut T)) -> bool {
    let Some(mut entry) = ring.reserve::<T>(0) else {
        return false;
    };
    let record = entry.as_mut_ptr();
    fill(record);
    let header = at.header(kind, size_of::<T>() as u32);
    // SAFETY: every record starts with a RecordHeader, and the ring reserved a whole record, 8-aligned.
    unsafe { record.cast::<RecordHeader>().write(header) };
    let wakes = matches!(kind, RecordKind::TaskExec | RecordKind::Doorbell);
    entry.submit(if wakes { WAKEUP } else { NO_WAKEUP });
    true
}

/// Reserves a record in the bulk ring, and wakes the recorder if the ring fills fast.
#[inline(always)]
fn bulk<T: 'static>(kind: RecordKind, at: At, fill: impl FnOnce(*mut T)) -> bool {
    if !record(&BULK, kind, at, fill) {
        return false;
    }
    count_for_doorbell(size_of::<T>() as u64);
    true
}

/// Counts `len` more bytes in the bulk ring, and wakes the recorder when they are many. The return value has no meaning.
///
/// Exported, so that the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn count_for_doorbell(len: u64) -> u32 {
    let Some(bytes) = SINCE_DOORBELL.get_ptr_mut(0) else {
        return 0;
    };
    // SAFETY: this CPU's own counter; an interrupting program may cost one count.
    unsafe {
        *bytes += len;
        if *bytes < u64::from(config!(doorbell)) {
            return 0;
        }
        *bytes = 0;
    }
    ring_doorbell()
}

/// Wakes the recorder. The return value has no meaning. A ring full of births needs no wakeup.
///
/// Exported, so that the callers' stack frames don't include this one's: 6.1 adds up a whole chain of calls.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn ring_doorbell() -> u32 {
    u32::from(record(
        &TASKS,
        RecordKind::Doorbell,
        At::now(0, 0),
        |_: *mut RecordHeader| {},
    ))
}

/// How many bytes of the bulk ring the recorder has not read yet, and how many the ring holds.
#[inline(always)]
pub fn held() -> (u64, u64) {
    (BULK.query(AVAILABLE), BULK.query(SIZE))
}

/// Counts a loss on this CPU.
#[inline(always)]
pub fn lose(loss: Loss) {
    lose_many(loss, 1);
}

#[inline(always)]
pub fn lose_many(loss: Loss, lost: u64) {
    count_lost(loss as u32, lost);
}

/// Adds to the counter of the [`Loss`] with this number. The return value has no meaning.
///
/// Exported, so that programs with many losses have one lookup: the kernel replaces each by several instructions, and moves all behind it.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn count_lost(loss: u32, lost: u64) -> u32 {
    if let Some(count) = LOSSES.get_ptr_mut(loss) {
        // SAFETY: this CPU's own counter; an interrupting program may cost one count.
        unsafe { *count += lost };
    }
    0
}
