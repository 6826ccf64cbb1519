//! Labels: synthetic innermost frames. They name what a thread waits for, which shows it in the
//! call tree and gives its samples a category. Their stacks follow all other stacks, which is how
//! the reader recognizes them.

use rustc_hash::FxHashMap;

use super::Shared;
use super::categories::Category;
use crate::error::WriteError;
use fact::reduce::budget::Collected;
use fact::{StackId, WaitReason};

/// The content of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Label {
    /// What a thread waits for, and whether it waits within a page fault.
    Wait(WaitReason, bool),
    /// The submitter of a request, if it is not recorded.
    Unrecorded,
}

impl Label {
    fn name(self) -> &'static str {
        let Self::Wait(reason, in_fault) = self else {
            return "[submitter without a stack]";
        };
        match (reason, in_fault) {
            (WaitReason::RunQueue, _) => "[waiting: CPU]",
            (WaitReason::Throttled, _) => "[waiting: CPU quota]",
            (WaitReason::Disk, false) => "[waiting: disk]",
            (WaitReason::Disk, true) => "[waiting: disk, in a page fault]",
            (WaitReason::FileSystem, false) => "[waiting: file system]",
            (WaitReason::FileSystem, true) => "[waiting: file system, in a page fault]",
            (WaitReason::Memory, false) => "[waiting: memory]",
            (WaitReason::Memory, true) => "[waiting: memory, in a page fault]",
            (WaitReason::Lock, false) => "[waiting: lock]",
            (WaitReason::Condition, false) => "[idle: condition]",
            (WaitReason::Poll, false) => "[idle: poll]",
            (WaitReason::Sleep, false) => "[idle: sleep]",
            (WaitReason::Child, false) => "[idle: child]",
            (WaitReason::Stopped, false) => "[idle: stopped]",
            (WaitReason::Pipe, false) => "[waiting: pipe]",
            (WaitReason::Socket, false) => "[waiting: socket]",
            (WaitReason::Kernel, false) => "[waiting: kernel]",
            (WaitReason::Unknown, false) => "[waiting: unknown]",
            (_, true) => "[waiting: page fault]",
        }
    }

    fn category(self) -> Category {
        match self {
            Self::Wait(reason, in_fault) => Category::of_wait(reason, in_fault),
            Self::Unrecorded => Category::Other,
        }
    }
}

/// Rows of the labelled stacks.
#[derive(Debug, Default)]
pub struct Labels {
    rows: FxHashMap<(Option<StackId>, Label), u32>,
    /// The first labelled row.
    pub first: usize,
}

/// The label for waiting for a CPU.
pub const QUEUED: Label = Label::Wait(WaitReason::RunQueue, false);

impl Labels {
    /// Adds a labelled stack for each label of the waits and requests.
    pub fn new(collected: &Collected, shared: &mut Shared<'_>) -> Result<Self, WriteError> {
        let first = shared.stack_rows();
        let mut adder = Adder {
            shared,
            frames: FxHashMap::default(),
            rows: FxHashMap::default(),
        };
        for wait in collected.threads.iter().flat_map(|thread| &thread.waits) {
            adder.add(wait.stack, Label::Wait(wait.reason, wait.in_fault))?;
            if !wait.queued.is_zero() {
                adder.add(wait.stack, QUEUED)?;
            }
        }
        for folded in &collected.folded_wait_stacks {
            adder.add(folded.stack, Label::Wait(folded.reason, folded.in_fault))?;
            if folded.queued > 0 {
                adder.add(folded.stack, QUEUED)?;
            }
        }
        if !collected.requests.is_empty() {
            adder.add(None, Label::Unrecorded)?;
        }
        Ok(Self {
            rows: adder.rows,
            first,
        })
    }

    /// The row of a stack with a label.
    pub fn row(&self, stack: Option<StackId>, label: Label) -> Option<u32> {
        self.rows.get(&(stack, label)).copied()
    }
}

struct Adder<'s, 'a> {
    shared: &'s mut Shared<'a>,
    frames: FxHashMap<Label, u32>,
    rows: FxHashMap<(Option<StackId>, Label), u32>,
}

impl Adder<'_, '_> {
    fn add(&mut self, stack: Option<StackId>, label: Label) -> Result<(), WriteError> {
        if self.rows.contains_key(&(stack, label)) {
            return Ok(());
        }
        let frame = match self.frames.get(&label) {
            Some(frame) => *frame,
            None => self.shared.add_label(label.name().into(), label.category())?,
        };
        self.frames.insert(label, frame);
        let row = self.shared.add_labelled(stack, frame)?;
        self.rows.insert((stack, label), row);
        Ok(())
    }
}
