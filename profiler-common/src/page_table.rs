//! arm64: page tables of two to five levels, with pages of 4, 16 or 64 KiB (arch/arm64/include/asm/pgtable-hwdef.h).

#![allow(clippy::inline_always)] // As in [`crate::unwind`].

use crate::fault::CHUNK;

/// `PTE_VALID`. A page that a program may not access at all is not valid, and is not recognized: kernels have marked it in three
/// different ways.
const VALID: u64 = 1;
/// `PTE_TYPE_PAGE`, `PMD_TYPE_TABLE`: not a block of pages.
const TABLE: u64 = 1 << 1;
/// The bits of a physical address in an entry, down to the page's size. Where addresses may have more, tables are not read
/// (profiler/capture/src/hooks/arch/aarch64.rs).
const PHYSICAL: u64 = (1 << 48) - 1;
/// Levels at most.
const LEVELS: u32 = 5;
/// Binary logarithm of the bytes of a block ([`crate::fault::BLOCK_PAGES`]), and of the pages that records count.
const BLOCK: u32 = 21;
const RECORDED: u32 = 12;
/// Entries that are read at once: those of a chunk of pages of 16 KiB.
pub const AT_ONCE: usize = 4;

/// The layout of a machine's page tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Binary logarithm of the page size: 12, 14 or 16.
    pub page_shift: u32,
    /// Levels of tables.
    pub levels: u32,
    /// Bits of an address that they translate.
    pub bits: u32,
}

/// What maps the block of [`crate::fault::BLOCK_PAGES`] recorded pages around an address: an entry above the last level, whose table may
/// be larger than the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    shape: Shape,
    /// Address of the entry.
    place: u64,
    entry: u64,
    /// Address bits within what it maps.
    bits: u32,
    /// Number of the block's first page in the table.
    first: u64,
    /// First address of the direct map.
    direct: u64,
}

impl Shape {
    /// Bits of an address that select an entry of a table: a table is a page of entries of 8 bytes.
    #[inline(always)]
    const fn index_bits(self) -> u32 {
        self.page_shift.wrapping_sub(3) & 15
    }

    /// Binary logarithm of the recorded pages in a page.
    #[inline(always)]
    const fn more(self) -> u32 {
        self.page_shift.wrapping_sub(RECORDED) & 7
    }

    /// The physical address in an entry.
    #[inline(always)]
    const fn physical(self, entry: u64) -> u64 {
        entry & PHYSICAL & !low_bits(self.page_shift)
    }

    /// The place of an entry of the table that another entry points to.
    #[inline(always)]
    const fn place(self, direct: u64, entry: u64, number: u64) -> u64 {
        let number = number & low_bits(self.index_bits());
        direct.wrapping_add(self.physical(entry)).wrapping_add(number * 8)
    }

    /// Number of the page that an entry of the last level maps, in the machine's pages.
    #[inline(always)]
    pub const fn page_of(self, entry: u64) -> u64 {
        self.physical(entry) >> (self.page_shift & 63)
    }

    /// The physical address of an address of the kernel, by its own table at `top`, and `read`, which reads a word.
    #[inline(always)]
    pub fn physical_of(self, top: u64, direct: u64, address: u64, read: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let block = Block::of(self, top, direct, address, &read)?;
        let (entry, bits) = if block.is_huge() {
            (block.entry, block.bits)
        } else {
            let number = (address >> RECORDED) & low_bits(BLOCK - RECORDED);
            (read(block.page(number))?, self.page_shift)
        };
        let within = low_bits(bits);
        (entry & VALID != 0).then_some(self.physical(entry) & !within | address & within)
    }

    /// Which pages the entries of a chunk map, of a block whose first one is at `table`: a bit for each recorded page. `read` reads a number of
    /// bytes, at most all, from an address. `None`: it can't.
    #[inline(always)]
    pub fn chunk(self, table: u64, number: u64, read: impl Fn(&mut [u64; AT_ONCE], u32, u64) -> bool) -> Option<u64> {
        let more = self.more();
        let count = CHUNK >> more;
        let from = table.wrapping_add(number * count * 8);
        let mut bits = 0;
        // In parts: the stacks of all functions up to here may have 512 bytes.
        for part in 0..CHUNK / AT_ONCE as u64 {
            let first = part * AT_ONCE as u64;
            if first >= count {
                break;
            }
            let mut entries = [0_u64; AT_ONCE];
            #[allow(clippy::cast_possible_truncation)] // At most 32.
            let len = count.min(AT_ONCE as u64) as u32 * 8;
            if !read(&mut entries, len, from.wrapping_add(first * 8)) {
                return None;
            }
            for (entry, number) in entries.iter().zip(first..) {
                // Without a branch: the verifier would follow two ways for each entry.
                bits |= ((entry & VALID) * low_bits(1 << more)) << ((number << more) & 63);
            }
        }
        Some(bits)
    }
}

impl Block {
    /// Follows the tables from `top`, an address of the kernel, through the direct map, which begins at `direct`. `read` reads a word.
    /// `None`: nothing is mapped there.
    #[inline(always)]
    pub fn of(shape: Shape, top: u64, direct: u64, address: u64, read: impl Fn(u64) -> Option<u64>) -> Option<Self> {
        let within = address & low_bits(shape.bits);
        let last = shape.page_shift + shape.index_bits();
        let mut bits = shape.page_shift + shape.index_bits() * shape.levels.wrapping_sub(1);
        let mut place = top.wrapping_add((within >> (bits & 63)) * 8);
        let mut entry = read(place)?;
        for _ in 2..LEVELS {
            if bits <= last || entry & (VALID | TABLE) != VALID | TABLE {
                break;
            }
            bits -= shape.index_bits();
            place = shape.place(direct, entry, within >> (bits & 63));
            entry = read(place)?;
        }
        (entry & VALID != 0).then_some(Self {
            shape,
            place,
            entry,
            bits,
            first: ((within >> BLOCK << BLOCK) >> (shape.page_shift & 63)) & low_bits(shape.index_bits()),
            direct,
        })
    }

    /// The whole block is part of a huge page.
    #[inline(always)]
    pub const fn is_huge(&self) -> bool {
        self.entry & TABLE == 0
    }

    /// Address of the entry of a recorded page of the block.
    #[inline(always)]
    pub const fn page(&self, number: u64) -> u64 {
        self.shape
            .place(self.direct, self.entry, self.first + (number >> self.shape.more()))
    }

    /// Nothing else has taken its place meanwhile.
    #[inline(always)]
    pub fn is_unchanged(&self, read: impl Fn(u64) -> Option<u64>) -> bool {
        // Bits that the processor sets do not matter.
        read(self.place).is_some_and(|now| {
            let changed = now ^ self.entry;
            self.shape.physical(changed) == 0 && changed & (VALID | TABLE) == 0
        })
    }
}

#[inline(always)]
const fn low_bits(bits: u32) -> u64 {
    (1_u64 << (bits & 63)).wrapping_sub(1)
}

#[cfg(test)]
mod tests;
