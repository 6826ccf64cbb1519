//! How many facts a profile may hold.

/// Limits on the number of kept facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Maximum number of samples, plus one for each thread; includes the rows of waits.
    pub samples: usize,
    /// Maximum number of markers (marks, page faults, reads, waits, requests), not counting process lifetimes, which
    /// are always kept.
    pub marks: usize,
}

/// Maximum number of rows among the samples per wait.
pub const WAIT_ROWS: usize = 3;

/// Maximum number of stacks in a profile, some 15 bytes each as text: with a million samples and a million markers the
/// profile stays below the half gigabyte that Chromium opens.
pub const STACKS: usize = 4 << 20;
/// Samples, and markers, that are allowed however many stacks they have.
pub const LEAST: usize = 1 << 16;

impl Budget {
    /// Maximum number of waits: leaves space for as many samples and three times as many other markers.
    pub(super) fn waits(self) -> usize {
        (self.samples / (2 * WAIT_ROWS)).min(self.marks / 4)
    }

    /// Maximum number of request markers.
    pub(super) fn requests(self) -> usize {
        self.marks / 4
    }

    /// Limits a quarter lower, as far as possible.
    pub(super) fn less(self) -> Self {
        let less = |count: usize| count.min(LEAST.max(count - count / 4));
        Self {
            samples: less(self.samples),
            marks: less(self.marks),
        }
    }
}

impl Default for Budget {
    /// What the Firefox Profiler opens within about ten seconds.
    fn default() -> Self {
        Self {
            samples: 1_000_000,
            marks: 1_000_000,
        }
    }
}
