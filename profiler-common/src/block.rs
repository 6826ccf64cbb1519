//! A block of user memory that is read at once: a frame's saved registers and its return address are neighbours, and so are small
//! frames. Every read is a call that costs more than what it copies.

#![allow(clippy::inline_always)] // As in [`crate::unwind`].
#![allow(clippy::cast_possible_truncation)] // A place within a block.

/// Bytes of a block, a power of two and less than a page: a block can be read exactly if each of its words can.
pub const BLOCK: usize = 512;
const WORDS: usize = BLOCK / size_of::<u64>();
/// [`Block::at`] when nothing was read. No block starts there.
const NOTHING: u64 = 1;

/// The block that was read last.
#[repr(C)]
#[derive(Debug, Clone)]
pub struct Block {
    at: u64,
    words: [u64; WORDS],
}

impl Default for Block {
    fn default() -> Self {
        Self {
            at: NOTHING,
            words: [0; WORDS],
        }
    }
}

impl Block {
    /// Forgets what was read: another thread's memory comes next, or the same thread's at a later time.
    #[inline(always)]
    pub const fn forget(&mut self) {
        self.at = NOTHING;
    }

    /// The word at `at`, a multiple of 8. `read` reads a whole block, and fails if the memory can't be read.
    #[inline(always)]
    pub fn word(&mut self, at: u64, read: impl Fn(&mut [u64; WORDS], u64) -> bool) -> Option<u64> {
        let start = at & !(BLOCK as u64 - 1);
        if self.at != start {
            self.at = NOTHING;
            if !read(&mut self.words, start) {
                return None;
            }
            self.at = start;
        }
        let place = (at & (BLOCK as u64 - 1)) as usize / size_of::<u64>();
        self.words.get(place).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Memory whose words hold their own address; the page at 0x3000 is missing.
    fn read(reads: &Cell<u32>, to: &mut [u64; WORDS], at: u64) -> bool {
        assert!(at.is_multiple_of(BLOCK as u64));
        reads.set(reads.get() + 1);
        if at & !0xfff == 0x3000 {
            to.fill(7); // a failed read may leave anything
            return false;
        }
        (at..).step_by(8).zip(to).for_each(|(at, word)| *word = at);
        true
    }

    #[test]
    fn every_word_is_the_one_that_was_asked_for() {
        let reads = Cell::new(0);
        let mut block = Block::default();
        let up = (0x200..0xc00).map(|word| word * 8);
        for at in up.clone().chain(up.rev()) {
            let word = block.word(at, |to, at| read(&reads, to, at));
            assert_eq!(word, (at & !0xfff != 0x3000).then_some(at), "{at:x}");
        }
        // The highest block was still there when the way back began, and nothing is known of what can't be read.
        let blocks = 4 * 4096 / BLOCK * 2 - 1;
        assert_eq!(reads.get() as usize, blocks + 2 * 4096 / 8);
    }

    #[test]
    fn a_pair_at_the_end_of_a_readable_page_is_half_there() {
        let reads = Cell::new(0);
        let mut block = Block::default();
        assert_eq!(block.word(0x2ff8, |to, at| read(&reads, to, at)), Some(0x2ff8));
        assert_eq!(block.word(0x3000, |to, at| read(&reads, to, at)), None);
        assert_eq!(block.word(0x2ff8, |to, at| read(&reads, to, at)), Some(0x2ff8));
    }

    #[test]
    fn what_was_forgotten_is_read_again() {
        let reads = Cell::new(0);
        let mut block = Block::default();
        for _ in 0..3 {
            block.word(0x1008, |to, at| read(&reads, to, at));
            block.word(0x1010, |to, at| read(&reads, to, at));
            block.forget();
        }
        assert_eq!(reads.get(), 3);
    }

    #[test]
    fn the_last_addresses_of_all_do_not_overflow() {
        let mut block = Block::default();
        assert_eq!(block.word(u64::MAX - 7, |_, _| false), None);
        assert_eq!(block.word(0, |_, _| true), Some(0));
    }
}
