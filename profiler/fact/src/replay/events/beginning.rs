//! No fact precedes the start of the recording: earlier events are dropped, and what extends into the recording begins
//! with it.
//!
//! The eBPF programs ensure this themselves (`profiler-ebpf/src/scope.rs`). Logs of earlier versions contain waits,
//! requests and CPU time from before, since hooks were attached up to a second earlier.

use std::borrow::Cow;

use super::Replay;
use crate::{Tables, ThreadId, WaitFact};
use base::addr::{Timestamp, ns};
use base::event::{At, Event};
use task::Tasks;

/// What threads did until their first CPU time report: only that one may include time from before the start.
#[derive(Debug, Default)]
pub(super) struct FirstReports(Vec<Report>);

#[derive(Debug, Clone, Copy, Default)]
struct Report {
    has_ended: bool,
    /// Time off CPUs before it, in ns.
    off: u64,
}

impl FirstReports {
    /// The thread waited.
    pub fn waited(&mut self, wait: &WaitFact) {
        let report = self.of(wait.thread);
        if !report.has_ended {
            report.off = report.off.saturating_add(ns(wait.off));
        }
    }

    /// The part of the CPU time in the thread's report at `time` that it can have spent since the start, in ns.
    fn within(&mut self, (tables, tasks): (&Tables, &Tasks), thread: ThreadId, time: Timestamp, cpu_time: u64) -> u64 {
        let start = tasks.threads.get(thread.index()).map_or(time, |thread| thread.start);
        let report = self.of(thread);
        let is_first = !std::mem::replace(&mut report.has_ended, true);
        if !is_first || start > tables.recording.start {
            return cpu_time;
        }
        let life = ns(time.since(tables.recording.start));
        cpu_time.min(life.saturating_sub(report.off))
    }

    fn of(&mut self, thread: ThreadId) -> &mut Report {
        if thread.index() >= self.0.len() {
            self.0.resize(thread.index() + 1, Report::default());
        }
        &mut self.0[thread.index()]
    }
}

impl Replay<'_, '_> {
    /// The part of the event at `time` that is within the recording; `None` if it is from before.
    pub(super) fn within<'e, 'a>(&mut self, event: &'e Event<'a>, time: Timestamp) -> Option<Cow<'e, Event<'a>>> {
        let start = self.tables.recording.start;
        let is_part = match event {
            Event::Sample(sample) => sample.at.time >= start,
            Event::Fault(fault) => fault.at.time >= start,
            Event::PagesRead(pages) => pages.at.time >= start,
            Event::PagesPopulated(pages) => pages.at.time >= start,
            Event::Wait(wait) => wait.end > start,
            _ => true,
        };
        if !is_part {
            return None;
        }
        let recording = &mut self.tables.recording;
        // Mappings are recorded until the last hook is detached.
        if recording.end_reason.is_none() {
            recording.end = recording.end.max(time);
        }
        let mut event = Cow::Borrowed(event);
        let (at, cpu_time) = match &*event {
            Event::Fault(fault) if fault.start.is_some_and(|begun| begun < start) => {
                if let Event::Fault(fault) = event.to_mut() {
                    fault.start = None;
                }
                return Some(event);
            }
            Event::Sample(sample) => (sample.at, sample.cpu_time),
            Event::TaskExit(exit) => (exit.at, exit.cpu_time),
            Event::TaskAlive { at, cpu_time } => (*at, *cpu_time),
            _ => return Some(event),
        };
        let within = self.cpu_time_within(at, cpu_time);
        if within < cpu_time {
            match event.to_mut() {
                Event::Sample(sample) => sample.cpu_time = within,
                Event::TaskExit(exit) => exit.cpu_time = within,
                Event::TaskAlive { cpu_time, .. } => *cpu_time = within,
                _ => {}
            }
        }
        Some(event)
    }

    fn cpu_time_within(&mut self, at: At, cpu_time: u64) -> u64 {
        let Some(thread) = self.tasks.known_thread(&at) else {
            return cpu_time;
        };
        let facts = (&self.tables, &self.tasks);
        self.first_reports.within(facts, thread, at.time, cpu_time)
    }
}
