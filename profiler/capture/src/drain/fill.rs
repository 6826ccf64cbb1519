//! The fill level of a kernel ring (`BPF_MAP_TYPE_RINGBUF`), from the positions that the kernel shows in its first
//! two pages.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use crate::proc::page_cache::page_size;
use base::event::RingCost;

/// The consumer's and the producer's position, each at the start of a page (`struct bpf_ringbuf` of
/// kernel/bpf/ringbuf.c).
pub struct Fill {
    memory: NonNull<u8>,
    page: usize,
    cost: RingCost,
}

// SAFETY: the mapping belongs to this value alone.
unsafe impl Send for Fill {}

impl Fill {
    /// Maps the positions of a ring of `bytes`.
    pub fn new(ring: impl AsFd, bytes: u32) -> io::Result<Self> {
        Self::with_pages(ring, bytes, page_size())
    }

    /// The same on a machine with pages of this size.
    fn with_pages(ring: impl AsFd, bytes: u32, page: u64) -> io::Result<Self> {
        let page = usize::try_from(page).map_err(io::Error::other)?;
        let length = NonZeroUsize::new(2 * page).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: a new mapping at an address that the kernel chooses, never written.
        let memory = unsafe { mmap(None, length, ProtFlags::PROT_READ, MapFlags::MAP_SHARED, ring, 0)? };
        Ok(Self {
            memory: memory.cast(),
            page,
            cost: RingCost {
                bytes: bytes.into(),
                peak_bytes: 0,
            },
        })
    }

    /// Reads the fill level before the ring is emptied.
    pub fn look(&mut self) {
        let waiting = self.position(self.page).wrapping_sub(self.position(0));
        self.cost.peak_bytes = self.cost.peak_bytes.max(waiting);
    }

    /// The highest fill level seen.
    pub fn cost(&self) -> RingCost {
        self.cost
    }

    fn position(&self, offset: usize) -> u64 {
        // SAFETY: an aligned u64 at the start of one of the two mapped pages, which the kernel writes atomically.
        unsafe { self.memory.add(offset).cast::<AtomicU64>().as_ref() }.load(Ordering::Acquire)
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, and nothing borrows it.
        let _ = unsafe { munmap(self.memory.cast(), 2 * self.page) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    #[test]
    fn positions_are_at_the_starts_of_pages_of_every_size() {
        for page in [0x1000, 0x4000, 0x1_0000] {
            let memory = tempfile::tempfile().unwrap();
            memory.set_len(2 * page).unwrap();
            memory.write_all_at(&100_u64.to_ne_bytes(), 0).unwrap();
            memory.write_all_at(&350_u64.to_ne_bytes(), page).unwrap();
            let mut fill = Fill::with_pages(&memory, 1 << 20, page).unwrap();
            fill.look();
            assert_eq!(fill.cost().peak_bytes, 250, "{page}");
        }
    }
}
