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

/// Processes to describe: when they entered or executed their program, and whether the latter was reported.
pub(super) type Entered = BTreeMap<u32, (Timestamp, bool)>;

impl Drain {
    /// Takes note of processes that enter. False: the event is about a thread that is known.
    pub(super) fn enters(&mut self, event: &mut Event<'static>) -> bool {
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
                    self.entered.insert(new.at.pid, (new.at.time, false));
                }
            }
            Event::TaskExec(exec) => {
                if let Some(entered) = self.entered.get_mut(&exec.at.pid) {
                    *entered = (exec.at.time, true);
                }
            }
            _ => {}
        }
        true
    }

    /// Writes the programs and mappings of the processes that have entered.
    pub(super) fn describe_entered(&mut self) {
        for (pid, (time, has_program)) in std::mem::take(&mut self.entered) {
            // Another process may have its number by now.
            let is_it = |stat: procfs::Stat| stat.started <= Timestamp(time.0.saturating_add(ns(TICKS)));
            if procfs::stat(pid, pid).is_ok_and(is_it) {
                snapshot::describe(self, pid, time, !has_program);
            }
        }
    }
}
