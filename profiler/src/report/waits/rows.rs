//! Every wait of a recording in 96 bytes: names are known only when the last one has come. System calls are kept once each.

use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::addr::{Timestamp, ns};
use crate::fact::life::Lives;
use crate::fact::wait::{Sight, WaitCall, WakerFact};
use crate::fact::{
    Cause, EffectKind, FactSink, Mark, Reason, SampleFact, StackId, Tables, ThreadId, WaitFact, WaitReason,
};
use crate::report::blocks::Blocks;

/// Stands for nothing.
const NONE: u32 = u32::MAX;

/// Waits in the order in which they were handed in.
#[derive(Debug, Default)]
pub struct Rows {
    kept: Blocks<Row>,
    calls: Vec<WaitCall>,
    numbers: FxHashMap<WaitCall, u32>,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    start: u64,
    end: u64,
    off: u64,
    queued: u64,
    longest: u64,
    thread: u32,
    stack: u32,
    count: u32,
    call: u32,
    waker: Option<Waker>,
    reason: WaitReason,
    sight: Sight,
    in_fault: bool,
}

#[derive(Debug, Clone, Copy)]
struct Waker {
    time: u64,
    pid: u32,
    tid: u32,
    thread: u32,
    stack: u32,
    by_interrupt: Option<bool>,
}

impl Rows {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.kept.len() as usize
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.kept.len() == 0
    }

    /// Keeps a wait, whole. False: there are four thousand million already.
    pub fn push(&mut self, wait: &WaitFact) -> bool {
        if self.kept.is_full() {
            return false;
        }
        let row = Row {
            start: wait.start.0,
            end: wait.end.0,
            off: ns(wait.off),
            queued: ns(wait.queued),
            longest: ns(wait.longest),
            thread: wait.thread.0,
            stack: wait.stack.map_or(NONE, |stack| stack.0),
            count: wait.count,
            call: wait.call.as_ref().map_or(NONE, |call| self.number(call)),
            waker: wait.waker.as_ref().map(|waker| Waker {
                time: waker.time.0,
                pid: waker.pid,
                tid: waker.tid,
                thread: waker.thread.map_or(NONE, |thread| thread.0),
                stack: waker.stack.map_or(NONE, |stack| stack.0),
                by_interrupt: waker.by_interrupt,
            }),
            reason: wait.reason,
            sight: wait.sight,
            in_fault: wait.in_fault,
        };
        self.kept.push(row)
    }

    fn number(&mut self, call: &WaitCall) -> u32 {
        if let Some(number) = self.numbers.get(call) {
            return *number;
        }
        let number = u32::try_from(self.calls.len()).unwrap_or(NONE);
        self.calls.push(call.clone());
        self.numbers.insert(call.clone(), number);
        number
    }

    /// The wait with this number, as it was handed in.
    pub fn get(&self, index: u32) -> Option<WaitFact> {
        let row = self.kept.get(index)?;
        let stack = |stack: u32| (stack != NONE).then_some(StackId(stack));
        Some(WaitFact {
            start: Timestamp(row.start),
            end: Timestamp(row.end),
            thread: ThreadId(row.thread),
            stack: stack(row.stack),
            off: Duration::from_nanos(row.off),
            queued: Duration::from_nanos(row.queued),
            longest: Duration::from_nanos(row.longest),
            count: row.count,
            reason: row.reason,
            call: self.calls.get(row.call as usize).cloned(),
            waker: row.waker.map(|waker| WakerFact {
                time: Timestamp(waker.time),
                pid: waker.pid,
                tid: waker.tid,
                thread: (waker.thread != NONE).then_some(ThreadId(waker.thread)),
                stack: stack(waker.stack),
                by_interrupt: waker.by_interrupt,
            }),
            sight: row.sight,
            in_fault: row.in_fault,
        })
    }

    /// The numbers of all waits, by the time at which they began.
    pub fn order(&self) -> Vec<u32> {
        self.kept.order_by(|row| row.start)
    }
}

/// What a report on waits keeps of a recording.
#[derive(Debug, Default)]
pub struct Facts {
    /// The waits.
    pub rows: Rows,
    /// Whether they fill the lives of their threads.
    pub lives: Lives,
    /// Why they took so long, by thread and start, where that is known.
    pub causes: FxHashMap<(ThreadId, Timestamp), Reason>,
}

impl FactSink for Facts {
    fn sample(&mut self, tables: &Tables, sample: &SampleFact) {
        self.lives.sample(tables, sample);
    }

    fn mark(&mut self, _: &Tables, _: &Mark) {}

    fn wait(&mut self, tables: &Tables, wait: &WaitFact) {
        self.lives.wait(tables, wait);
        self.rows.push(wait);
    }

    fn joined(&mut self, _: &Tables, cause: &Cause) {
        if cause.effect.kind == EffectKind::Wait {
            let effect = cause.effect;
            self.causes.insert((effect.thread, effect.start), cause.reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fact::MappedFileId;

    prop_compose! {
        fn wait()(
            (start, end, off, queued, longest) in any::<(u64, u64, u64, u64, u64)>(),
            (thread, count, in_fault) in any::<(u32, u32, bool)>(),
            stack in prop::option::of(0..NONE),
            (reason, sight) in (0..WaitReason::ALL.len(), 0..4_usize),
            call in prop::option::of((0..3_u32, prop::option::of(0..3_u32), prop::option::of("[ab]{0,2}"))),
            waker in prop::option::of((any::<u64>(), any::<(u32, u32)>(), prop::option::of(0..NONE), any::<Option<bool>>())),
        ) -> WaitFact {
            WaitFact {
                start: Timestamp(start),
                end: Timestamp(end),
                thread: ThreadId(thread),
                stack: stack.map(StackId),
                off: Duration::from_nanos(off),
                queued: Duration::from_nanos(queued),
                longest: Duration::from_nanos(longest),
                count,
                reason: WaitReason::ALL[reason],
                call: call.map(|(number, file, path)| WaitCall { number, name: number.to_string(), file: file.map(MappedFileId), path }),
                waker: waker.map(|(time, (pid, tid), thread, by_interrupt)| WakerFact {
                    time: Timestamp(time), pid, tid, thread: thread.map(ThreadId), stack: thread.map(StackId), by_interrupt,
                }),
                sight: [Sight::Whole, Sight::LikeEarlier, Sight::NoStart, Sight::NoEnd][sight],
                in_fault,
            }
        }
    }

    proptest! {
        #[test]
        fn a_row_is_the_wait(waits in prop::collection::vec(wait(), 1..20)) {
            let mut rows = Rows::default();
            for wait in &waits {
                prop_assert!(rows.push(wait));
            }
            for (index, wait) in (0..).zip(&waits) {
                prop_assert_eq!(rows.get(index), Some(wait.clone()));
            }
            prop_assert!(rows.get(rows.kept.len()).is_none());
            let order = rows.order();
            prop_assert_eq!(order.len(), waits.len());
            prop_assert!(order.is_sorted_by_key(|&index| waits[index as usize].start));
        }
    }

    #[test]
    fn a_row_takes_what_the_header_says() {
        assert_eq!(size_of::<Row>(), 96);
    }
}
