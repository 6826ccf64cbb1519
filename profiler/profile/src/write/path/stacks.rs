//! Stacks of a critical path: below the thread that they are of, and with a label for what is waited for. They follow all
//! other stacks, where the reader takes them for labelled ones.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use super::PathPiece;
use crate::error::WriteError;
use crate::marker::words;
use crate::shared::Shared;
use crate::shared::categories::Category;
use fact::{StackId, Tables, ThreadId, WaitReason};

/// Most rows of the stack table that the track adds; further stacks are known by thread and wait only.
const STACK_ROWS: usize = 1 << 18;

/// The rows of these stacks.
pub struct Stacks<'s, 'a> {
    tables: &'a Tables,
    shared: &'s mut Shared<'a>,
    /// Number of rows of the table at which no more are added for callers.
    most: usize,
    roots: FxHashMap<ThreadId, u32>,
    callers: FxHashMap<(ThreadId, StackId), u32>,
    labels: FxHashMap<(WaitReason, bool), u32>,
    waits: FxHashMap<(u32, WaitReason, bool), u32>,
}

impl<'s, 'a> Stacks<'s, 'a> {
    /// No rows; all other stacks are in the table already.
    pub fn new(tables: &'a Tables, shared: &'s mut Shared<'a>) -> Self {
        Self {
            tables,
            most: shared.stack_rows().saturating_add(STACK_ROWS),
            shared,
            roots: FxHashMap::default(),
            callers: FxHashMap::default(),
            labels: FxHashMap::default(),
            waits: FxHashMap::default(),
        }
    }

    /// The row of a piece.
    pub fn row(&mut self, piece: &PathPiece) -> Result<u32, WriteError> {
        let root = self.root(piece.thread)?;
        let caller = match piece.stack {
            Some(stack) => self.caller(root, piece.thread, stack)?,
            None => root,
        };
        let Some((reason, in_fault)) = piece.wait else {
            return Ok(caller);
        };
        if let Some(row) = self.waits.get(&(caller, reason, in_fault)) {
            return Ok(*row);
        }
        let label = match self.labels.get(&(reason, in_fault)) {
            Some(label) => *label,
            None => self
                .shared
                .add_label(label(reason, in_fault), category(reason, in_fault))?,
        };
        self.labels.insert((reason, in_fault), label);
        let row = self.shared.add_stack_row(Some(caller), label)?;
        self.waits.insert((caller, reason, in_fault), row);
        Ok(row)
    }

    /// The row of a thread, the outermost frame.
    fn root(&mut self, thread: ThreadId) -> Result<u32, WriteError> {
        if let Some(root) = self.roots.get(&thread) {
            return Ok(*root);
        }
        let name = words::thread_words(self.tables, thread);
        let frame = self.shared.add_label(Cow::Owned(name), Category::Other)?;
        let root = self.shared.add_stack_row(None, frame)?;
        self.roots.insert(thread, root);
        Ok(root)
    }

    /// The row of a stack's innermost function below a thread's row.
    fn caller(&mut self, root: u32, thread: ThreadId, stack: StackId) -> Result<u32, WriteError> {
        let mut missing = Vec::new();
        let mut at = Some(stack);
        let mut row = root;
        while let Some(stack) = at {
            if let Some(known) = self.callers.get(&(thread, stack)) {
                row = *known;
                break;
            }
            let Some(node) = self.tables.stacks.get(stack.index()) else {
                break;
            };
            missing.push((stack, node.frame));
            // A parent precedes its children; any other is invalid.
            at = node.parent.filter(|parent| parent.index() < stack.index());
        }
        while let Some((stack, frame)) = missing.pop() {
            if self.shared.stack_rows() >= self.most {
                return Ok(row);
            }
            for frame in self.shared.frame_rows(frame) {
                row = self.shared.add_stack_row(Some(row), frame)?;
            }
            self.callers.insert((thread, stack), row);
        }
        Ok(row)
    }
}

/// The innermost frame of a wait. On a critical path no wait is idle.
fn label(reason: WaitReason, in_fault: bool) -> Cow<'static, str> {
    match (reason, in_fault) {
        (WaitReason::RunQueue, _) => "[waiting: CPU]".into(),
        (WaitReason::Throttled, _) => "[waiting: CPU quota]".into(),
        (_, true) => "[waiting: page fault]".into(),
        (reason, false) => format!("[waiting: {}]", words::reason(reason)).into(),
    }
}

fn category(reason: WaitReason, in_fault: bool) -> Category {
    match Category::of_wait(reason, in_fault) {
        _ if in_fault => Category::WaitFault,
        Category::Idle => Category::WaitOther,
        other => other,
    }
}
