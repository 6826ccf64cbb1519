//! The columns of the faults: a row per fault, sorted by start.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use super::container::{Container, NONE, columns};
use super::files::Files;
use super::limits;
use super::stacks::Stacks;
use super::strings::Strings;
use super::thread_id;
use crate::export::ns;
use crate::faults::phase::Phase;
use crate::faults::{Selector, View};
use base::addr::{PAGE, Timestamp};
use fact::fault::{Access, Failure, FaultClass};
use fact::{FaultFact, ThreadId};

/// Kinds of waits, in the order of their numbers in the column.
pub const WAITS: [&str; 6] = ["lock", "disk", "other read", "blocked", "preempted", "reclaim"];
/// The faults that the document contains.
#[derive(Debug, Default)]
pub struct Shown {
    /// The number of faults.
    pub count: u64,
    /// Sum of their durations, in ns.
    pub time_ns: u64,
    /// Row numbers by what identifies a fault: its thread and start.
    pub rows: FxHashMap<(ThreadId, Timestamp), u32>,
}

columns! {
    struct ExplorerRows {
        fault_start: u64 => ascending,
        fault_duration: Option<u64> => wide,
        fault_thread: u32 => numbers,
        fault_file: u32 => numbers,
        fault_page: u32 => numbers,
        fault_in_page: u16 => numbers,
        fault_class: u8 => numbers,
        fault_phase: u8 => numbers,
        fault_flags: u16 => numbers,
        fault_function: u32 => numbers,
        fault_stack: u32 => numbers,
        fault_around_before: u16 => numbers,
        fault_around_count: u16 => numbers,
        fault_pages_read: u16 => numbers,
        fault_others: u32 => numbers,
        fault_others_time: Option<u64> => wide,
        wait_fault: u32 => numbers,
        wait_kind: u8 => numbers,
        wait_time: Option<u64> => wide,
    }
}

/// Adds the columns of the selected faults, and the stacks, files and names that they refer to.
pub fn columns(
    container: &mut Container,
    view: &View<'_>,
    selector: &Selector,
    stacks: &mut Stacks<'_>,
    files: &mut Files,
    strings: &mut Strings,
) -> Shown {
    let mut rows = ExplorerRows::default();
    let mut shown = Shown::default();
    let selected = || view.faults().filter(|fault| selector.takes(view, fault));
    let (shortest, mut room) = threshold(selected());
    for fault in selected() {
        let time = ns(fault.time());
        if time < shortest || (time == shortest && room == 0) {
            continue;
        }
        room -= usize::from(time == shortest);
        let row = u32::try_from(rows.fault_start.len()).unwrap_or(NONE);
        shown.rows.insert((fault.thread, fault.start), row);
        shown.count = shown.count.saturating_add(fault.count());
        shown.time_ns = shown.time_ns.saturating_add(ns(fault.total_time()));
        rows.push(view, &fault);
        rows.place(&fault, files);
        rows.fault_function
            .push((view.function(&fault)).map_or(NONE, |function| stacks.function(function, strings)));
        rows.fault_stack
            .push(fault.stack.map_or(NONE, |stack| stacks.node(stack, strings)));
        rows.waits(row, &fault);
    }
    rows.add_to(container);
    shown
}

/// The duration in ns of the shortest fault within the limit, and how many faults of that duration fit.
fn threshold(faults: impl Iterator<Item = FaultFact>) -> (u64, usize) {
    let mut longest = BinaryHeap::new();
    let mut all_fit = true;
    for time in faults.map(|fault| ns(fault.time())) {
        longest.push(Reverse(time));
        if longest.len() > limits::FAULTS {
            longest.pop();
            all_fit = false;
        }
    }
    match longest.peek() {
        Some(&Reverse(shortest)) if !all_fit => (shortest, longest.iter().filter(|time| time.0 == shortest).count()),
        _ => (0, usize::MAX),
    }
}

impl ExplorerRows {
    fn push(&mut self, view: &View<'_>, fault: &FaultFact) {
        let position = |at: Option<usize>, last| u8::try_from(at.unwrap_or(last)).unwrap_or(u8::MAX);
        let class = FaultClass::ALL.iter().position(|class| *class == fault.class);
        let phase = (view.phase(fault)).and_then(|phase| Phase::ALL.iter().position(|each| *each == phase));
        self.fault_start.push(view.time_ns(fault));
        self.fault_duration.push(fault.latency.map(ns));
        self.fault_thread.push(thread_id(view.tables, Some(fault.thread)));
        self.fault_class.push(position(class, FaultClass::ALL.len() - 1));
        self.fault_phase.push(position(phase, Phase::ALL.len()));
        self.fault_flags.push(flags(fault));
        self.fault_pages_read
            .push(u16::try_from(fault.pages_read).unwrap_or(u16::MAX));
        self.fault_others.push(fault.others.count);
        self.fault_others_time.push(Some(ns(fault.others.time)));
    }

    fn place(&mut self, fault: &FaultFact, files: &mut Files) {
        let place = fault.place.and_then(|place| {
            let page = u32::try_from(place.offset.0 / PAGE).ok().filter(|page| *page != NONE)?;
            Some((files.id(place.file)?, page, place))
        });
        let in_page = place.map_or(0, |(.., place)| place.byte.0.saturating_sub(place.offset.0));
        let page = place.map_or(NONE, |(_, page, _)| page);
        self.fault_file.push(place.map_or(NONE, |(file, ..)| file));
        self.fault_page.push(page);
        self.fault_in_page
            .push(u16::try_from(in_page.min(PAGE - 1)).unwrap_or(0));
        let around = fault.around().filter(|_| place.is_some()).and_then(|around| {
            let before = u64::from(page).checked_sub(around.first)?;
            Some((u16::try_from(before).ok()?, u16::try_from(around.count).ok()?))
        });
        let (before, count) = around.unwrap_or_default();
        self.fault_around_before.push(before);
        self.fault_around_count.push(count);
    }

    fn waits(&mut self, row: u32, fault: &FaultFact) {
        for (part, kind) in fault.waits.parts().into_iter().zip(0..) {
            let Some(part) = part.filter(|part| !part.is_zero()) else {
                continue;
            };
            self.wait_fault.push(row);
            self.wait_kind.push(kind);
            self.wait_time.push(Some(ns(part)));
        }
    }
}

/// The flags of a fault, as `FLAG` in the page's document.js defines them; the highest four bits hold the failure's number.
fn flags(fault: &FaultFact) -> u16 {
    let failure = fault
        .failed
        .and_then(|failed| Failure::ALL.iter().position(|each| *each == failed));
    let bits = [
        fault.major,
        fault.waited(),
        fault.access == Access::Read,
        fault.access == Access::Write,
        fault.access == Access::Execute,
        fault.in_kernel,
        fault.failed.is_some(),
        fault.remote,
        fault.read_around_off,
    ];
    let flags = bits
        .into_iter()
        .zip(0u32..)
        .fold(0, |flags, (bit, at)| flags | u16::from(bit) << at);
    flags | u16::try_from(failure.unwrap_or(0)).unwrap_or(0) << 12
}
