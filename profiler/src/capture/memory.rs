//! Memory that a burst of events or a large table took goes back to the system: the allocator would keep it.

use std::time::{Duration, Instant};

/// Between two times.
const INTERVAL: Duration = Duration::from_mins(1);

/// When the last of it was given back.
pub struct Memory(Instant);

impl Memory {
    /// Now.
    pub fn give_back() -> Self {
        // SAFETY: it touches only memory that nothing uses, under the allocator's own lock.
        #[cfg(target_env = "gnu")]
        unsafe {
            libc::malloc_trim(0);
        }
        Self(Instant::now())
    }

    /// Gives it back if that is due.
    pub fn turn(&mut self) {
        if self.0.elapsed() >= INTERVAL {
            *self = Self::give_back();
        }
    }
}

/// From here on pieces of 128 KiB or more are the system's again once they are freed. By itself the allocator raises that bound to the
/// largest piece that was freed, 32 MiB at most (mallopt(3)), and keeps what is below.
pub fn keep_no_large_pieces() {
    // SAFETY: it sets a number of the allocator's, under its own lock.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
    }
}
