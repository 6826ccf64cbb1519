//! A set of pages of a block of 512 adjacent ones, as a page table has them.

use std::ops::Range;

/// Pages of a block.
pub const BLOCK: usize = profiler_common::fault::BLOCK_PAGES;
const WORDS: usize = BLOCK / 64;
/// Maximum number of runs in a set.
pub const MAX_RUNS: usize = BLOCK / 2;

/// Pages of a block, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockPages([u64; WORDS]);

impl BlockPages {
    /// From a bit for each page, the first in the lowest.
    pub fn from_bits(bits: [u16; BLOCK / 16]) -> Self {
        let mut words = [0; WORDS];
        for (place, bits) in bits.into_iter().enumerate() {
            words[place / 4] |= u64::from(bits) << (place % 4 * 16);
        }
        Self(words)
    }

    /// Those of the first 64 pages.
    pub fn from_word(word: u64) -> Self {
        let mut pages = Self::default();
        pages.0[0] = word;
        pages
    }

    /// Inverse of [`BlockPages::from_word`]; `None`: it has later pages.
    pub fn to_word(self) -> Option<u64> {
        let [first, rest @ ..] = self.0;
        (rest == [0; WORDS - 1]).then_some(first)
    }

    /// Whether it has this page.
    pub fn contains(self, page: usize) -> bool {
        page < BLOCK && self.0[page / 64] >> (page % 64) & 1 != 0
    }

    /// Adds pages; those beyond the block are left out.
    pub fn insert_range(&mut self, pages: Range<usize>) {
        for (word, mask) in self.0.iter_mut().zip(masks(&pages)) {
            *word |= mask;
        }
    }

    /// Removes all others.
    pub fn keep_range(&mut self, pages: Range<usize>) {
        for (word, mask) in self.0.iter_mut().zip(masks(&pages)) {
            *word &= mask;
        }
    }

    /// The pages of both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        let mut both = self;
        for (word, more) in both.0.iter_mut().zip(other.0) {
            *word |= more;
        }
        both
    }

    /// The pages that are not in `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        let mut left = self;
        for (word, gone) in left.0.iter_mut().zip(other.0) {
            *word &= !gone;
        }
        left
    }

    /// Number of pages.
    pub fn len(self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether it has none.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Its pages as runs, ascending, each as long as it can be.
    pub fn runs(self) -> impl Iterator<Item = Range<usize>> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let start = self.next(from, true)?;
            from = self.next(start, false).unwrap_or(BLOCK);
            Some(start..from)
        })
    }

    /// The first page from `page` on that it has, or has not.
    fn next(self, page: usize, has: bool) -> Option<usize> {
        let wanted = |word: u64| if has { word } else { !word };
        let (word, bit) = (page / 64, page % 64);
        let first = wanted(*self.0.get(word)?) & u64::MAX << bit;
        let others = self.0.iter().enumerate().skip(word + 1);
        let mut words = std::iter::once((word, first)).chain(others.map(|(place, &word)| (place, wanted(word))));
        let (word, found) = words.find(|(_, found)| *found != 0)?;
        Some(word * 64 + found.trailing_zeros() as usize)
    }
}

impl FromIterator<Range<usize>> for BlockPages {
    fn from_iter<T: IntoIterator<Item = Range<usize>>>(ranges: T) -> Self {
        let mut pages = Self::default();
        for range in ranges {
            pages.insert_range(range);
        }
        pages
    }
}

/// The bits of these pages in each word.
fn masks(pages: &Range<usize>) -> impl Iterator<Item = u64> {
    let below = |end: usize| {
        move |word: usize| match end.saturating_sub(word * 64) {
            bits @ ..64 => (1 << bits) - 1,
            _ => u64::MAX,
        }
    };
    let (start, end) = (below(pages.start), below(pages.end));
    (0..WORDS).map(move |word| end(word) & !start(word))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set(ranges: &[Range<usize>]) -> BlockPages {
        ranges.iter().cloned().collect()
    }

    proptest! {
        /// The oracle is a set of numbers.
        #[test]
        fn agrees_with_a_set_of_numbers(
            ranges in prop::collection::vec((0..520_usize, 0..80_usize), 0..8),
            others in prop::collection::vec((0..520_usize, 0..80_usize), 0..4),
            kept in (0..520_usize, 0..520_usize),
        ) {
            let ends = |of: &[(usize, usize)]| of.iter().map(|(first, count)| *first..first + count).collect::<Vec<_>>();
            let numbers = |of: &[Range<usize>]| -> BTreeSet<usize> { of.iter().flat_map(Clone::clone).filter(|page| *page < BLOCK).collect() };
            let (one, other) = (ends(&ranges), ends(&others));
            let mut pages = set(&one);
            prop_assert_eq!(pages.runs().flatten().collect::<BTreeSet<_>>(), numbers(&one));
            prop_assert_eq!(pages.len() as usize, numbers(&one).len());
            let runs: Vec<_> = pages.runs().collect();
            prop_assert!(runs.windows(2).all(|two| two[0].end < two[1].start) && runs.len() <= MAX_RUNS);
            let left: BTreeSet<_> = numbers(&one).difference(&numbers(&other)).copied().collect();
            prop_assert_eq!(pages.without(set(&other)).runs().flatten().collect::<BTreeSet<_>>(), left);
            let union = pages.with(set(&other));
            prop_assert!(union.without(pages) == set(&other).without(pages) && pages.without(union).is_empty());
            pages.keep_range(kept.0..kept.1);
            let inside: BTreeSet<_> = numbers(&one).into_iter().filter(|page| (kept.0..kept.1).contains(page)).collect();
            prop_assert_eq!(pages.runs().flatten().collect::<BTreeSet<_>>(), inside);
            prop_assert_eq!(pages.is_empty(), pages.runs().next().is_none());
        }
    }

    #[test]
    fn bits_are_in_the_order_of_pages() {
        let mut bits = [0; BLOCK / 16];
        (bits[0], bits[5], bits[31]) = (2, 1, 1 << 15);
        let pages = BlockPages::from_bits(bits);
        assert_eq!(pages.runs().collect::<Vec<_>>(), [1..2, 80..81, 511..512]);
        assert!(pages.contains(511) && !pages.contains(512) && pages.to_word().is_none());
        assert_eq!(BlockPages::from_word(6).to_word(), Some(6));
    }
}
