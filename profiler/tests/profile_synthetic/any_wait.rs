//! Any wait and any request of the threads, files and devices of `everything`.

use std::time::Duration;

use profiler::addr::{Avma, KernelOffset, Timestamp};
use profiler::event::LockId;
use profiler::fact::request::{BioFact, BioSource, Operation, RequestCoverage, RequestKind};
use profiler::fact::wait::{Coverage, Futex, WaitCall, WaitReason, WakerFact};
use profiler::fact::{
    DeviceId, KernelLock, LockHolder, LockKind, MappedFileId, RequestFact, StackId, ThreadId, WaitFact,
};
use proptest::prelude::*;
use proptest::sample::select;

use super::profile_synthetic::START;

fn ns() -> impl Strategy<Value = Duration> {
    prop_oneof![Just(0), 0..1u64 << 44, any::<u64>()].prop_map(Duration::from_nanos)
}

fn stack() -> impl Strategy<Value = Option<StackId>> {
    prop::option::of((0u32..12).prop_map(StackId::new))
}

fn call() -> impl Strategy<Value = WaitCall> {
    let file = prop::option::of((0u32..3).prop_map(MappedFileId));
    let name = select(vec!["read", "openat", "futex", "fsync", "syscall 999"]);
    (any::<u32>(), name, file, any::<Option<String>>()).prop_map(|(number, name, file, path)| WaitCall {
        number,
        name: name.into(),
        file,
        path,
    })
}

fn futex() -> impl Strategy<Value = Futex> {
    let place = prop::option::of(((0u32..3).prop_map(MappedFileId), any::<u64>()));
    (any::<u64>(), place).prop_map(|(address, place)| Futex {
        address: Avma(address),
        place,
    })
}

fn lock() -> impl Strategy<Value = KernelLock> {
    let id = prop_oneof![
        any::<u64>().prop_map(LockId::Number),
        any::<u64>().prop_map(|offset| LockId::Static(KernelOffset(offset)))
    ];
    let thread = prop::option::of((0u32..5).prop_map(ThreadId));
    let holder = (any::<u32>(), any::<u32>(), thread, any::<bool>());
    let holder = holder.prop_map(|(pid, tid, thread, is_reader)| LockHolder {
        pid,
        tid,
        thread,
        is_reader,
    });
    let kind = select(LockKind::ALL.to_vec());
    let what = any::<(bool, bool, Option<String>)>();
    (id, kind, what, prop::option::of(holder)).prop_map(|(id, kind, (is_read, is_own_mmap, name), holder)| KernelLock {
        id,
        kind,
        is_read,
        is_own_mmap,
        name: name.map(Into::into),
        holder,
    })
}

fn waker() -> impl Strategy<Value = WakerFact> {
    let thread = prop::option::of((0u32..5).prop_map(ThreadId));
    (
        0..1u64 << 45,
        any::<u32>(),
        any::<u32>(),
        thread,
        stack(),
        any::<Option<bool>>(),
    )
        .prop_map(|(time, pid, tid, thread, stack, by_interrupt)| WakerFact {
            time: Timestamp(START + time),
            pid,
            tid,
            thread,
            stack,
            by_interrupt,
        })
}

