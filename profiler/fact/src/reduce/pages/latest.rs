//! Ranges that were mapped around the latest faults: pages that are read before such a fault ends may have been in memory for it.

use std::collections::VecDeque;

use crate::fault::PageRange;
use base::addr::Timestamp;
use base::event::FileId;

/// Maximum number of kept ranges: more faults than end while one of them reads.
const MAX_RANGES: usize = 1 << 12;

/// Ranges of the latest faults of all files.
#[derive(Debug, Default)]
pub struct Latest {
    /// In the order of the ends of their faults.
    ranges: VecDeque<Ended>,
    /// End of the last fault that is no longer kept.
    dropped: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy)]
struct Ended {
    end: Timestamp,
    file: FileId,
    pages: PageRange,
}

impl Latest {
    /// Adds the range of a fault that has ended.
    pub fn add(&mut self, end: Timestamp, file: FileId, pages: PageRange) {
        // A fault that arrives too late counts as one that ended later.
        let end = self.ranges.back().map_or(end, |last| end.max(last.end));
        if self.ranges.len() == MAX_RANGES {
            self.dropped = self.ranges.pop_front().map(|oldest| oldest.end);
        }
        self.ranges.push_back(Ended { end, file, pages });
    }

    /// The ranges of a file's faults that ended after `time`. `None`: that is too long ago.
    pub fn since(&self, time: Timestamp, file: FileId) -> Option<Vec<PageRange>> {
        if self.dropped.is_some_and(|dropped| time < dropped) {
            return None;
        }
        let later = self.ranges.iter().rev().take_while(|range| range.end > time);
        Some(
            later
                .filter(|range| range.file == file)
                .map(|range| range.pages)
                .collect(),
        )
    }
}
