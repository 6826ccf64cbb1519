//! The waits for each lock, with the names of what they refer to, and what its holders did meanwhile.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::doing::Timelines;
use super::heap;
use super::holds::{Contention, Hold, Holder, Release, contention, holds};
use super::identity::{Identify, Lock, LockName};
use super::patterns::Turn;
use super::tally::HolderTally;
use crate::export::ns;
use crate::grid::Measure as _;
use crate::path::facts::woken_by;
use crate::path::lanes::{EndedBy, Lanes};
use crate::waits::tally::WaitTally;
use crate::waits::{Selector, View};
use base::addr::Timestamp;
use fact::reasons::is_signal;
use fact::{StackId, ThreadId, WaitFact};

/// Most selected waits for locks that are kept, and as many others: some 0.6 GiB each.
const MAX_WAITS: usize = 1 << 22;

/// A wait for a lock, or several short ones.
#[derive(Debug, Clone, Copy)]
pub struct LockWait {
    /// Thread, times, and which thread ended it.
    pub turn: Turn,
    /// When it began; of several, when the first one did.
    pub since: Timestamp,
    /// Its stack.
    pub stack: Option<StackId>,
    /// The stack of the thread that released the lock.
    pub released: Option<StackId>,
    /// Which thread had the lock when the wait began, if the kernel shows it.
    pub holder: Option<Holder>,
    /// The waiting thread's priority.
    pub priority: Option<i16>,
    /// Its values.
    pub tally: WaitTally,
    /// Whether it is selected.
    pub is_selected: bool,
}

/// A lock and the waits for it, by their start.
#[derive(Debug)]
pub struct Contended {
    /// The lock.
    pub lock: Lock,
    /// What it is called.
    pub name: LockName,
    /// All waits for it, selected or not.
    pub waits: Vec<LockWait>,
    /// Sums of the selected ones.
    pub totals: WaitTally,
}

/// The locks of a recording.
#[derive(Debug)]
pub struct LockView<'v, 'a> {
    /// The recording's waits.
    pub view: &'v View<'a>,
    /// Locks with selected waits, by descending blocked time.
    pub locks: Vec<Contended>,
    /// Waits in the input, for locks or not, selected or not.
    pub waits_in_file: u64,
    /// Selected waits that exceeded the limit, and are missing.
    pub left_out: u64,
    /// Every thread's time.
    pub lanes: Lanes,
}

impl<'v, 'a> LockView<'v, 'a> {
    /// Finds the locks of the selected waits. With `conditions`, futexes that seem to be conditions count.
    pub fn new(view: &'v View<'a>, lanes: Lanes, selector: &Selector, conditions: bool) -> Self {
        let mut identify = Identify::new(view, conditions);
        let mut locks: BTreeMap<Lock, Contended> = BTreeMap::new();
        let mut signals: FxHashMap<StackId, bool> = FxHashMap::default();
        let (mut waits_in_file, mut left_out, mut kept) = (0_u64, 0_u64, [0, 0]);
        for wait in view.waits() {
            waits_in_file = waits_in_file.saturating_add(u64::from(wait.count));
            let Some(lock) = identify.of(&wait) else { continue };
            let by_signal = |stack| *signals.entry(stack).or_insert_with(|| is_signal(view.tables, stack));
            let wait = lock_wait(&wait, selector.takes(view, &wait), by_signal);
            let kept = &mut kept[usize::from(wait.is_selected)];
            if *kept >= MAX_WAITS {
                left_out = left_out.saturating_add(u64::from(wait.is_selected));
                continue;
            }
            *kept += 1;
            let contended = locks
                .entry(lock)
                .or_insert_with_key(|lock| Contended::new(lock.clone()));
            contended.push(wait);
        }
        let mut locks = heap::divided(view, locks.into_values().collect());
        locks.retain(|lock| lock.totals.waits > 0);
        locks.sort_by_key(|lock| std::cmp::Reverse(lock.totals.rank()));
        for lock in &mut locks {
            lock.name = LockName::new(view.tables, &identify.known, &lock.lock);
            // Those that were aggregated begin later than their first.
            lock.waits.sort_by_key(|wait| wait.turn.start);
        }
        heap::name(view, &mut locks);
        Self {
            view,
            locks,
            waits_in_file,
            left_out,
            lanes,
        }
    }

