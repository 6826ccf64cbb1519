//! A set of pages: a bitmap of those parts of a file that have any, so that a file of 10 GiB takes 320 KiB and not one of 10 pages.

use std::collections::BTreeMap;

use crate::fact::fault::PageRange;

/// Pages of a part.
const PART: u64 = 4096;
const WORDS: usize = 64;
/// Parts of a set at most: those of a file of 1 TiB.
const MAX_PARTS: usize = 1 << 16;
/// Pages that are added at once, at most: 64 GiB.
const MAX_RANGE: u32 = 1 << 24;

/// Pages that need no part: most files are no larger than their 256 KiB.
const HEAD: u64 = 64;

/// A set of pages, counted from the start of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PageSet {
    /// The first ones.
    head: u64,
    /// The others: the first word of the first part has none.
    parts: BTreeMap<u64, Box<[u64; WORDS]>>,
    len: u64,
    left_out: u64,
}

impl PageSet {
    /// How many pages it has.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// It has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Pages that it had no room for: they lie in more than 65,536 different parts of 16 MiB.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Bytes of memory that it takes, but for a little.
    pub fn bytes(&self) -> usize {
        self.parts.len() * (WORDS * 8 + 16)
    }

    /// It has this page.
    pub fn contains(&self, page: u64) -> bool {
        let word = match page {
            ..HEAD => Some(self.head),
            _ => self.parts.get(&(page / PART)).map(|part| part[word_of(page)]),
        };
        word.is_some_and(|word| word & bit_of(page) != 0)
    }

    /// Adds a page; true if it is new.
    pub fn insert(&mut self, page: u64) -> bool {
        let word = match page {
            ..HEAD => &mut self.head,
            _ if self.has_room(page / PART) => &mut self.part(page / PART)[word_of(page)],
            _ => {
                self.left_out = self.left_out.saturating_add(1);
                return false;
            }
        };
        let is_new = *word & bit_of(page) == 0;
        *word |= bit_of(page);
        self.len += u64::from(is_new);
        is_new
    }

    /// Adds pages; returns how many are new.
    pub fn insert_range(&mut self, range: PageRange) -> u64 {
        let before = self.len;
        let count = range.count.min(MAX_RANGE);
        self.left_out = self.left_out.saturating_add(u64::from(range.count - count));
        for (part, mut masks) in parts_of(PageRange { count, ..range }) {
            if part == 0 {
                let head = std::mem::take(&mut masks[0]);
                self.len += u64::from((head & !self.head).count_ones());
                self.head |= head;
            }
            let pages: u64 = masks.iter().map(|mask| u64::from(mask.count_ones())).sum();
            if pages == 0 {
                continue;
            }
            if !self.has_room(part) {
                self.left_out = self.left_out.saturating_add(pages);
                continue;
            }
            let mut len = self.len;
            for (word, mask) in self.part(part).iter_mut().zip(masks) {
                len += u64::from((mask & !*word).count_ones());
                *word |= mask;
            }
            self.len = len;
        }
        self.len - before
    }

    /// The part of this number is there, or there is room for one more.
    fn has_room(&self, part: u64) -> bool {
        self.parts.len() < MAX_PARTS || self.parts.contains_key(&part)
    }

    /// The part of this number, which is made if it is not there.
    fn part(&mut self, part: u64) -> &mut [u64; WORDS] {
        self.parts.entry(part).or_insert_with(|| Box::new([0; WORDS]))
    }

    /// Takes pages out; returns how many it had of them.
    pub fn remove_range(&mut self, range: PageRange) -> u64 {
        let before = self.len;
        if range.first < HEAD {
            let gone = self.head & masks_of(0, range)[0];
            self.head &= !gone;
            self.len -= u64::from(gone.count_ones());
        }
        // Only the parts that there are: a hostile range has many more.
        let last = range.first.saturating_add(u64::from(range.count.max(1)) - 1) / PART;
        let there: Vec<u64> = self
            .parts
            .range(range.first / PART..=last)
            .map(|(part, _)| *part)
            .collect();
        for part in there {
            let masks = masks_of(part, range);
            let Some(words) = self.parts.get_mut(&part) else {
                continue;
            };
            for (word, mask) in words.iter_mut().zip(masks) {
                self.len -= u64::from((*word & mask).count_ones());
                *word &= !mask;
            }
            if words.iter().all(|word| *word == 0) {
                self.parts.remove(&part);
            }
        }
        before - self.len
    }

    /// Adds the pages of another set.
    pub fn union(&mut self, other: &Self) {
        for range in other.ranges() {
            self.insert_range(range);
        }
    }

    /// The pages that none of the others has.
    #[must_use]
    pub fn without(&self, others: &[&Self]) -> Self {
        let head = others.iter().fold(self.head, |left, other| left & !other.head);
        let mut left = Self {
            head,
            len: u64::from(head.count_ones()),
            ..Self::default()
        };
        for (part, words) in &self.parts {
            let mut words = words.clone();
            for other in others.iter().filter_map(|other| other.parts.get(part)) {
                words
                    .iter_mut()
                    .zip(other.iter())
                    .for_each(|(word, gone)| *word &= !gone);
            }
            let count: u64 = words.iter().map(|word| u64::from(word.count_ones())).sum();
            if count > 0 {
                left.len += count;
                left.parts.insert(*part, words);
            }
        }
        left
    }

    /// The pages, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let words = self.parts.iter().flat_map(|(part, words)| {
            let words = words.iter().zip(0u64..);
            words.map(move |(word, index)| (*word, part * PART + index * 64))
        });
        std::iter::once((self.head, 0)).chain(words).flat_map(|(word, first)| {
            (0..64)
                .filter(move |bit| word & (1 << bit) != 0)
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

/// The pages of a range that lie in a part.
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
        // There is always room for the first ones.
        let first = PageRange { first: 60, count: 8 };
        assert_eq!((set.insert_range(first), set.left_out()), (4, 14));
        let mut small = PageSet::default();
        assert!(small.insert(0) && small.insert(63) && small.bytes() == 0);
    }
}
