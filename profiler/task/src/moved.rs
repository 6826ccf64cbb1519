//! Code that a program moved to large pages: it copies its text to anonymous memory at the same
//! address (node's `--use-largepages`, and programs that link the same code from Intel). For page
//! faults, this is memory without a file; its functions are the file's.

use std::rc::Rc;

use super::space::Region;
use base::addr::{Avma, Timestamp};

/// The original file mappings of such memory.
#[derive(Debug, Clone, Default)]
pub struct Moved(Rc<Vec<Region>>);

impl Moved {
    /// The file's code at `address`.
    pub fn find(&self, address: Avma) -> Option<&Region> {
        self.0
            .iter()
            .find(|region| region.start <= address && address < region.end)
    }

    /// A new mapping from `start` to `end`, a copy of `original` if there is one.
    pub fn replace(&mut self, start: Avma, end: Avma, original: Option<Region>) {
        if original.is_none() && self.0.is_empty() {
            return;
        }
        let regions = Rc::make_mut(&mut self.0);
        regions.retain(|region| region.end <= start || end <= region.start);
        regions.extend(original);
    }

    /// Keeps only mappings created at or after `time`.
    pub fn forget_before(&mut self, time: Timestamp) {
        if !self.0.is_empty() {
            Rc::make_mut(&mut self.0).retain(|region| region.made >= time);
        }
    }
}