fn wait() -> impl Strategy<Value = WaitFact> {
    let when = (0..1u64 << 45, prop_oneof![Just(0), 0..1u64 << 40], 0u32..5);
    let off = prop_oneof![Just(None), ns().prop_map(Some)];
    let sums = (
        off,
        ns(),
        prop_oneof![Just(None), ns().prop_map(Some)],
        prop_oneof![Just(1), any::<u32>()],
    );
    let coverage = select(vec![
        Coverage::Full,
        Coverage::StackReused,
        Coverage::StartMissed,
        Coverage::EndMissed,
    ]);
    let what = (
        select(WaitReason::ALL.to_vec()),
        coverage,
        any::<bool>(),
        any::<Option<u16>>(),
        (
            prop::option::of(futex()),
            prop::option::of(lock()),
            any::<Option<i16>>(),
        ),
    );
    let who = (stack(), prop::option::of(call()), prop::option::of(waker()));
    (when, sums, what, who).prop_map(
        |(
            (start, length, thread),
            (off, queued, longest, count),
            (reason, coverage, in_fault, cpu, (futex, lock, priority)),
            (stack, call, waker),
        )| {
            let off = off.unwrap_or(Duration::from_nanos(length));
            WaitFact {
                // Some are before the recording's start.
                start: Timestamp(START - 1000 + start),
                end: Timestamp(START - 1000 + start + length),
                thread: ThreadId(thread),
                stack,
                off,
                queued,
                longest: longest.unwrap_or(off),
                count,
                reason,
                call,
                waker,
                coverage,
                in_fault,
                cpu,
                futex,
                lock: lock.map(Box::new),
                priority,
            }
        },
    )
}

fn bio() -> impl Strategy<Value = BioFact> {
    let source = select(vec![
        BioSource::Cache,
        BioSource::Direct,
        BioSource::Metadata,
        BioSource::Swap,
        BioSource::Nothing,
        BioSource::Unknown,
    ]);
    let who = (
        any::<u32>(),
        any::<u32>(),
        any::<String>(),
        prop::option::of((0u32..5).prop_map(ThreadId)),
        stack(),
    );
    let place = (
        any::<u64>(),
        any::<u32>(),
        prop::option::of((0u32..3).prop_map(MappedFileId)),
        any::<Option<u64>>(),
    );
    (0..1u64 << 45, who, place, source, any::<bool>(), any::<Option<u32>>()).prop_map(
        |(time, (pid, tid, name, thread, stack), (sector, bytes, file, offset), source, in_fault, call)| BioFact {
            time: Timestamp(START + time),
            pid,
            tid,
            name,
            thread,
            stack,
            sector,
            bytes,
            file,
            offset,
            source,
            in_fault,
            call,
        },
    )
}

fn request() -> impl Strategy<Value = RequestFact> {
    let operation = select(vec![
        Operation::Read,
        Operation::Write,
        Operation::Flush,
        Operation::Discard,
        Operation::WriteZeroes,
        Operation::Other,
    ]);
    let coverage = select(vec![
        RequestCoverage::Full,
        RequestCoverage::StartMissed,
        RequestCoverage::EndMissed,
    ]);
    let flags: [_; 6] = std::array::from_fn(|_| any::<bool>());
    let when = (0..1u64 << 45, 0..1u64 << 40, 0u32..2, any::<u64>(), any::<u32>());
    let times = (prop::option::of(ns()), prop::option::of(ns()));
    let counts = (any::<u32>(), any::<i32>(), any::<u32>());
    (
        when,
        (operation, coverage, flags),
        times,
        counts,
        prop::collection::vec(bio(), 0..4),
    )
        .prop_map(
            |(
                (start, length, device, sector, bytes),
                (operation, coverage, flags),
                (queued, service),
                counts,
                bios,
            )| {
                RequestFact {
                    start: Timestamp(START + start),
                    end: Timestamp(START + start + length),
                    device: DeviceId(device),
                    sector,
                    bytes,
                    operation,
                    kind: RequestKind {
                        read_ahead: flags[0],
                        sync: flags[1],
                        metadata: flags[2],
                        fua: flags[3],
                    },
                    queued,
                    service,
                    scheduled: flags[4],
                    depth: counts.0,
                    error: counts.1,
                    requeues: counts.2,
                    coverage,
                    bio_only: flags[5],
                    bios,
                }
            },
        )
}

pub fn waits() -> impl Strategy<Value = Vec<WaitFact>> {
    prop::collection::vec(wait(), 0..30)
}

pub fn requests() -> impl Strategy<Value = Vec<RequestFact>> {
    prop::collection::vec(request(), 0..12)
}
