//! Sorts the events of a log by time, in bounded memory.
//!
//! The log contains events in the order in which they were drained from several rings and CPUs. A
//! watermark states that everything earlier has been drained, so older events can be released in
//! order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use slab::Slab;

use super::{At, Event};
use crate::addr::Timestamp;

/// After this many bytes of events without a watermark, the oldest events are released anyway.
pub const MAX_HELD: usize = 256 << 20;

/// Sorts events. Pass each to [`Order::push`], and take the ready ones with [`Order::pop`].
///
/// The events between two watermarks consist of a few sorted runs, one a ring and CPU: sorting them
/// at once costs a fraction of a heap that holds them all.
pub struct Order {
    /// Events from `sorted_until` on, in order of arrival.
    later: Vec<Held>,
    /// The earliest of them.
    earliest: Timestamp,
    /// Events before `sorted_until`, in order.
    sorted: VecDeque<Held>,
    /// Events before `sorted_until` that arrived after the others were sorted: mostly those without a time.
    soon: BinaryHeap<Reverse<Held>>,
    sorted_until: Timestamp,
    /// Pending events, by [`Held::place`]: events are large, and sorting moves its elements.
    events: Slab<Event<'static>>,
    held_bytes: usize,
    limit: usize,
    arrivals: u64,
    /// Events before this time are ready.
    watermark: Timestamp,
    /// Time of the last released event.
    released: Timestamp,
    finished: bool,
    late: u64,
}

impl Default for Order {
    fn default() -> Self {
        Self::with_limit(MAX_HELD)
    }
}

impl Order {
    /// Creates a sorter that holds approximately at most this many bytes of events.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            later: Vec::new(),
            earliest: Timestamp(u64::MAX),
            sorted: VecDeque::new(),
            soon: BinaryHeap::new(),
            sorted_until: Timestamp(0),
            events: Slab::new(),
            held_bytes: 0,
            limit,
            arrivals: 0,
            watermark: Timestamp(0),
            released: Timestamp(0),
            finished: false,
            late: 0,
        }
    }

    /// Adds an event. Events without a time keep their position in the input: they get the time of
    /// the last released event.
    pub fn push(&mut self, event: Event<'static>) {
        if let Event::Watermark(time) = event {
            self.watermark = self.watermark.max(time);
            return;
        }
        let mut time = time_of(&event).unwrap_or(self.released);
        if time < self.released {
            // Tasks from before the recording have their start time, but are only reported now.
            let news = matches!(&event, Event::TaskNew(task) if task.existed)
                || matches!(&event, Event::TaskExec(exec) if exec.existed);
            if !news {
                self.late += 1;
                if matches!(event, Event::Sample(_) | Event::Fault(_) | Event::Wait(_)) {
                    return;
                }
            }
            time = self.released;
        }
        self.held_bytes += size_of_event(&event);
        let (rank, place) = (rank(&event), self.events.insert(event));
        let held = Held {
            time,
            rank,
            arrival: self.arrivals,
            place,
        };
        if time < self.sorted_until {
            self.soon.push(Reverse(held));
        } else {
            self.earliest = self.earliest.min(time);
            self.later.push(held);
        }
        self.arrivals += 1;
    }

    /// Ends the input: all events are ready.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// The next event in order, if one is ready.
    pub fn pop(&mut self) -> Option<Event<'static>> {
        if self.sorted.is_empty() && self.soon.is_empty() {
            self.sort();
        }
        let soon = self.soon.peek().map(|Reverse(held)| held);
        let next = soon.into_iter().chain(self.sorted.front()).min()?;
        if next.time >= self.watermark && !self.finished && self.held_bytes <= self.limit {
            return None;
        }
        let (time, place) = (next.time, next.place);
        if self.soon.peek().is_some_and(|Reverse(held)| held.place == place) {
            self.soon.pop();
        } else {
            self.sorted.pop_front();
        }
        self.released = self.released.max(time);
        let event = self.events.try_remove(place)?;
        self.held_bytes = self.held_bytes.saturating_sub(size_of_event(&event));
        Some(event)
    }

    /// Sorts what arrived, once one of it is ready: each event is sorted once, however many watermarks a log has.
    fn sort(&mut self) {
        let is_ready = self.finished || self.held_bytes > self.limit || self.earliest < self.watermark;
        if !is_ready || self.later.is_empty() {
            return;
        }
        // Stable sorting finds the runs.
        self.later.sort();
        self.sorted = std::mem::take(&mut self.later).into();
        let last = self.sorted.back().map_or(0, |held| held.time.0);
        self.sorted_until = Timestamp(last.saturating_add(1));
        self.earliest = Timestamp(u64::MAX);
    }

    /// Events that arrived after later ones were released: samples, faults and waits are dropped,
    /// the others are released immediately ([`profiler_common::Loss::EventLate`]).
    pub fn late(&self) -> u64 {
        self.late
    }
}

