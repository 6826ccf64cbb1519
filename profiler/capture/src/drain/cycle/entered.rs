//! Processes that begin to be recorded although no recorded thread created them: they moved into a recorded cgroup, executed a
//! recorded program, or the like. What they run and have mapped is read from /proc.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Drain;
use crate::drain::snapshot;
use crate::proc::procfs;
use base::addr::{Timestamp, ns};
use base::event::Event;

/// How much later than its first event a process may seem to have started: /proc counts in ticks.
const TICKS: Duration = Duration::from_millis(20);

/// How long the report of a program is awaited, which may be lost: it follows once the kernel has read the beginnings of the program and of
/// its loader.
const PATIENCE: Duration = Duration::from_secs(2);

/// Processes to describe, by number.
pub(super) type Entered = BTreeMap<u32, Entry>;

/// How a process began to be recorded.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    /// When it entered, or executed its program.
    time: Timestamp,
    program: Program,
}

/// Which program such a process runs.
#[derive(Clone, Copy, PartialEq)]
enum Program {
    /// What /proc says.
    Unreported,
    /// The one that it was about to execute.
    Awaited,
    /// The one of its last exec event.
    Reported,
}

impl Drain {
    /// Takes note of processes that enter; `executing`: while they execute a program. False: the event is about a thread that is known.
    pub(super) fn enters(&mut self, event: &mut Event<'static>, executing: bool) -> bool {
        match event {
            Event::TaskNew(new) if new.existed => {
                if self.recorded.is_live(new.at.pid, new.at.tid) {
                    return false;
                }
                if new.at.pid != new.at.tid {
                    new.parent = (new.at.pid, 0);
                } else if new.parent.0 == 0 {
                    new.parent.0 = procfs::stat(new.at.pid, new.at.pid).map_or(0, |stat| stat.parent);
                }
                if !self.recorded.has_live_thread(new.at.pid) {
                    let program = if executing {
                        Program::Awaited
                    } else {
                        Program::Unreported
                    };
                    let time = new.at.time;
                    self.entered.insert(new.at.pid, Entry { time, program });
                }
            }
            Event::TaskExec(exec) => {
                if let Some(entered) = self.entered.get_mut(&exec.at.pid) {
                    entered.time = exec.at.time;
                    entered.program = Program::Reported;
                }
            }
            _ => {}
        }
        true
    }

    /// Writes the programs and mappings of the processes that have entered.
    pub(super) fn describe_entered(&mut self) {
        let now = procfs::now();
        let goes_on = now < self.end;
        for (pid, entry) in std::mem::take(&mut self.entered) {
            let Entry { time, program } = entry;
            if goes_on && program == Program::Awaited && now.0 < time.0.saturating_add(ns(PATIENCE)) {
                self.entered.insert(pid, entry);
                continue;
            }
            // Another process may have its number by now.
            let is_it = |stat: procfs::Stat| stat.started <= Timestamp(time.0.saturating_add(ns(TICKS)));
            if procfs::stat(pid, pid).is_ok_and(is_it) {
                snapshot::describe(self, pid, time, program != Program::Reported);
            }
        }
    }
}
