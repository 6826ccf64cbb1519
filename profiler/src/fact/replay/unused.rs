//! Stacks that nobody keeps are given up while the log is read: a recording of an hour has fifty million, and a profile few of them.

use super::Replay;
use crate::fact::FrameId;
use crate::fact::prune::prune;
use crate::fact::stack_ends::Ends;

/// Stacks that there are at least before it is worth looking for those that nobody keeps. Debug builds look often, so that every test sees to it.
pub(super) const LOOK: usize = if cfg!(debug_assertions) { 1 << 6 } else { 1 << 21 };

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
        let keeps_frames = self.noted.is_some() || self.known.has_any();
        // All that is made anew goes first: there is room for one of both.
        self.interner.forget_numbers();
        self.memo.forget();
        self.known.forget();
        self.clues.forget();
        self.tallies.ends = Ends::default();
        let Self {
            tables,
            sink,
            ahead,
            block,
            ..
        } = self;
        let frames = u32::try_from(tables.frames.len()).unwrap_or(u32::MAX);
        loop {
            prune(tables, |visit| {
                ahead.visit(visit);
                block.visit(visit);
                sink.visit(visit);
                if keeps_frames {
                    (0..frames).for_each(|frame| visit.frame(&mut FrameId(frame)));
                }
            });
            if !sink.keeps_less(tables.stacks.len()) {
                break;
            }
        }
        let left = self.tables.stacks.len();
        self.stacks_room = left.saturating_add((left / 4).max(LOOK / 2));
        self.interner.number(&self.tables);
    }
}
