//! The only place that submits a record or counts a loss.

use aya_ebpf::helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns};
use aya_ebpf::maps::RingBuf;
use profiler_common::{Loss, RecordHeader, RecordKind};

use crate::maps::{BULK, LOSSES, TASKS};

/// `BPF_RB_NO_WAKEUP`: waking the recorder from here would make the very switches that are measured.
const NO_WAKEUP: u64 = 1;

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
}

/// `CLOCK_MONOTONIC` in ns.
#[inline(always)]
pub fn now() -> u64 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_ktime_get_ns() }
}

/// Reserves a task event, lets `fill` write everything behind its header, and submits it.
#[inline(always)]
pub fn task_event<T: 'static>(kind: RecordKind, at: At, fill: impl FnOnce(*mut T)) {
    if !record(&TASKS, kind, at, fill) {
        lose(Loss::TaskRingFull);
    }
}

/// Reserves a sample, lets `fill` write everything behind its header, and submits it. False: the ring was full.
#[inline(always)]
pub fn sample<T: 'static>(at: At, fill: impl FnOnce(*mut T)) -> bool {
    let written = record(&BULK, RecordKind::Sample, at, fill);
    if !written {
        lose(Loss::SampleRingFull);
    }
    written
}

#[inline(always)]
fn record<T: 'static>(ring: &RingBuf, kind: RecordKind, at: At, fill: impl FnOnce(*mut T)) -> bool {
    let Some(mut entry) = ring.reserve::<T>(0) else {
        return false;
    };
    let record = entry.as_mut_ptr();
    fill(record);
    let header = RecordHeader {
        kind: kind as u16,
        // SAFETY: the helper has no preconditions.
        cpu: unsafe { bpf_get_smp_processor_id() } as u16,
        len: size_of::<T>() as u32,
        time: at.time,
        pid: at.pid,
        tid: at.tid,
    };
    // SAFETY: every record starts with a RecordHeader, and the ring reserved a whole record, 8-aligned.
    unsafe { record.cast::<RecordHeader>().write(header) };
    entry.submit(NO_WAKEUP);
    true
}

/// Counts a loss on this CPU.
#[inline(always)]
pub fn lose(loss: Loss) {
    if let Some(count) = LOSSES.get_ptr_mut(loss as u32) {
        // SAFETY: this CPU's own counter; an interrupting program may cost one count.
        unsafe { *count += 1 };
    }
}
