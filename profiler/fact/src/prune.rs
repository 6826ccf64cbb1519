//! Removes unreferenced stacks and frames, and renumbers the rest in the same order.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hash};
use std::mem::take;

use rustc_hash::FxHashMap;

use super::{BioFact, FrameId, FrameName, StackId, StackNode, Tables, WaitFact};

/// Visits the number of each stack and frame that is kept, and may replace it.
pub trait Visit {
    /// A stack; all its callers are kept with it.
    fn stack(&mut self, stack: &mut StackId);
    /// A frame kept independently of any stack.
    fn frame(&mut self, frame: &mut FrameId);
    /// Whether it replaces numbers.
    fn renumbers(&self) -> bool {
        false
    }
}

/// Visits a stack, if there is one.
pub fn visit_stack(stack: &mut Option<StackId>, visit: &mut dyn Visit) {
    if let Some(stack) = stack {
        visit.stack(stack);
    }
}

/// Visits the stacks of bios.
pub fn visit_bios<'b>(bios: impl IntoIterator<Item = &'b mut BioFact>, visit: &mut dyn Visit) {
    bios.into_iter().for_each(|bio| visit_stack(&mut bio.stack, visit));
}

/// Visits the stacks in the keys of a map: `each` visits one key, which may change. Entries with equal keys are then
/// joined.
pub fn visit_keys<K, V, S>(
    map: &mut HashMap<K, V, S>,
    visit: &mut dyn Visit,
    each: impl Fn(&mut K, &mut V, &mut dyn Visit),
    join: impl Fn(&mut V, &V),
) where
    K: Eq + Hash + Copy,
    S: BuildHasher + Default,
{
    if visit.renumbers() {
        for (mut key, mut value) in take(map) {
            each(&mut key, &mut value, visit);
            match map.entry(key) {
                Entry::Occupied(mut known) => join(known.get_mut(), &value),
                Entry::Vacant(room) => {
                    room.insert(value);
                }
            }
        }
    } else {
        for (key, value) in map {
            each(&mut { *key }, value, visit);
        }
    }
}

impl WaitFact {
    /// Visits its stack and its waker's.
    pub fn visit(&mut self, visit: &mut dyn Visit) {
        visit_stack(&mut self.stack, visit);
        if let Some(waker) = &mut self.waker {
            visit_stack(&mut waker.stack, visit);
        }
    }
}

/// Reduces the tables to what `each` visits: stacks with all callers, their frames and the names of those. `each` is
/// called twice, first to find what is kept, then to renumber it.
pub fn prune(tables: &mut Tables, mut each: impl FnMut(&mut dyn Visit)) {
    let mut used = Used {
        stacks: vec![false; tables.stacks.len()],
        frames: vec![false; tables.frames.len()],
    };
    each(&mut used);
    used.callers(tables);
    let mut kept = Renumbered {
        stacks: renumber(&used.stacks),
        frames: renumber(&used.frames),
    };
    drop(used);
    retain(&mut tables.stacks, &kept.stacks);
    for node in &mut tables.stacks {
        if let Some(parent) = &mut node.parent {
            kept.stack(parent);
        }
        kept.frame(&mut node.frame);
    }
    retain(&mut tables.frames, &kept.frames);
    tables.frames.shrink_to(tables.frames.len() + tables.frames.len() / 4);
    rename(&mut tables.names, &kept.frames);
    each(&mut kept);
}

/// Moves names to the new numbers of their frames in place: there may be a million. No number grows, so in ascending
/// order each new slot is free.
fn rename(names: &mut FxHashMap<FrameId, FrameName>, kept: &[u32]) {
    let mut all: Vec<FrameId> = names.keys().copied().collect();
    all.sort_unstable();
    for old in all {
        let new = new_number(kept, old.index());
        if new == Some(old.0) {
            continue;
        }
        if let (Some(name), Some(new)) = (names.remove(&old), new) {
            names.insert(FrameId(new), name);
        }
    }
}

/// Rebuilds all stacks: `again` returns the stack of a caller and a frame, and may merge two. `each` visits what is
/// kept.
pub fn remake(
    tables: &mut Tables,
    mut each: impl FnMut(&mut dyn Visit),
    mut again: impl FnMut(&mut Tables, Option<StackId>, FrameId) -> StackId,
) {
    let old = take(&mut tables.stacks);
    let mut stacks: Vec<u32> = Vec::with_capacity(old.len());
    for StackNode { parent, frame } in old {
        let parent = parent.and_then(|parent| stacks.get(parent.index()));
        let parent = parent.copied().map(StackId::new);
        stacks.push(again(tables, parent, frame).number());
    }
    let frames = (0..).take(tables.frames.len()).collect();
    each(&mut Renumbered { stacks, frames });
}

/// Stacks and frames in use.
struct Used {
    stacks: Vec<bool>,
    frames: Vec<bool>,
}

impl Visit for Used {
    fn stack(&mut self, stack: &mut StackId) {
        if let Some(used) = self.stacks.get_mut(stack.index()) {
            *used = true;
        }
    }

    fn frame(&mut self, frame: &mut FrameId) {
        if let Some(used) = self.frames.get_mut(frame.index()) {
            *used = true;
        }
    }
}

impl Used {
    /// Marks callers and frames of the stacks. A parent precedes its children, so one pass from the end reaches
    /// every caller.
    fn callers(&mut self, tables: &Tables) {
        for (index, node) in tables.stacks.iter().enumerate().rev() {
            if !self.stacks[index] {
                continue;
            }
            if let Some(mut parent) = node.parent {
                self.stack(&mut parent);
            }
            let mut frame = node.frame;
            self.frame(&mut frame);
        }
    }
}

/// Number of a removed row.
const GONE: u32 = u32::MAX;

/// New numbers by old ones.
struct Renumbered {
    stacks: Vec<u32>,
    frames: Vec<u32>,
}

impl Visit for Renumbered {
    fn stack(&mut self, stack: &mut StackId) {
        if let Some(new) = new_number(&self.stacks, stack.index()) {
            *stack = StackId::new(new);
        }
    }

    fn frame(&mut self, frame: &mut FrameId) {
        if let Some(new) = new_number(&self.frames, frame.index()) {
            *frame = FrameId(new);
        }
    }

    fn renumbers(&self) -> bool {
        true
    }
}

fn new_number(numbers: &[u32], old: usize) -> Option<u32> {
    numbers.get(old).copied().filter(|new| *new != GONE)
}

fn renumber(used: &[bool]) -> Vec<u32> {
    let mut next = 0;
    let number = |used: &bool| {
        let number = if *used { next } else { GONE };
        next += u32::from(*used);
        number
    };
    used.iter().map(number).collect()
}

fn retain<T>(rows: &mut Vec<T>, kept: &[u32]) {
    let mut kept = kept.iter();
    rows.retain(|_| kept.next().is_some_and(|number| *number != GONE));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_pruned_with_their_frames() {
        let name = |id: u32| FrameName {
            symbol: id.to_string().into(),
            ..FrameName::default()
        };
        let mut names: FxHashMap<FrameId, FrameName> = (0..8).map(|id| (FrameId(id), name(id))).collect();
        names.remove(&FrameId(3));
        let used = [true, false, true, true, false, false, true, true];
        rename(&mut names, &renumber(&used));
        let expected = [(0, 0), (1, 2), (3, 6), (4, 7)].map(|(new, old)| (FrameId(new), name(old)));
        assert_eq!(names, expected.into_iter().collect());
    }
}
