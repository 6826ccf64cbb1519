//! Splits the memory of a mapped region by the sections of its file, using the page table (`/proc/PID/pagemap`).
//!
//! `smaps` has the sums of a region, the page table its pages. A region is split only if both agree; otherwise its sections are
//! unknown.

use super::parse::{Amounts, Region};
use fact::fault::FileSection;

const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
/// The page belongs to the file or to shared memory.
const OF_FILE: u64 = 1 << 61;
/// No other process maps the page.
const EXCLUSIVE: u64 = 1 << 56;
/// Page frame number; 0 if we may not see it.
const FRAME: u64 = (1 << 55) - 1;
/// Fraction bits of the PSS, as in the kernel.
const PSS_SHIFT: u32 = 12;

/// Memory of a section; `None`: bytes outside of sections.
pub type SectionAmounts = (Option<usize>, Amounts);

/// Why a region can't be split by section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// The kernel's sums and its list of pages differ.
    #[error("the kernel's sums do not match its page table; stop the process first (`kill -STOP PID`)")]
    Pages,
    /// Pages of the file itself are dirty, but it is unknown which.
    #[error(
        "pages of the file itself are dirty, but it is unknown which; run `sync` to write them, or run as root to see them"
    )]
    Dirty,
}

/// Known attributes of a page frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Frame {
    /// Number of mappings.
    pub mapped: Option<u64>,
    /// The page differs from the disk.
    pub dirty: Option<bool>,
}

/// The pages of a region.
#[derive(Debug, Clone, Copy)]
pub struct Pages<'w> {
    /// The region's part of `pagemap`.
    pub words: &'w [u64],
    /// Bytes of a page of this machine.
    pub size: u64,
}

/// Splits a region's amounts by the sections of its file. `look` returns the known
/// attributes of a page frame. Without them, the PSS of a section is known only if none of its pages is shared.
///
/// # Errors
/// When the sections do not add up to the region.
pub fn split(
    region: &Region,
    pages: Pages<'_>,
    sections: &[FileSection],
    look: &mut dyn FnMut(u64) -> Frame,
) -> Result<Vec<SectionAmounts>, SplitError> {
    // By section: amounts, and the PSS with its fraction bits.
    let mut found: Vec<(Option<usize>, Amounts, Option<u64>)> = Vec::new();
    for (word, page) in pages.words.iter().zip(0_u64..) {
        if word & (PRESENT | SWAPPED) == 0 {
            continue;
        }
        let section = section_of(sections, region.offset.saturating_add(page * pages.size), pages.size);
        let place = found.iter().position(|(known, ..)| *known == section);
        let place = place.unwrap_or_else(|| {
            found.push((section, Amounts::default(), Some(0)));
            found.len() - 1
        });
        let Some((_, amounts, pss)) = found.get_mut(place) else {
            continue;
        };
        if word & PRESENT == 0 {
            amounts.swap += pages.size;
            continue;
        }
        let frame = look(word & FRAME);
        count(amounts, *word, pages.size, frame.dirty.unwrap_or(false));
        let by = if word & EXCLUSIVE != 0 {
            Some(1)
        } else {
            frame.mapped.filter(|by| *by > 0)
        };
        *pss = pss
            .zip(by)
            .map(|(sum, by)| sum.saturating_add((pages.size << PSS_SHIFT) / by));
    }
    let known: Option<Vec<u64>> = found.iter().map(|(.., pss)| *pss).collect();
    let all = known.map(|known| known.iter().fold(0_u64, |sum, pss| sum.saturating_add(*pss)));
    // The kernel rounds a region's sum down to a kB.
    let counted = region.amounts.pss;
    let fits = |pss: &u64| all.is_none_or(|all| all >> (10 + PSS_SHIFT) == pss >> 10);
    let mut left = counted.filter(fits);
    let mut sum = Amounts::default();
    let mut split = Vec::with_capacity(found.len());
    for (section, mut amounts, pss) in found {
        amounts.pss = left.zip(pss).map(|(left, pss)| left.min(pss >> PSS_SHIFT));
        left = left.map(|left| left.saturating_sub(amounts.pss.unwrap_or(0)));
        sum += amounts;
        split.push((section, amounts));
    }
    sum.hugetlb = region.amounts.hugetlb;
    if sum.agrees(&region.amounts) {
        Ok(split)
    } else if clean(sum).agrees(&clean(region.amounts)) {
        Err(SplitError::Dirty)
    } else {
        Err(SplitError::Pages)
    }
}

/// Counts a page in memory. A copy is dirty; a page of the file is if the frame says so. A process that maps its own copy
/// can't make the file's page dirty.
fn count(amounts: &mut Amounts, word: u64, size: u64, is_dirty: bool) {
    let (is_file, is_private) = (word & OF_FILE != 0, word & EXCLUSIVE != 0);
    amounts.rss += size;
    if !is_file {
        amounts.anonymous += size;
    }
    *match (is_private, !is_file || is_dirty) {
        (true, true) => &mut amounts.private_dirty,
        (true, false) => &mut amounts.private_clean,
        (false, true) => &mut amounts.shared_dirty,
        (false, false) => &mut amounts.shared_clean,
    } += size;
}

