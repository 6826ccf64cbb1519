//! The path of what a profile keeps of a recording.

use super::PathFacts;
use super::lanes::Lanes;
use super::select::{Chosen, choose};
use super::view::PathView;
use crate::select::Selection;
use fact::Tables;
use fact::reduce::budget::Collected;

/// Most waits and samples that it is computed from: a few tens of MB.
const MAX_FACTS: usize = 200_000;

/// What the path of the command's first thread is followed through. `None`: there is no command, nothing was waited
/// for, or not every wait is at hand.
pub fn lanes(tables: &Tables, collected: &Collected) -> Option<(Lanes, Chosen)> {
    let process = tables.command_process()?;
    let main = tables.processes.get(process.index())?.main_thread?;
    let is_whole = tables.recording.folded_waits.is_empty();
    let facts = collected.threads.iter().map(|of| of.waits.len() + of.samples.len());
    let has_waits = !collected.threads.get(main.index())?.waits.is_empty();
    if !is_whole || !has_waits || facts.sum::<usize>() > MAX_FACTS {
        return None;
    }
    let mut facts = PathFacts::default();
    collected.replay(tables, &mut facts);
    let chosen = choose(tables, &facts, &Selection::default()).ok()?;
    Some((facts.lanes(tables), chosen))
}

/// The path of the command's first thread, if it leads to other threads: else it is what this thread did.
pub fn path<'a>(tables: &'a Tables, collected: &Collected) -> Option<PathView<'a>> {
    let (lanes, chosen) = lanes(tables, collected)?;
    let view = PathView::without_savings(tables, &lanes, chosen);
    let leads_elsewhere = view.pieces.iter().any(|piece| piece.lane != chosen.thread);
    leads_elsewhere.then_some(view)
}
