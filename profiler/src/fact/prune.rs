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
    let stack = |id: StackId| stacks.get(id.index()).copied().flatten().map(StackId::new);
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
        thread.faults.renumber(stack);
        for wait in &mut thread.waits {
            wait.stack = wait.stack.and_then(stack);
            if let Some(waker) = &mut wait.waker {
                waker.stack = waker.stack.and_then(stack);
            }
        }
    }
    for folded in &mut collected.folded_stacks {
        folded.stack = folded.stack.and_then(stack);
    }
    for folded in &mut collected.folded_wait_stacks {
        folded.stack = folded.stack.and_then(stack);
    }
    for bio in collected.requests.iter_mut().flat_map(|request| &mut request.bios) {
        bio.stack = bio.stack.and_then(stack);
    }
    collected.clues.renumber(stack);
}

fn used_stacks(tables: &Tables, collected: &Collected) -> Vec<bool> {
    let mut used = vec![false; tables.stacks.len()];
    let mut mark = |id: Option<StackId>| {
        if let Some(slot) = id.and_then(|id| used.get_mut(id.index())) {
            *slot = true;
        }
    };
    for thread in &collected.threads {
        thread.samples.iter().for_each(|sample| mark(sample.stack));
        thread.marks.iter().for_each(|of| mark(of.stack));
        thread.faults.iter().for_each(|fault| mark(fault.stack));
        for wait in &thread.waits {
            mark(wait.stack);
            mark(wait.waker.as_ref().and_then(|waker| waker.stack));
        }
    }
    collected.folded_stacks.iter().for_each(|folded| mark(folded.stack));
    collected
        .folded_wait_stacks
        .iter()
        .for_each(|folded| mark(folded.stack));
    let bios = collected.requests.iter().flat_map(|request| &request.bios);
    bios.for_each(|bio| mark(bio.stack));
    collected.clues.stacks().for_each(|stack| mark(Some(stack)));
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
