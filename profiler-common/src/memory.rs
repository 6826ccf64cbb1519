//! A block of user memory that is read at once: a frame's saved registers and its return address are adjacent, and so are small
//! frames. Each read is a call that costs more than the copy.

#![allow(clippy::inline_always)] // As in [`crate::unwind`].
#![allow(clippy::cast_possible_truncation)] // A place within a block.

use crate::piece::{Piece, WORD};

/// Bytes of a walk's first block: it covers most short stacks.
pub const FIRST_BLOCK: u64 = 512;
/// Bytes of its second block. A walk that soon meets the thread's previous one needs little; others need everything.
pub const SECOND_BLOCK: u64 = 1024;
/// Further blocks extend to the end of their page: a block within a page is readable if each of its words is.
const PAGE: u64 = 4096;
const WORDS: usize = (PAGE / WORD) as usize;

/// The last block: the words from an address upward, because a walk goes up.
#[repr(C)]
#[derive(Debug, Clone)]
pub struct Block {
    piece: Piece<WORDS>,
    /// Number of blocks read.
    number: u64,
}

impl Default for Block {
    fn default() -> Self {
        let piece = Piece {
            at: 0,
            len: 0,
            words: [0; WORDS],
        };
        Self { piece, number: 0 }
    }
}

impl Block {
    /// Discards the block: the next read is of another thread's memory, or at a later time.
    #[inline(always)]
    pub const fn forget(&mut self) {
        self.piece.forget();
        self.number = 0;
    }

    /// Whether the word at `at` is in the block. Unaligned words never are.
    #[inline(always)]
    pub const fn holds(&self, at: u64) -> bool {
        let offset = at.wrapping_sub(self.piece.at);
        offset < self.piece.len && offset.is_multiple_of(WORD)
    }

    /// The word at `at`, if the block contains it or [`Block::fetch`] has just read it.
    #[inline(always)]
    pub const fn word(&self, at: u64) -> u64 {
        self.piece.word(at)
    }

    /// Reads the block that begins with the word at `at`, or only the word if it is unaligned. `read` reads a number of bytes, at most a page, from an
    /// address to the words. False: they can't be read.
    #[inline(always)]
    pub fn fetch(&mut self, at: u64, read: impl Fn(&mut [u64; WORDS], u64, u64) -> bool) -> bool {
        if !at.is_multiple_of(WORD) {
            (self.piece.at, self.piece.len) = (at, 0);
            return read(&mut self.piece.words, WORD, at);
        }
        let size = match self.number {
            0 => FIRST_BLOCK,
            1 => SECOND_BLOCK,
            _ => PAGE,
        };
        self.number = self.number.wrapping_add(1);
        let top = at.wrapping_add((PAGE - at % PAGE).min(size));
        self.piece.fill(at, top, read)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Memory whose words hold their own address; the page at 0x3000 is missing.
    fn word(block: &mut Block, at: u64, reads: &Cell<u32>) -> Option<u64> {
        let read = |to: &mut [u64; WORDS], len: u64, at: u64| {
            // An unaligned word may cross a page.
            assert!(len == 8 || (len.is_multiple_of(8) && at / PAGE == (at + len - 1) / PAGE));
            reads.set(reads.get() + 1);
            if at & !0xfff == 0x3000 || (at + len - 1) & !0xfff == 0x3000 {
                to.fill(7); // a failed read may leave anything
                return false;
            }
            (at..at + len).step_by(8).zip(to).for_each(|(at, word)| *word = at);
            true
        };
        (block.holds(at) || block.fetch(at, read)).then(|| block.word(at))
    }

    #[test]
    fn each_read_returns_the_requested_word() {
        let reads = Cell::new(0);
        let mut block = Block::default();
        let up = (0x200..0xc00).map(|word| word * 8);
        for at in up.clone().chain(up.rev()) {
            let word = word(&mut block, at, &reads);
            assert_eq!(word, (at & !0xfff != 0x3000).then_some(at), "{at:x}");
        }
        // Up: 512, 1,024 and 2,560 bytes of the first page, and each other one at once. Down: the highest page is still there, and of the others each word is
        // read by itself, as is each of the page that can't be read.
        assert_eq!(reads.get(), 3 + 3 + 3 * 512 + 2 * 512);
    }

    #[test]
    fn a_pair_across_a_page_end_is_read_partly() {
        let reads = Cell::new(0);
        let mut block = Block::default();
        assert_eq!(word(&mut block, 0x2ff8, &reads), Some(0x2ff8));
        assert_eq!(word(&mut block, 0x3000, &reads), None);
        assert_eq!(word(&mut block, 0x2ff8, &reads), Some(0x2ff8));
    }

    #[test]
    fn an_unaligned_word_is_read_separately() {
        let reads = Cell::new(0);
        let mut block = Block::default();
        for at in [0x1000, 0x1001, 0x11ff, 0x1ff9, 0x1001, 0x1000] {
            assert_eq!(word(&mut block, at, &reads), Some(at));
        }
        assert_eq!(reads.get(), 6);
        assert_eq!(word(&mut block, 0x2ff9, &reads), None);
    }

    #[test]
    fn forgotten_words_are_read_again() {
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
    fn an_empty_block_contains_no_address() {
        let block = Block::default();
        let near = (0..0x1000).chain(u64::MAX - 0x1000..=u64::MAX);
        assert!(near.into_iter().all(|at| !block.holds(at)));
    }
}
