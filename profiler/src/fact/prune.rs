//! Removes the stacks and frames that no kept fact refers to, and renumbers the rest in the same order.

use rustc_hash::FxHashMap;

use super::budget::Collected;
use super::{FrameId, StackId, Tables};

/// New number of each old one; `None`: gone.
type Renumbering = Vec<Option<u32>>;

/// Keeps what the facts need: their stacks with all callers, the frames of these and the names of those.
pub fn prune(tables: &mut Tables, collected: &mut Collected) {
    let stacks = used_stacks(tables, collected);
    let mut frames = vec![false; tables.frames.len()];
    for (node, used) in tables.stacks.iter().zip(&stacks) {
        if let (true, Some(frame)) = (used, frames.get_mut(node.frame.index())) {
            *frame = true;
        }
    }
    let (stacks, frames) = (renumber(&stacks), renumber(&frames));
    let stack = |id: StackId| stacks.get(id.index()).copied().flatten().map(StackId);
    let frame = |id: FrameId| frames.get(id.index()).copied().flatten().map(FrameId);

    retain(&mut tables.stacks, &stacks);
    for node in &mut tables.stacks {
        node.parent = node.parent.and_then(stack);
        node.frame = frame(node.frame).unwrap_or(node.frame);
    }
    retain(&mut tables.frames, &frames);
    let names = std::mem::take(&mut tables.names);
    tables.names = names
        .into_iter()
        .filter_map(|(id, name)| Some((frame(id)?, name)))
        .collect::<FxHashMap<_, _>>();
    for thread in &mut collected.threads {
        for sample in &mut thread.samples {
            sample.stack = sample.stack.and_then(stack);
        }
        for mark in &mut thread.marks {
            mark.stack = mark.stack.and_then(stack);
        }
        for fault in &mut thread.faults {
            fault.stack = fault.stack.and_then(stack);
        }
    }
    for folded in &mut collected.folded_stacks {
        folded.stack = folded.stack.and_then(stack);
    }
}

fn used_stacks(tables: &Tables, collected: &Collected) -> Vec<bool> {
    let mut used = vec![false; tables.stacks.len()];
    let samples = collected
        .threads
        .iter()
        .flat_map(|thread| thread.samples.iter().filter_map(|s| s.stack));
    let marks = collected
        .threads
        .iter()
        .flat_map(|thread| thread.marks.iter().filter_map(|m| m.stack));
    let faults = collected
        .threads
        .iter()
        .flat_map(|thread| thread.faults.iter().filter_map(|f| f.stack));
    let folded = collected.folded_stacks.iter().filter_map(|folded| folded.stack);
    for id in samples.chain(marks).chain(faults).chain(folded) {
        if let Some(slot) = used.get_mut(id.index()) {
            *slot = true;
        }
    }
    // A parent comes before its children, so one pass from the end reaches every caller.
    for index in (0..used.len()).rev() {
        if let (true, Some(parent)) = (used[index], tables.stacks[index].parent)
            && let Some(slot) = used.get_mut(parent.index())
        {
            *slot = true;
        }
    }
    used
}

fn renumber(used: &[bool]) -> Renumbering {
    let mut next = 0;
    used.iter()
        .map(|&used| {
            used.then(|| {
                next += 1;
                next - 1
            })
        })
        .collect()
}

fn retain<T>(rows: &mut Vec<T>, kept: &Renumbering) {
    let mut kept = kept.iter();
    rows.retain(|_| kept.next().is_some_and(Option::is_some));
}
