//! Compact rows of 96 bytes that hold every wait of a recording until names are known, after the last wait. Each distinct system
//! call and futex is stored once.

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashSet;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::causes::CauseRow;
use crate::lifetime::Lifetimes;
use crate::sorted::{self, Ordered, Scratch, Sorted};
use base::addr::{Timestamp, ns};
use base::intern::Interner;
use fact::reduce::packed::{among, place};
use fact::wait::{Coverage, Futex, WaitCall, WakerFact};
use fact::{Cause, EventKind, FactSink, KernelLock, Mark, SampleFact, StackId, Tables, ThreadId, WaitFact, WaitReason};

/// Encodes a missing value.
const NONE: u32 = u32::MAX;
/// Limit of system calls distinguished by their file; calls beyond it have no known file.
const MAX_CALLS: usize = 1 << 18;
/// Limit of futexes; later ones are unknown.
const MAX_FUTEXES: usize = 1 << 20;
/// Encodes an unknown CPU: kernels have fewer.
const NO_CPU: u16 = u16::MAX;
/// Encodes an unknown priority.
const NO_PRIORITY: i16 = i16::MIN;
/// Limit of pairs of a kernel lock and its holder; later ones are unknown.
const MAX_LOCKS: usize = 1 << 20;
/// Encodings of the waker: none recorded; or a waker, for which an interrupt is unknown, false or true.
#[allow(clippy::option_option)] // No waker differs from a waker with unknown details.
const WAKERS: [Option<Option<bool>>; 4] = [None, Some(None), Some(Some(false)), Some(Some(true))];

/// Packed waits.
#[derive(Debug, Default)]
pub struct WaitRows {
    kept: Sorted<PackedWait>,
    calls: Interner<WaitCall>,
    words: Interner<Futex>,
    locks: Interner<KernelLock>,
    /// Stacks that waited for locks and conditions.
    futexes: FxHashSet<(StackId, WaitReason)>,
}

/// A packed wait.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct PackedWait {
    start: u64,
    end: u64,
    off: u64,
    queued: u64,
    longest: u64,
    waker_time: u64,
    thread: u32,
    stack: u32,
    count: u32,
    call: u32,
    waker_pid: u32,
    waker_tid: u32,
    waker_thread: u32,
    waker_stack: u32,
    /// Index into [`WaitReason::ALL`]; `coverage` and `waker` are indices into [`Coverage::ALL`] and [`WAKERS`].
    reason: u8,
    coverage: u8,
    waker: u8,
    in_fault: u8,
    /// [`NO_CPU`]: unknown.
    cpu: u16,
    /// [`NO_PRIORITY`]: unknown.
    priority: i16,
    futex: u32,
    lock: u32,
}

impl sorted::Row for PackedWait {
    fn key(&self) -> u64 {
        self.start
    }
}