/// The same amounts with all dirty bytes counted as clean.
fn clean(amounts: Amounts) -> Amounts {
    Amounts {
        shared_clean: amounts.shared(),
        shared_dirty: 0,
        private_clean: amounts.private_clean.saturating_add(amounts.private_dirty),
        private_dirty: 0,
        ..amounts
    }
}

/// The section with the most bytes of a page; the first of equals.
fn section_of(sections: &[FileSection], offset: u64, page: u64) -> Option<usize> {
    let end = offset.saturating_add(page);
    let first = sections.partition_point(|section| section.offset.saturating_add(section.size) <= offset);
    let near = sections
        .iter()
        .enumerate()
        .skip(first)
        .take_while(|(_, section)| section.offset < end);
    let bytes = |section: &FileSection| {
        let until = section.offset.saturating_add(section.size).min(end);
        until.saturating_sub(section.offset.max(offset))
    };
    let most = near.max_by_key(|(index, section)| (bytes(section), std::cmp::Reverse(*index)))?;
    Some(most.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::addr::PAGE;

    /// Page sizes of machines.
    const SIZES: [u64; 3] = [PAGE, 4 * PAGE, 16 * PAGE];

    fn section(offset: u64, size: u64) -> FileSection {
        FileSection {
            name: String::new(),
            offset,
            size,
            svma: 0,
        }
    }

    #[test]
    fn a_page_is_of_the_section_with_the_most_bytes_in_it() {
        let sections = [
            section(100, 1000),
            section(1100, 2000),
            section(3100, 100_000),
            section(200_000, 10),
        ];
        let of = |offset| section_of(&sections, offset, PAGE);
        assert_eq!([of(0), of(PAGE), of(100_000)], [Some(1), Some(2), Some(2)]);
        assert_eq!([of(114_688), of(196_608), of(400_000)], [None, Some(3), None]);
    }

    fn region(amounts: Amounts, size: u64) -> Region {
        Region {
            end: 5 * size,
            amounts,
            ..Region::default()
        }
    }

    #[test]
    fn pages_add_up_to_the_region_or_an_error_is_returned() {
        for size in SIZES {
            pages_add_up(size);
        }
    }

    fn pages_add_up(size: u64) {
        let sections = [section(0, size), section(size, 4 * size)];
        let words = [
            PRESENT | OF_FILE | 7,
            PRESENT | OF_FILE | EXCLUSIVE | 8,
            PRESENT | EXCLUSIVE | 9,
            SWAPPED,
            0,
        ];
        let amounts = Amounts {
            rss: 3 * size,
            pss: Some(size * 9 / 4),
            shared_clean: size,
            private_clean: size,
            private_dirty: size,
            anonymous: size,
            swap: size,
            ..Amounts::default()
        };
        let pages = Pages { words: &words, size };
        // Frame 7 is mapped four times.
        let mut look = |frame| Frame {
            mapped: Some(frame - 3),
            dirty: Some(frame == 8),
        };
        let blind = &mut |_| Frame::default();
        let split_up = split(&region(amounts, size), pages, &sections, blind).unwrap();
        // Without frame attributes, only the section without shared pages has a PSS.
        assert_eq!(
            split_up.iter().map(|(_, amounts)| amounts.pss).collect::<Vec<_>>(),
            [None, Some(2 * size)]
        );
        // Frame 8 is a dirty page of the file.
        let dirty = Amounts {
            private_clean: 0,
            private_dirty: 2 * size,
            ..amounts
        };
        let first = Amounts {
            rss: size,
            pss: Some(size / 4),
            shared_clean: size,
            ..Amounts::default()
        };
        let split_up = split(&region(dirty, size), pages, &sections, &mut look).unwrap();
        assert_eq!(split_up[0], (Some(0), first));
        let second = split_up[1].1;
        assert_eq!(
            (second.pss, second.swap, second.private_dirty),
            (Some(2 * size), size, 2 * size)
        );
        assert_eq!(
            split(&region(dirty, size), pages, &sections, blind),
            Err(SplitError::Dirty)
        );
        let less = Amounts {
            rss: 2 * size,
            ..amounts
        };
        assert_eq!(
            split(&region(less, size), pages, &sections, &mut look),
            Err(SplitError::Pages)
        );
    }

    #[test]
    fn large_pages_belong_to_the_section_with_most_of_them() {
        for size in SIZES {
            most_of_a_page(size);
        }
    }

    fn most_of_a_page(size: u64) {
        // A quarter of the second page, and the rest of the memory.
        let first = size + size / 4;
        let sections = [section(0, first), section(first, 3 * size - first)];
        let amounts = Amounts {
            rss: 2 * size,
            pss: Some(2 * size),
            private_clean: 2 * size,
            ..Amounts::default()
        };
        let region = Region {
            end: 3 * size,
            amounts,
            ..Region::default()
        };
        let words = [PRESENT | OF_FILE | EXCLUSIVE | 7, 0, PRESENT | OF_FILE | EXCLUSIVE | 9];
        let pages = Pages { words: &words, size };
        let split_up = split(&region, pages, &sections, &mut |_| Frame::default()).unwrap();
        let found: Vec<_> = split_up.iter().map(|(index, amounts)| (*index, amounts.rss)).collect();
        assert_eq!(found, [(Some(0), size), (Some(1), size)]);
    }
}
