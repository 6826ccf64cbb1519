//! Stacks that nobody keeps are given up while the log is read: a recording of an hour has fifty million, and a profile few of them. Where it would keep
//! millions, those that differ in nothing but the address of code that has no name are one.

use super::wait::Ahead;
use super::{Replay, block};
use crate::fact::prune::{prune, remake};
use crate::fact::stack_ends::Ends;
use crate::fact::{FactSink, FrameId, Visit};

/// Stacks that there are at least before it is worth looking for those that nobody keeps. Debug builds look often, so that every test sees to it.
pub(super) const LOOK: usize = if cfg!(debug_assertions) { 1 << 6 } else { 1 << 21 };

/// Stacks that may be kept with the addresses of code that nobody named.
pub(super) const APART: usize = 1 << 21;

/// Says that these were too many.
const MERGED: &str = "code in memory without a file that nobody named is told as one function of all processes: stacks differed in its addresses by the million; record fewer processes to tell it apart by page";

impl Replay<'_, '_> {
    /// Gives up the stacks that nobody keeps, if there are a quarter more than were left the last time.
    pub(super) fn give_up_unused(&mut self) {
        if self.tables.stacks.len() < self.stacks_room {
            return;
        }
        if !self.noted_events.is_off() && self.noted.is_none() {
            // The frames of these stay, too: the log is to name all of them.
            self.noted = Some(self.tables.stacks.clone());
        }
        if !self.sink.shows_stacks() {
            self.stacks_room = usize::MAX;
            return;
        }
        // All that is made anew goes first: there is room for one of both.
        self.interner.forget_numbers();
        self.memo.forget();
        self.last_walks.forget();
        self.known.forget();
        self.clues.forget();
        self.tallies.ends = Ends::default();
        loop {
            self.prune();
            let left = self.tables.stacks.len();
            if left > self.stacks_apart && !self.interner.merges_anonymous() {
                self.merge_anonymous_now();
            } else if !self.sink.keeps_less(&self.tables) {
                break;
            }
        }
        let left = self.tables.stacks.len();
        self.stacks_room = left.saturating_add((left / 4).max(LOOK / 2));
        self.interner.number(&self.tables);
    }

    fn prune(&mut self) {
        let frames = self.frames_beside();
        let Self {
            tables,
            sink,
            ahead,
            block,
            ..
        } = self;
        prune(tables, |visit| {
            show(ahead, block, *sink, visit);
            for frame in &frames {
                visit.frame(&mut { *frame });
            }
        });
    }

    /// Frames that are kept whoever keeps them: those of stacks that a kept log has or is to have, and what that log has named.
    fn frames_beside(&self) -> Vec<FrameId> {
        if self.noted.is_some() || self.known.is_used() {
            let frames = u32::try_from(self.tables.frames.len()).unwrap_or(u32::MAX);
            return (0..frames).map(FrameId).collect();
        }
        self.tables.names.keys().copied().collect()
    }

    /// From now on, and in what is kept already.
    fn merge_anonymous_now(&mut self) {
        let Self {
            tables,
            sink,
            ahead,
            block,
            interner,
            ..
        } = self;
        interner.merge_anonymous();
        interner.number_frames(tables);
        let each = |visit: &mut dyn Visit| show(ahead, block, *sink, visit);
        remake(tables, each, |tables, parent, frame| {
            interner.stack(tables, parent, frame)
        });
        interner.forget_numbers();
        tables.recording.notes.push(MERGED.to_owned());
    }
}

/// Shows what everybody keeps who keeps stacks.
fn show(ahead: &mut Ahead, block: &mut block::State, sink: &mut dyn FactSink, visit: &mut dyn Visit) {
    ahead.visit(visit);
    block.visit(visit);
    sink.visit(visit);
}
