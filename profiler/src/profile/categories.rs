//! Categories and their colours: what the activity graph is painted with.

use fxprof_processed_profile::{CategoryColor, Profile};

use crate::fact::Location;

/// A category; its number is its place in `meta.categories`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    /// The front end's default, which has to be the first grey one: nothing known, missing frames.
    Other = 0,
    /// Code of programs and libraries.
    User = 1,
    /// Code of the kernel.
    Kernel = 2,
    /// Code that was made at run time.
    Jit = 3,
    /// Markers of page faults that found their page in memory.
    Fault = 4,
    /// Markers of page faults that waited for a disk.
    DiskFault = 5,
    /// Markers of pages that were read.
    Read = 6,
}

/// Adds the categories to a profile, whose first one, `Other`, is there already.
pub fn add_to(profile: &mut Profile) {
    for (name, color) in [
        ("User", CategoryColor::Yellow),
        ("Kernel", CategoryColor::Orange),
        ("JIT code", CategoryColor::Green),
        ("Page fault", CategoryColor::LightBlue),
        ("Page fault (disk)", CategoryColor::Red),
        ("Pages read", CategoryColor::Blue),
    ] {
        profile.add_category(name, color);
    }
}

impl From<&Location> for Category {
    fn from(location: &Location) -> Self {
        match location {
            Location::Module { .. } | Location::FileOffset { .. } => Self::User,
            Location::Kernel { .. } => Self::Kernel,
            Location::Jit { .. } | Location::Anonymous { .. } => Self::Jit,
            Location::Unmapped { .. } | Location::Truncated(_) => Self::Other,
        }
    }
}
