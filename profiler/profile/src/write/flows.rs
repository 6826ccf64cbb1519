//! Flows: the markers of one chain of events have the same id, which the front end shows and finds.
//!
//! A chain is a block request with the faults and waits that it held up, and the waits for a lock that those held up
//! in turn; or a wait and the wake-up that ended it. Ids are numbered in the order of the facts, so the same facts have
//! the same ids, and differ in form from those of Firefox's own markers, which are hexadecimal numbers.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::error::WriteError;
use crate::marker::{wait, wakeup};
use crate::shared::Shared;
use base::addr::Timestamp;
use fact::reduce::budget::{Collected, ThreadFacts};
use fact::{Cause, DeviceId, Effect, EffectKind, FaultFact, Reason, RequestFact, ThreadId, WaitFact};

/// Maximum number of wake-ups with markers, those that ended the longest waits: a fortieth of the budget.
const WAKEUPS: usize = 25_000;

/// An event of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Node {
    /// A fault or wait.
    Effect(Effect),
    /// A request: device, sector, end.
    Request(DeviceId, u64, Timestamp),
}

impl Node {
    fn of_fault(fault: &FaultFact) -> Self {
        Self::effect(EffectKind::Fault, fault.thread, fault.start)
    }

    fn of_wait(wait: &WaitFact) -> Self {
        Self::effect(EffectKind::Wait, wait.thread, wait.start)
    }

    fn of_request(request: &RequestFact) -> Self {
        Self::Request(request.device, request.sector, request.end)
    }

    fn of_reason(reason: &Reason) -> Self {
        match reason {
            Reason::Request(request) => Self::Request(request.device, request.sector, request.end),
            Reason::Holder(holder) => Self::Effect(holder.effect),
        }
    }

    fn effect(kind: EffectKind, thread: ThreadId, start: Timestamp) -> Self {
        Self::Effect(Effect { kind, thread, start })
    }
}

/// The ids, as indices into the string array, and the wake-ups with markers.
#[derive(Debug)]
pub struct Flows<'a> {
    ids: FxHashMap<Node, u32>,
    /// By the thread that woke.
    wakeups: BTreeMap<ThreadId, Vec<&'a WaitFact>>,
}

impl<'a> Flows<'a> {
    /// Finds the chains, and adds their ids to the string array.
    pub fn new(collected: &'a Collected, shared: &mut Shared<'a>) -> Result<Self, WriteError> {
        let wakeups = longest(collected);
        let mut chains = Chains::new(&collected.causes, &wakeups);
        chains.count(collected, &wakeups);
        let mut by_waker: BTreeMap<ThreadId, Vec<&WaitFact>> = BTreeMap::new();
        for wait in wakeups {
            if let Some((waker, _)) = wakeup::waker(wait) {
                by_waker.entry(waker).or_default().push(wait);
            }
        }
        Ok(Self {
            ids: chains.ids(shared)?,
            wakeups: by_waker,
        })
    }

    /// The flow of a fault.
    pub fn of_fault(&self, fault: &FaultFact) -> Option<u32> {
        self.id(Node::of_fault(fault))
    }

    /// The flow of a wait.
    pub fn of_wait(&self, wait: &WaitFact) -> Option<u32> {
        self.id(Node::of_wait(wait))
    }

    /// The flow of a request.
    pub fn of_request(&self, request: &RequestFact) -> Option<u32> {
        self.id(Node::of_request(request))
    }

    /// The waits that a thread ended.
    pub fn ended_by(&self, thread: ThreadId) -> impl Iterator<Item = &'a WaitFact> + '_ {
        self.wakeups.get(&thread).into_iter().flatten().copied()
    }

    /// All waits whose ends have markers.
    pub fn wakeups(&self) -> impl Iterator<Item = &'a WaitFact> + '_ {
        self.wakeups.values().flatten().copied()
    }

    fn id(&self, node: Node) -> Option<u32> {
        self.ids.get(&node).copied()
    }
}

/// Number of wake-ups that have no marker because they are too many.
pub fn left_out(collected: &Collected) -> usize {
    ended_by_threads(collected).count().saturating_sub(WAKEUPS)
}

