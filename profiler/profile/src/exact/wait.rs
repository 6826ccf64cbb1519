//! Waits in a thread's `ngmi` section, bit-exact: an array for each; times are relative to the
//! profile's time 0.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Big;
use super::references::References;
use crate::error::ReadError;
use crate::shared::Shared;
use base::addr::{Avma, KernelOffset, Timestamp};
use base::event::LockId;
use fact::wait::{Coverage, Futex, WaitCall, WaitFact, WaitReason, WakerFact};
use fact::{KernelLock, LockHolder, LockKind, MappedFileId, ThreadId};

/// A wait. Values that follow from the others are `null`.
#[derive(Debug, Serialize, Deserialize)]
pub struct RawWait(
    /// Start, relative to time 0.
    Big,
    /// End, relative to the start.
    Big,
    /// Row of the stack table.
    Option<u32>,
    /// Time off-CPU, if it is not the whole duration.
    Option<Big>,
    /// The runnable part of it.
    Big,
    /// The longest one, if it is not the whole duration.
    Option<Big>,
    /// Number of waits.
    u32,
    /// Index in [`WaitReason::ALL`].
    usize,
    /// Index in [`Coverage::ALL`], and whether the wait was within a page fault.
    (usize, bool),
    Option<RawCall>,
    Option<RawWaker>,
    /// The CPU at its end.
    Option<u16>,
    Option<RawFutex>,
    Option<RawLock>,
    /// Scheduling priority.
    Option<i16>,
);

/// Lock of the kernel: whether it is a variable of the kernel, and its offset or number; index in [`LockKind::ALL`];
/// whether for reading, and whether it is that of the own address space; name; holder.
#[derive(Debug, Serialize, Deserialize)]
struct RawLock((bool, Big), usize, (bool, bool), Option<Arc<str>>, Option<RawHolder>);

/// Holder: pid, tid, thread, whether it is one of several readers.
#[derive(Debug, Serialize, Deserialize)]
struct RawHolder(u32, u32, Option<ThreadId>, bool);

/// Futex: address; file, and the distance from the start of its mappings.
#[derive(Debug, Serialize, Deserialize)]
struct RawFutex(Big, Option<(MappedFileId, Big)>);

/// System call: number, name, file, path.
#[derive(Debug, Serialize, Deserialize)]
struct RawCall(u32, String, Option<MappedFileId>, Option<String>);

/// Wakeup: time relative to the profile's time 0, pid, tid, thread, row of the stack table, whether
/// by an interrupt.
#[derive(Debug, Serialize, Deserialize)]
struct RawWaker(Big, u32, u32, Option<ThreadId>, Option<u32>, Option<bool>);

impl RawWait {
    /// Converts a wait of the thread that the section belongs to.
    pub fn new(wait: &WaitFact, shared: &Shared<'_>, zero: Timestamp) -> Self {
        let length = wait.end.since(wait.start);
        let call =
            (wait.call.as_ref()).map(|call| RawCall(call.number, call.name.clone(), call.file, call.path.clone()));
        let waker = wait.waker.as_ref().map(|waker| {
            let (time, stack) = (Big::since(waker.time, zero), shared.stack_row(waker.stack));
            RawWaker(time, waker.pid, waker.tid, waker.thread, stack, waker.by_interrupt)
        });
        let place = |found: Option<usize>| found.unwrap_or(0);
        let coverage = place(Coverage::ALL.iter().position(|coverage| *coverage == wait.coverage));
        Self(
            Big::since(wait.start, zero),
            length.into(),
            shared.stack_row(wait.stack),
            (wait.off != length).then(|| wait.off.into()),
            wait.queued.into(),
            (wait.longest != wait.off).then(|| wait.longest.into()),
            wait.count,
            place(WaitReason::ALL.iter().position(|reason| *reason == wait.reason)),
            (coverage, wait.in_fault),
            call,
            waker,
            wait.cpu,
            wait.futex.map(|futex| {
                let place = futex.place.map(|(file, distance)| (file, Big(distance)));
                RawFutex(Big(futex.address.0), place)
            }),
            wait.lock.as_deref().map(RawLock::new),
            wait.priority,
        )
    }

