//! Waits with the names of the threads, functions and files that they refer to.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::causes::{CauseRow, Causes};
use super::rows::{Facts, PackedWait};
use crate::functions::{Function, FunctionId, Functions};
use crate::lifetime::{LifetimeCheck, Lifetimes};
use crate::sorted::Ordered;
use fact::About;
use fact::owner::Owners;
use fact::reasons::refined;
use fact::reclaim::{LimitReclaim, ReclaimLimit};
use fact::{Location, ModuleKind, StackId, Tables, WaitFact, WaitReason, upwards};

/// Prefixes of runtime functions that wait on behalf of their callers, in addition to the whole C library.
const WRAPPERS: [&str; 23] = [
    "std::sys::",
    "<std::sys::",
    "std::sync::",
    "<std::sync::",
    "std::thread::",
    "parking_lot",
    "<parking_lot",
    "__lll_lock_wait",
    "pthread_",
    "__gthread_",
    "std::mutex::",
    "std::__mutex_base",
    "std::recursive_mutex",
    "std::timed_mutex",
    "std::shared_mutex",
    "std::__shared_mutex",
    "std::lock_guard<",
    "std::unique_lock<",
    "std::shared_lock<",
    "std::scoped_lock<",
    "std::condition_variable",
    "mozilla::detail::MutexImpl::",
    "mozilla::detail::ConditionVariableImpl::",
];
/// Prefixes of the C library's file names.
const C_LIBRARY: [&str; 6] = ["libc.so", "libc-2.", "libpthread", "librt.so", "ld-linux", "ld-musl"];

/// All waits of a recording, ordered by start time.
#[derive(Debug)]
pub struct View<'a> {
    /// Tables that the waits refer to.
    pub tables: &'a Tables,
    /// Functions of the stacks.
    pub functions: Arc<Functions>,
    /// What the processes belong to.
    pub owners: Owners,
    reclaim: LimitReclaim,
    facts: &'a Facts,
    order: Ordered<'a, PackedWait>,
    causes: Ordered<'a, CauseRow>,
    /// Names of system calls by number.
    calls: FxHashMap<u32, &'a str>,
    /// By stack: the waiting function.
    waiting: Vec<Option<FunctionId>>,
    /// By stack and recorded reason: the refined reason of futex waits.
    reasons: FxHashMap<(StackId, WaitReason), WaitReason>,
}

impl<'a> View<'a> {
    /// Names and orders the waits of a recording.
    pub fn new(tables: &'a Tables, facts: &'a Facts) -> Self {
        Self::sharing(tables, facts, &Arc::new(Functions::new(tables)))
    }

    /// Like [`View::new`], with functions shared by another view of the same tables.
    pub fn sharing(tables: &'a Tables, facts: &'a Facts, functions: &Arc<Functions>) -> Self {
        let waiting = waiting(tables, functions);
        let futexes = facts.rows.futexes();
        let reasons = futexes.map(|(stack, reason)| ((stack, reason), refined(tables, Some(stack), reason)));
        let reasons = reasons.collect();
        let mut calls = FxHashMap::default();
        for call in facts.rows.calls() {
            calls.entry(call.number).or_insert(call.name.as_str());
        }
        Self {
            tables,
            functions: Arc::clone(functions),
            owners: Owners::new(tables),
            reclaim: LimitReclaim::new(tables),
            facts,
            order: facts.rows.ordered(),
            causes: facts.causes(),
            calls,
            waiting,
            reasons,
        }
    }

    /// The limit of a cgroup for which memory was reclaimed during a wait.
    pub fn limit(&self, wait: &WaitFact) -> Option<ReclaimLimit> {
        self.reclaim.of(self.tables, wait)
    }

    /// Such a limit in words.
    pub fn limit_words(&self, limit: ReclaimLimit) -> String {
        self.reclaim.words(limit)
    }

    /// Whether there may be such waits.
    pub fn has_limits(&self) -> bool {
        !self.reclaim.is_empty()
    }

    /// Iterates over all waits by start time, with futex waits refined by the functions of the program.
    pub fn waits(&self) -> impl Iterator<Item = WaitFact> {
        self.order.iter().map(|row| {
            let mut wait = self.facts.rows.wait(&row);
            if let Some(reason) = wait.stack.and_then(|stack| self.reasons.get(&(stack, wait.reason))) {
                wait.reason = *reason;
            }
            wait
        })
    }

    /// Paths of system calls that waited ([`About::Path`]), possibly with duplicates.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.facts.rows.calls().filter_map(|call| match About::of_call(call) {
            Some(About::Path(path)) => Some(path),
            _ => None,
        })
    }

    /// Compares on-CPU and off-CPU time with the threads' lifetimes.
    pub fn lives(&self) -> LifetimeCheck {
        Lifetimes::check(&self.facts.lives, self.tables)
    }

    /// Name of a system call.
    pub(super) fn call_name(&self, number: u32) -> Option<&str> {
        self.calls.get(&number).copied()
    }

    /// The waiting function of a stack: the innermost one outside of the C library and runtimes.
    pub fn function(&self, stack: Option<StackId>) -> Option<FunctionId> {
        *self.waiting.get(stack?.index())?
    }

    /// The caller of a stack's waiting function, outside of the C library and runtimes.
    pub fn caller(&self, stack: StackId, function: FunctionId) -> Option<FunctionId> {
        let mut next = Some(stack);
        while let Some((at, node)) = next.and_then(|at| Some((at, self.tables.stacks.get(at.index())?))) {
            // A parent precedes its children: any other index is invalid.
            next = node.parent.filter(|parent| *parent < at);
            let mut callers = self.functions.of_frame(node.frame).iter();
            if callers.any(|id| *id == function) {
                return callers.next().copied().or_else(|| self.function(next));
            }
        }
        None
    }

    /// Name of the waiting function.
    pub fn function_name(&self, stack: Option<StackId>) -> Option<&str> {
        Some(&self.functions.get(self.function(stack)?)?.name)
    }

    /// Causes of waits, to be looked up in the order of their start times.
    pub fn causes(&self) -> Causes<'_> {
        Causes::new(&self.causes)
    }

    /// Names of a stack's frames, innermost first.
    pub fn frames(&self, stack: StackId) -> impl Iterator<Item = std::borrow::Cow<'a, str>> {
        let tables = self.tables;
        upwards(tables, stack).map(|frame| tables.function_name(frame))
    }
}

/// The waiting function by stack: the innermost known function that is not a wrapper, or else the innermost known one.
pub fn waiting(tables: &Tables, functions: &Functions) -> Vec<Option<FunctionId>> {
    let is_wrapper = |function: &Function| {
        let module = function.module.and_then(|module| tables.modules.get(module.index()));
        let of_library = module.is_some_and(|module| {
            module.kind == ModuleKind::Vdso || C_LIBRARY.iter().any(|start| module.name.starts_with(start))
        });
        of_library || !function.is_known || WRAPPERS.iter().any(|start| function.name.starts_with(start))
    };
    // Once for each function: their stacks are many times more.
    let wrappers: Vec<bool> = functions.all.iter().map(is_wrapper).collect();
    let is_wrapper = |id: FunctionId| wrappers.get(id.0 as usize).is_none_or(|is_wrapper| *is_wrapper);
    // By stack: the innermost function so far that is not a wrapper.
    let mut found: Vec<Option<FunctionId>> = Vec::with_capacity(tables.stacks.len());
    for (index, node) in tables.stacks.iter().enumerate() {
        // A parent precedes its children: any other index is invalid.
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
