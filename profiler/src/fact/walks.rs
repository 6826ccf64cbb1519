//! The user stacks that the kernel side walked: what they are, how the walks ended, and (with `--check-walks`) whether framehop
//! agrees.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use profiler_common::stack::FLAG_CHECK;
use profiler_common::stack::INTERRUPTED;
use profiler_common::unwind::WalkEnd;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{ProcessId, TruncationReason, Walks};
use crate::addr::{KernelOffset, Timestamp};
use crate::event::bytes::{Bytes, put_difference};
use crate::event::{KernelStack, Stacks, UserStack};
use crate::unwind::{End, Walk, Walked};

/// Start and name of the kernel function around an address; around a return address, by the address before it.
pub type KernelNames = FxHashMap<KernelOffset, (KernelOffset, String)>;

/// A kernel stack: its leaf, and return addresses.
#[derive(Debug, Clone)]
pub struct KernelWalk {
    frames: Arc<[KernelOffset]>,
    /// So many innermost frames are of the hook that looked, and not of what it looked at.
    of_hook: usize,
}

impl KernelWalk {
    fn new(frames: &[KernelOffset], names: &KernelNames) -> Self {
        const HOOK: [&str; 5] = [
            "bpf_prog_",
            "bpf_trace_run",
            "__bpf_trace_",
            "__traceiter_",
            "bpf_trampoline_",
        ];
        let is_of_hook = |(depth, offset): &(usize, &KernelOffset)| {
            let call = KernelOffset(offset.0.wrapping_sub(u64::from(*depth > 0)));
            let function = names.get(&call);
            function.is_some_and(|(_, name)| HOOK.iter().any(|hook| name.starts_with(hook)))
        };
        Self {
            of_hook: frames.iter().enumerate().take_while(is_of_hook).count(),
            frames: frames.into(),
        }
    }

    /// What the hook looked at, from the innermost frame on: addresses, and whether they are return addresses.
    pub fn frames(&self) -> impl DoubleEndedIterator<Item = (KernelOffset, bool)> {
        let all = self.frames.iter().enumerate().skip(self.of_hook);
        all.map(|(depth, offset)| (*offset, depth > 0))
    }
}

/// A user stack, as it is kept: a large recording has a million of them, and most frames are near their callers.
#[derive(Debug, PartialEq, Eq)]
struct Kept {
    /// Differences between the frames, from the innermost one on.
    frames: Box<[u8]>,
    end: End,
    /// In whose address space it was first seen, if nobody shared that; a key is of one address space.
    owner: Option<ProcessId>,
}

/// The last events of a process that ended come within this time.
const LAST_EVENTS: Duration = Duration::from_secs(10);
/// Stacks of ended processes that are kept at least, so that it is worth looking at all for them.
const SWEPT: usize = 1 << 16;

/// Stacks by key.
#[derive(Debug, Default)]
pub struct Dictionary {
    user: FxHashMap<u64, Kept>,
    /// User stacks that were not here when they arrived.
    arrived: u64,
    /// Processes that ended, and when.
    ended: VecDeque<(Timestamp, ProcessId)>,
    /// Those of which no event comes any more.
    over: FxHashSet<ProcessId>,
    /// How many user stacks each process has.
    owned: FxHashMap<ProcessId, usize>,
    /// How many of these are of processes that are over.
    useless: usize,
    /// Room for the bytes of one.
    packed: Vec<u8>,
    kernel: FxHashMap<u64, KernelWalk>,
    ends: [u64; WalkEnd::ALL.len()],
    resent: u64,
    checked: Option<(u64, u64)>,
    /// Events whose stacks the log does not hold.
    missing: u64,
}

impl Dictionary {
    /// A user stack arrived. True: its key stood for another one before.
    pub fn user(&mut self, stack: &UserStack<'_>) -> bool {
        self.packed.clear();
        let mut last = 0;
        for &frame in &*stack.frames {
            put_difference(&mut self.packed, last, frame);
            last = frame;
        }
        let kept = Kept {
            frames: self.packed.as_slice().into(),
            end: End(WalkEnd::from_number(stack.end)),
            owner: None,
        };
        match self.user.entry(stack.key) {
            Entry::Vacant(entry) => {
                entry.insert(kept);
                self.arrived += 1;
                false
            }
            Entry::Occupied(mut entry) => {
                self.resent += 1;
                let known = entry.get_mut();
                let is_other = (&known.frames, known.end) != (&kept.frames, kept.end);
                (known.frames, known.end) = (kept.frames, kept.end);
                is_other
            }
        }
    }

    /// The user stack with this key is of a process that shares its address space with nobody.
    pub fn belongs_to(&mut self, key: u64, process: ProcessId) {
        if let Some(kept) = self.user.get_mut(&key)
            && kept.owner.is_none()
        {
            kept.owner = Some(process);
            *self.owned.entry(process).or_default() += 1;
        }
    }