impl WaitRows {
    /// Keeps rows in memory up to a limit and the rest in `scratch`.
    pub fn beyond_memory(scratch: &Arc<dyn Scratch>) -> Self {
        Self {
            kept: Sorted::beyond_memory(scratch),
            ..Self::default()
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.kept.len() as usize
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.kept.len() == 0
    }

    /// Adds a wait. Returns false if the maximum of 2^32 - 1 rows is reached.
    pub fn push(&mut self, wait: &WaitFact) -> bool {
        if self.kept.is_full() {
            return false;
        }
        if let (Some(stack), WaitReason::Lock | WaitReason::Condition) = (wait.stack, wait.reason) {
            self.futexes.insert((stack, wait.reason));
        }
        let waker = wait.waker.as_ref();
        let word = wait.futex.as_ref();
        let word = word.and_then(|word| self.words.number(word, MAX_FUTEXES, Clone::clone));
        let lock = wait.lock.as_deref();
        let lock = lock.and_then(|lock| self.locks.number(lock, MAX_LOCKS, Clone::clone));
        let row = PackedWait {
            start: wait.start.0,
            end: wait.end.0,
            off: ns(wait.off),
            queued: ns(wait.queued),
            longest: ns(wait.longest),
            waker_time: waker.map_or(0, |waker| waker.time.0),
            thread: wait.thread.0,
            stack: wait.stack.map_or(NONE, StackId::number),
            count: wait.count,
            call: wait.call.as_ref().map_or(NONE, |call| self.number(call)),
            waker_pid: waker.map_or(0, |waker| waker.pid),
            waker_tid: waker.map_or(0, |waker| waker.tid),
            waker_thread: waker.and_then(|waker| waker.thread).map_or(NONE, |thread| thread.0),
            waker_stack: waker.and_then(|waker| waker.stack).map_or(NONE, StackId::number),
            reason: place(&WaitReason::ALL, &wait.reason),
            coverage: place(&Coverage::ALL, &wait.coverage),
            waker: place(&WAKERS, &waker.map(|waker| waker.by_interrupt)),
            in_fault: wait.in_fault.into(),
            cpu: wait.cpu.unwrap_or(NO_CPU),
            priority: wait.priority.unwrap_or(NO_PRIORITY),
            futex: word.unwrap_or(NONE),
            lock: lock.unwrap_or(NONE),
        };
        self.kept.push(row)
    }

    fn number(&mut self, call: &WaitCall) -> u32 {
        let is_limited = call.file.is_some() || call.path.is_some();
        let most = if is_limited { MAX_CALLS } else { usize::MAX };
        let number = self.calls.number(call, most, Clone::clone);
        let number = number.or_else(|| {
            let without_file = WaitCall {
                number: call.number,
                name: call.name.clone(),
                file: None,
                path: None,
            };
            self.calls.number(&without_file, usize::MAX, Clone::clone)
        });
        number.unwrap_or(NONE)
    }

    /// Stacks that waited for a lock or a condition, with the reason.
    pub(super) fn futexes(&self) -> impl Iterator<Item = (StackId, WaitReason)> {
        self.futexes.iter().copied()
    }

    /// Unpacks a wait.
    pub(super) fn wait(&self, row: &PackedWait) -> WaitFact {
        let stack = |stack: u32| (stack != NONE).then_some(StackId::new(stack));
        WaitFact {
            start: Timestamp(row.start),
            end: Timestamp(row.end),
            thread: ThreadId(row.thread),
            stack: stack(row.stack),
            off: Duration::from_nanos(row.off),
            queued: Duration::from_nanos(row.queued),
            longest: Duration::from_nanos(row.longest),
            count: row.count,
            reason: among(&WaitReason::ALL, row.reason),
            call: self.calls.get(row.call as usize).cloned(),
            waker: among(&WAKERS, row.waker).map(|by_interrupt| WakerFact {
                time: Timestamp(row.waker_time),
                pid: row.waker_pid,
                tid: row.waker_tid,
                thread: (row.waker_thread != NONE).then_some(ThreadId(row.waker_thread)),
                stack: stack(row.waker_stack),
                by_interrupt,
            }),
            coverage: among(&Coverage::ALL, row.coverage),
            in_fault: row.in_fault != 0,
            cpu: (row.cpu != NO_CPU).then_some(row.cpu),
            futex: self.words.get(row.futex as usize).copied(),
            lock: self.locks.get(row.lock as usize).cloned().map(Box::new),
            priority: (row.priority != NO_PRIORITY).then_some(row.priority),
        }
    }

    /// Distinct system calls of the waits.
    pub(super) fn calls(&self) -> impl Iterator<Item = &WaitCall> {
        self.calls.iter()
    }

    /// All waits, ordered by start time.
    pub(super) fn ordered(&self) -> Ordered<'_, PackedWait> {
        self.kept.ordered()
    }
}

/// Facts of a recording that a report on waits needs.
#[derive(Debug, Default)]
pub struct Facts {
    /// Collected waits.
    pub rows: WaitRows,
    /// On-CPU and off-CPU times, to compare with the threads' lifetimes.
    pub lives: Lifetimes,
    causes: Sorted<CauseRow>,
}

impl Facts {
    /// Keeps rows in memory up to a limit and the rest in `scratch`.
    pub fn beyond_memory(scratch: &Arc<dyn Scratch>) -> Self {
        Self {
            rows: WaitRows::beyond_memory(scratch),
            causes: Sorted::beyond_memory(scratch),
            ..Self::default()
        }
    }

    /// Known causes of waits, ordered by start time.
    pub(super) fn causes(&self) -> Ordered<'_, CauseRow> {
        self.causes.ordered()
    }
}

