//! User stacks walked by the kernel side: their frames, how the walks ended, and (with `--check-walks`) whether
//! framehop agrees.

mod kept;

use std::sync::Arc;

use profiler_common::stack::FLAG_CHECK;
use profiler_common::stack::INTERRUPTED;
use profiler_common::unwind::WalkEnd;
use rustc_hash::FxHashMap;

use self::kept::{Arrived, KeptStacks, Use};
use crate::{EventKind, ProcessId, TruncationReason, Walks};
use base::addr::{KernelOffset, Timestamp};
use base::event::{KernelStack, Stacks, UserStack};
use unwind::{End, Walk, Walked};

/// Start and name of the kernel function at an address; for a return address, looked up by the address before it.
pub type KernelNames = FxHashMap<KernelOffset, (KernelOffset, String)>;

/// A kernel stack: its leaf, and return addresses.
#[derive(Debug, Clone)]
pub struct KernelWalk {
    frames: Arc<[KernelOffset]>,
    /// Number of innermost frames that belong to the hook itself.
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

    /// The frames outside the hook, innermost first: addresses, and whether they are return addresses.
    pub fn frames(&self) -> impl DoubleEndedIterator<Item = (KernelOffset, bool)> {
        let all = self.frames.iter().enumerate().skip(self.of_hook);
        all.map(|(depth, offset)| (*offset, depth > 0))
    }
}

/// Stacks by key.
#[derive(Debug, Default)]
pub struct Dictionary {
    /// User stacks.
    pub user: KeptStacks,
    /// Number of user stacks that were new when they arrived.
    arrived: u64,
    kernel: FxHashMap<u64, KernelWalk>,
    ends: [u64; WalkEnd::ALL.len()],
    resent: u64,
    checked: Option<(u64, u64)>,
    /// Number of events with stacks missing from the log.
    missing: u64,
}

impl Dictionary {
    /// A user stack arrived. Returns true if its key belonged to another one before.
    pub fn user(&mut self, stack: &UserStack<'_>, now: Timestamp) -> bool {
        let arrived = self.user.add(stack, now);
        self.arrived += u64::from(arrived == Arrived::New);
        self.resent += u64::from(arrived != Arrived::New);
        arrived == Arrived::InsteadOfAnother
    }

    /// A kernel stack arrived; `names` has the functions of the hooks. Returns true if its key belonged to another
    /// one before.
    pub fn kernel(&mut self, stack: &KernelStack<'_>, names: &KernelNames, now: Timestamp) -> bool {
        self.user.arrived(stack.key, now);
        let known = self.kernel.get(&stack.key);
        self.resent += u64::from(known.is_some());
        let is_new = known.is_none_or(|known| *known.frames != *stack.frames);
        let is_other = known.is_some() && is_new;
        if is_new {
            self.kernel.insert(stack.key, KernelWalk::new(&stack.frames, names));
        }
        is_other
    }

    /// How the walk ended for an event with user registers, if known; counts it for samples. `owner` as for
    /// [`KeptStacks::end_of`].
    pub fn end_of(
        &mut self,
        stacks: &Stacks<'_>,
        kind: EventKind,
        owner: impl FnOnce() -> Option<ProcessId>,
    ) -> Option<End> {
        let used = match kind {
            EventKind::Sample | EventKind::Fault => Use::AtOnce,
            EventKind::Wait => Use::Later,
        };
        let end = self.user.end_of(stacks.user, used, owner);
        self.missing += u64::from(stacks.user != 0 && end.is_none());
        let counted = end.and_then(|end| end.0).unwrap_or(WalkEnd::NotWalked);
        self.ends[counted as usize] += u64::from(kind == EventKind::Sample);
        end
    }

    /// The kernel stack of an event.
    pub fn kernel_of(&mut self, stacks: &Stacks<'_>) -> Option<KernelWalk> {
        let stack = self.kernel.get(&stacks.kernel).cloned();
        // Without any, the kernel hides its addresses.
        self.missing += u64::from(stacks.kernel != 0 && stack.is_none() && !self.kernel.is_empty());
        stack
    }

    /// Compares a walk with framehop's result for the copy of the same stack.
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

    /// Number of events with stacks missing from the log.
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

/// Whether both have the same frames, as far as both reach: a walk may end before a table was loaded, and a copy may be
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
    use base::addr::Avma;
    use unwind::{FramePlace, RawFrame};

    fn walk(frames: &[u64], end: Result<(), TruncationReason>) -> Walk {
        let frame = |&address: &u64| RawFrame {
            address: Avma(address),
            is_return_address: true,
            place: FramePlace::Unmapped,
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
    fn walks_agree_on_their_common_part() {
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
    fn a_stack_that_came_twice_is_counted() {
        let mut dictionary = Dictionary::default();
        let stack = UserStack {
            key: 5,
            ..UserStack::default()
        };
        dictionary.user(&stack, Timestamp(0));
        dictionary.user(&stack, Timestamp(1));
        let stacks = |user| Stacks {
            user,
            ..Stacks::default()
        };
        let mut end = |user| dictionary.end_of(&stacks(user), EventKind::Sample, || None);
        assert!(end(5).is_some() && end(6).is_none());
        assert_eq!((dictionary.finish().resent, dictionary.missing()), (1, 1));
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
        // Then the leaf is not the interrupted frame; looked up as a return address, the second belongs to the hook,
        // as a leaf it would not.
        assert_eq!(frames(&[0x10, 0x30, 0x40, 0x50]), [(0x40, true), (0x50, true)]);
        assert_eq!(frames(&[0x30, 0x50]), [(0x30, false), (0x50, true)]);
        assert_eq!(frames(&[]), []);
    }
}
