//! Where the kernel had stopped reading around faults.

use std::time::Duration;

use crate::fault::FaultFact;
use crate::{FrameId, Location, StackId, Tables};

/// Faults of one function after the kernel had stopped reading around.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spot {
    /// First and last page.
    pub pages: (u64, u64),
    /// Number of faults.
    pub faults: u64,
    /// Number of faults that waited for a disk.
    pub waited: u64,
    /// Number of pages that they read.
    pub pages_read: u64,
    /// Total time of the faults.
    pub time: Duration,
}

impl Spot {
    /// A spot with one fault on that page.
    pub fn of(fault: &FaultFact, page: u64) -> Self {
        Self {
            pages: (page, page),
            faults: 1,
            waited: u64::from(fault.waited()),
            pages_read: u64::from(fault.pages_read),
            time: fault.time(),
        }
    }

    /// Adds faults of the same function.
    pub fn join(&mut self, more: &Self) {
        let (first, last) = more.pages;
        self.pages = (self.pages.0.min(first), self.pages.1.max(last));
        self.faults = self.faults.saturating_add(more.faults);
        self.waited = self.waited.saturating_add(more.waited);
        self.pages_read = self.pages_read.saturating_add(more.pages_read);
        self.time = self.time.saturating_add(more.time);
    }
}

/// The innermost user frame.
pub fn innermost(tables: &Tables, stack: StackId) -> Option<FrameId> {
    let mut next = Some(stack);
    while let Some(node) = next.and_then(|stack| tables.stacks.get(stack.index())) {
        match tables.frames.get(node.frame.index())?.location {
            Location::Kernel { .. } => next = node.parent,
            Location::Truncated(_) => return None,
            _ => return Some(node.frame),
        }
    }
    None
}
