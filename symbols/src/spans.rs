//! Named address ranges that replace each other over time, as described by perf maps and jitdump
//! files.

use rustc_hash::FxHashMap;

/// Ranges are found by the pages they touch.
const PAGE_SHIFT: u32 = 12;
/// A range over more pages is kept in a separate list.
const MAX_PAGES: u64 = 256;
/// More ranges than this in one page, or in the list of large ones, are dropped and counted.
const MAX_PER_BUCKET: usize = 1 << 16;
/// More ranges than this in total are dropped and counted.
const MAX_SPANS: usize = 16 << 20;

/// A range of addresses that has the meaning `value` from `time` on, or none from then on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span<T> {
    /// Start time; ties are resolved by the order of insertion.
    pub time: u64,
    pub start: u64,
    /// Exclusive.
    pub end: u64,
    /// `None`: the code that was here was removed.
    pub value: Option<T>,
}

/// Ranges by address and time.
#[derive(Debug)]
pub(crate) struct Spans<T> {
    sorted: Vec<Span<T>>,
    pages: FxHashMap<u64, Vec<u32>>,
    large: Vec<u32>,
    dropped: u64,
}

impl<T> Default for Spans<T> {
    fn default() -> Self {
        Self {
            sorted: Vec::new(),
            pages: FxHashMap::default(),
            large: Vec::new(),
            dropped: 0,
        }
    }
}

impl<T: Copy> Spans<T> {
    /// Collects `spans`; of those with equal times, later ones have precedence.
    pub(crate) fn new(spans: impl Iterator<Item = Span<T>>) -> Self {
        let mut collected = Self::default();
        for span in spans.filter(|span| span.start < span.end) {
            if collected.sorted.len() < MAX_SPANS {
                collected.sorted.push(span);
            } else {
                collected.dropped += 1;
            }
        }
        collected.sorted.sort_by_key(|span| span.time);
        for (index, span) in (0_u32..).zip(&collected.sorted) {
            let (first, last) = (span.start >> PAGE_SHIFT, (span.end - 1) >> PAGE_SHIFT);
            let mut complete = true;
            if last - first >= MAX_PAGES {
                complete = push_limited(&mut collected.large, index);
            } else {
                for page in first..=last {
                    complete &= push_limited(collected.pages.entry(page).or_default(), index);
                }
            }
            collected.dropped += u64::from(!complete);
        }
        collected
    }

    /// The value for `address` at `time`.
    pub(crate) fn lookup(&self, time: u64, address: u64) -> Option<&Span<T>> {
        let page = self.pages.get(&(address >> PAGE_SHIFT)).map_or(&[][..], Vec::as_slice);
        let newest = [page, &self.large]
            .into_iter()
            .filter_map(|bucket| self.newest(bucket, time, address))
            .max()?;
        self.sorted.get(newest as usize).filter(|span| span.value.is_some())
    }

    /// Number of dropped ranges.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    fn newest(&self, bucket: &[u32], time: u64, address: u64) -> Option<u32> {
        let span = |index: &u32| self.sorted.get(*index as usize);
        let until = bucket.partition_point(|index| span(index).is_some_and(|span| span.time <= time));
        let covers = |index: &&u32| span(index).is_some_and(|span| (span.start..span.end).contains(&address));
        bucket.get(..until)?.iter().rev().find(covers).copied()
    }
}

fn push_limited(bucket: &mut Vec<u32>, index: u32) -> bool {
    let fits = bucket.len() < MAX_PER_BUCKET;
    if fits {
        bucket.push(index);
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compared with a linear search of the list, with small and large ranges.
        #[test]
        fn the_newest_covering_span_wins(
            list in prop::collection::vec((0_u64..20, 0_u64..(4 << 20), 1_u64..(3 << 20), any::<bool>()), 0..40),
            probes in prop::collection::vec((0_u64..25, 0_u64..(8 << 20)), 0..100),
        ) {
            let span = |(index, &(time, start, size, gone)): (usize, &(u64, u64, u64, bool))| {
                Span { time, start, end: start + size, value: (!gone).then_some(index) }
            };
            let all: Vec<_> = list.iter().enumerate().map(span).collect();
            let spans = Spans::new(all.iter().copied());
            prop_assert_eq!(spans.dropped(), 0);
            for (time, address) in probes {
                let covering = all.iter().filter(|span| span.time <= time && (span.start..span.end).contains(&address));
                // Of equal times, `max_by_key` takes the last.
                let expected = covering.max_by_key(|span| span.time).and_then(|span| span.value);
                prop_assert_eq!(spans.lookup(time, address).and_then(|span| span.value), expected);
            }
        }
    }
}
