//! A path with the names of the threads, functions and files on it.

use rustc_hash::{FxHashMap, FxHashSet};

use super::everything::{self, everything};
use super::facts::PathFacts;
use super::lanes::Lanes;
use super::select::Chosen;
use super::walk::{Kind, Piece, walk};
use super::what_if::{Removed, Replay};
use crate::functions::{FunctionId, Functions};
use crate::lookup::Lookup as _;
use crate::waits::view::waiting;
use fact::{DeviceId, MappedFileId, Tables, ThreadId, WaitReason};

/// The critical path of a thread.
#[derive(Debug)]
pub struct PathView<'a> {
    /// The tables that it refers to.
    pub tables: &'a Tables,
    /// Its thread and time span.
    pub chosen: Chosen,
    /// Its pieces by time; they partition the time span.
    pub pieces: Vec<Piece>,
    /// Functions of the stacks.
    pub(super) functions: Functions,
    /// By stack: the function that waited.
    waiting: Vec<Option<FunctionId>>,
    /// Threads that have the name of another thread on the path.
    namesakes: FxHashSet<ThreadId>,
    /// `None`: savings are not asked for.
    what_if: Option<WhatIf>,
}

/// What savings are computed from.
#[derive(Debug)]
struct WhatIf {
    replay: Replay,
    /// What every thread did; empty if that is too much.
    everything: Vec<everything::Part>,
}

/// What a piece is about, beyond its thread and kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// A file.
    File(MappedFileId),
    /// A device without a known file.
    Device(DeviceId),
    /// A function.
    Function(FunctionId),
    /// Unknown, or not needed.
    None,
}

/// The part of a path that a piece belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Part {
    /// The thread that would have had to be faster.
    pub thread: ThreadId,
    /// What it did.
    pub kind: Kind,
    /// Where.
    pub place: Place,
}

impl<'a> PathView<'a> {
    /// Follows the path.
    pub fn new(tables: &'a Tables, facts: PathFacts, chosen: Chosen) -> Self {
        let lanes = facts.lanes(tables);
        Self::of_lanes(tables, &lanes, chosen)
    }

    /// Follows a path of lanes.
    pub fn of_lanes(tables: &'a Tables, lanes: &Lanes, chosen: Chosen) -> Self {
        let what_if = WhatIf {
            replay: Replay::new(lanes, chosen.thread, chosen.window),
            everything: everything(lanes, chosen.window).unwrap_or_default(),
        };
        Self {
            what_if: Some(what_if),
            ..Self::without_savings(tables, lanes, chosen)
        }
    }

    /// The same, but what is saved without a part of it is not asked for.
    pub fn without_savings(tables: &'a Tables, lanes: &Lanes, chosen: Chosen) -> Self {
        let functions = Functions::new(tables);
        let pieces = walk(lanes, chosen.thread, chosen.window);
        let on_it: FxHashSet<ThreadId> = pieces.iter().map(|piece| piece.spent.thread).collect();
        let name = |id| tables.thread(id).map_or("", |thread| thread.name.as_str());
        Self {
            tables,
            chosen,
            namesakes: namesakes(on_it.into_iter().map(|id| (id, name(id)))),
            pieces,
            waiting: waiting(tables, &functions),
            functions,
            what_if: None,
        }
    }

    /// The function of a piece: the innermost one outside the C library and runtimes.
    pub fn function(&self, piece: &Piece) -> Option<FunctionId> {
        *self.waiting.get(piece.spent.stack?.index())?
    }

    /// Whether another thread on the path has this thread's name.
    pub fn has_namesake(&self, thread: ThreadId) -> bool {
        self.namesakes.contains(&thread)
    }

    /// Functions of the stacks.
    pub(crate) fn functions(&self) -> &Functions {
        &self.functions
    }

    /// The part that a piece belongs to.
    pub fn part(&self, piece: &Piece) -> Part {
        let spent = &piece.spent;
        let function = || self.function(piece).map(Place::Function);
        let file = || spent.file.map(Place::File);
        let device = || spent.device.map(Place::Device);
        let place = match spent.kind {
            Kind::Cpu => function(),
            Kind::Wait(WaitReason::RunQueue | WaitReason::Throttled) => None,
            Kind::Fault | Kind::Wait(_) => file().or_else(device).or_else(function),
        };
        Part {
            thread: spent.thread,
            kind: spent.kind,
            place: place.unwrap_or(Place::None),
        }
    }

    /// The steps that [`Self::saved`] takes; not 0.
    pub(super) fn saved_steps(&self) -> usize {
        let of = |what_if: &WhatIf| what_if.everything.len() + what_if.replay.steps();
        self.pieces.len() + self.what_if.as_ref().map_or(0, of) + 1
    }

    /// By how many ns the time span would be shorter without these pieces of the path: an estimate.
    pub fn saved_on_path(&self, is_removed: &dyn Fn(&Piece) -> bool) -> Option<u64> {
        let WhatIf { replay, .. } = self.what_if.as_ref()?;
        Some(replay.saved(self.pieces.iter().filter(|piece| is_removed(piece))))
    }

    /// The same, without what all threads spent alike in parallel to the path, so two equal branches are both shorter;
    /// and without waiting for a CPU after waits that are removed.
    pub fn saved(&self, is_removed: &dyn Fn(&Piece) -> bool) -> Option<u64> {
        let WhatIf { replay, everything } = self.what_if.as_ref()?;
        let on_path = self.pieces.iter().filter(|piece| is_removed(piece)).map(Removed::from);
        let anywhere = everything.iter().filter(|part| is_removed(&part.piece));
        Some(replay.saved(on_path.chain(anywhere.map(Removed::from))))
    }
}

/// Those of these threads, each once with its name, whose name another one has.
fn namesakes<'n>(threads: impl Iterator<Item = (ThreadId, &'n str)>) -> FxHashSet<ThreadId> {
    let mut of_name: FxHashMap<&str, Vec<ThreadId>> = FxHashMap::default();
    for (id, name) in threads {
        of_name.entry(name).or_default().push(id);
    }
    of_name.into_values().filter(|same| same.len() > 1).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_share_a_name_are_found() {
        let threads = ["bash", "cat", "bash", ""].into_iter().enumerate();
        let threads = threads.map(|(index, name)| (ThreadId(u32::try_from(index).unwrap()), name));
        let mut found: Vec<_> = namesakes(threads).into_iter().collect();
        found.sort_unstable();
        assert_eq!(found, [ThreadId(0), ThreadId(2)]);
    }
}
