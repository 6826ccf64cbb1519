//! How much a profile has room for.

/// How many facts are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Samples at most, plus one for each thread; waits are among them.
    pub samples: usize,
    /// Markers at most (marks, page faults, reads, waits, requests), plus the lives of processes, which are always kept.
    pub marks: usize,
}

/// Rows among the samples that a wait takes at most.
pub const WAIT_ROWS: usize = 3;

/// Stacks of a profile, of some 15 bytes each in its text: with a million samples and a million markers it is below the half gigabyte that Chromium
/// opens.
pub const STACKS: usize = 4 << 20;
/// Samples, and markers, that there may be whatever stacks they have.
pub const LEAST: usize = 1 << 16;

impl Budget {
    /// Waits at most: they leave room for as many samples, and for three times as many other markers.
    pub(super) fn waits(self) -> usize {
        (self.samples / (2 * WAIT_ROWS)).min(self.marks / 4)
    }

    /// Markers of requests at most.
    pub(super) fn requests(self) -> usize {
        self.marks / 4
    }

    /// A quarter less, as far as that is possible.
    pub(super) fn less(self) -> Self {
        let less = |count: usize| count.min(LEAST.max(count - count / 4));
        Self {
            samples: less(self.samples),
            marks: less(self.marks),
        }
    }
}

impl Default for Budget {
    /// What the Firefox Profiler opens within some ten seconds.
    fn default() -> Self {
        Self {
            samples: 1_000_000,
            marks: 1_000_000,
        }
    }
}
