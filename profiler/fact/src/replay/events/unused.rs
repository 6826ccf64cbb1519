//! Drops unused stacks while the log is read: a recording of an hour has fifty million, and a profile few of them.
//! Where millions would be kept, those that differ only in the address of nameless code are merged.

use super::wait::Ahead;
use super::{Replay, block};
use crate::prune::{prune, remake};
use crate::replay::stack_ends::Ends;
use crate::{FactSink, FrameId, Visit};

/// Minimum number of stacks before unused ones are searched. Debug builds search often, which exercises it in every
/// test.
pub(super) const LOOK: usize = if cfg!(debug_assertions) { 1 << 6 } else { 1 << 21 };

/// Maximum number of stacks kept with the addresses of nameless code.
pub(super) const MAX_NAMELESS_STACKS: usize = 1 << 21;

/// Note for the user that there were more.
const MERGED: &str = "nameless code in anonymous memory is merged into one function for all processes: its addresses \
                      caused millions of distinct stacks; record fewer processes to distinguish it by page";

impl Replay<'_, '_> {
    /// Drops unused stacks, if there are a quarter more than were left last time.
    pub(super) fn give_up_unused(&mut self) {
        if self.tables.stacks.len() < self.stacks_room {
            return;
        }
        if !self.noted_events.is_off() && self.noted.is_none() {
            // The frames of these stay too: the log is to name all of them.
            self.noted = Some(self.tables.stacks.clone());
        }
        if !self.sink.shows_stacks() {
            self.stacks_room = usize::MAX;
            return;
        }
        // What is rebuilt is dropped first: there is memory for only one copy.
        self.interner.forget_numbers();
        self.memo.forget();
        self.last_walks.forget();
        self.known.forget();
        self.inputs.forget();
        self.tallies.ends = Ends::default();
        loop {
            self.prune();
            let left = self.tables.stacks.len();
            if left > self.merge_nameless_at && !self.interner.merges_anonymous() {
                self.merge_anonymous_now();
            } else if !self.sink.shrink_if_too_many(&self.tables) {
                break;
            }
        }
        let left = self.tables.stacks.len();
        self.stacks_room = left.saturating_add((left / 4).max(LOOK / 2));
        self.interner.number(&self.tables);
    }

    fn prune(&mut self) {
        let frames = self.frames_of_preamble();
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

    /// Frames kept regardless of use: those of stacks that a kept log contains or will contain, and those that the
    /// log has named.
    fn frames_of_preamble(&self) -> Vec<FrameId> {
        if self.noted.is_some() || self.known.is_used() {
            let frames = u32::try_from(self.tables.frames.len()).unwrap_or(u32::MAX);
            return (0..frames).map(FrameId).collect();
        }
        self.tables.names.keys().copied().collect()
    }

    /// Merges from now on, and in what is kept already.
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

/// Visits everything that keeps stacks.
fn show(ahead: &mut Ahead, block: &mut block::State, sink: &mut dyn FactSink, visit: &mut dyn Visit) {
    ahead.visit(visit);
    block.visit(visit);
    sink.visit(visit);
}