    /// A process ended.
    pub fn ended(&mut self, process: ProcessId, time: Timestamp) {
        if self.owned.contains_key(&process) {
            self.ended.push_back((time, process));
        }
    }

    /// The next process that ended so long before `now` that no event of it comes any more.
    pub fn next_over(&mut self, now: Timestamp) -> Option<ProcessId> {
        let is_over = |(time, _): &mut (Timestamp, _)| now.since(*time) >= LAST_EVENTS;
        self.ended.pop_front_if(is_over).map(|(_, process)| process)
    }

    /// The stacks of this process are not needed any more.
    pub fn forget(&mut self, process: ProcessId) {
        self.useless += self.owned.remove(&process).unwrap_or_default();
        self.over.insert(process);
        if self.useless >= SWEPT.max(self.user.len() / 4) {
            let over = std::mem::take(&mut self.over);
            let is_over = |kept: &Kept| kept.owner.is_some_and(|owner| over.contains(&owner));
            self.user.retain(|_, kept| !is_over(kept));
            self.useless = 0;
        }
    }

    /// A kernel stack arrived; `names` knows those of the hooks. True: its key stood for another one before.
    pub fn kernel(&mut self, stack: &KernelStack<'_>, names: &KernelNames) -> bool {
        let known = self.kernel.get(&stack.key);
        self.resent += u64::from(known.is_some());
        let is_new = known.is_none_or(|known| *known.frames != *stack.frames);
        let is_other = known.is_some() && is_new;
        if is_new {
            self.kernel.insert(stack.key, KernelWalk::new(&stack.frames, names));
        }
        is_other
    }

    /// How the walk of an event ended that has user registers, if it is known; that counts for samples.
    pub fn end_of(&mut self, stacks: &Stacks<'_>, is_sample: bool) -> Option<End> {
        let end = self.user.get(&stacks.user).map(|kept| kept.end);
        self.missing += u64::from(stacks.user != 0 && end.is_none());
        let counted = end.and_then(|end| end.0).unwrap_or(WalkEnd::NotWalked);
        self.ends[counted as usize] += u64::from(is_sample);
        end
    }

