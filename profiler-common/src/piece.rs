//! A piece of a user stack that is read at once: the words that the steps of a whole walk read are close together, and each read is a call.
//!
//! [`crate::last_walk`] compares a walk's words with it. Reading is all or nothing; the blocks of [`crate::memory`] are pieces within a page.

#![allow(clippy::inline_always)] // As in [`crate::unwind`].
#![allow(clippy::cast_possible_truncation)] // A place within a piece.

/// Words of a piece for comparing a walk: 32 KiB. A browser's stack is 24 KiB, of which a fault's walk passes the innermost frames itself.
pub const WORDS: usize = 4096;
/// Size of a word in bytes.
pub(crate) const WORD: u64 = size_of::<u64>() as u64;

/// The words from an address upward, at most `N`, a power of two. Zeroed memory is an empty piece.
#[repr(C)]
#[derive(Debug, Clone)]
pub struct Piece<const N: usize = WORDS> {
    /// Address of the first word, a multiple of 8.
    pub(crate) at: u64,
    /// Number of bytes read, a multiple of 8.
    pub(crate) len: u64,
    pub(crate) words: [u64; N],
}

impl<const N: usize> Piece<N> {
    /// Capacity in bytes.
    pub const BYTES: u64 = N as u64 * WORD;

    /// Discards the content.
    #[inline(always)]
    pub const fn forget(&mut self) {
        (self.at, self.len) = (0, 0);
    }

    /// Whether the words below `top`, which is not 0, are here, as far down as the piece extends.
    #[inline(always)]
    pub const fn reaches(&self, top: u64) -> bool {
        top.wrapping_sub(self.at) <= self.len
    }

    /// Reads from `from` up to `top`, or as far as the capacity allows. `read` copies bytes, at most [`Piece::BYTES`], from an address to the words. False:
    /// the memory can't be read, or there is nothing to read.
    #[inline(always)]
    pub fn fill(&mut self, from: u64, top: u64, read: impl Fn(&mut [u64; N], u64, u64) -> bool) -> bool {
        self.len = 0;
        self.at = from & !(WORD - 1);
        let len = top.wrapping_sub(self.at) & !(WORD - 1);
        // The verifier has to see the bound at the call, whatever the compiler knows.
        let len = core::hint::black_box(len).min(Self::BYTES);
        if len == 0 || !read(&mut self.words, len, self.at) {
            return false;
        }
        self.len = len;
        true
    }

    /// The word at `at`, a multiple of 8 between the start and what it [`Piece::reaches`]; an arbitrary word elsewhere. The caller checks the
    /// range: hundreds are read.
    #[inline(always)]
    pub const fn word(&self, at: u64) -> u64 {
        self.words[(at.wrapping_sub(self.at) / WORD) as usize & (N - 1)]
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::boxed::Box;

    use super::*;

    const BYTES: u64 = Piece::<WORDS>::BYTES;

    /// An empty one.
    #[allow(clippy::large_stack_arrays)] // A test's stack has room for it.
    pub fn empty() -> Box<Piece> {
        Box::new(Piece {
            at: 0,
            len: 0,
            words: [0; WORDS],
        })
    }

    /// Memory whose words hold their own address.
    fn filled(from: u64, top: u64) -> Option<Box<Piece>> {
        let mut piece = empty();
        let read = |to: &mut [u64; WORDS], len: u64, at: u64| {
            assert!(len <= BYTES && len.is_multiple_of(8) && at.is_multiple_of(8));
            (at..at + len).step_by(8).zip(to).for_each(|(at, word)| *word = at);
            true
        };
        piece.fill(from, top, read).then_some(piece)
    }

    #[test]
    fn each_word_is_in_its_place() {
        let piece = filled(0x1003, 0x2000).unwrap();
        assert_eq!(piece.at, 0x1000);
        for at in (0x1000..0x2000).step_by(8) {
            assert!(piece.reaches(at + 8));
            assert_eq!(piece.word(at), at);
        }
    }

    #[test]
    fn a_piece_ends_at_its_capacity() {
        let piece = filled(0x1000, 0x100_0000).unwrap();
        assert_eq!(piece.word(0x0ff8 + BYTES), 0x0ff8 + BYTES);
        for beyond in [0x1008 + BYTES, 0xff8, 0, u64::MAX, 1 << 63] {
            assert!(!piece.reaches(beyond), "{beyond:x}");
        }
    }

    #[test]
    fn an_empty_piece_contains_nothing() {
        let mut forgotten = filled(0x1000, 0x2000).unwrap();
        forgotten.forget();
        let mut refused = empty();
        assert!(!refused.fill(0x1000, 0x2000, |_, _, _| false) && filled(0x1000, 0x1007).is_none());
        for piece in [empty(), forgotten] {
            for top in [8, 0x1000, 0x1008, 0x2000, u64::MAX - 7] {
                assert!(!piece.reaches(top), "{top:x}");
            }
        }
        assert!(!refused.reaches(0x1008));
    }
}
