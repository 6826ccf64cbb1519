//! Locks in the heap and on stacks, whose address says nothing: which of them were at one address in turn, and their
//! names, by the functions that waited for them and released them.

use std::hash::Hash;

use rustc_hash::FxHashMap;

use super::identity::{Lock, LockName};
use super::in_turn::{Use, User, class_or_function, in_turn};
use super::view::{Contended, LockWait};
use crate::functions::FunctionId;
use crate::grid::{Measure as _, ranked};
use crate::waits::View;
use crate::waits::tally::WaitTally;
use fact::{ProcessId, StackId};

/// Finds the users of locks.
#[derive(Debug)]
struct Users<'v, 'a> {
    view: &'v View<'a>,
    numbers: FxHashMap<&'v str, u32>,
    /// By stack: the function and its caller.
    known: FxHashMap<StackId, (Option<u32>, Option<FunctionId>)>,
}

impl Users<'_, '_> {
    fn of(&mut self, wait: &LockWait) -> Use {
        let (waited, caller) = self.of_any(wait.stack);
        let (released, _) = self.of_any(wait.released);
        let caller = caller.map(|caller| User::Caller(wait.turn.thread, caller));
        Use {
            start: wait.since,
            end: wait.turn.end,
            users: [waited.map(User::Function), caller, released.map(User::Function)],
        }
    }

    fn of_any(&mut self, stack: Option<StackId>) -> (Option<u32>, Option<FunctionId>) {
        let Some(stack) = stack else { return (None, None) };
        if let Some(known) = self.known.get(&stack) {
            return *known;
        }
        let found = self.of_stack(stack);
        self.known.insert(stack, found);
        found
    }

    /// Functions without names say too little: there are many of them for each one in the source.
    fn of_stack(&mut self, stack: StackId) -> (Option<u32>, Option<FunctionId>) {
        let functions = &*self.view.functions;
        let named = |id: &FunctionId| functions.get(*id).is_some_and(|function| function.is_named);
        let Some(id) = self.view.function(Some(stack)).filter(named) else {
            return (None, None);
        };
        let name = functions
            .get(id)
            .map_or("", |function| class_or_function(&function.name));
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(name).or_insert(next);
        (Some(number), self.view.caller(stack, id).filter(named))
    }
}

/// Divides those that were several locks in turn. Their waits are sorted by start.
pub(super) fn divided(view: &View<'_>, locks: Vec<Contended>) -> Vec<Contended> {
    let mut users = Users {
        view,
        numbers: FxHashMap::default(),
        known: FxHashMap::default(),
    };
    let mut parts = Vec::with_capacity(locks.len());
    for mut contended in locks {
        if !is_in_heap(&contended.lock) {
            parts.push(contended);
            continue;
        }
        contended.waits.sort_by_key(|wait| wait.since);
        let turns: Vec<Use> = contended.waits.iter().map(|wait| users.of(wait)).collect();
        let mut current = None;
        for (wait, number) in contended.waits.into_iter().zip(in_turn(&turns)) {
            if current.replace(number) != Some(number) {
                parts.push(Contended::new(contended.lock.clone()));
            }
            if let Some(last) = parts.last_mut() {
                last.push(wait);
            }
        }
    }
    parts
}

fn is_in_heap(lock: &Lock) -> bool {
    matches!(lock, Lock::Futex(_, futex) if futex.place.is_none())
}

/// What a lock in the heap is called after.
#[derive(Debug)]
struct Called {
    place: usize,
    process: Option<ProcessId>,
    waited_in: FunctionId,
    released_in: Option<FunctionId>,
}

/// Names the locks in the heap: `futex in take`. Of several of a process that are called the same, those which one
/// function released are `futex in take released in put`; others are numbered by their first wait: `futex #2 in take`.
pub(super) fn name(view: &View<'_>, locks: &mut [Contended]) {
    let in_heap = locks.iter().enumerate().filter(|(_, lock)| is_in_heap(&lock.lock));
    let called: Vec<Called> = in_heap.filter_map(|(place, lock)| called(view, place, lock)).collect();
    let mut same: FxHashMap<_, Vec<&Called>> = FxHashMap::default();
    for lock in &called {
        same.entry((lock.process, text(view, lock.waited_in)))
            .or_default()
            .push(lock);
    }
    for ((_, function), mut same) in same {
        same.sort_by_key(|lock| {
            locks
                .get(lock.place)
                .and_then(|lock| lock.waits.first())
                .map(|wait| wait.since)
        });
        let released = |lock: &Called| lock.released_in.map(|released| text(view, released));
        let mut by_release: FxHashMap<Option<&str>, usize> = FxHashMap::default();
        for lock in &same {
            *by_release.entry(released(lock)).or_default() += 1;
        }
        for (number, lock) in (1..).zip(&same) {
            let release = released(lock);
            let name = match release {
                _ if same.len() == 1 => format!("futex in {function}"),
                Some(released) if by_release.get(&release) == Some(&1) => {
                    format!("futex in {function} released in {released}")
                }
                _ => format!("futex #{number} in {function}"),
            };
            if let Some(named) = locks.get_mut(lock.place) {
                named.name.text = name;
            }
        }
    }
}

fn text<'v>(view: &'v View<'_>, function: FunctionId) -> &'v str {
    view.functions.get(function).map_or("", |function| &function.name)
}

fn called(view: &View<'_>, place: usize, contended: &Contended) -> Option<Called> {
    let LockName { process, .. } = contended.name;
    Some(Called {
        place,
        process,
        waited_in: contended.longest(|wait| view.function(wait.stack))?,
        released_in: contended.longest(|wait| view.function(wait.released)),
    })
}

impl Contended {
    /// That of the selected waits' values for which threads were blocked longest.
    pub(super) fn longest<K: Hash + Ord + Copy>(&self, of: impl Fn(&LockWait) -> Option<K>) -> Option<K> {
        let mut groups: FxHashMap<K, WaitTally> = FxHashMap::default();
        for wait in self.waits.iter().filter(|wait| wait.is_selected) {
            if let Some(key) = of(wait) {
                groups.entry(key).or_default().merge(&wait.tally);
            }
        }
        ranked(groups).into_iter().map(|(key, _)| key).next()
    }
}
