//! Page tables: four or five levels of 512 entries (arch/x86/include/asm/pgtable_types.h).

use core::ffi::c_void;

use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use profiler_common::fault::CHUNK;

use crate::maps::config;
use crate::read::probe;

/// The direct map begins at a multiple of this (`kernel_randomize_memory` in arch/x86/mm/kaslr.c).
pub const STEP: u64 = 1 << 30;

/// Entries of a table.
const ENTRIES: u64 = 512;
/// `_PAGE_PRESENT`
const PRESENT: u64 = 1;
/// `_PAGE_PSE`: the entry maps a huge page.
const HUGE: u64 = 1 << 7;
/// `_PAGE_PROTNONE`: present, though the processor may not use it.
const PROTNONE: u64 = 1 << PROTNONE_BIT;
const PROTNONE_BIT: u32 = 8;
/// Address bits below those that select an entry, from the last level up.
const PAGE: u32 = 12;
const MIDDLE: u32 = 21;
const UPPER: u32 = 30;
const FOURTH: u32 = 39;
const FIFTH: u32 = 48;

/// What maps the block of [`profiler_common::fault::BLOCK_PAGES`] pages around an address.
#[derive(Clone, Copy)]
pub struct Block {
    /// Address of the entry.
    place: u64,
    entry: u64,
    /// Address bits within what it maps.
    bits: u32,
    /// First address of the direct map.
    direct: u64,
}

impl Block {
    /// Follows the tables from `top`, an address in the direct map that begins at `direct`. `None`: nothing is mapped
    /// there.
    #[inline(always)]
    pub fn of(top: u64, direct: u64, address: u64) -> Option<Self> {
        let mut table = top;
        if config!(table_levels) == 5 {
            table = next(entry(table, address, FIFTH)?, direct)?;
        }
        table = next(entry(table, address, FOURTH)?, direct)?;
        let (mut place, mut bits) = (place(table, address, UPPER), UPPER);
        let mut found = probe(place, 0)?;
        if found & HUGE == 0 {
            (place, bits) = (self::place(next(found, direct)?, address, MIDDLE), MIDDLE);
            found = probe(place, 0)?;
        }
        (found & (PRESENT | PROTNONE | HUGE) != 0).then_some(Self {
            place,
            entry: found,
            bits,
            direct,
        })
    }

    /// The whole block is part of a huge page.
    #[inline(always)]
    pub fn is_huge(self) -> bool {
        self.entry & HUGE != 0
    }

    /// Address of the entry of a page of the block.
    #[inline(always)]
    pub fn page(self, number: u64) -> u64 {
        self.direct.wrapping_add(physical(self.entry)).wrapping_add(number * 8)
    }

    /// Nothing else has taken its place meanwhile.
    #[inline(always)]
    pub fn is_unchanged(self) -> bool {
        // Bits that the processor sets are of no interest.
        probe::<u64>(self.place, 0).is_some_and(|now| physical(now ^ self.entry) == 0 && (now ^ self.entry) & HUGE == 0)
    }
}

/// Which pages the entries of a chunk map, of the table at `table`: a bit for each. `None`: they can't be read.
#[inline(always)]
pub fn chunk(table: u64, number: u64) -> Option<u64> {
    let mut bits = 0;
    // In two parts: the stacks of all functions up to here may have 512 bytes.
    for half in 0..2_u64 {
        let mut entries = [0_u64; CHUNK as usize / 2];
        let len = size_of::<[u64; CHUNK as usize / 2]>() as u32;
        let from = table.wrapping_add((number * 2 + half) * u64::from(len)) as *const c_void;
        // SAFETY: the helper writes the whole array, or fails.
        let failed = unsafe { bpf_probe_read_kernel(entries.as_mut_ptr().cast(), len, from) };
        if failed != 0 {
            return None;
        }
        for (entry, bit) in entries.iter().zip(half * CHUNK / 2..) {
            bits |= presence(*entry) << bit;
        }
    }
    Some(bits)
}

/// 1 if an entry of the last level maps a page (`pte_present`), else 0. The sum carries if either bit is set: of other ways the compiler makes a
/// branch, and the verifier would follow two ways for each entry.
#[inline(always)]
fn presence(entry: u64) -> u64 {
    ((entry & (PRESENT | PROTNONE)) + (2 * PROTNONE - 1)) >> (PROTNONE_BIT + 1)
}

/// Number of the page that an entry of the last level maps.
#[inline(always)]
pub fn page_of(entry: u64) -> u64 {
    physical(entry) >> PAGE
}

/// Whether the direct map begins at `direct`: only then do the tables at `top`, found through it, map `top` itself to
/// its own place.
#[inline(always)]
pub fn maps_itself(top: u64, direct: u64) -> bool {
    physical_of(top, direct).is_some_and(|found| found == top.wrapping_sub(direct))
}

/// The physical address of an address of the kernel.
#[inline(always)]
fn physical_of(top: u64, direct: u64) -> Option<u64> {
    let block = Block::of(top, direct, top)?;
    let (entry, bits) = if block.is_huge() {
        (block.entry, block.bits)
    } else {
        (probe(block.page(top >> PAGE & (ENTRIES - 1)), 0)?, PAGE)
    };
    (entry & PRESENT != 0).then_some(at(entry, top, bits))
}

/// The address that an entry maps, at the place of `address` in its page.
#[inline(always)]
fn at(entry: u64, address: u64, bits: u32) -> u64 {
    let within = (1 << bits) - 1;
    physical(entry) & !within | address & within
}

#[inline(always)]
fn place(table: u64, address: u64, bits: u32) -> u64 {
    table.wrapping_add((address >> bits & (ENTRIES - 1)) * 8)
}

#[inline(always)]
fn entry(table: u64, address: u64, bits: u32) -> Option<u64> {
    probe(place(table, address, bits), 0)
}

/// The table that an entry points to.
#[inline(always)]
fn next(entry: u64, direct: u64) -> Option<u64> {
    (entry & PRESENT != 0).then(|| direct.wrapping_add(physical(entry)))
}

/// The physical address in an entry: without its flags, and without the bit that says that the memory is encrypted.
#[inline(always)]
fn physical(entry: u64) -> u64 {
    entry & ((1_u64 << (config!(table_bits) & 63)) - 1) & !((1 << PAGE) - 1)
}
