//! Code ranges that walks met lately: a stack goes back and forth between few files, and a search takes ten looks at memory that is
//! rarely near.

#![allow(clippy::inline_always)] // As in [`crate::unwind`].
#![allow(clippy::cast_possible_truncation)] // A place among few.

use crate::space::CodeRange;

/// How many are remembered, a power of two.
const COUNT: usize = 8;

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct KnownRange {
    /// The run that it is of, as its word: another one each time that a run is written.
    run: u64,
    range: CodeRange,
}

/// The last ranges that were searched for. Zeroed memory is an empty one: no address lies within its ranges.
#[repr(C)]
#[derive(Debug, Clone, Default)]
pub struct KnownRanges {
    known: [KnownRange; COUNT],
    /// The place that the next one takes.
    next: u64,
}

impl KnownRanges {
    /// The range of the run with the word `run` that covers `address`, if it is remembered.
    #[inline(always)]
    pub fn recall(&self, run: u64, address: u64) -> Option<&CodeRange> {
        self.known
            .iter()
            .find(|known| known.run == run && known.range.start <= address && address < known.range.end)
            .map(|known| &known.range)
    }

    /// Remembers a range that was just found.
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
    fn the_last_ones_stay() {
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