/// A pending event, ordered by time, then rank, then arrival.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    time: Timestamp,
    rank: u8,
    arrival: u64,
    place: usize,
}

/// The event's thread and time.
fn at_of<'e>(event: &'e Event<'_>) -> Option<&'e At> {
    match event {
        Event::TaskNew(task) => Some(&task.at),
        Event::TaskExec(exec) => Some(&exec.at),
        Event::TaskExit(exit) => Some(&exit.at),
        Event::TaskAlive { at, .. } | Event::TaskRename { at, .. } => Some(at),
        Event::Mapping(mapping) => Some(&mapping.at),
        Event::Sample(sample) => Some(&sample.at),
        Event::Fault(fault) => Some(&fault.at),
        Event::PagesRead(pages) => Some(&pages.at),
        Event::PagesPopulated(pages) => Some(&pages.at),
        Event::Wait(wait) => Some(&wait.at),
        Event::StackAhead(stack) => Some(&stack.at),
        Event::CallPath(path) => Some(&path.at),
        Event::Bio(bio) => Some(&bio.at),
        Event::Request(request) => Some(&request.at),
        _ => None,
    }
}

fn time_of(event: &Event<'_>) -> Option<Timestamp> {
    match event {
        Event::End(end) => Some(end.time),
        event => at_of(event).map(|at| at.time),
    }
}

/// Rank among events of the same time: a task starts before its other events, and ends after them.
fn rank(event: &Event<'_>) -> u8 {
    match event {
        Event::TaskNew(_) | Event::UserStack(_) | Event::KernelStack(_) => 0,
        Event::TaskRename { .. } => 1,
        Event::TaskExec(_) => 2,
        Event::Mapping(_) => 3,
        Event::StackAhead(_) | Event::CallPath(_) => 4,
        Event::TaskExit(_) | Event::TaskAlive { .. } => 6,
        event if at_of(event).is_some() => 5,
        _ => 7,
    }
}

