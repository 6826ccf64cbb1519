//! The page model: a pure simulation of which pages the kernel maps and reads when functions run, and what that costs.
//!
//! - A function that runs touches every page that contains its bytes.
//! - **Warm**, a fault maps the aligned window of 16 pages around it (`fault_around_bytes`); in exact-touch mode only its own page.
//! - **Cold**, a fault on a page that is not in memory reads the 32 pages around it (`mm/filemap.c`: `do_sync_mmap_readahead`, with the usual
//!   read-ahead of 128 KiB): from 16 before it on, within the file.

use std::collections::BTreeSet;

use base::addr::PAGE;

/// Pages that a fault maps, its own included.
const AROUND: u64 = 16;
/// Pages that a fault reads, its own included.
const READ_AROUND: u64 = 32;
/// Limit of pages simulated per function: 16 MiB.
const MAX_FUNCTION: u64 = 4096;

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
#[derive(Debug, Default)]
pub struct Walk {
    touched: BTreeSet<u64>,
    windows: BTreeSet<u64>,
    cached: BTreeSet<u64>,
    cost: Cost,
    /// Size of the file in pages.
    end: u64,
}

impl Walk {
    /// Starts a run in a file of `file_size` bytes.
    pub fn new(file_size: u64) -> Self {
        Self {
            end: file_size.div_ceil(PAGE),
            ..Self::default()
        }
    }

    /// Runs the code at `size` bytes of the file from `offset`.
    pub fn run(&mut self, offset: u64, size: u64) {
        let first = offset / PAGE;
        let last = offset.saturating_add(size.max(1) - 1) / PAGE;
        for page in first..=last.min(first.saturating_add(MAX_FUNCTION)) {
            self.page(page);
        }
    }

    /// Touches a page of the file.
    pub fn page(&mut self, page: u64) {
        if !self.touched.insert(page) {
            return;
        }
        self.cost.pages += 1;
        self.cost.warm_faults += u64::from(self.windows.insert(page / AROUND));
        if self.cached.contains(&page) {
            return;
        }
        let from = page.saturating_sub(READ_AROUND / 2);
        let to = from.saturating_add(READ_AROUND).min(self.end.max(page + 1));
        let new = (from..to).filter(|near| self.cached.insert(*near)).count() as u64;
        self.cost.reads += 1;
        self.cost.read_bytes += new * PAGE;
    }

    /// Cost of the run so far.
    pub fn cost(&self) -> Cost {
        self.cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_windows_and_reads_by_hand() {
        let mut walk = Walk::new(1000 * PAGE);
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
    fn extreme_numbers_do_not_panic() {
        let mut walk = Walk::new(0);
        walk.run(u64::MAX, u64::MAX);
        walk.run(0, u64::MAX);
        assert_eq!(walk.cost().pages, MAX_FUNCTION + 2);
    }
}