impl FactSink for Facts {
    fn wants_stacks(&self, kind: EventKind) -> bool {
        kind == EventKind::Wait
    }

    fn sample(&mut self, tables: &Tables, sample: &SampleFact) {
        self.lives.sample(tables, sample);
    }

    fn mark(&mut self, _: &Tables, _: &Mark) {}

    fn wait(&mut self, tables: &Tables, wait: &WaitFact) {
        self.lives.wait(tables, wait);
        self.rows.push(wait);
    }

    fn joined(&mut self, _: &Tables, cause: &Cause) {
        if let Some(row) = CauseRow::new(cause) {
            self.causes.push(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use base::addr::Avma;
    use base::event::LockId;
    use fact::{LockKind, MappedFileId};

    prop_compose! {
        fn wait()(
            (start, end, off, queued, longest) in any::<(u64, u64, u64, u64, u64)>(),
            (thread, count, in_fault) in any::<(u32, u32, bool)>(),
            stack in prop::option::of(0..NONE),
            (reason, coverage) in (0..WaitReason::ALL.len(), 0..4_usize),
            call in prop::option::of((0..3_u32, prop::option::of(0..3_u32), prop::option::of("[ab]{0,2}"))),
            cpu in prop::option::of(0..NO_CPU),
            (lock, priority) in (prop::option::of(0..3_u64), prop::option::of(-1..140_i16)),
            futex in prop::option::of((0..3_u64, prop::option::of((0..3_u32, any::<u64>())))),
            waker in prop::option::of((any::<u64>(), any::<(u32, u32)>(), prop::option::of(0..NONE), any::<Option<bool>>())),
        ) -> WaitFact {
            WaitFact {
                start: Timestamp(start),
                end: Timestamp(end),
                thread: ThreadId(thread),
                stack: stack.map(StackId::new),
                off: Duration::from_nanos(off),
                queued: Duration::from_nanos(queued),
                longest: Duration::from_nanos(longest),
                count,
                reason: WaitReason::ALL[reason],
                call: call.map(|(number, file, path)| WaitCall { number, name: number.to_string(), file: file.map(MappedFileId), path }),
                waker: waker.map(|(time, (pid, tid), thread, by_interrupt)| WakerFact {
                    time: Timestamp(time), pid, tid, thread: thread.map(ThreadId), stack: thread.map(StackId::new), by_interrupt,
                }),
                coverage: Coverage::ALL[coverage],
                in_fault,
                cpu,
                futex: futex.map(|(address, place)| Futex {
                    address: Avma(address),
                    place: place.map(|(file, distance)| (MappedFileId(file), distance)),
                }),
                lock: lock.map(|number| Box::new(KernelLock {
                    id: LockId::Number(number),
                    kind: LockKind::Rwsem,
                    is_read: number == 1,
                    is_own_mmap: number == 2,
                    name: None,
                    holder: None,
                })),
                priority,
            }
        }
    }

    #[test]
    fn calls_beyond_the_limit_have_no_file() {
        let mut rows = WaitRows::default();
        let call = |path: usize| WaitCall {
            number: 257,
            name: "openat".to_owned(),
            file: None,
            path: Some(path.to_string()),
        };
        for path in 0..MAX_CALLS {
            assert_eq!(rows.number(&call(path)) as usize, path);
        }
        let beyond = rows.number(&call(MAX_CALLS));
        assert_eq!(rows.number(&call(MAX_CALLS + 1)), beyond);
        assert_eq!(rows.calls[beyond as usize].path, None);
        assert_eq!(rows.calls[beyond as usize].number, 257);
        assert_eq!(rows.number(&call(7)), 7);
    }

    proptest! {
        #[test]
        fn wait_rows_round_trip(waits in prop::collection::vec(wait(), 1..20)) {
            let mut rows = WaitRows::default();
            for wait in &waits {
                prop_assert!(rows.push(wait));
            }
            let mut waits = waits;
            waits.sort_by_key(|wait| wait.start);
            let kept: Vec<WaitFact> = rows.ordered().iter().map(|row| rows.wait(&row)).collect();
            prop_assert_eq!(kept, waits);
        }
    }

    #[test]
    fn the_row_size_matches_the_documentation() {
        assert_eq!(size_of::<PackedWait>(), 96);
    }
}