    /// The walked user stack of an event that has user registers.
    pub fn user_of(&self, stacks: &Stacks<'_>) -> Option<Walked> {
        let kept = self.user.get(&stacks.user)?;
        let (mut bytes, mut last) = (Bytes(&kept.frames), 0);
        // A frame has a byte at least.
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

    /// A user stack has this key.
    pub fn has_user(&self, key: u64) -> bool {
        self.user.contains_key(&key)
    }

    /// The kernel stack of an event.
    pub fn kernel_of(&mut self, stacks: &Stacks<'_>) -> Option<KernelWalk> {
        let stack = self.kernel.get(&stacks.kernel).cloned();
        // Without any, the kernel hides its addresses.
        self.missing += u64::from(stacks.kernel != 0 && stack.is_none() && !self.kernel.is_empty());
        stack
    }

    /// Compares a walk with what framehop made of the copy of the same stack.
    pub fn check(&mut self, stacks: &Stacks<'_>, walked: &Walked, copied: &Walk) {
        if stacks.flags & FLAG_CHECK == 0 {
            return;
        }
        let (same, different) = self.checked.get_or_insert_default();
        if agree(walked, copied) {
            *same += 1;
        } else {
            *different += 1;
        }
    }

    /// Events whose stacks the log does not hold.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// The counts.
    pub fn finish(&self) -> Walks {
        let ends = WalkEnd::ALL.into_iter().zip(self.ends);
        Walks {
            ends: ends
                .filter(|(_, count)| *count > 0)
                .map(|(end, count)| (end.name().to_owned(), count))
                .collect(),
            stacks: self.arrived + self.kernel.len() as u64,
            resent: self.resent,
            checked: self.checked,
        }
    }
}

/// Both ways led along the same frames, as far as both reach: a walk may end before a table was loaded, and a copy may be
/// shorter than the stack.
fn agree(walked: &Walked, copied: &Walk) -> bool {
    let theirs = copied.frames.iter().map(|frame| frame.address.0);
    let ours = walked.frames.iter().map(|frame| frame & !INTERRUPTED);
    let copy_ended = matches!(
        copied.end,
        Err(TruncationReason::CopyTooShort | TruncationReason::NotCaptured)
    );
    let same = ours.zip(theirs).all(|(ours, theirs)| ours == theirs);
    let longer = walked.frames.len().cmp(&copied.frames.len());
    same && match (walked.end.reason().is_none(), copied.end.is_ok()) {
        (true, true) => longer.is_eq(),
        (true, false) => copy_ended && longer.is_ge(),
        (false, true) => longer.is_le(),
        (false, false) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Avma;
    use crate::unwind::{Place, RawFrame};

    fn walk(frames: &[u64], end: Result<(), TruncationReason>) -> Walk {
        let frame = |&address: &u64| RawFrame {
            address: Avma(address),
            is_return_address: true,
            place: Place::Unmapped,
        };
        Walk {
            frames: frames.iter().map(frame).collect(),
            end,
        }
    }

    fn walked(frames: &[u64], end: WalkEnd) -> Walked {
        Walked {
            frames: frames.into(),
            end: End(Some(end)),
        }
    }

    #[test]
    fn walks_agree_as_far_as_both_reach() {
        let complete = walked(&[1, 2 | INTERRUPTED, 3], WalkEnd::Complete);
        assert!(agree(&complete, &walk(&[1, 2, 3], Ok(()))));
        assert!(!agree(&complete, &walk(&[1, 2, 3, 4], Ok(()))));
        assert!(!agree(&complete, &walk(&[1, 2, 3], Err(TruncationReason::BadChain))));
        let early = walked(&[1, 2], WalkEnd::NoTable);
        assert!(agree(&early, &walk(&[1, 2, 3], Ok(()))));
        assert!(!agree(&early, &walk(&[1, 3], Ok(()))));
        let cut = Err(TruncationReason::CopyTooShort);
        assert!(agree(&complete, &walk(&[1, 2], cut)) && !agree(&complete, &walk(&[1, 3], cut)));
    }

    #[test]
    fn frames_are_kept_whole() {
        let frames = [0x5555_0000_1000, 0x7fff_ffff_f000 | INTERRUPTED, 0, u64::MAX, 1];
        let mut dictionary = Dictionary::default();
        dictionary.user(&UserStack {
            key: 5,
            frames: frames.as_slice().into(),
            ..UserStack::default()
        });
        let stacks = Stacks {
            user: 5,
            ..Stacks::default()
        };
        assert_eq!(&*dictionary.user_of(&stacks).unwrap().frames, frames);
    }

    #[test]
    fn a_stack_that_came_twice_is_counted() {
        let mut dictionary = Dictionary::default();
        let stack = UserStack {
            key: 5,
            ..UserStack::default()
        };
        dictionary.user(&stack);
        dictionary.user(&stack);
        let stacks = |user| Stacks {
            user,
            ..Stacks::default()
        };
        assert!(dictionary.end_of(&stacks(5), true).is_some() && dictionary.end_of(&stacks(6), true).is_none());
        assert_eq!((dictionary.finish().resent, dictionary.missing()), (1, 1));
    }

    #[test]
    fn stacks_of_ended_processes_are_forgotten_when_they_are_many() {
        let mut dictionary = Dictionary::default();
        let key = |process: u32, number: u64| u64::from(process) << 32 | number;
        for process in 0..4 {
            for number in 1..=SWEPT as u64 / 2 {
                let key = key(process, number);
                dictionary.user(&UserStack {
                    key,
                    ..UserStack::default()
                });
                // The last one shares its address space.
                if process < 3 {
                    dictionary.belongs_to(key, ProcessId(process));
                }
            }
        }
        let second = |second: u64| Timestamp(second * 1_000_000_000);
        (0..3).for_each(|process| dictionary.ended(ProcessId(process), second(u64::from(process))));
        assert_eq!(dictionary.next_over(second(9)), None, "events may come still");
        for process in [0, 1] {
            assert!(dictionary.has_user(key(process, 1)));
            assert_eq!(dictionary.next_over(second(11)), Some(ProcessId(process)));
            dictionary.forget(ProcessId(process));
        }
        assert_eq!(dictionary.next_over(second(11)), None);
        let left = (0..4).map(|process| dictionary.has_user(key(process, 1)));
        assert_eq!(left.collect::<Vec<_>>(), [false, false, true, true]);
        assert_eq!(dictionary.finish().stacks, 2 * SWEPT as u64, "they were there");
    }

    #[test]
    fn the_hooks_own_frames_are_left_out() {
        let function = |offset, name: &str| (KernelOffset(offset), (KernelOffset(offset & !0xf), name.to_owned()));
        let names = KernelNames::from_iter([
            function(0x10, "bpf_prog_1_sample"),
            function(0x2f, "__traceiter_sched_switch"),
            function(0x30, "__schedule"),
            function(0x3f, "__schedule"),
        ]);
        let frames = |offsets: &[u64]| {
            let offsets: Vec<_> = offsets.iter().map(|offset| KernelOffset(*offset)).collect();
            let walk = KernelWalk::new(&offsets, &names);
            walk.frames().map(|(offset, back)| (offset.0, back)).collect::<Vec<_>>()
        };
        // What the hook interrupted is not the leaf then; by the address before it, the second is of the hook, as it would not be as a leaf.
        assert_eq!(frames(&[0x10, 0x30, 0x40, 0x50]), [(0x40, true), (0x50, true)]);
        assert_eq!(frames(&[0x30, 0x50]), [(0x30, false), (0x50, true)]);
        assert_eq!(frames(&[]), []);
    }
}
