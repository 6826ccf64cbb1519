//! Stacks that a kept log knows by number: each is built when an event has it, and may be dropped like any other.

use crate::replay::intern::Interner;
use crate::{StackId, StackNode, Tables};

/// The log's stacks.
#[derive(Default)]
pub(super) struct KnownStacks {
    /// By the log's numbers; their frames are those of the tables.
    nodes: Vec<StackNode>,
    /// The stack built for each of the log's numbers.
    made: Vec<Option<StackId>>,
    /// The part of a stack that is being built, innermost first.
    path: Vec<StackId>,
}

impl KnownStacks {
    /// No stack is built yet.
    pub fn new(nodes: Vec<StackNode>) -> Self {
        Self {
            made: vec![None; nodes.len()],
            nodes,
            path: Vec::new(),
        }
    }

    /// The stack with this number in the log.
    pub fn stack(&mut self, tables: &mut Tables, interner: &mut Interner, number: StackId) -> Option<StackId> {
        let mut stack = None;
        let mut next = Some(number);
        self.path.clear();
        while let Some(id) = next {
            stack = *self.made.get(id.index())?;
            if stack.is_some() {
                break;
            }
            self.path.push(id);
            next = self.nodes.get(id.index())?.parent;
        }
        while let Some(id) = self.path.pop() {
            stack = Some(interner.stack(tables, stack, self.nodes[id.index()].frame));
            self.made[id.index()] = stack;
        }
        stack
    }

    /// The built stacks have been renumbered or dropped.
    pub fn forget(&mut self) {
        self.made.fill(None);
    }

    /// No later event refers to them.
    pub fn give_up(&mut self) {
        *self = Self::default();
    }

    /// Whether an event may still refer to one: the tables' frames are theirs.
    pub fn is_used(&self) -> bool {
        !self.nodes.is_empty()
    }
}
