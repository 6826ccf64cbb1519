//! Returns memory that a burst of events or a large table took to the system: the allocator would keep it.

use std::time::{Duration, Instant};

/// Interval between two returns.
const INTERVAL: Duration = Duration::from_mins(1);

/// Time of the last return.
pub struct Memory(Instant);

impl Memory {
    /// Returns free memory now.
    pub fn give_back() -> Self {
        // SAFETY: it touches only memory that is not in use, under the allocator's own lock.
        #[cfg(target_env = "gnu")]
        unsafe {
            libc::malloc_trim(0);
        }
        Self(Instant::now())
    }

    /// Returns free memory if that is due.
    pub fn turn(&mut self) {
        if self.0.elapsed() >= INTERVAL {
            *self = Self::give_back();
        }
    }
}

/// Makes the allocator return pieces of 128 KiB or more once they are freed. By default it raises that bound to the
/// largest piece that was freed, 32 MiB at most (mallopt(3)), and keeps what is below.
pub fn keep_no_large_pieces() {
    // SAFETY: it sets a parameter of the allocator, under the allocator's own lock.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
    }
}
