//! Waits with the names of everything that they refer to.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::causes::{CauseRow, Causes};
use super::rows::{Facts, Row};
use crate::addr::Timestamp;
use crate::fact::About;
use crate::fact::life::{LifeCheck, Lives};
use crate::fact::reasons::refined;
use crate::fact::{Location, ModuleKind, Process, StackId, Tables, Thread, ThreadId, WaitFact, WaitReason, upwards};
use crate::report::export::ns;
use crate::report::functions::{FunctionId, Functions};
use crate::report::sorted::Ordered;

/// Beginnings of the names of functions that wait for others: the runtime's, beside all of the C library.
const WRAPPERS: [&str; 9] = [
    "std::sys::",
    "<std::sys::",
    "std::sync::",
    "<std::sync::",
    "std::thread::",
    "parking_lot",
    "<parking_lot",
    "__lll_lock_wait",
    "pthread_",
];
/// Beginnings of the names of the C library's files.
const C_LIBRARY: [&str; 6] = ["libc.so", "libc-2.", "libpthread", "librt.so", "ld-linux", "ld-musl"];

/// All waits of a recording, by the time at which they began.
#[derive(Debug)]
pub struct View<'a> {
    /// What they refer to.
    pub tables: &'a Tables,
    /// Functions of their stacks.
    pub functions: Arc<Functions>,
    facts: &'a Facts,
    order: Ordered<'a, Row>,
    causes: Ordered<'a, CauseRow>,
    /// By stack: the function that waits there.
    waiting: Vec<Option<FunctionId>>,
    /// By stack: what tells futexes apart, for locks and for conditions.
    reasons: FxHashMap<(StackId, WaitReason), WaitReason>,
}

impl<'a> View<'a> {
    /// Names and orders the facts of a recording.
    pub fn new(tables: &'a Tables, facts: &'a Facts) -> Self {
        Self::sharing(tables, facts, &Arc::new(Functions::new(tables)))
    }

    /// The same with the functions of these tables, which another view has too.
    pub fn sharing(tables: &'a Tables, facts: &'a Facts, functions: &Arc<Functions>) -> Self {
        let waiting = waiting(tables, functions);
        let futexes = facts.rows.futexes();
        let reasons = futexes.map(|(stack, reason)| ((stack, reason), refined(tables, Some(stack), reason)));
        let reasons = reasons.collect();
        Self {
            tables,
            functions: Arc::clone(functions),
            facts,
            order: facts.rows.ordered(),
            causes: facts.causes(),
            waiting,
            reasons,
        }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them, by the time at which they began; futexes told apart by the functions of the program, too.
    pub fn waits(&self) -> impl Iterator<Item = WaitFact> {
        self.order.iter().map(|row| {
            let mut wait = self.facts.rows.wait(&row);
            if let Some(reason) = wait.stack.and_then(|stack| self.reasons.get(&(stack, wait.reason))) {
                wait.reason = *reason;
            }
            wait
        })
    }

    /// Paths that waits are about ([`About::Path`]); one may come several times.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.facts.rows.calls().filter_map(|call| match About::of_call(call) {
            Some(About::Path(path)) => Some(path),
            _ => None,
        })
    }

    /// Whether the lives of the threads add up.
    pub fn lives(&self) -> LifeCheck {
        Lives::check(&self.facts.lives, self.tables)
    }

    /// Since the recording's start, in ns.
    pub fn time_ns(&self, time: Timestamp) -> u64 {
        ns(time.since(self.tables.recording.start))
    }

    /// A thread by its id.
    pub fn thread(&self, id: ThreadId) -> Option<&'a Thread> {
        self.tables.threads.get(id.index())
    }

    /// The process of a thread.
    pub fn process(&self, id: ThreadId) -> Option<&'a Process> {
        self.tables.processes.get(self.thread(id)?.process.index())
    }

    /// The function of the program that waits there: the innermost one that is not of the C library or of a runtime.
    pub fn function(&self, stack: Option<StackId>) -> Option<FunctionId> {
        *self.waiting.get(stack?.index())?
    }

    /// The name of that function.
    pub fn function_name(&self, stack: Option<StackId>) -> Option<&str> {
        Some(&self.functions.get(self.function(stack)?)?.name)
    }

    /// Why waits took so long, for who asks by the time at which they began.
    pub fn causes(&self) -> Causes<'_> {
        Causes::new(&self.causes)
    }

    /// The stack reaches its thread's first frame.
    pub fn is_complete(&self, stack: StackId) -> bool {
        let outermost = upwards(self.tables, stack).last();
        let frame = outermost.and_then(|frame| self.tables.frames.get(frame.index()));
        frame.is_some_and(|frame| !matches!(frame.location, Location::Truncated(_)))
    }

    /// The names of a stack's frames, innermost first.
    pub fn frames(&self, stack: StackId) -> impl Iterator<Item = std::borrow::Cow<'a, str>> {
        let tables = self.tables;
        upwards(tables, stack).map(|frame| tables.function_name(frame))
    }
}

/// By stack: the innermost function that is known and no wrapper; where there is none, the innermost that is known.
pub fn waiting(tables: &Tables, functions: &Functions) -> Vec<Option<FunctionId>> {
    let is_wrapper = |id: FunctionId| {
        let Some(function) = functions.get(id) else { return true };
        let module = function.module.and_then(|module| tables.modules.get(module.index()));
        let of_library = module.is_some_and(|module| {
            module.kind == ModuleKind::Vdso || C_LIBRARY.iter().any(|start| module.name.starts_with(start))
        });
        of_library || !function.is_known || WRAPPERS.iter().any(|start| function.name.starts_with(start))
    };
    // By stack, innermost so far; and whether it is a wrapper's.
    let mut found: Vec<Option<FunctionId>> = Vec::with_capacity(tables.stacks.len());
    for (index, node) in tables.stacks.iter().enumerate() {
        // A parent comes before its children: anything else is no parent.
        let parent = node.parent.map(StackId::index).filter(|parent| *parent < index);
        let above = parent.and_then(|parent| found[parent]);
        let frame = tables.frames.get(node.frame.index());
        let in_kernel = frame.is_none_or(|frame| matches!(frame.location, Location::Kernel { .. }));
        let own = functions
            .of_frame(node.frame)
            .iter()
            .copied()
            .find(|id| !is_wrapper(*id));
        found.push(own.filter(|_| !in_kernel).or(above));
    }
    (0_u32..)
        .zip(found)
        .map(|(index, found)| found.or_else(|| functions.innermost(Some(StackId::new(index)))))
        .collect()
}
