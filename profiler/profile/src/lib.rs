//! The only code that depends on the Firefox Profiler's format. See docs/profile.md.
//!
//! [`write()`] writes a profile of collected facts, [`ProfileSource`] reads one back into the same
//! facts, and [`lint()`] checks what the profiler's web page relies on. `shared`, `marker` and
//! `exact` have what they have in common, and `foreign` reads profiles from other programs.
//!
//! What the profiler's page would refuse is listed:
//!
//! ```
//! assert!(!profile::lint(&b"{}"[..]).is_empty());
//! ```

mod error;
mod exact;
mod foreign;
mod format;
mod gecko;
pub mod gzip;
mod input;
mod lint;
mod marker;
mod read;
mod shared;
pub mod texts;
mod units;
mod write;

pub use error::{ReadError, WriteError};
pub use foreign::{FOREIGN, ForeignSource};
pub use format::FORMAT_VERSION;
pub use gecko::{GeckoError, Merged, ReadAhead, merge_gecko, merge_gecko_file};
pub use input::expect_whole;
pub use lint::lint;
pub use read::{ProfileSource, named};
pub use write::{Difference, PathLink, PathPiece, PathTrack, ProfileStats, Weights, write, write_with_path};
