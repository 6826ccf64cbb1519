//! The pieces of a critical path as the items that its track shows.

use rustc_hash::FxHashMap;

use crate::write::track::Item;
use base::addr::{Timestamp, ns};

/// Steps of time within which items of the same stack are joined: two per pixel.
const STEPS: u64 = 4_000;
/// Maximum parts of an item that fills the whole path, so that a selected range has its share.
const PARTS: u64 = 250;
/// Minimum length of a part, in ns.
const SHORTEST_PART: u64 = 10_000_000;

/// Adjacent items, weighed by their time, as the track shows them: joined if short, in parts if long.
pub fn shown(items: Vec<Item>) -> Vec<Item> {
    let length = items.iter().fold(0, |sum: u64, item| sum.saturating_add(item.weight));
    let joined = joined(items, length / STEPS).into_iter();
    let part = (length / PARTS).max(SHORTEST_PART);
    joined.flat_map(|item| parts(item, part)).collect()
}

/// Joins items of the same stack that are adjacent or within a step of time: each stack has its time of the step, in the
/// order of their first items. So there are few rows, however often the path changes threads.
fn joined(items: Vec<Item>, step: u64) -> Vec<Item> {
    let mut all: Vec<Item> = Vec::with_capacity(items.len());
    // Where the items of the step begin, and those of each stack.
    let (mut first, mut places) = (0, FxHashMap::default());
    for item in items {
        let begin = all.get(first).map_or(item.start, |first: &Item| first.start);
        if ns(item.end.since(begin)) > step {
            lay_end_to_end(&mut all, first);
            places.clear();
            first = all.len();
        }
        let place = *places.entry(item.stack).or_insert(all.len());
        match all.get_mut(place) {
            Some(known) => known.weight = known.weight.saturating_add(item.weight),
            None => all.push(item),
        }
    }
    lay_end_to_end(&mut all, first);
    all.dedup_by(|item, last| {
        let is_same = last.stack == item.stack;
        if is_same {
            (last.end, last.weight) = (item.end, last.weight.saturating_add(item.weight));
        }
        is_same
    });
    all
}

/// Places the items from this one on one after the other, as long as they weigh.
fn lay_end_to_end(items: &mut [Item], first: usize) {
    let items = items.get_mut(first..).unwrap_or_default();
    let Some(mut time) = items.first().map(|item| item.start) else {
        return;
    };
    for item in items {
        item.start = time;
        time = Timestamp(time.0.saturating_add(item.weight));
        item.end = time;
    }
}

/// An item in parts of at most this length, weighed by their time.
fn parts(item: Item, part: u64) -> impl Iterator<Item = Item> {
    let length = ns(item.end.since(item.start));
    let number = length.div_ceil(part.max(1)).max(1);
    let at = move |index: u64| {
        let share = u128::from(length) * u128::from(index) / u128::from(number);
        Timestamp(item.start.0.saturating_add(u64::try_from(share).unwrap_or(length)))
    };
    (0..number).map(move |index| {
        let (start, end) = (at(index), at(index + 1));
        Item {
            start,
            end,
            weight: ns(end.since(start)),
            ..item
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_within_a_step_are_joined() {
        let lengths = [
            (1, 3),
            (2, 2),
            (1, 3),
            (2, 1),
            (3, 1),
            (3, 90),
            (3, 5),
            (1, 1),
            (2, 4),
            (1, 2),
            (1, 1),
        ];
        let mut time = 100;
        let items = lengths.map(|(stack, length)| {
            time += length;
            Item {
                start: Timestamp(time - length),
                end: Timestamp(time),
                stack: Some(stack),
                weight: length,
            }
        });
        let found = joined(items.to_vec(), 10);
        let spans: Vec<_> = found
            .iter()
            .map(|item| (item.stack.unwrap(), item.start.0, item.end.0, item.weight))
            .collect();
        let expected = [
            (1, 100, 106, 6),
            (2, 106, 109, 3),
            (3, 109, 205, 96),
            (1, 205, 206, 1),
            (2, 206, 210, 4),
            (1, 210, 213, 3),
        ];
        assert_eq!(spans, expected);
        assert_eq!(joined(items.to_vec(), 0).len(), 8, "only equal neighbours are joined");
    }

    #[test]
    fn parts_add_up_to_the_item() {
        let item = |start, end| Item {
            start: Timestamp(start),
            end: Timestamp(end),
            stack: Some(3),
            weight: 0,
        };
        for (start, end, part, number) in [
            (5, 5, 10, 1),
            (5, 15, 10, 1),
            (5, 16, 10, 2),
            (0, 99, 10, 10),
            (0, 7, 0, 7),
        ] {
            let parts: Vec<Item> = parts(item(start, end), part).collect();
            assert_eq!(parts.len(), number, "{start} {end} {part}");
            assert_eq!(parts.iter().map(|part| part.weight).sum::<u64>(), end - start);
            assert_eq!((parts[0].start.0, parts[number - 1].end.0), (start, end));
            assert!(parts.windows(2).all(|two| two[0].end == two[1].start));
        }
    }
}