fn ended_by_threads(collected: &Collected) -> impl Iterator<Item = &WaitFact> {
    let waits = collected.threads.iter().flat_map(|thread| &thread.waits);
    waits.filter(|wait| wakeup::waker(wait).is_some())
}

fn longest(collected: &Collected) -> Vec<&WaitFact> {
    let mut waits: Vec<&WaitFact> = ended_by_threads(collected).collect();
    if waits.len() > WAKEUPS {
        waits.sort_by_key(|wait| (Reverse(wait.longest), wait.thread, wait.start));
        waits.truncate(WAKEUPS);
    }
    waits.sort_by_key(|wait| (wait.thread, wait.start));
    waits
}

/// Events that are connected, as a disjoint-set forest.
#[derive(Default)]
struct Chains {
    numbers: FxHashMap<Node, usize>,
    nodes: Vec<Node>,
    parents: Vec<usize>,
    /// Number of markers, by root.
    markers: Vec<u32>,
}

impl Chains {
    fn new(causes: &[Cause], wakeups: &[&WaitFact]) -> Self {
        let mut chains = Self::default();
        for cause in causes {
            let (effect, reason) = (Node::Effect(cause.effect), Node::of_reason(&cause.reason));
            let (effect, reason) = (chains.number(effect), chains.number(reason));
            let (effect, reason) = (chains.root(effect), chains.root(reason));
            chains.parents[effect] = reason;
        }
        for wait in wakeups {
            chains.number(Node::of_wait(wait));
        }
        chains.markers = vec![0; chains.nodes.len()];
        chains
    }

    fn number(&mut self, node: Node) -> usize {
        let next = self.nodes.len();
        let number = *self.numbers.entry(node).or_insert(next);
        if number == next {
            self.nodes.push(node);
            self.parents.push(next);
        }
        number
    }

    fn root(&mut self, mut number: usize) -> usize {
        while self.parents[number] != number {
            // Later searches need half as many steps.
            self.parents[number] = self.parents[self.parents[number]];
            number = self.parents[number];
        }
        number
    }

    /// Counts the markers of each chain: facts beyond the budget have none.
    fn count(&mut self, collected: &Collected, wakeups: &[&WaitFact]) {
        if self.nodes.is_empty() {
            return;
        }
        for (ThreadFacts { faults, waits, .. }, thread) in collected.threads.iter().zip((0..).map(ThreadId)) {
            // Most faults have no cause, so they are not unpacked.
            let faults = faults.refs().map(|fault| fault.start());
            faults.for_each(|start| self.add(Node::effect(EffectKind::Fault, thread, start)));
            let shown = waits
                .iter()
                .filter(|wait| wait::shown(wait).any(wait::WaitMarker::is_whole));
            shown.for_each(|wait| self.add(Node::of_wait(wait)));
        }
        let requests = collected.requests.iter();
        requests.for_each(|request| self.add(Node::of_request(request)));
        for wait in wakeups {
            self.add(Node::of_wait(wait));
        }
    }

    fn add(&mut self, node: Node) {
        if let Some(number) = self.numbers.get(&node).copied() {
            let root = self.root(number);
            self.markers[root] = self.markers[root].saturating_add(1);
        }
    }

    /// An id for each chain of at least two markers.
    fn ids(mut self, shared: &mut Shared<'_>) -> Result<FxHashMap<Node, u32>, WriteError> {
        let mut ids = FxHashMap::default();
        let mut by_root: FxHashMap<usize, u32> = FxHashMap::default();
        for number in 0..self.nodes.len() {
            let root = self.root(number);
            if self.markers[root] < 2 {
                continue;
            }
            let next = by_root.len() + 1;
            let id = match by_root.get(&root) {
                Some(id) => *id,
                // All are as long, so that none is found within another.
                None => shared.string(Cow::Owned(format!("ngmi-{next:08x}")))?,
            };
            by_root.insert(root, id);
            ids.insert(self.nodes[number], id);
        }
        Ok(ids)
    }
}
