//! Waits in a thread's `ngmi` section, bit-exact: an array for each; times are relative to the
//! profile's time 0.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::exact::Big;
use super::read::ReadError;
use super::read_tables::StackRows;
use super::shared::Shared;
use base::addr::{Timestamp, ns};
use fact::wait::{Coverage, WaitCall, WaitFact, WaitReason, WakerFact};
use fact::{MappedFileId, StackId, Tables, ThreadId};

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
);

/// System call: number, name, file, path.
#[derive(Debug, Serialize, Deserialize)]
struct RawCall(u32, String, Option<u32>, Option<String>);

/// Wakeup: time relative to the profile's time 0, pid, tid, thread, row of the stack table, whether
/// by an interrupt.
#[derive(Debug, Serialize, Deserialize)]
struct RawWaker(Big, u32, u32, Option<u32>, Option<u32>, Option<bool>);

impl RawWait {
    /// Converts a wait of the thread that the section belongs to.
    pub fn new(wait: &WaitFact, shared: &Shared<'_>, zero: Timestamp) -> Self {
        let row = |stack: Option<StackId>| stack.and_then(|stack| shared.stack_row(stack));
        let length = wait.end.since(wait.start);
        let call = wait.call.as_ref().map(|call| {
            let file = call.file.map(|file| file.0);
            RawCall(call.number, call.name.clone(), file, call.path.clone())
        });
        let waker = wait.waker.as_ref().map(|waker| {
            let thread = waker.thread.map(|thread| thread.0);
            let time = Big(waker.time.0.saturating_sub(zero.0));
            RawWaker(time, waker.pid, waker.tid, thread, row(waker.stack), waker.by_interrupt)
        });
        let place = |found: Option<usize>| found.unwrap_or(0);
        let coverage = place(Coverage::ALL.iter().position(|coverage| *coverage == wait.coverage));
        Self(
            Big(wait.start.0.saturating_sub(zero.0)),
            big(length),
            row(wait.stack),
            (wait.off != length).then(|| big(wait.off)),
            big(wait.queued),
            (wait.longest != wait.off).then(|| big(wait.longest)),
            wait.count,
            place(WaitReason::ALL.iter().position(|reason| *reason == wait.reason)),
            (coverage, wait.in_fault),
            call,
            waker,
        )
    }

    /// Converts back to the wait.
    pub fn fact(
        &self,
        thread: ThreadId,
        zero: Timestamp,
        (tables, rows): (&Tables, &StackRows),
    ) -> Result<WaitFact, ReadError> {
        let damaged = || ReadError::Damaged("list of waits");
        let Self(start, length, stack, off, queued, longest, count, reason, (coverage, in_fault), call, waker) = self;
        let after = |time: Timestamp, more: &Big| time.0.checked_add(more.0).map(Timestamp).ok_or_else(damaged);
        let fits = |thread: &u32| usize::try_from(*thread).is_ok_and(|thread| thread < tables.threads.len());
        let stack_at = |row: &Option<u32>| rows.stack(row.map(i64::from));
        let start = after(zero, start)?;
        let end = after(start, length)?;
        let off = off.map_or(end.since(start), duration);
        let call = match call {
            Some(RawCall(number, name, file, path)) => {
                let file = file.map(MappedFileId);
                if file.is_some_and(|file| file.index() >= tables.files.len()) {
                    return Err(damaged());
                }
                Some(WaitCall {
                    number: *number,
                    name: name.clone(),
                    file,
                    path: path.clone(),
                })
            }
            None => None,
        };
        let waker = match waker {
            Some(RawWaker(time, pid, tid, thread, stack, by_interrupt)) => {
                if !thread.as_ref().is_none_or(fits) {
                    return Err(damaged());
                }
                Some(WakerFact {
                    time: after(zero, time)?,
                    pid: *pid,
                    tid: *tid,
                    thread: thread.map(ThreadId),
                    stack: stack_at(stack)?,
                    by_interrupt: *by_interrupt,
                })
            }
            None => None,
        };
        Ok(WaitFact {
            start,
            end,
            thread,
            stack: stack_at(stack)?,
            off,
            queued: duration(*queued),
            longest: longest.map_or(off, duration),
            count: *count,
            reason: *WaitReason::ALL.get(*reason).ok_or_else(damaged)?,
            call,
            waker,
            coverage: *Coverage::ALL.get(*coverage).ok_or_else(damaged)?,
            in_fault: *in_fault,
        })
    }
}

/// Duration in ns.
pub fn big(time: Duration) -> Big {
    Big(ns(time))
}

/// Duration from ns.
pub fn duration(ns: Big) -> Duration {
    Duration::from_nanos(ns.0)
}
