//! Which of the pages in a page table at the end of a fault were not there at the end of an earlier one.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::ProcessId;
use crate::fault::{FilePlace, Mapped, MappedFileId};
use base::addr::{Avma, PAGE};
use base::block_pages::{BLOCK, BlockPages};

/// Maximum number of blocks whose pages are kept: 128 GiB of mapped files. Faults in others show all pages that are there.
const MAX_BLOCKS: usize = 1 << 16;

/// A block of pages of a process, in which a file is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Block {
    process: ProcessId,
    /// Number of the block in the address space.
    number: u64,
    file: MappedFileId,
    /// Page of the file at the block's start, if it is mapped there.
    page: u64,
}

/// The pages that were mapped when a fault in a block ended.
#[derive(Debug, Default)]
pub struct Blocks(FxHashMap<Block, BlockPages>);

impl Blocks {
    /// The pages that a fault of the process at this address mapped, with those that were there at its end.
    pub fn new_pages(&mut self, process: ProcessId, address: Avma, place: FilePlace, there: BlockPages) -> Mapped {
        let own = own(address);
        let block = Block {
            process,
            number: address.0 / PAGE / BLOCK as u64,
            file: place.file,
            page: (place.offset.0 / PAGE).wrapping_sub(own as u64),
        };
        let mut before = BlockPages::default();
        if let Some(known) = self.0.get_mut(&block) {
            before = *known;
            *known = before.with(there);
        } else if self.0.len() < MAX_BLOCKS {
            self.0.insert(block, there);
        }
        Mapped::new(there.without(before), own)
    }
}

/// Number of an address's page in its block.
pub fn own(address: Avma) -> usize {
    (address.0 / PAGE % BLOCK as u64) as usize
}

/// The pages of an address's block that are in a range of addresses.
pub fn within(address: Avma, range: &Range<Avma>) -> Range<usize> {
    let first = address.0 / PAGE - own(address) as u64;
    let page = |at: Avma| usize::try_from((at.0 / PAGE).saturating_sub(first)).map_or(BLOCK, |page| page.min(BLOCK));
    page(range.start)..page(range.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::addr::FileOffset;

    const BASE: u64 = 7 << 21;

    fn pages(range: Range<usize>) -> BlockPages {
        std::iter::once(range).collect()
    }

    #[test]
    fn a_page_is_new_once_in_each_process() {
        let mut blocks = Blocks::default();
        let place = |page: u64| FilePlace {
            file: MappedFileId(0),
            offset: FileOffset(page * PAGE),
            byte: FileOffset(page * PAGE),
        };
        let mut fault = |process, page: u64, there| {
            let mapped = blocks.new_pages(ProcessId(process), Avma(BASE + page * PAGE), place(100 + page), there);
            mapped.to_string()
        };
        assert_eq!(fault(0, 5, pages(0..16)), "-5+16");
        assert_eq!(fault(0, 20, pages(0..32)), "-4+16");
        assert_eq!(fault(0, 20, pages(16..32)), "0+1", "mapped again");
        assert_eq!(fault(0, 7, pages(0..20)), "0+1", "not every fault shows all pages");
        assert_eq!(fault(1, 20, pages(0..32)), "-20+32");
    }

    #[test]
    fn other_mappings_are_cut_off() {
        let at = |page: u64| Avma(BASE + page * PAGE);
        assert_eq!(within(at(3), &(at(2)..at(5))), 2..5);
        assert_eq!(within(at(3), &(Avma(0)..at(9000))), 0..BLOCK);
        assert!(within(at(3), &(at(4)..Avma(0))).is_empty());
    }
}