    /// The releases of a lock, by time.
    fn releases(&self, contended: &Contended) -> Vec<Release> {
        let mut ends: FxHashMap<ThreadId, Vec<Timestamp>> = FxHashMap::default();
        for wait in &contended.waits {
            ends.entry(wait.turn.thread).or_default().push(wait.turn.end);
        }
        for ends in ends.values_mut() {
            ends.sort_unstable();
        }
        let release = |wait: &LockWait| {
            let Turn { thread, woken, by, .. } = wait.turn;
            let (got, born) = match by {
                Holder::Unknown => return None,
                Holder::Thread(by) if by == thread => return None,
                Holder::Unrecorded(_) => (None, Timestamp(0)),
                Holder::Thread(by) => {
                    let ends = ends.get(&by).map_or(&[][..], Vec::as_slice);
                    let before = ends.partition_point(|end| *end <= woken).checked_sub(1);
                    let thread = self.view.tables.threads.get(by.index());
                    let born = thread.map_or(Timestamp(0), |thread| thread.start);
                    (before.and_then(|last| ends.get(last)).copied(), born)
                }
            };
            Some(Release {
                time: woken,
                holder: by,
                got,
                born,
                stack: wait.released,
            })
        };
        let mut releases: Vec<Release> = contended.waits.iter().filter_map(release).collect();
        releases.sort_by_key(|release| (release.time, release.holder));
        releases.extend(last_holder(contended, releases.last()));
        releases
    }

    /// Divides the selected waits for a lock among its holders, by time. Waits that are stored together are missing,
    /// since it is unknown when they were.
    pub fn each_hold(
        &self,
        contended: &Contended,
        timelines: &mut Timelines<'_>,
        mut each: impl FnMut(&Hold, &Contention, HolderTally),
    ) {
        let singles = contended.waits.iter().filter(|wait| wait.is_one() && wait.is_selected);
        let waits: Vec<(Timestamp, Timestamp)> = singles.map(|wait| (wait.turn.start, wait.turn.woken)).collect();
        let (Some(from), Some(to)) = (
            waits.iter().map(|wait| wait.0).min(),
            waits.iter().map(|wait| wait.1).max(),
        ) else {
            return;
        };
        let holds = holds((from, to), &self.releases(contended));
        let (mut current, mut so_far) = (usize::MAX, 0);
        contention(&holds, &waits, |index, part| {
            let Some(hold) = holds.get(index) else { return };
            if current != index {
                (current, so_far) = (index, 0);
            }
            so_far += ns(part.end.since(part.start));
            let doing = match hold.holder {
                Holder::Thread(id) if !hold.is_hand_over => timelines.of(id),
                _ => None,
            };
            let doing = doing.map(|timeline| timeline.between(part.start, part.end));
            each(hold, &part, HolderTally::of(hold, &part, so_far, doing));
        });
    }
}

/// The holder after the last release: the one that the kernel showed when the last wait began, which did not end.
fn last_holder(contended: &Contended, last: Option<&Release>) -> Option<Release> {
    let wait = contended.waits.last().filter(|wait| wait.is_one())?;
    let is_later = last.is_none_or(|release| release.time <= wait.turn.start);
    Some(Release {
        time: Timestamp(u64::MAX),
        holder: wait.holder.filter(|_| is_later)?,
        got: None,
        born: wait.turn.start,
        stack: None,
    })
}

impl Contended {
    /// A lock without waits so far.
    pub(super) fn new(lock: Lock) -> Self {
        Self {
            lock,
            name: LockName::default(),
            waits: Vec::new(),
            totals: WaitTally::default(),
        }
    }

    /// Adds a wait.
    pub(super) fn push(&mut self, wait: LockWait) {
        if wait.is_selected {
            self.totals.merge(&wait.tally);
        }
        self.waits.push(wait);
    }
}

impl LockWait {
    /// Whether it is a single wait.
    pub fn is_one(&self) -> bool {
        self.tally.waits == 1
    }
}

/// `by_signal`: whether a waker's stack shows that it sent a signal, and so released nothing.
fn lock_wait(wait: &WaitFact, is_selected: bool, by_signal: impl FnOnce(StackId) -> bool) -> LockWait {
    let tally = WaitTally::of(wait);
    let is_one = wait.count == 1;
    // Several waits end with the last one.
    let start = if is_one {
        wait.start
    } else {
        wait.start.max(Timestamp(wait.end.0.saturating_sub(tally.off_ns)))
    };
    let woken = Timestamp(start.0.saturating_add(tally.blocked_ns)).min(wait.end);
    let released = wait.waker.as_ref().and_then(|waker| waker.stack);
    let is_release = is_one && !released.is_some_and(by_signal);
    let by = match woken_by(wait) {
        EndedBy::Thread(thread) if is_release => Holder::Thread(thread),
        EndedBy::Unrecorded(tid) if is_release => Holder::Unrecorded(tid),
        _ => Holder::Unknown,
    };
    let holder = wait
        .lock
        .as_ref()
        .and_then(|lock| lock.holder)
        .filter(|holder| is_one && !holder.is_reader);
    let holder = holder.map(|holder| holder.thread.map_or(Holder::Unrecorded(holder.tid), Holder::Thread));
    LockWait {
        holder,
        priority: wait.priority,
        turn: Turn {
            thread: wait.thread,
            start,
            woken,
            end: wait.end,
            by,
            is_selected: is_selected && is_one,
        },
        since: wait.start,
        stack: wait.stack,
        released: released.filter(|_| is_release),
        tally,
        is_selected,
    }
}
