//! Functions that touched pages first, in eight bytes each, because a long recording of browsers has more than ten million.

use std::cmp::Reverse;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::functions::{Function, FunctionId};
use base::addr::PAGE;
use fact::reduce::sums::{KeyedSums, Sum};

/// A function that touched pages first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Toucher<'n> {
    /// Function name; `None`: no function of the program.
    pub function: Option<&'n str>,
    /// Bytes of these pages.
    pub bytes: u64,
}

/// Number of pages that a function touched first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Count {
    /// 0 for no function, otherwise a [`FunctionId`] plus one.
    number: u32,
    pages: u32,
}

impl Sum for Count {
    type Key = u32;

    fn key(&self) -> u32 {
        self.number
    }

    fn add(&mut self, more: &Self) {
        self.pages = self.pages.saturating_add(more.pages);
    }
}

/// Counts pages by function.
#[derive(Debug, Clone, Default)]
pub struct Touches {
    /// Sorted by number, without duplicates.
    counts: Vec<Count>,
}

impl Touches {
    /// Counts a page for a function.
    pub fn count(&mut self, function: Option<FunctionId>) {
        let one = Count {
            number: function.map_or(0, |id| id.0.saturating_add(1)),
            pages: 1,
        };
        match self.counts.binary_search_by_key(&one.number, Count::key) {
            Ok(at) => self.counts[at].add(&one),
            Err(at) => self.counts.insert(at, one),
        }
    }
}

/// Pages by function of many sections, stored consecutively.
#[derive(Debug, Default)]
pub struct Arena(Vec<Count>);

/// Position of a section's counts in an [`Arena`].
#[derive(Debug, Clone, Copy)]
pub struct Part {
    start: usize,
    len: u32,
}

impl Arena {
    /// Stores the counts of a section, most pages first.
    pub fn push(&mut self, touches: Touches) -> Part {
        let Touches { mut counts } = touches;
        counts.sort_unstable_by_key(|count| (Reverse(count.pages), count.number));
        let start = self.0.len();
        self.0.append(&mut counts);
        Part {
            start,
            len: u32::try_from(self.0.len() - start).unwrap_or(u32::MAX),
        }
    }

    /// Sums the counts of several sections.
    pub fn sum(&self, parts: impl IntoIterator<Item = Part>) -> Touches {
        let mut sums = KeyedSums::default();
        parts
            .into_iter()
            .flat_map(|part| self.part(part))
            .for_each(|count| sums.add(*count));
        Touches {
            counts: sums.into_sorted(),
        }
    }

    /// The touchers of a section, with names.
    pub fn of(&self, part: Part, names: &Arc<Names>) -> Touchers {
        Touchers {
            counts: self.part(part).to_vec(),
            names: Arc::clone(names),
        }
    }

    fn part(&self, part: Part) -> &[Count] {
        let all = self.0.get(part.start..).unwrap_or_default();
        all.get(..part.len as usize).unwrap_or_default()
    }
}

/// Names of functions, by [`FunctionId`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names(Vec<String>);

impl Names {
    /// Collects the names of functions.
    pub fn of(functions: &[Function]) -> Self {
        Self(functions.iter().map(|function| function.name.clone()).collect())
    }
}

/// Functions that touched a section's pages first, most pages first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Touchers {
    counts: Vec<Count>,
    names: Arc<Names>,
}

impl Touchers {
    /// Number of functions.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Iterates over the functions, most pages first.
    pub fn iter(&self) -> impl Iterator<Item = Toucher<'_>> {
        self.counts.iter().map(|&Count { number, pages }| {
            let name = number.checked_sub(1).and_then(|id| self.names.0.get(id as usize));
            Toucher {
                function: name.map(String::as_str),
                bytes: u64::from(pages).saturating_mul(PAGE),
            }
        })
    }

    /// The function with the most pages.
    pub fn first(&self) -> Option<Toucher<'_>> {
        self.iter().next()
    }
}

impl Serialize for Touchers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Arc<Names> {
        Arc::new(Names(["a", "b", "c"].map(str::to_owned).to_vec()))
    }

    fn listed(touches: Touches) -> Vec<(Option<String>, u64)> {
        let mut arena = Arena::default();
        let part = arena.push(touches);
        let all = arena.of(part, &names());
        let listed = all
            .iter()
            .map(|one| (one.function.map(str::to_owned), one.bytes / PAGE));
        listed.collect()
    }

    #[test]
    fn touchers_sort_by_pages_and_include_no_function() {
        let mut touches = Touches::default();
        for id in [2, 0, 2, 1] {
            touches.count(Some(FunctionId(id)));
        }
        touches.count(None);
        let [a, b, c] = ["a", "b", "c"].map(|name| Some(name.to_owned()));
        assert_eq!(listed(touches), [(c, 2), (None, 1), (a, 1), (b, 1)]);
    }

    #[test]
    fn sums_equal_their_parts() {
        let mut all = vec![Touches::default(); 90_000];
        for (number, touches) in (0..).zip(&mut all) {
            touches.count(Some(FunctionId(number % 3)));
            touches.count(None);
        }
        let mut arena = Arena::default();
        let parts: Vec<Part> = all.into_iter().map(|touches| arena.push(touches)).collect();
        let sum = arena.sum(parts);
        let listed: Vec<_> = sum.counts.iter().map(|count| (count.number, count.pages)).collect();
        assert_eq!(listed, [(0, 90_000), (1, 30_000), (2, 30_000), (3, 30_000)]);
    }
}
