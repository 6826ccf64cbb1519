//! A block of user memory that is read at once: a frame's saved registers and its return address are neighbours, and so are small
//! frames. Every read is a call that costs more than what it copies.

#![allow(clippy::inline_always)] // As in [`crate::unwind`].
#![allow(clippy::cast_possible_truncation)] // A place within a block.

/// Bytes of a walk's first block, a power of two: most short stacks lie within it.
pub const FIRST_BLOCK: usize = 512;
/// Bytes of the others: a page, the most that can be read exactly if each of its words can.
pub const BLOCK: usize = 4096;
const WORDS: usize = BLOCK / size_of::<u64>();
const FIRST_WORDS: usize = FIRST_BLOCK / size_of::<u64>();
/// The bits of an address that choose a word of its block.
const PLACE: u64 = BLOCK as u64 - size_of::<u64>() as u64;
const FIRST_PLACE: u64 = FIRST_BLOCK as u64 - size_of::<u64>() as u64;
/// [`Block::at`] when nothing is there: one of the bits that a block's address does not have.
const NOTHING: u64 = 8;

/// The block that was read last.
#[repr(C)]
#[derive(Debug, Clone)]
pub struct Block {
    at: u64,
    /// [`PLACE`] or [`FIRST_PLACE`]
    place: u64,
    /// 1: the first block was read, or could not be.
    later: u64,
    /// Of a page, each word in its place.
    words: [u64; WORDS],
}

impl Default for Block {
    fn default() -> Self {
        Self {
            at: NOTHING,
            place: FIRST_PLACE,
            later: 0,
            words: [0; WORDS],
        }
    }
}

impl Block {
    /// Forgets what was read: another thread's memory comes next, or the same thread's at a later time.
    #[inline(always)]
    pub const fn forget(&mut self) {
        self.at = NOTHING;
        self.place = FIRST_PLACE;
        self.later = 0;
    }

    /// The word at `at` was read already. No block holds one that is not aligned.
    #[inline(always)]
    pub const fn holds(&self, at: u64) -> bool {
        self.at == at & !self.place
    }

    /// The word at `at`, if the block holds it or if [`Block::fetch`] has just fetched it.
    #[inline(always)]
    pub fn word(&self, at: u64) -> u64 {
        let place = (at & PLACE) as usize / size_of::<u64>();
        self.words.get(place).copied().unwrap_or(0)
    }

    /// Reads the block of the word at `at`; of one that is not aligned, only itself. `read` reads words from an address. False: they
    /// can't be read.
    #[inline(always)]
    pub fn fetch(&mut self, at: u64, read: impl Fn(&mut [u64], u64) -> bool) -> bool {
        self.at = NOTHING;
        let place = (at & PLACE) as usize / size_of::<u64>();
        if !at.is_multiple_of(size_of::<u64>() as u64) {
            return self
                .words
                .get_mut(place)
                .is_some_and(|word| read(core::slice::from_mut(word), at));
        }
        let read = if self.later == 0 {
            self.later = 1;
            let first = place & !(FIRST_WORDS - 1);
            self.words
                .get_mut(first..first + FIRST_WORDS)
                .is_some_and(|words| read(words, at & !FIRST_PLACE))
        } else {
            self.place = PLACE;
            read(&mut self.words, at & !PLACE)
        };
        if read {
            self.at = at & !self.place;
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Memory whose words hold their own address; the page at 0x3000 is missing.
    fn word(block: &mut Block, at: u64, reads: &Cell<u32>) -> Option<u64> {
        let read = |to: &mut [u64], at: u64| {
            let len = size_of_val(to) as u64;
            assert!(len == 8 || ([FIRST_BLOCK, BLOCK].contains(&(len as usize)) && at.is_multiple_of(len)));
            reads.set(reads.get() + 1);
            if at & !0xfff == 0x3000 || (at + len - 1) & !0xfff == 0x3000 {
                to.fill(7); // a failed read may leave anything
                return false;
            }
            (at..).step_by(8).zip(to).for_each(|(at, word)| *word = at);
            true
        };
        (block.holds(at) || block.fetch(at, read)).then(|| block.word(at))
    }

    #[test]
    fn every_word_is_the_one_that_was_asked_for() {
        let reads = Cell::new(0);
        let mut block = Block::default();
        let up = (0x200..0xc00).map(|word| word * 8);
        for at in up.clone().chain(up.rev()) {
            let word = word(&mut block, at, &reads);
            assert_eq!(word, (at & !0xfff != 0x3000).then_some(at), "{at:x}");
        }
        // The first block is smaller: its page is read again. The highest block was still there when the way back began, and nothing is known of
        // what can't be read.
        let blocks = 1 + 4 * 4096 / BLOCK * 2 - 1;
        assert_eq!(reads.get() as usize, blocks + 2 * 4096 / 8);
    }

    #[test]
    fn a_pair_at_the_end_of_a_readable_page_is_half_there() {
        let reads = Cell::new(0);
        let mut block = Block::default();
        assert_eq!(word(&mut block, 0x2ff8, &reads), Some(0x2ff8));
        assert_eq!(word(&mut block, 0x3000, &reads), None);
        assert_eq!(word(&mut block, 0x2ff8, &reads), Some(0x2ff8));
    }

    #[test]
    fn a_word_that_is_not_aligned_is_read_by_itself() {
        let reads = Cell::new(0);
        let mut block = Block::default();
        for at in [0x1000, 0x1001, 0x11ff, 0x1ff9, 0x1001, 0x1000] {
            assert_eq!(word(&mut block, at, &reads), Some(at));
        }
        assert_eq!(reads.get(), 6);
        assert_eq!(word(&mut block, 0x2ff9, &reads), None);
    }

    #[test]
    fn what_was_forgotten_is_read_again() {
        let reads = Cell::new(0);
        let mut block = Block::default();
        for _ in 0..3 {
            word(&mut block, 0x1008, &reads);
            word(&mut block, 0x1010, &reads);
            block.forget();
        }
        assert_eq!(reads.get(), 3);
    }

    #[test]
    fn an_empty_block_holds_no_address() {
        let block = Block::default();
        let near = (0..0x1000).chain(u64::MAX - 0x1000..=u64::MAX);
        assert!(near.into_iter().all(|at| !block.holds(at)));
    }
}
