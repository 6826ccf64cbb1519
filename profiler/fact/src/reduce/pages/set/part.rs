//! A part of a set: 4096 pages, of which only non-empty words are stored.

use super::WORDS;

/// Words of 64 pages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SetPart {
    /// Which words are stored, a bit each.
    there: u64,
    /// The stored words, ascending; none is empty.
    words: Vec<u64>,
}

const _: () = assert!(WORDS == u64::BITS as usize, "each word has a bit");

impl SetPart {
    /// Number of non-empty words.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether it has no page.
    pub fn is_empty(&self) -> bool {
        self.there == 0
    }

    /// The pages of a word.
    pub fn word(&self, number: usize) -> u64 {
        let place = self.place(number).ok();
        place.and_then(|place| self.words.get(place)).copied().unwrap_or(0)
    }

    /// Adds pages to a word; returns how many are new.
    pub fn add(&mut self, number: usize, pages: u64) -> u32 {
        match self.place(number) {
            Ok(place) => {
                let Some(word) = self.words.get_mut(place) else {
                    return 0;
                };
                let new = pages & !*word;
                *word |= pages;
                new.count_ones()
            }
            Err(_) if pages == 0 => 0,
            Err(place) => {
                self.words.insert(place, pages);
                self.there |= 1 << number;
                pages.count_ones()
            }
        }
    }

    /// Removes pages from a word; returns how many were present.
    pub fn remove(&mut self, number: usize, pages: u64) -> u32 {
        let Ok(place) = self.place(number) else { return 0 };
        let Some(word) = self.words.get_mut(place) else {
            return 0;
        };
        let gone = pages & *word;
        *word &= !pages;
        if *word == 0 {
            self.words.remove(place);
            self.there &= !(1 << number);
        }
        gone.count_ones()
    }

    /// The non-empty words, ascending, with their numbers.
    pub fn words(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let numbers = (0..WORDS).filter(|number| self.there & (1 << number) != 0);
        numbers.zip(self.words.iter().copied())
    }

    /// Index of a word, or where it would be inserted.
    fn place(&self, number: usize) -> Result<usize, usize> {
        let bit = 1 << number;
        let place = (self.there & (bit - 1)).count_ones() as usize;
        if self.there & bit == 0 { Err(place) } else { Ok(place) }
    }
}
