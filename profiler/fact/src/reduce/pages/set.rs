//! A set of pages: a bitmap of the non-empty parts of a file. A file of 10 GiB takes some 320 KiB, one of 10 pages
//! almost nothing.

mod part;

use std::collections::BTreeMap;

use self::part::SetPart;
use crate::fault::PageRange;

/// Pages in a part.
const PART: u64 = 4096;
const WORDS: usize = 64;
/// Maximum number of parts in a set: those of a file of 1 TiB.
const MAX_PARTS: usize = 1 << 16;
/// Maximum number of pages added at once: 64 GiB.
const MAX_RANGE: u32 = 1 << 24;

/// Pages that need no part: most files have no more than these 256 KiB.
const HEAD: u64 = 64;

/// A set of pages, counted from the start of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PageSet {
    /// Pages below `HEAD`.
    head: u64,
    /// All others.
    more: Option<Box<More>>,
}

/// Pages from `HEAD` on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct More {
    /// The first part, with an empty first word; most files that have parts have no other.
    first: SetPart,
    /// The other non-empty parts.
    rest: BTreeMap<u64, SetPart>,
    len: u64,
    /// Number of non-empty words in all parts.
    words: usize,
    left_out: u64,
}

impl PageSet {
    /// Number of pages.
    pub fn len(&self) -> u64 {
        u64::from(self.head.count_ones()) + self.more.as_ref().map_or(0, |more| more.len)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of pages beyond capacity: they are in more than 65,536 different parts of 16 MiB.
    pub fn left_out(&self) -> u64 {
        self.more.as_ref().map_or(0, |more| more.left_out)
    }

    /// Approximate size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        let of_more = |more: &More| size_of::<More>() + more.rest.len() * size_of::<(u64, SetPart)>() + more.words * 8;
        self.more.as_deref().map_or(0, of_more)
    }

    /// Whether it contains this page.
    pub fn contains(&self, page: u64) -> bool {
        let word = match page {
            ..HEAD => self.head,
            _ => self.part(page / PART).map_or(0, |part| part.word(word_of(page))),
        };
        word & bit_of(page) != 0
    }

    /// Adds a page; returns true if it is new.
    pub fn insert(&mut self, page: u64) -> bool {
        if page < HEAD {
            return self.add_to_head(bit_of(page)) > 0;
        }
        let words = std::iter::once((word_of(page), bit_of(page)));
        self.more.get_or_insert_default().add(page / PART, words) > 0
    }

    /// Adds pages; returns how many are new.
    pub fn insert_range(&mut self, range: PageRange) -> u64 {
        self.insert_missing(range, &Self::default())
    }

    /// Adds those of these pages that another set lacks; returns how many are new.
    pub fn insert_missing(&mut self, range: PageRange, other: &Self) -> u64 {
        let count = range.count.min(MAX_RANGE);
        if count < range.count {
            let more = self.more.get_or_insert_default();
            more.left_out = more.left_out.saturating_add(u64::from(range.count - count));
        }
        let mut new = 0;
        for (part, mut masks) in parts_of(PageRange { count, ..range }) {
            if part == 0 {
                new += self.add_to_head(std::mem::take(&mut masks[0]) & !other.head);
            }
            for (word, pages) in other.part(part).into_iter().flat_map(SetPart::words) {
                masks[word] &= !pages;
            }
            if masks != [0; WORDS] {
                let words = masks.into_iter().enumerate().filter(|(_, pages)| *pages != 0);
                new += self.more.get_or_insert_default().add(part, words);
            }
        }
        new
    }

    fn add_to_head(&mut self, pages: u64) -> u64 {
        let new = pages & !self.head;
        self.head |= pages;
        u64::from(new.count_ones())
    }

    /// Removes pages; returns how many were present.
    pub fn remove_range(&mut self, range: PageRange) -> u64 {
        let before = self.len();
        if range.first < HEAD {
            self.head &= !masks_of(0, range)[0];
        }
        if let Some(more) = &mut self.more {
            more.remove_range(range);
            if more.len == 0 && more.left_out == 0 {
                self.more = None;
            }
        }
        before - self.len()
    }

    /// Adds the pages of another set.
    pub fn union(&mut self, other: &Self) {
        self.add_to_head(other.head);
        for (number, part) in other.parts().filter(|(_, part)| !part.is_empty()) {
            self.more.get_or_insert_default().add(number, part.words());
        }
    }

