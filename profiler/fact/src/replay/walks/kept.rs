//! User stacks by key, keeping only those that events may still refer to: a long recording has twenty million.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::time::Duration;

use profiler_common::sent;
use profiler_common::unwind::WalkEnd;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::ProcessId;
use base::addr::Timestamp;
use base::event::UserStack;
use base::event::bytes::{Bytes, put_difference};
use unwind::{End, Walked};

/// Maximum delay of events that are sent when they happen.
const LAST_EVENTS: Duration = Duration::from_secs(10);
/// Minimum number of stacks of ended processes that makes a sweep worthwhile.
pub(super) const SWEPT: usize = 1 << 16;
/// Last keys that the kernel side may remember in each pair of slots: two, and two more because of concurrent CPUs.
pub(super) const REMEMBERED: usize = 4;

/// The kind of events that refer to a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// None since it arrived: one is on its way.
    None,
    /// Samples and faults, which are sent when they happen.
    AtOnce,
    /// A wait, which is sent at its end, or a waker.
    Later,
}

/// A user stack; most frames are near their callers.
#[derive(Debug)]
struct Kept {
    /// Differences between the frames, from the innermost one on.
    frames: Box<[u8]>,
    end: End,
    /// Process whose address space it belongs to, unless shared; a key belongs to one address space.
    owner: Option<ProcessId>,
    used: Use,
}

/// How a stack arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrived {
    /// Its key is new.
    New,
    /// It is a repetition.
    Again,
    /// Its key belonged to another stack.
    InsteadOfAnother,
}

/// The kept stacks.
#[derive(Debug, Default)]
pub struct KeptStacks {
    stacks: FxHashMap<u64, Kept>,
    /// The last keys that arrived, latest first, by pair of slots in the kernel side's table.
    remembered: Vec<[u64; REMEMBERED]>,
    /// Keys that the kernel side no longer remembers, and since when at least.
    driven_out: VecDeque<(Timestamp, u64)>,
    /// Processes that ended, and when.
    ended: VecDeque<(Timestamp, ProcessId)>,
    /// Processes with no more events.
    ended_processes: FxHashSet<ProcessId>,
    /// Number of stacks of each process.
    owned: FxHashMap<ProcessId, usize>,
    /// Number of these that belong to processes in `over`.
    useless: usize,
    /// Reused buffer for one stack.
    packed: Vec<u8>,
}

impl KeptStacks {
    /// A stack arrived.
    pub fn add(&mut self, stack: &UserStack<'_>, now: Timestamp) -> Arrived {
        self.arrived(stack.key, now);
        self.packed.clear();
        let mut last = 0;
        for &frame in &*stack.frames {
            put_difference(&mut self.packed, last, frame);
            last = frame;
        }
        let frames = self.packed.as_slice();
        let end = End(WalkEnd::from_number(stack.end));
        match self.stacks.entry(stack.key) {
            Entry::Vacant(entry) => {
                entry.insert(Kept {
                    frames: frames.into(),
                    end,
                    owner: None,
                    used: Use::None,
                });
                Arrived::New
            }
            Entry::Occupied(mut entry) => {
                let known = entry.get_mut();
                if known.used == Use::AtOnce {
                    known.used = Use::None;
                }
                if (&*known.frames, known.end) == (frames, end) {
                    return Arrived::Again;
                }
                (known.frames, known.end) = (frames.into(), end);
                Arrived::InsteadOfAnother
            }
        }
    }

    /// The stack of a key, of this kind or another, arrived: the kernel side has forgotten an earlier one of its pair.
    pub fn arrived(&mut self, key: u64, now: Timestamp) {
        if self.remembered.is_empty() {
            self.remembered.resize(sent::PAIRS as usize, [0; REMEMBERED]);
        }
        let Some(pair) = self.remembered.get_mut(sent::pair(key) as usize) else {
            return;
        };
        let place = pair.iter().position(|known| *known == key);
        let out = pair[place.unwrap_or(REMEMBERED - 1)];
        pair[..=place.unwrap_or(REMEMBERED - 1)].rotate_right(1);
        pair[0] = key;
        if out != 0 && out != key {
            self.driven_out.push_back((now, out));
        }
        while let Some((_, key)) = self
            .driven_out
            .pop_front_if(|(time, _)| now.since(*time) >= LAST_EVENTS)
        {
            self.forget_unless_needed(key);
        }
    }

    fn forget_unless_needed(&mut self, key: u64) {
        let is_back = self
            .remembered
            .get(sent::pair(key) as usize)
            .is_some_and(|pair| pair.contains(&key));
        if is_back || self.stacks.get(&key).is_none_or(|kept| kept.used != Use::AtOnce) {
            return;
        }
        if let Some(owner) = self.stacks.remove(&key).and_then(|kept| kept.owner)
            && let Some(owned) = self.owned.get_mut(&owner)
        {
            *owned = owned.saturating_sub(1);
        }
    }

    /// How the walk of the stack with this key ended, if known; marks the stack as used by an event of kind `used`.
    /// `owner` is the event's process, if its address space is not shared.
    pub fn end_of(&mut self, key: u64, used: Use, owner: impl FnOnce() -> Option<ProcessId>) -> Option<End> {
        let kept = self.stacks.get_mut(&key)?;
        if kept.used != Use::Later {
            kept.used = used;
        }
        if kept.owner.is_none()
            && let Some(owner) = owner()
        {
            kept.owner = Some(owner);
            *self.owned.entry(owner).or_default() += 1;
        }
        Some(kept.end)
    }

    /// The stack with this key.
    pub fn get(&self, key: u64) -> Option<Walked> {
        let kept = self.stacks.get(&key)?;
        let (mut bytes, mut last) = (Bytes(&kept.frames), 0);
        // Each frame takes at least one byte.
        let mut frames = Vec::with_capacity(kept.frames.len());
        while let Ok(frame) = bytes.get_difference(last) {
            frames.push(frame);
            last = frame;
        }
        Some(Walked {
            frames: frames.into(),
            end: kept.end,
        })
    }

    /// Whether there is a stack with this key.
    pub fn has(&self, key: u64) -> bool {
        self.stacks.contains_key(&key)
    }

    /// A process ended.
    pub fn ended(&mut self, process: ProcessId, time: Timestamp) {
        self.ended.push_back((time, process));
    }

    /// The next process that ended long enough before `now` to have no more events.
    pub fn next_ended(&mut self, now: Timestamp) -> Option<ProcessId> {
        let has_ended = |(time, _): &mut (Timestamp, _)| now.since(*time) >= LAST_EVENTS;
        self.ended.pop_front_if(has_ended).map(|(_, process)| process)
    }

    /// Drops the stacks of this process.
    pub fn forget(&mut self, process: ProcessId) {
        let Some(owned) = self.owned.remove(&process) else {
            return;
        };
        self.useless += owned;
        self.ended_processes.insert(process);
        if self.useless >= SWEPT.max(self.stacks.len() / 4) {
            let ended = std::mem::take(&mut self.ended_processes);
            let has_ended = |kept: &Kept| kept.owner.is_some_and(|owner| ended.contains(&owner));
            self.stacks.retain(|_, kept| !has_ended(kept));
            self.useless = 0;
        }
    }
}

#[cfg(test)]
mod tests;
