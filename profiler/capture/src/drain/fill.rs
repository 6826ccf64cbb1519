//! The fill level of a kernel ring (`BPF_MAP_TYPE_RINGBUF`), from the positions that the kernel shows in its first
//! two pages.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

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
        let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)?.map_or(4096, i64::unsigned_abs);
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
