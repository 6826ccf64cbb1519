//! Code that a program moved to large pages: it copies its text to anonymous memory at the same
//! address (node's `--use-largepages`, and programs that link the same code from Intel). For page
//! faults, this is memory without a file; its functions are the file's.

use std::rc::Rc;

use super::space::Region;
use crate::addr::{Avma, Timestamp};
use crate::event;

/// Large pages of x86-64, and of arm64 with small ones of 4 KiB.
const LARGE: u64 = 2 << 20;

/// Whether a mapping may be such memory: private, anonymous, executable, and consisting of large
/// pages.
pub fn may_be_copy(mapping: &event::Mapping) -> bool {
    let is_anonymous = mapping.file.inode == 0 && mapping.path != b"[vdso]";
    let is_code = mapping.protection & event::PROT_EXEC != 0 && mapping.flags & super::space::MAP_SHARED == 0;
    let is_large = mapping.len > 0 && mapping.start.0.is_multiple_of(LARGE) && mapping.len.is_multiple_of(LARGE);
    is_anonymous && is_code && is_large
}

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
