//! Values that do not fit a packed fault.

use std::time::Duration;

use crate::fault::{Mapped, OtherFaults};
use base::addr::ns;
use base::block_pages::BlockPages;

/// Represents an unknown time.
pub const NONE: u32 = u32::MAX;
/// Flags an index of a time of 2.15 s or more, or of pages, which are stored separately.
pub const LONG: u32 = 1 << 31;

/// What is too large for a [`super::PackedFault`]: rare.
#[derive(Debug, Clone, Default)]
pub struct Outliers {
    /// Times of 2.15 s or more: at most seven per fault.
    times: Vec<u64>,
    /// Pages that are mapped more than 64 apart.
    mapped: Vec<BlockPages>,
    /// The faults that one represents, with what else its field for mapped pages has.
    others: Vec<(OtherFaults, u64)>,
}

impl Outliers {
    /// Bytes of memory used.
    pub fn bytes(&self) -> usize {
        self.times.capacity() * size_of::<u64>()
            + self.mapped.capacity() * size_of::<BlockPages>()
            + self.others.capacity() * size_of::<(OtherFaults, u64)>()
    }

    /// A time as it is kept.
    pub fn keep_time(&mut self, time: Option<Duration>) -> u32 {
        let Some(time) = time else { return NONE };
        let ns = ns(time);
        if let Ok(ns @ ..LONG) = u32::try_from(ns) {
            return ns;
        }
        match u32::try_from(self.times.len()) {
            Ok(place) if place < NONE - LONG => {
                self.times.push(ns);
                LONG | place
            }
            // Reached only after a century of such faults.
            _ => LONG - 1,
        }
    }

    /// Pages as they are kept, with the distance of the first.
    pub fn keep_mapped(&mut self, mapped: Mapped) -> (u64, u32) {
        let (before, pages) = mapped.parts();
        if let Some(word) = pages.to_word() {
            return (word, u32::from(before));
        }
        self.mapped.push(pages);
        (self.mapped.len() as u64 - 1, LONG | u32::from(before))
    }

    /// The faults that one represents, as they are kept with its mapped pages.
    pub fn keep_others(&mut self, others: OtherFaults, mapped: u64) -> u64 {
        self.others.push((others, mapped));
        self.others.len() as u64 - 1
    }

    /// Those that were kept so, and the mapped pages.
    pub fn others(&self, kept: u64) -> (OtherFaults, u64) {
        let found = usize::try_from(kept).ok().and_then(|kept| self.others.get(kept));
        found.copied().unwrap_or_default()
    }

    /// The pages that were kept so.
    #[inline]
    pub fn mapped(&self, kept: u64, before: u32) -> Option<Mapped> {
        let pages = if before & LONG == 0 {
            BlockPages::from_word(kept)
        } else {
            *self.mapped.get(usize::try_from(kept).ok()?)?
        };
        Mapped::from_parts(u16::try_from(before & !LONG).ok()?, pages)
    }

    /// The time that was kept so.
    #[inline]
    pub fn time(&self, kept: u32) -> Option<Duration> {
        match kept {
            NONE => None,
            ns @ ..LONG => Some(Duration::from_nanos(u64::from(ns))),
            long => self
                .times
                .get((long - LONG) as usize)
                .copied()
                .map(Duration::from_nanos),
        }
    }
}