    /// The pages that are in none of the others.
    #[must_use]
    pub fn without(&self, others: &[&Self]) -> Self {
        let mut left = Self {
            head: others.iter().fold(self.head, |left, other| left & !other.head),
            more: None,
        };
        for (number, part) in self.parts() {
            let mut part = part.clone();
            for other in others.iter().filter_map(|other| other.part(number)) {
                for (word, pages) in other.words() {
                    part.remove(word, pages);
                }
            }
            if !part.is_empty() {
                left.more.get_or_insert_default().add(number, part.words());
            }
        }
        left
    }

    /// The non-empty parts; the first word of the first one is in `head`.
    fn parts(&self) -> impl Iterator<Item = (u64, &SetPart)> {
        let more = self.more.as_deref().into_iter();
        more.flat_map(|more| {
            std::iter::once((0, &more.first)).chain(more.rest.iter().map(|(number, part)| (*number, part)))
        })
    }

    fn part(&self, number: u64) -> Option<&SetPart> {
        let more = self.more.as_deref()?;
        if number == 0 {
            Some(&more.first)
        } else {
            more.rest.get(&number)
        }
    }

    /// The pages, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let words = self.parts().flat_map(|(number, part)| {
            let words = part.words();
            words.map(move |(word, pages)| (pages, number * PART + word as u64 * 64))
        });
        std::iter::once((self.head, 0)).chain(words).flat_map(|(pages, first)| {
            (0..64)
                .filter(move |bit| pages & (1 << bit) != 0)
                .map(move |bit| first + bit)
        })
    }

    /// The pages as runs, ascending.
    pub fn ranges(&self) -> impl Iterator<Item = PageRange> + '_ {
        let mut pages = self.iter().peekable();
        std::iter::from_fn(move || {
            let first = pages.next()?;
            let mut count: u32 = 1;
            while count < u32::MAX && pages.next_if(|page| *page - first == u64::from(count)).is_some() {
                count += 1;
            }
            Some(PageRange { first, count })
        })
    }
}

impl More {
    /// Adds pages to words of a part, none of which is empty; returns how many are new.
    fn add(&mut self, number: u64, words: impl Iterator<Item = (usize, u64)>) -> u64 {
        let Some(part) = self.part(number) else {
            let pages = words.map(|(_, pages)| u64::from(pages.count_ones()));
            self.left_out = self.left_out.saturating_add(pages.sum());
            return 0;
        };
        let before = part.len();
        let new = words.map(|(word, pages)| u64::from(part.add(word, pages))).sum();
        let grown = part.len() - before;
        self.words += grown;
        self.len += new;
        new
    }

    /// The part with this number, created if missing. `None` if capacity is exhausted.
    fn part(&mut self, number: u64) -> Option<&mut SetPart> {
        let has_first = !self.first.is_empty();
        let has_room = self.rest.len() + usize::from(has_first) < MAX_PARTS;
        if number == 0 {
            return (has_first || has_room).then_some(&mut self.first);
        }
        if has_room {
            return Some(self.rest.entry(number).or_default());
        }
        self.rest.get_mut(&number)
    }

    fn remove_range(&mut self, range: PageRange) {
        // Visits only existing parts: a hostile range spans many more.
        let (from, to) = (
            range.first,
            range.first.saturating_add(u64::from(range.count.max(1)) - 1),
        );
        let rest = self.rest.range(from / PART..=to / PART).map(|(number, _)| *number);
        let mut there: Vec<u64> = rest.collect();
        if from < PART {
            there.push(0);
        }
        for number in there {
            let part = if number == 0 {
                Some(&mut self.first)
            } else {
                self.rest.get_mut(&number)
            };
            let Some(part) = part else { continue };
            let before = part.len();
            for (word, mask) in masks_of(number, range).into_iter().enumerate() {
                self.len -= u64::from(part.remove(word, mask));
            }
            self.words -= before - part.len();
            if part.is_empty() {
                self.rest.remove(&number);
            }
        }
    }
}

fn word_of(page: u64) -> usize {
    (page % PART / 64) as usize
}

fn bit_of(page: u64) -> u64 {
    1 << (page % 64)
}

/// The parts that a range touches, with its pages in each.
fn parts_of(range: PageRange) -> impl Iterator<Item = (u64, [u64; WORDS])> {
    let parts = match u64::from(range.count).checked_sub(1) {
        Some(more) => range.first / PART..range.first.saturating_add(more) / PART + 1,
        None => 0..0,
    };
    parts.map(move |part| (part, masks_of(part, range)))
}

