//! Each thread's last walk: most of its stacks differ in their inner frames only, and the outer frames are already a
//! stack in the tables.

use crate::{ProcessId, StackId, TruncationReason};

/// Maximum number of threads with a remembered walk.
const THREADS: usize = 256;

/// The last walks, by thread.
#[derive(Debug, Default)]
pub struct LastWalks(Vec<LastWalk>);

impl LastWalks {
    /// Takes out the walk of a thread, or of another thread with the same slot.
    pub fn take(&mut self, tid: u32) -> LastWalk {
        self.0
            .get_mut(tid as usize % THREADS)
            .map_or_else(LastWalk::default, std::mem::take)
    }

    /// Stores a walk for this thread's next one.
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
    /// Process and its mapped code, as [`task::Tasks::code_of`] returns it.
    mapped: Option<(ProcessId, u64)>,
    reason: Option<TruncationReason>,
    frames: Vec<u64>,
    /// The stack up to each frame.
    stacks: Vec<StackId>,
    /// Number of outermost frames that stay valid while that code is mapped.
    lasting: usize,
}

impl LastWalk {
    /// Truncates it to the outermost frames that a walk with these frames, innermost first, shares. Returns their
    /// number.
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

    /// Adds the next inner frame and its stack; `lasts` is called only if all outer frames last, and returns whether
    /// this one stays valid while its code is mapped.
    pub fn push(&mut self, frame: u64, stack: StackId, lasts: impl FnOnce() -> bool) {
        if self.lasts() && lasts() {
            self.lasting += 1;
        }
        self.frames.push(frame);
        self.stacks.push(stack);
    }

    /// The stack so far; `None` if there is no frame yet.
    pub fn stack(&self) -> Option<StackId> {
        self.stacks.last().copied()
    }

    /// Whether all frames stay valid while their code is mapped.
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

    #[expect(clippy::unnecessary_wraps, reason = "matches the walk's signature")]
    fn mapped(code: u64) -> Option<(ProcessId, u64)> {
        Some((ProcessId(0), code))
    }

    /// Adds the missing frames; each stack is numbered by its frames, as an interner would do.
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
        /// In any sequence of walks, the reused part equals the result of the whole walk.
        #[test]
        fn a_shared_walk_equals_a_separate_one(walks in prop::collection::vec(
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
    fn threads_have_separate_walks() {
        let mut walks = LastWalks::default();
        let mut walk = walks.take(7);
        walk.push(1, StackId::new(3), || true);
        walks.put(7, walk);
        assert_eq!(walks.take(8).stack(), None);
        assert_eq!(walks.take(7).stack(), Some(StackId::new(3)));
        assert_eq!(walks.take(7).stack(), None, "it was already taken");
        walks.forget();
        assert_eq!(walks.take(7).stack(), None);
    }
}
