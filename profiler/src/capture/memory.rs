//! Memory that a burst of events took goes back to the system: the allocator would keep it for the whole recording.

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