/// The pages of a range that are in a part.
fn masks_of(part: u64, range: PageRange) -> [u64; WORDS] {
    let start = part.saturating_mul(PART);
    let from = range.first.saturating_sub(start).min(PART);
    let to = range
        .first
        .saturating_add(u64::from(range.count))
        .saturating_sub(start)
        .min(PART);
    let mut masks = [0; WORDS];
    for (mask, word) in masks.iter_mut().zip(0u64..) {
        let (low, high) = (from.max(word * 64), to.min(word * 64 + 64));
        if low < high {
            *mask = (u64::MAX >> (64 - (high - low))) << (low % 64);
        }
    }
    masks
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn pages(range: PageRange) -> impl Iterator<Item = u64> {
        range.first..range.first + u64::from(range.count)
    }

    fn set(ranges: &[PageRange]) -> PageSet {
        let mut set = PageSet::default();
        for range in ranges {
            set.insert_range(*range);
        }
        set
    }

    fn range() -> impl Strategy<Value = PageRange> {
        let first = prop_oneof![0..300u64, 4000..4200u64, (1 << 40)..(1u64 << 40) + 99];
        (first, prop_oneof![0..99u32, 0..9000u32]).prop_map(|(first, count)| PageRange { first, count })
    }

    proptest! {
        /// The oracle is a set of numbers.
        #[test]
        fn agrees_with_a_set_of_numbers(steps in prop::collection::vec((any::<bool>(), range()), 0..12), asked in range()) {
            let (mut set, mut oracle) = (PageSet::default(), BTreeSet::new());
            for (adds, range) in steps {
                let before = oracle.len();
                if adds {
                    oracle.extend(pages(range));
                    prop_assert_eq!(set.insert_range(range), (oracle.len() - before) as u64);
                } else {
                    oracle.retain(|page| !(range.first..range.first + u64::from(range.count)).contains(page));
                    prop_assert_eq!(set.remove_range(range), (before - oracle.len()) as u64);
                }
            }
            prop_assert_eq!(set.len(), oracle.len() as u64);
            prop_assert!(set.iter().eq(oracle.iter().copied()));
            prop_assert_eq!(set.contains(asked.first), oracle.contains(&asked.first));
            let runs: Vec<PageRange> = set.ranges().collect();
            prop_assert!(runs.iter().copied().flat_map(pages).eq(oracle.iter().copied()));
            prop_assert!(runs.windows(2).all(|two| two[0].first + u64::from(two[0].count) < two[1].first), "runs are as long as they can be");
        }

        #[test]
        fn unions_keep_the_laws(a in prop::collection::vec(range(), 0..5), b in prop::collection::vec(range(), 0..5), c in prop::collection::vec(range(), 0..5)) {
            let union = |one: &PageSet, other: &PageSet| {
                let mut both = one.clone();
                both.union(other);
                both
            };
            let (a, b, c) = (set(&a), set(&b), set(&c));
            prop_assert_eq!(union(&a, &b), union(&b, &a));
            prop_assert_eq!(union(&union(&a, &b), &c), union(&a, &union(&b, &c)));
            prop_assert_eq!(&union(&a, &a), &a);
            prop_assert_eq!(&union(&a, &PageSet::default()), &a);
            let (only_a, both) = (a.without(&[&b]), union(&a, &b));
            prop_assert_eq!(only_a.len() + b.len(), both.len());
            prop_assert_eq!(union(&only_a, &b), both);
            prop_assert!(only_a.iter().all(|page| a.contains(page) && !b.contains(page)));
            prop_assert_eq!(a.without(&[&b, &c]), a.without(&[&union(&b, &c)]));
        }

        #[test]
        fn missing_pages_are_those_that_the_other_set_lacks(a in prop::collection::vec(range(), 0..5), b in prop::collection::vec(range(), 0..5), more in range()) {
            let (mut found, mut expected, b) = (set(&a), set(&a), set(&b));
            expected.union(&set(&[more]).without(&[&b]));
            prop_assert_eq!((found.len() + found.insert_missing(more, &b), found), (expected.len(), expected));
        }

        #[test]
        fn hostile_ranges_never_panic(ranges in prop::collection::vec((any::<u64>(), 0..2_000_000u32), 0..4), gone in any::<(u64, u32)>()) {
            let mut set = PageSet::default();
            for (first, count) in ranges {
                set.insert_range(PageRange { first, count });
            }
            set.remove_range(PageRange { first: gone.0, count: gone.1 });
            prop_assert!(set.bytes() < 1 << 20);
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut set = PageSet::default();
        for part in 1..=MAX_PARTS as u64 + 10 {
            set.insert(part * PART);
        }
        assert_eq!((set.len(), set.left_out()), (MAX_PARTS as u64, 10));
        // There is always capacity for the first pages.
        let first = PageRange { first: 60, count: 8 };
        assert_eq!((set.insert_range(first), set.left_out()), (4, 14));
        let mut small = PageSet::default();
        assert!(small.insert(0) && small.insert(63) && small.bytes() == 0);
    }
}
