//! Stacks that were walked before: the same walk through the same code is the same stack, and costs one look.
//!
//! What is remembered depends on events alone, and not on what can be opened on this machine: a kept log names the stack only of the first
//! event of each kind, and a later reader remembers it for the others as this one does ([`crate::fact::resolved`]).

use profiler_common::stack::INTERRUPTED;
use rustc_hash::FxHashMap;

use crate::addr::Avma;
use crate::fact::{ProcessId, StackId};
use crate::task::Tasks;
use crate::unwind::Walked;

/// Stacks that are remembered: 48 MiB of them. Then it begins anew.
const MAX: usize = 1 << 20;

/// What makes a stack the same: whose it is, and the keys of its two parts. 0: it has no such part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// `None`: it has no part of the program's.
    pub process: Option<ProcessId>,
    /// Key of the user stack.
    pub user: u64,
    /// Key of the kernel stack.
    pub kernel: u64,
}

/// Stacks by key.
#[derive(Debug, Default)]
pub struct Memo {
    stacks: FxHashMap<Key, (u64, Option<StackId>)>,
}

impl Memo {
    /// The stack, if it was remembered while the process had the same code mapped.
    #[expect(clippy::option_option, reason = "that there is no stack is remembered, too")]
    pub fn get(&self, tasks: &Tasks, key: Key) -> Option<Option<StackId>> {
        let (code, stack) = self.stacks.get(&key)?;
        (code_of(tasks, key)? == *code).then_some(*stack)
    }

    /// Remembers a stack, if an address of it means the same for as long as its code is mapped. Code that is made at run time changes
    /// in its place.
    pub fn put(&mut self, tasks: &Tasks, key: Key, walked: Option<&Walked>, stack: Option<StackId>) {
        let Some(code) = code_of(tasks, key) else { return };
        if let (Some(process), Some(walked)) = (key.process, walked)
            && !is_of_files(tasks, process, walked)
        {
            return;
        }
        if self.stacks.len() >= MAX {
            self.clear();
        }
        self.stacks.insert(key, (code, stack));
    }

    /// A key means something else from now on.
    pub fn clear(&mut self) {
        self.stacks = FxHashMap::default();
    }
}

fn code_of(tasks: &Tasks, key: Key) -> Option<u64> {
    key.process.map_or(Some(0), |process| tasks.code_of(process))
}

fn is_of_files(tasks: &Tasks, process: ProcessId, walked: &Walked) -> bool {
    walked.frames.iter().enumerate().all(|(depth, frame)| {
        let is_return_address = depth > 0 && frame & INTERRUPTED == 0;
        let address = (frame & !INTERRUPTED).wrapping_sub(u64::from(is_return_address));
        tasks.is_code_of_file(process, Avma(address))
    })
}
