//! Ranges that were mapped around the latest faults: what is read before such a fault has ended may have been in memory for it.

use std::collections::VecDeque;

use crate::addr::Timestamp;
use crate::event::FileId;
use crate::fact::fault::PageRange;

/// Ranges that are kept: of more faults than end while one of them reads.
const MAX_RANGES: usize = 1 << 12;

/// Ranges of the latest faults of all files.
#[derive(Debug, Default)]
pub struct Latest {
    /// In the order in which their faults ended.
    ranges: VecDeque<Ended>,
    /// When the last fault that is kept no longer had ended.
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
        // A fault that comes too late counts as one that has ended later.
        let end = self.ranges.back().map_or(end, |last| end.max(last.end));
        if self.ranges.len() == MAX_RANGES {
            self.dropped = self.ranges.pop_front().map(|oldest| oldest.end);
        }
        self.ranges.push_back(Ended { end, file, pages });
    }

    /// The ranges of faults of a file that ended after `time`. `None`: that was too long ago.
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
