//! Page tables: [`profiler_common::page_table`] with the kernel's memory.
//!
//! A process's tables do not map the kernel's memory, so the direct map is found through the kernel's own.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use profiler_common::page_table::{self, Shape};

use super::page_shift;
use crate::maps::config;
use crate::read::probe;

/// The direct map begins at a multiple of this (`ARM64_MEMSTART_ALIGN` of arch/arm64/mm/init.c, which is larger with small pages).
pub const STEP: u64 = 1 << 29;

/// How this machine's tables are made up.
#[inline(always)]
fn shape() -> Shape {
    Shape {
        page_shift: page_shift(),
        levels: config!(table_levels),
        bits: config!(table_bits),
    }
}

/// What maps the block around an address.
#[derive(Clone, Copy)]
pub struct Block(page_table::Block);

impl Block {
    /// [`page_table::Block::of`]
    #[inline(always)]
    pub fn of(top: u64, direct: u64, address: u64) -> Option<Self> {
        page_table::Block::of(shape(), top, direct, address, word).map(Self)
    }

    /// [`page_table::Block::is_huge`]
    #[inline(always)]
    pub fn is_huge(self) -> bool {
        self.0.is_huge()
    }

    /// [`page_table::Block::page`]
    #[inline(always)]
    pub fn page(self, number: u64) -> u64 {
        self.0.page(number)
    }

    /// [`page_table::Block::is_unchanged`]
    #[inline(always)]
    pub fn is_unchanged(self) -> bool {
        self.0.is_unchanged(word)
    }
}

/// [`Shape::chunk`]
#[inline(always)]
pub fn chunk(table: u64, number: u64) -> Option<u64> {
    shape().chunk(table, number, |to, len, at| {
        // SAFETY: the helper writes at most the whole array, or fails.
        unsafe { bpf_probe_read_kernel(to.as_mut_ptr().cast(), len, at as *const c_void) == 0 }
    })
}

/// [`Shape::page_of`]
#[inline(always)]
pub fn page_of(entry: u64) -> u64 {
    shape().page_of(entry)
}

/// Whether the direct map begins at `direct`: only then do the kernel's tables, followed through it, map `top`, an address in it, to its own place.
#[inline(always)]
pub fn maps_itself(top: u64, direct: u64) -> bool {
    let found = shape().physical_of(config!(kernel_array), direct, top, word);
    found.is_some_and(|found| found == top.wrapping_sub(direct))
}

#[inline(always)]
fn word(at: u64) -> Option<u64> {
    probe(at, 0)
}