/// Approximate memory of an event, in bytes.
pub fn size_of_event(event: &Event<'_>) -> usize {
    let heap = match event {
        Event::TaskNew(task) => task.name.len(),
        Event::TaskExec(exec) => exec.name.len() + exec.path.len() + exec.command_line.len(),
        Event::TaskRename { name, .. } | Event::KernelSymbol { name, .. } => name.len(),
        Event::Mapping(mapping) => mapping.path.len() + mapping.build_id.len(),
        Event::Sample(sample) => sample.stacks.copy.len(),
        Event::Fault(fault) => fault.stacks.copy.len(),
        Event::StackAhead(stack) => stack.stacks.copy.len(),
        Event::CallPath(path) => path.path.len(),
        Event::FileName(name) => name.path.len(),
        Event::Bio(bio) => bio.comm.len(),
        Event::UserStack(stack) => size_of_val(&*stack.frames),
        Event::KernelStack(stack) => size_of_val(&*stack.frames),
        Event::End(end) => end.reason.len(),
        _ => 0,
    };
    size_of::<Held>() + size_of::<Option<Event<'_>>>() + heap
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::{Sample, StackAhead, Stacks, TaskExit, TaskNew, UserStack};

    fn at(time: u64) -> At {
        At {
            time: Timestamp(time),
            pid: 1,
            tid: 1,
        }
    }

    fn sample(time: u64, stack: usize) -> Event<'static> {
        Event::Sample(Sample {
            at: at(time),
            stacks: Stacks {
                copy: vec![0; stack].into(),
                ..Stacks::default()
            },
            ..Sample::default()
        })
    }

    fn drain(order: &mut Order) -> Vec<u64> {
        std::iter::from_fn(|| order.pop())
            .filter_map(|event| time_of(&event))
            .map(|time| time.0)
            .collect()
    }

    proptest! {
        /// With correct watermarks, all events are released in order, and none is late.
        #[test]
        fn true_watermarks_sort_everything(batches in prop::collection::vec(prop::collection::vec(0..100u64, 0..20), 0..10)) {
            let (mut order, mut out, mut expected) = (Order::default(), Vec::new(), Vec::new());
            for (number, batch) in batches.iter().enumerate() {
                let base = number as u64 * 50;
                for time in batch.iter().map(|time| base + time) {
                    expected.push(time);
                    order.push(sample(time, 0));
                }
                order.push(Event::Watermark(Timestamp(base + 50)));
                out.extend(drain(&mut order));
                prop_assert!(out.iter().all(|time| *time < base + 50));
            }
            order.finish();
            out.extend(drain(&mut order));
            expected.sort_unstable();
            prop_assert_eq!(out, expected);
            prop_assert_eq!(order.late(), 0);
        }

        /// The order is that of one heap of all pending events, however many arrive behind those that are sorted already.
        #[test]
        fn the_order_is_that_of_a_heap(steps in prop::collection::vec((0..40u64, 0..5u8), 0..200), limit in 1..40usize) {
            let mut order = Order::with_limit(limit * (size_of::<Held>() + size_of::<Option<Event<'_>>>()));
            let (mut heap, mut watermark, mut released) = (BinaryHeap::new(), 0, 0);
            for (arrival, (time, kind)) in steps.into_iter().enumerate() {
                let time = time + watermark.max(released);
                match kind {
                    0 => {
                        watermark = watermark.max(time);
                        order.push(Event::Watermark(Timestamp(time)));
                        continue;
                    }
                    1 => order.push(Event::UserStack(UserStack::default())),
                    2 => order.push(Event::TaskExit(TaskExit { at: at(time), ..TaskExit::default() })),
                    _ => order.push(sample(time, 0)),
                }
                let (time, rank) = match kind { 1 => (released, 0), 2 => (time, 6), _ => (time, 5) };
                heap.push(Reverse((time, rank, arrival)));
                while let Some(&Reverse((time, rank, _))) = heap.peek()
                    && (time < watermark || heap.len() > limit)
                {
                    heap.pop();
                    released = released.max(time);
                    let event = order.pop().expect("the heap has one");
                    prop_assert_eq!(super::rank(&event), rank);
                    prop_assert!(rank == 0 || time_of(&event) == Some(Timestamp(time)));
                }
                prop_assert!(order.pop().is_none());
            }
        }

        /// For any input, the output is sorted, and missing events are counted.
        #[test]
        fn the_output_is_always_sorted(events in prop::collection::vec((0..1000u64, any::<bool>()), 0..100)) {
            let mut order = Order::with_limit(4 * (size_of::<Held>() + size_of::<Event<'_>>()));
            let mut out = Vec::new();
            let mut pushed = 0;
            for (time, is_mark) in events {
                if is_mark {
                    order.push(Event::Watermark(Timestamp(time)));
                } else {
                    order.push(sample(time, 8));
                    pushed += 1;
                }
                out.extend(drain(&mut order));
            }
            order.finish();
            out.extend(drain(&mut order));
            prop_assert!(out.is_sorted());
            prop_assert_eq!(out.len() as u64 + order.late(), pushed);
        }
    }

    #[test]
    fn starts_sort_first_and_exits_last_at_equal_times() {
        let mut order = Order::default();
        order.push(Event::TaskExit(TaskExit {
            at: at(5),
            ..TaskExit::default()
        }));
        order.push(sample(5, 0));
        order.push(Event::StackAhead(StackAhead {
            at: at(5),
            ..StackAhead::default()
        }));
        order.push(Event::TaskNew(TaskNew {
            at: at(5),
            ..TaskNew::default()
        }));
        order.finish();
        let kinds: Vec<&str> = std::iter::from_fn(|| order.pop())
            .map(|event| match event {
                Event::TaskNew(_) => "birth",
                Event::StackAhead(_) => "stack ahead",
                Event::Sample(_) => "sample",
                Event::TaskExit(_) => "death",
                _ => "something else",
            })
            .collect();
        assert_eq!(kinds, ["birth", "stack ahead", "sample", "death"]);
    }

    #[test]
    fn memory_is_bounded_without_watermarks() {
        let mut order = Order::with_limit(1 << 20);
        let mut out = Vec::new();
        for time in 0..1000 {
            order.push(sample(time, 10_000));
            out.extend(drain(&mut order));
            assert!(order.held_bytes <= 1 << 20);
        }
        assert!(out.len() > 850, "{}", out.len());
        order.push(sample(3, 0));
        assert_eq!(order.late(), 1);
    }

    #[test]
    fn preexisting_tasks_are_not_late() {
        let mut order = Order::default();
        order.push(sample(100, 0));
        order.push(Event::Watermark(Timestamp(200)));
        assert_eq!(drain(&mut order), [100]);
        order.push(Event::TaskNew(TaskNew {
            at: at(3),
            existed: true,
            ..TaskNew::default()
        }));
        assert_eq!(drain(&mut order), [3]);
        assert_eq!(order.late(), 0);
    }
}
