//! Any page fault and any read of the threads and files of `everything`.

use std::time::Duration;

use profiler::addr::{Avma, FileOffset, Timestamp};
use profiler::fact::fault::{Access, Failure, FaultClass, FaultWaits, FilePlace, Mapped, OtherFaults, PageRange};
use profiler::fact::{FaultFact, MappedFileId, PagesBy, PagesReadFact, StackId, ThreadId};
use proptest::prelude::*;
use proptest::sample::select;

use super::profile_synthetic::START;

fn duration() -> impl Strategy<Value = Option<Duration>> {
    prop::option::of(prop_oneof![Just(0), 0..1u64 << 44].prop_map(Duration::from_nanos))
}

fn waits() -> impl Strategy<Value = FaultWaits> {
    let parts = (duration(), duration(), duration(), duration(), duration(), duration());
    parts.prop_map(|(lock, disk, other_read, blocked, preempted, reclaim)| FaultWaits {
        lock,
        disk,
        other_read,
        blocked,
        preempted,
        reclaim,
    })
}

fn kinds() -> impl Strategy<Value = (Access, FaultClass, Option<Failure>)> {
    (
        select(vec![Access::Read, Access::Write, Access::Execute, Access::Unknown]),
        select(FaultClass::ALL.to_vec()),
        prop::option::of(select(vec![
            Failure::Segv,
            Failure::Bus,
            Failure::OutOfMemory,
            Failure::Other,
        ])),
    )
}

/// Mostly few and near each other, so that some overlap: a gigabyte of random places takes long and never does.
fn pages() -> impl Strategy<Value = PageRange> {
    let first = prop_oneof![4 => 0..1_u64 << 14, 1 => any::<u64>()];
    let count = prop_oneof![20 => 0..1_u32 << 12, 1 => any::<u32>()];
    (first, count).prop_map(|(first, count)| PageRange { first, count })
}

fn mapped() -> impl Strategy<Value = Mapped> {
    let runs = prop::collection::vec((0..512_usize, 1..80_usize), 0..5);
    (runs, 0..512_usize)
        .prop_map(|(runs, own)| Mapped::new(runs.iter().map(|(first, count)| *first..first + count).collect(), own))
}

fn place(address: u64) -> impl Strategy<Value = Option<FilePlace>> {
    let byte = prop_oneof![Just(None), any::<u64>().prop_map(Some)];
    prop::option::of((0u32..3, any::<u64>(), byte)).prop_map(move |place| {
        place.map(|(file, offset, byte)| FilePlace {
            file: MappedFileId(file),
            offset: FileOffset(offset),
            // Usually according to the address.
            byte: FileOffset(byte.unwrap_or(offset.saturating_add(address % 4096))),
        })
    })
}

fn fault() -> impl Strategy<Value = FaultFact> {
    let who = (0u32..5, 0..1u64 << 45, prop::option::of(any::<u32>()), duration());
    let flags: [_; 4] = std::array::from_fn(|_| any::<bool>());
    let others = (any::<u32>(), duration()).prop_map(|(count, time)| OtherFaults {
        count,
        time: time.filter(|_| count > 0).unwrap_or_default(),
    });
    let counts = (any::<Option<u32>>(), prop::option::of(mapped()), any::<u32>(), others);
    let address = any::<u64>().prop_flat_map(|address| (Just(address), place(address)));
    (who, kinds(), address, waits(), flags, counts).prop_map(
        |((thread, time, stack, latency), kinds, (address, place), waits, flags, counts)| {
            let [major, in_kernel, remote, read_around_off] = flags;
            FaultFact {
                // Some are before the recording's start.
                start: Timestamp(START - 1000 + time),
                latency,
                thread: ThreadId(thread),
                stack: stack.map(StackId::new),
                address: Avma(address),
                access: kinds.0,
                class: kinds.1,
                place,
                major,
                in_kernel,
                remote,
                failed: kinds.2,
                waits,
                retries: counts.0,
                mapped: counts.1,
                pages_read: counts.2,
                read_around_off,
                others: counts.3,
            }
        },
    )
}

pub fn faults() -> impl Strategy<Value = Vec<FaultFact>> {
    prop::collection::vec(fault(), 0..40)
}

pub fn reads() -> impl Strategy<Value = Vec<PagesReadFact>> {
    let read = (0u32..5, 0..1u64 << 45, 0u32..3, pages(), 0..PagesBy::ALL.len());
    let read = read.prop_map(|(thread, time, file, pages, by)| PagesReadFact {
        time: Timestamp(START + time),
        thread: ThreadId(thread),
        file: MappedFileId(file),
        pages,
        by: PagesBy::ALL[by],
        order: pages.count.is_multiple_of(3).then_some((pages.first % 10) as u8),
    });
    prop::collection::vec(read, 0..20)
}