    /// Converts back to the wait.
    pub fn fact(&self, thread: ThreadId, to: References<'_>) -> Result<WaitFact, ReadError> {
        let Self(start, length, stack, off, queued, longest, count, reason, (coverage, in_fault), ..) = self;
        let Self(.., call, waker, cpu, futex, lock, priority) = self;
        let start = to.time(*start)?;
        let end = to.after(start, *length)?;
        let off = off.map_or(end.since(start), Big::duration);
        Ok(WaitFact {
            start,
            end,
            thread,
            call: call.as_ref().map(|call| call.fact(to)).transpose()?,
            waker: waker.as_ref().map(|waker| waker.fact(to)).transpose()?,
            stack: to.stack(*stack)?,
            off,
            queued: queued.duration(),
            longest: longest.map_or(off, Big::duration),
            count: *count,
            reason: *WaitReason::ALL.get(*reason).ok_or_else(|| to.damaged())?,
            coverage: *Coverage::ALL.get(*coverage).ok_or_else(|| to.damaged())?,
            in_fault: *in_fault,
            cpu: *cpu,
            futex: futex.as_ref().map(|futex| futex.fact(to)).transpose()?,
            lock: lock.as_ref().map(|lock| lock.fact(to).map(Box::new)).transpose()?,
            priority: *priority,
        })
    }
}

impl RawCall {
    fn fact(&self, to: References<'_>) -> Result<WaitCall, ReadError> {
        let Self(number, name, file, path) = self;
        Ok(WaitCall {
            number: *number,
            name: name.clone(),
            file: to.file(*file)?,
            path: path.clone(),
        })
    }
}

impl RawFutex {
    fn fact(&self, to: References<'_>) -> Result<Futex, ReadError> {
        let Self(address, place) = *self;
        to.file(place.map(|(file, _)| file))?;
        Ok(Futex {
            address: Avma(address.0),
            place: place.map(|(file, distance)| (file, distance.0)),
        })
    }
}

impl RawLock {
    fn new(lock: &KernelLock) -> Self {
        let id = match lock.id {
            LockId::Static(offset) => (true, Big(offset.0)),
            LockId::Number(number) => (false, Big(number)),
        };
        let kind = LockKind::ALL.iter().position(|kind| *kind == lock.kind);
        let holder = lock.holder;
        Self(
            id,
            kind.unwrap_or(0),
            (lock.is_read, lock.is_own_mmap),
            lock.name.clone(),
            holder.map(|holder| RawHolder(holder.pid, holder.tid, holder.thread, holder.is_reader)),
        )
    }

    fn fact(&self, to: References<'_>) -> Result<KernelLock, ReadError> {
        let Self((is_static, number), kind, (is_read, is_own_mmap), name, holder) = self;
        let holder = holder.as_ref().map(|RawHolder(pid, tid, thread, is_reader)| {
            Ok::<_, ReadError>(LockHolder {
                pid: *pid,
                tid: *tid,
                thread: thread.map(|thread| to.thread(thread)).transpose()?,
                is_reader: *is_reader,
            })
        });
        Ok(KernelLock {
            id: if *is_static {
                LockId::Static(KernelOffset(number.0))
            } else {
                LockId::Number(number.0)
            },
            kind: *LockKind::ALL.get(*kind).ok_or_else(|| to.damaged())?,
            is_read: *is_read,
            is_own_mmap: *is_own_mmap,
            name: name.clone(),
            holder: holder.transpose()?,
        })
    }
}

impl RawWaker {
    fn fact(&self, to: References<'_>) -> Result<WakerFact, ReadError> {
        let Self(time, pid, tid, thread, stack, by_interrupt) = *self;
        Ok(WakerFact {
            thread: thread.map(|thread| to.thread(thread)).transpose()?,
            time: to.time(time)?,
            pid,
            tid,
            stack: to.stack(stack)?,
            by_interrupt,
        })
    }
}
