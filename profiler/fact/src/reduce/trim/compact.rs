//! Removes unreferenced entries from the tables.

use rustc_hash::FxHashSet;

use super::{Renumbering, new_number, renumber};
use crate::prune::prune;
use crate::reduce::budget::Collected;
use crate::{FrameId, Location, MappedFileId, ModuleId, ProcessId, Tables, TruncationReason};

/// Keeps the files that have new numbers.
pub fn files(tables: &mut Tables, kept: &Renumbering) {
    for folded in &mut tables.recording.folded_reads {
        folded.file = new_number(kept, folded.file.index()).map_or(folded.file, MappedFileId);
    }
    retain(&mut tables.files, kept);
}

/// Keeps the stacks and frames of kept facts, and their modules.
pub fn stacks(tables: &mut Tables, collected: &mut Collected, processes: &Renumbering) {
    prune(tables, |visit| collected.visit(visit));
    let mut used = vec![false; tables.modules.len()];
    for frame in &tables.frames {
        if let Some(used) = frame.location.module().and_then(|module| used.get_mut(module.index())) {
            *used = true;
        }
    }
    let modules = renumber(&used);
    for (frame, id) in tables.frames.iter_mut().zip((0..).map(FrameId)) {
        if !move_to(&mut frame.location, &modules, processes) {
            frame.location = Location::Truncated(TruncationReason::NotCaptured);
            tables.names.remove(&id);
        }
    }
    retain(&mut tables.modules, &modules);
    let frames = tables.names.values().flat_map(|name| &name.inline_chain);
    let named: FxHashSet<&str> = frames.filter_map(|frame| frame.file.as_deref()).collect();
    tables.sources.retain(|path, _| named.contains(path.as_str()));
}

/// Renumbers a location; returns `false` if its process is removed.
fn move_to(location: &mut Location, modules: &Renumbering, processes: &Renumbering) -> bool {
    let (module, process) = location.ids_mut();
    if let Some(module) = module {
        let Some(new) = new_number(modules, module.index()) else {
            return false;
        };
        *module = ModuleId(new);
    }
    if let Some(process) = process {
        let Some(new) = new_number(processes, process.index()) else {
            return false;
        };
        *process = ProcessId(new);
    }
    true
}

fn retain<T>(rows: &mut Vec<T>, kept: &Renumbering) {
    let mut kept = kept.iter();
    rows.retain(|_| kept.next().is_some_and(Option::is_some));
}
