//! Stacks that nobody keeps are given up while the log is read: a recording of an hour has fifty million, and a profile few of them.

use super::Replay;
use crate::fact::prune::{Nothing, prune};
use crate::fact::stack_ends::Ends;

/// Stacks that there are at least before it is worth looking for those that nobody keeps. Debug builds look often, so that every test sees to it.
const LOOK: usize = if cfg!(debug_assertions) { 1 << 6 } else { 1 << 22 };

/// How many stacks there may be before they are looked at.
pub(super) struct Room(usize);

impl Default for Room {
    fn default() -> Self {
        Self(LOOK)
    }
}

impl Room {
    /// A quarter more than are left, and so many that it is worth looking again.
    fn beyond(left: usize) -> Self {
        Self(left.saturating_add((left / 4).max(LOOK / 2)))
    }
}

impl Replay<'_, '_> {
    /// Gives up the stacks that nobody keeps, if there are a quarter more than were left the last time.
    pub(super) fn give_up_unused(&mut self) {
        if self.tables.stacks.len() < self.unused.0 {
            return;
        }
        let is_noted = !self.known_stacks.is_off() || self.beside.resolved.is_some();
        if is_noted || !self.sink.visit(&mut Nothing) {
            self.unused = Room(usize::MAX);
            return;
        }
        // All that is made anew goes first: there is room for one of both.
        self.interner.forget_numbers();
        self.memo.forget();
        self.clues.forget();
        self.tallies.ends = Ends::default();
        let Self {
            tables,
            sink,
            ahead,
            block,
            ..
        } = self;
        prune(tables, |visit| {
            ahead.visit(visit);
            block.visit(visit);
            sink.visit(visit);
        });
        self.unused = Room::beyond(self.tables.stacks.len());
        self.interner.number(&self.tables);
    }
}
