//! The pages of a file that a fault mapped.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use super::fault::PageRange;
use base::block_pages::{BLOCK, BlockPages, MAX_RUNS};

/// Pages that a fault mapped, its own among them, by their distance from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapped {
    /// Distance of the first of them from the fault's own page.
    before: u16,
    /// The pages, counted from the first.
    pages: BlockPages,
}

impl Mapped {
    /// Only the fault's own page.
    pub fn own() -> Self {
        Self {
            before: 0,
            pages: BlockPages::from_word(1),
        }
    }

    /// From pages of the block in which the fault's own has this number.
    pub fn new(mut pages: BlockPages, own: usize) -> Self {
        let own = own.min(BLOCK - 1);
        pages.insert_range(own..own + 1);
        let first = pages.runs().next().map_or(0, |run| run.start);
        Self {
            before: u16::try_from(own - first).unwrap_or_default(),
            pages: pages.runs().map(|run| run.start - first..run.end - first).collect(),
        }
    }

    /// From the distance of the first page and the pages counted from there; `None` unless it has the first page and the
    /// fault's own.
    pub fn from_parts(before: u16, pages: BlockPages) -> Option<Self> {
        (pages.contains(0) && pages.contains(usize::from(before))).then_some(Self { before, pages })
    }

    /// Inverse of [`Mapped::from_parts`].
    pub fn parts(self) -> (u16, BlockPages) {
        (self.before, self.pages)
    }

    /// Number of pages other than the fault's own.
    pub fn others(self) -> u32 {
        self.pages.len().saturating_sub(1)
    }

    /// The pages as runs in the file, if the fault's own has this number there.
    pub fn runs(self, own: u64) -> impl Iterator<Item = PageRange> {
        let first = own.checked_sub(u64::from(self.before));
        let runs = first
            .into_iter()
            .flat_map(move |first| self.pages.runs().map(move |run| (first, run)));
        runs.filter_map(|(first, run)| range(first, &run))
    }

    /// The run that contains the fault's own page.
    pub fn around(self, own: u64) -> Option<PageRange> {
        let before = usize::from(self.before);
        let run = self.pages.runs().find(|run| run.contains(&before))?;
        range(own.checked_sub(u64::from(self.before))?, &run)
    }
}

fn range(first: u64, run: &Range<usize>) -> Option<PageRange> {
    Some(PageRange {
        first: first.checked_add(run.start as u64)?,
        count: u32::try_from(run.len()).ok()?,
    })
}

/// Runs as `first+count`, the first relative to the fault's own page: `-3+16 20+4`.
impl fmt::Display for Mapped {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, run) in self.pages.runs().enumerate() {
            let space = if place == 0 { "" } else { " " };
            let first = i64::try_from(run.start).unwrap_or_default() - i64::from(self.before);
            write!(text, "{space}{first}+{}", run.len())?;
        }
        Ok(())
    }
}

/// Text that no [`Mapped`] has.
#[derive(Debug, PartialEq, Eq)]
pub struct NotMapped;

impl FromStr for Mapped {
    type Err = NotMapped;

    fn from_str(text: &str) -> Result<Self, NotMapped> {
        let mut pages = BlockPages::default();
        let mut start = None;
        for (place, run) in text.split(' ').enumerate() {
            let (first, count) = run.split_once('+').ok_or(NotMapped)?;
            let first: i32 = first.parse().map_err(|_| NotMapped)?;
            let start = *start.get_or_insert(first);
            let from = first.checked_sub(start).and_then(|from| usize::try_from(from).ok());
            let from = from.filter(|from| *from < BLOCK && place < MAX_RUNS).ok_or(NotMapped)?;
            let count: u16 = count.parse().map_err(|_| NotMapped)?;
            pages.insert_range(from..from + usize::from(count));
        }
        let before = start.and_then(|start| u16::try_from(-i64::from(start)).ok());
        Self::from_parts(before.ok_or(NotMapped)?, pages).ok_or(NotMapped)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Any pages that a fault can have mapped.
    fn mapped() -> impl Strategy<Value = Mapped> {
        let runs = prop::collection::vec((0..BLOCK, 0..60_usize), 0..6);
        (runs, 0..BLOCK)
            .prop_map(|(runs, own)| Mapped::new(runs.iter().map(|(first, count)| *first..first + count).collect(), own))
    }

    proptest! {
        #[test]
        fn text_round_trips(mapped in mapped()) {
            prop_assert_eq!(mapped.to_string().parse(), Ok(mapped));
            let (before, pages) = mapped.parts();
            prop_assert_eq!(Mapped::from_parts(before, pages), Some(mapped));
        }

        #[test]
        fn hostile_text_is_refused_or_read(text in "[-0-9+ ]{0,30}") {
            if let Ok(mapped) = text.parse::<Mapped>() {
                prop_assert!(mapped.parts().1.len() as usize <= BLOCK);
            }
        }

        #[test]
        fn runs_contain_the_own_page(mapped in mapped(), own in prop_oneof![0..600_u64, any::<u64>()]) {
            let runs: Vec<_> = mapped.runs(own).collect();
            let sum: u32 = runs.iter().map(|run| run.count).sum();
            prop_assert!(runs.is_empty() || sum <= mapped.others() + 1);
            if let Some(around) = mapped.around(own) {
                prop_assert!(runs.contains(&around) && own - around.first < u64::from(around.count));
            }
        }
    }

    #[test]
    fn pages_before_the_file_are_left_out() {
        let mapped = Mapped::new(std::iter::once(4..20).collect(), 7);
        assert_eq!(mapped.to_string(), "-3+16");
        assert_eq!(mapped.around(3), Some(PageRange { first: 0, count: 16 }));
        assert_eq!(mapped.runs(2).next(), None);
        for wrong in [
            "",
            "+",
            "-3+2",
            "1+4",
            "0+0",
            "-600+700",
            "0+1 900+1",
            "0+70000",
            "0 +1",
        ] {
            assert_eq!(wrong.parse::<Mapped>(), Err(NotMapped), "{wrong}");
        }
    }
}
