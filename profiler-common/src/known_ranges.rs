//! A cache of recently used code ranges: a stack alternates between few files, and a search takes ten reads of memory that is
//! rarely cached.

#![allow(clippy::inline_always)] // As in [`crate::unwind`].
#![allow(clippy::cast_possible_truncation)] // A place among few.

use crate::space::CodeRange;

/// Number of cached ranges, a power of two.
const COUNT: usize = 8;

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct KnownRange {
    /// Word of the run that the range belongs to; it changes each time a run is written.
    run: u64,
    range: CodeRange,
}

/// The ranges of the last searches. Zeroed memory is an empty cache: no address is within its ranges.
#[repr(C)]
#[derive(Debug, Clone, Default)]
pub struct KnownRanges {
    known: [KnownRange; COUNT],
    /// Index of the next entry to replace.
    next: u64,
}

impl KnownRanges {
    /// The range of the run with the word `run` that covers `address`, if it is cached.
    #[inline(always)]
    pub fn recall(&self, run: u64, address: u64) -> Option<&CodeRange> {
        self.known
            .iter()
            .find(|known| known.run == run && known.range.start <= address && address < known.range.end)
            .map(|known| &known.range)
    }

    /// Adds a range that was just found.
    #[inline(always)]
    pub fn learn(&mut self, run: u64, range: &CodeRange) {
        if let Some(known) = self.known.get_mut(self.next as usize & (COUNT - 1)) {
            self.next = self.next.wrapping_add(1);
            *known = KnownRange { run, range: *range };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> CodeRange {
        CodeRange {
            start,
            end,
            bias: start + 1,
            ..CodeRange::default()
        }
    }

    #[test]
    fn nothing_is_known_at_first() {
        assert_eq!(KnownRanges::default().recall(0, 0), None);
    }

    #[test]
    fn a_range_is_known_to_its_run_and_within_its_bounds() {
        let mut known = KnownRanges::default();
        known.learn(5, &range(100, 200));
        assert_eq!(known.recall(5, 100), Some(&range(100, 200)));
        assert_eq!(known.recall(5, 199), Some(&range(100, 200)));
        assert_eq!((known.recall(5, 99), known.recall(5, 200)), (None, None));
        assert_eq!(known.recall(6, 100), None);
    }

    #[test]
    fn the_most_recent_ranges_are_kept() {
        let mut known = KnownRanges::default();
        for number in 0..20 {
            known.learn(1, &range(number * 100, number * 100 + 100));
        }
        for number in 0..20 {
            let found = known.recall(1, number * 100 + 50);
            assert_eq!(found.is_some(), number >= 20 - COUNT as u64, "{number}");
        }
    }
}
