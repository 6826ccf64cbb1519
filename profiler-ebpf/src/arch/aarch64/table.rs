//! Page tables are not read on arm64: `Config::table_levels` is 0 there (profiler/capture/src/hooks/arch/aarch64.rs), so nothing here runs.
//!
//! A process's tables do not map the kernel's memory, so the direct map can't be found through them, and with pages of 16 or 64 KiB
//! a block of them is not one table.

/// See x86_64/table.rs for these items.
#[derive(Clone, Copy)]
pub struct Block;

impl Block {
    #[inline(always)]
    pub fn of(_: u64, _: u64, _: u64) -> Option<Self> {
        None
    }

    #[inline(always)]
    pub fn is_huge(self) -> bool {
        false
    }

    #[inline(always)]
    pub fn page(self, _: u64) -> u64 {
        0
    }

    #[inline(always)]
    pub fn is_unchanged(self) -> bool {
        false
    }
}

#[inline(always)]
pub fn presence(_: u64) -> u64 {
    0
}

#[inline(always)]
pub fn page_of(_: u64) -> u64 {
    0
}

#[inline(always)]
pub fn maps_itself(_: u64, _: u64) -> bool {
    false
}
