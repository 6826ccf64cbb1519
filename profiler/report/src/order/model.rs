//! The page model: a pure simulation of which pages the kernel maps and reads when functions run, and what that costs.
//!
//! - A function that runs touches every page that contains its bytes.
//! - **Warm**, a fault maps the aligned window of 64 KiB around it (`fault_around_bytes`), 16 pages of 4 KiB; in exact-touch mode only its own page.
//! - **Cold**, a fault on a page that is not in memory reads 128 KiB around it (`mm/filemap.c`: `do_sync_mmap_readahead`, with the usual
//!   read-ahead), 32 pages of 4 KiB: from 64 KiB before it on, within the file.

use std::collections::BTreeSet;

/// Bytes that a fault maps, its own page included.
const AROUND: u64 = 64 << 10;
/// Bytes that a fault reads, its own page included.
const READ_AROUND: u64 = 128 << 10;
/// Limit of bytes simulated per function.
const MAX_FUNCTION: u64 = 16 << 20;

/// Page faults and reads of a simulated run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Cost {
    /// Distinct pages touched: the number of faults if every first touch faults.
    pub pages: u64,
    /// Faults with all pages in memory, where each fault maps the pages around it.
    pub warm_faults: u64,
    /// Reads with no page in memory.
    pub reads: u64,
    /// Bytes read by `reads`.
    pub read_bytes: u64,
}

/// State of a simulated run.
#[derive(Debug)]
pub struct Walk {
    touched: BTreeSet<u64>,
    windows: BTreeSet<u64>,
    cached: BTreeSet<u64>,
    cost: Cost,
    /// Size of a page in bytes.
    page: u64,
    /// Size of the file in pages.
    end: u64,
}

impl Walk {
    /// Starts a run in a file of `file_size` bytes, on a machine with pages of `page` bytes, at most 64 KiB.
    pub fn new(file_size: u64, page: u64) -> Self {
        Self {
            touched: BTreeSet::new(),
            windows: BTreeSet::new(),
            cached: BTreeSet::new(),
            cost: Cost::default(),
            page,
            end: file_size.div_ceil(page),
        }
    }

    /// Runs the code at `size` bytes of the file from `offset`.
    pub fn run(&mut self, offset: u64, size: u64) {
        let first = offset / self.page;
        let last = offset.saturating_add(size.max(1) - 1) / self.page;
        for page in first..=last.min(first.saturating_add(MAX_FUNCTION / self.page)) {
            self.touch(page);
        }
    }

    /// Touches a page of the file.
    fn touch(&mut self, page: u64) {
        if !self.touched.insert(page) {
            return;
        }
        self.cost.pages += 1;
        self.cost.warm_faults += u64::from(self.windows.insert(page / (AROUND / self.page)));
        if self.cached.contains(&page) {
            return;
        }
        let around = READ_AROUND / self.page;
        let from = page.saturating_sub(around / 2);
        let to = from.saturating_add(around).min(self.end.max(page + 1));
        let new = (from..to).filter(|near| self.cached.insert(*near)).count() as u64;
        self.cost.reads += 1;
        self.cost.read_bytes += new * self.page;
    }

    /// Cost of the run so far.
    pub fn cost(&self) -> Cost {
        self.cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::addr::PAGE;

    #[test]
    fn pages_windows_and_reads_by_hand() {
        let mut walk = Walk::new(1000 * PAGE, PAGE);
        walk.run(100 * PAGE + 4000, 200); // two pages: 100 and 101, of windows 6 and 6; a read of 84..116
        walk.run(100 * PAGE, 1);
        assert_eq!(
            walk.cost(),
            Cost {
                pages: 2,
                warm_faults: 1,
                reads: 1,
                read_bytes: 32 * PAGE
            }
        );
        walk.run(115 * PAGE, 10); // already read
        walk.run(116 * PAGE, 10); // not yet read: 100..132, of which 16 are new
        walk.run(0, 0);
        walk.run(999 * PAGE, 10); // 983..1000
        assert_eq!(
            walk.cost(),
            Cost {
                pages: 6,
                warm_faults: 4,
                reads: 4,
                read_bytes: (32 + 16 + 32 + 17) * PAGE
            }
        );
    }

    #[test]
    fn larger_pages_have_windows_of_as_many_bytes() {
        const LARGE: u64 = 16 << 10;
        let mut walk = Walk::new(100 * LARGE, LARGE);
        walk.run(10 * LARGE + 16000, 1000); // pages 10 and 11, of the window 8..12; a read of 6..14
        walk.run(12 * LARGE, 1); // already read, of the next window
        let cost = Cost {
            pages: 3,
            warm_faults: 2,
            reads: 1,
            read_bytes: READ_AROUND,
        };
        assert_eq!(walk.cost(), cost);
        let mut walk = Walk::new(100 << 16, 1 << 16);
        walk.run(10 << 16, 1); // a window of one page; a read of 9..11
        walk.run(11 << 16, 1);
        let cost = Cost {
            pages: 2,
            warm_faults: 2,
            reads: 2,
            read_bytes: 3 << 16, // 9, 10; 11, since 10 is there
        };
        assert_eq!(walk.cost(), cost);
    }

    #[test]
    fn extreme_numbers_do_not_panic() {
        let mut walk = Walk::new(0, PAGE);
        walk.run(u64::MAX, u64::MAX);
        walk.run(0, u64::MAX);
        assert_eq!(walk.cost().pages, MAX_FUNCTION / PAGE + 2);
    }
}
