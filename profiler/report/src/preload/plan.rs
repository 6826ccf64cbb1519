//! Combines needed pages into ranges and orders them.

use super::model::Model;
use super::need::FileNeed;
use base::addr::{PAGE, Timestamp};

/// Maximum number of ranges; those needed last are dropped.
pub const MAX_RANGES: usize = 1 << 18;

/// A part of a file that is read in one go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Index into the list of files.
    pub file: usize,
    /// Offset of the first byte.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Earliest time at which a page is needed.
    pub need: Timestamp,
    /// Needed bytes in the range.
    pub needed: u64,
}

/// Plans the ranges, ordered by the time at which they are needed.
///
/// Each range starts with the earliest page that is in no range yet. It grows in both directions over pages that are needed
/// within the horizon, as long as the distance between two pages does not exceed the gap.
pub fn plan(files: &[FileNeed], model: &Model) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    for (index, file) in files.iter().enumerate() {
        of_file(index, &file.pages, model, &mut ranges);
    }
    ranges.sort_by_key(|range| (range.need, range.file, range.offset));
    ranges.truncate(MAX_RANGES);
    ranges
}

fn of_file(file: usize, pages: &[(u64, Timestamp)], model: &Model, ranges: &mut Vec<Range>) {
    let mut order: Vec<usize> = (0..pages.len()).collect();
    order.sort_by_key(|&at| (pages[at].1, pages[at].0));
    let mut taken = vec![false; pages.len()];
    for start in order {
        if taken[start] {
            continue;
        }
        let need = pages[start].1;
        let last = reach(pages, &taken, start, start + 1..pages.len(), model);
        let first = reach(pages, &taken, start, (0..start).rev(), model);
        taken[first..=last].fill(true);
        let (from, to) = (pages[first].0, pages[last].0);
        // Page numbers derive from byte offsets or come from a log, where they can have any value.
        let (Some(offset), Some(len)) = (from.checked_mul(PAGE), (to - from + 1).checked_mul(PAGE)) else {
            continue;
        };
        ranges.push(Range {
            file,
            offset,
            len,
            need,
            needed: (last - first + 1) as u64 * PAGE,
        });
    }
}

/// Index of the farthest page on one side that is read together with the page at `start`.
fn reach(
    pages: &[(u64, Timestamp)],
    taken: &[bool],
    start: usize,
    side: impl Iterator<Item = usize>,
    model: &Model,
) -> usize {
    let until = pages[start].1.0.saturating_add(base::addr::ns(model.horizon));
    let mut end = start;
    for at in side {
        let between = pages[at]
            .0
            .abs_diff(pages[end].0)
            .saturating_sub(1)
            .saturating_mul(PAGE);
        if taken[at] || between > model.gap {
            break;
        }
        if pages[at].1.0 <= until {
            end = at;
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use base::event::FileId;

    fn need(pages: &[(u64, u64)]) -> FileNeed {
        FileNeed {
            id: FileId::default(),
            path: "/x".into(),
            build_id: Vec::new(),
            deleted: false,
            pages: pages.iter().map(|&(page, time)| (page, Timestamp(time))).collect(),
            wasted: 0,
        }
    }

    const MODEL: Model = Model {
        gap: 2 * PAGE,
        horizon: Duration::from_nanos(10),
        learned: None,
    };

    fn planned(pages: &[(u64, u64)]) -> Vec<(u64, u64, u64)> {
        let ranges = plan(&[need(pages)], &MODEL);
        (ranges.iter())
            .map(|range| (range.offset / PAGE, range.len / PAGE, range.need.0))
            .collect()
    }

    #[test]
    fn short_gaps_are_read_and_long_ones_skipped() {
        assert_eq!(planned(&[(0, 5), (3, 5)]), [(0, 4, 5)]);
        assert_eq!(planned(&[(0, 5), (4, 5)]), [(0, 1, 5), (4, 1, 5)]);
    }

    #[test]
    fn ranges_are_ordered_by_first_need() {
        assert_eq!(planned(&[(0, 900), (100, 5)]), [(100, 1, 5), (0, 1, 900)]);
        // The page before is needed soon enough to be included.
        assert_eq!(planned(&[(9, 15), (10, 5)]), [(9, 2, 5)]);
    }

    #[test]
    fn pages_needed_much_later_count_as_gaps() {
        // The page between is needed later, but reading it costs less than a seek.
        assert_eq!(planned(&[(0, 5), (1, 900), (2, 6)]), [(0, 3, 5)]);
        // At the end of a range, it gets a separate range.
        assert_eq!(planned(&[(0, 5), (1, 900)]), [(0, 1, 5), (1, 1, 900)]);
    }

    proptest! {
        #[test]
        fn each_page_is_in_one_range(
            pages in proptest::collection::btree_map(0u64..200, 0u64..40, 0..100),
            gap in 0u64..20,
            horizon in 0u64..40,
        ) {
            let pages: Vec<(u64, u64)> = pages.into_iter().collect();
            let model = Model { gap: gap * PAGE, horizon: Duration::from_nanos(horizon), learned: None };
            let ranges = plan(&[need(&pages)], &model);
            for &(page, time) in &pages {
                let holders: Vec<&Range> = (ranges.iter())
                    .filter(|range| (range.offset..range.offset + range.len).contains(&(page * PAGE)))
                    .collect();
                prop_assert_eq!(holders.len(), 1);
                // The page is read in time.
                prop_assert!(holders[0].need.0 <= time);
            }
            let needed: u64 = ranges.iter().map(|range| range.needed).sum();
            prop_assert_eq!(needed, pages.len() as u64 * PAGE);
            prop_assert!(ranges.is_sorted_by_key(|range| range.need));
        }
    }
}
