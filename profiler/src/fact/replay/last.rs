//! The walk that a thread had last: most of its stacks differ in their inner frames only, and what is outside of these is a stack of the tables
//! already.

use crate::fact::{ProcessId, StackId, TruncationReason};

/// Threads whose last walk is remembered, at most.
const THREADS: usize = 256;

/// The last walks, by thread.
#[derive(Debug, Default)]
pub struct LastWalks(Vec<LastWalk>);

impl LastWalks {
    /// Takes out the walk of a thread, or of another one with which it shares the place.
    pub fn take(&mut self, tid: u32) -> LastWalk {
        self.0
            .get_mut(tid as usize % THREADS)
            .map_or_else(LastWalk::default, std::mem::take)
    }

    /// Puts a walk in for the next one of this thread.
    pub fn put(&mut self, tid: u32, walk: LastWalk) {
        if self.0.is_empty() {
            self.0.resize_with(THREADS, LastWalk::default);
        }
        if let Some(place) = self.0.get_mut(tid as usize % THREADS) {
            *place = walk;
        }
    }

    /// Stacks have new numbers.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

/// A walk, outermost frame first.
#[derive(Debug, Default)]
pub struct LastWalk {
    /// Whose, and what code was mapped, as [`crate::task::Tasks::code_of`] says.
    mapped: Option<(ProcessId, u64)>,
    reason: Option<TruncationReason>,
    frames: Vec<u64>,
    /// The stack that each frame made on top of those before it.
    stacks: Vec<StackId>,
    /// So many of the outermost frames mean the same for as long as that code is mapped.
    lasting: usize,
}

impl LastWalk {
    /// Cuts it down to what is also outermost in a walk with these frames, innermost first, and means the same there. Returns how many frames these are.
    pub fn cut_to(
        &mut self,
        mapped: Option<(ProcessId, u64)>,
        reason: Option<TruncationReason>,
        frames: &[u64],
    ) -> usize {
        let is_same = mapped.is_some() && (self.mapped, self.reason) == (mapped, reason);
        // An innermost frame is not the same as a caller at the same address.
        let callers = frames.len().min(self.frames.len()).saturating_sub(1);
        let most = if is_same { callers.min(self.lasting) } else { 0 };
        let pairs = self.frames.iter().zip(frames.iter().rev()).take(most);
        let shared = pairs.take_while(|(ours, theirs)| ours == theirs).count();
        self.frames.truncate(shared);
        self.stacks.truncate(shared);
        (self.mapped, self.reason, self.lasting) = (mapped, reason, shared);
        shared
    }

    /// Adds the next frame inward and the stack that it makes; `lasts` tells whether it means the same for as long as its code is mapped, and is asked only where all outer ones do.
    pub fn push(&mut self, frame: u64, stack: StackId, lasts: impl FnOnce() -> bool) {
        if self.lasts() && lasts() {
            self.lasting += 1;
        }
        self.frames.push(frame);
        self.stacks.push(stack);
    }

    /// The stack so far; `None`: there is no frame yet.
    pub fn stack(&self) -> Option<StackId> {
        self.stacks.last().copied()
    }

    /// All frames mean the same for as long as their code is mapped.
    pub fn lasts(&self) -> bool {
        self.lasting == self.frames.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Frames of this number and above may be replaced at any time.
    const MADE: u64 = 6;

    #[expect(clippy::unnecessary_wraps, reason = "as the walk has it")]
    fn mapped(code: u64) -> Option<(ProcessId, u64)> {
        Some((ProcessId(0), code))
    }

    /// Adds the frames that are missing; each stack is numbered by its frames, as an interner would.
    fn add(
        walk: &mut LastWalk,
        frames: &[u64],
        shared: usize,
        reason: Option<TruncationReason>,
        all: &mut Vec<Vec<u64>>,
    ) {
        let outer: Vec<u64> = frames.iter().rev().copied().collect();
        for depth in shared..outer.len() {
            let is_innermost = u64::from(depth + 1 == outer.len());
            let mut key = vec![u64::from(reason.is_some()), is_innermost];
            key.extend(&outer[..=depth]);
            let number = all.iter().position(|known| *known == key).unwrap_or_else(|| {
                all.push(key);
                all.len() - 1
            });
            let stack = StackId::new(u32::try_from(number).unwrap());
            walk.push(outer[depth], stack, || outer[depth] < MADE);
        }
    }

    proptest! {
        /// Whatever walks come one after the other: what is taken over is what the whole walk would have made.
        #[test]
        fn what_is_shared_is_what_a_walk_of_its_own_makes(walks in prop::collection::vec(
            (0..2u64, any::<bool>(), prop::collection::vec(0..8u64, 0..6)), 1..20)) {
            let (mut last, mut all) = (LastWalk::default(), Vec::new());
            for (code, is_cut, frames) in walks {
                let reason = is_cut.then_some(TruncationReason::Limit);
                let shared = last.cut_to(mapped(code), reason, &frames);
                prop_assert!(shared == 0 || shared < frames.len());
                prop_assert!(frames.iter().rev().take(shared).all(|frame| *frame < MADE));
                add(&mut last, &frames, shared, reason, &mut all);
                let mut alone = LastWalk::default();
                alone.cut_to(mapped(code), reason, &frames);
                add(&mut alone, &frames, 0, reason, &mut all);
                prop_assert_eq!(&last.stacks, &alone.stacks);
                prop_assert_eq!(last.lasts(), frames.iter().all(|frame| *frame < MADE));
            }
        }
    }

    #[test]
    fn callers_of_the_same_code_are_shared() {
        let (mut last, mut all) = (LastWalk::default(), Vec::new());
        last.cut_to(mapped(1), None, &[5, 4, 3, 2]);
        add(&mut last, &[5, 4, 3, 2], 0, None, &mut all);
        assert_eq!(last.cut_to(mapped(1), None, &[1, 4, 3, 2]), 3);
        add(&mut last, &[1, 4, 3, 2], 3, None, &mut all);
        assert_eq!(
            last.cut_to(None, None, &[1, 4, 3, 2]),
            0,
            "code that is about to change"
        );
        add(&mut last, &[1, 4, 3, 2], 0, None, &mut all);
        assert_eq!(last.cut_to(None, None, &[1, 4, 3, 2]), 0);
    }

    #[test]
    fn threads_have_walks_of_their_own() {
        let mut walks = LastWalks::default();
        let mut walk = walks.take(7);
        walk.push(1, StackId::new(3), || true);
        walks.put(7, walk);
        assert_eq!(walks.take(8).stack(), None);
        assert_eq!(walks.take(7).stack(), Some(StackId::new(3)));
        assert_eq!(walks.take(7).stack(), None, "taken is taken");
        walks.forget();
        assert_eq!(walks.take(7).stack(), None);
    }
}
