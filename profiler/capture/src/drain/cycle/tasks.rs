//! The ring of births, programs and ends.

use base::addr::Timestamp;
use base::event::Event;

use super::super::records;
use super::{CYCLE_LIMIT, Drain};
use crate::space::spaces::Change;

impl Drain {
    /// How many records there were, and whether a process was born or executed a program.
    pub(super) fn read_tasks(&mut self, changes: &mut Vec<(Timestamp, Change)>) -> (usize, bool) {
        let (mut count, mut has_process) = (0, false);
        while count < CYCLE_LIMIT {
            let read = self.tasks.next().map(|record| {
                let executing = records::is_executing(&record);
                (records::task_event(&record), records::space_of(&record), executing)
            });
            let Some((event, space, executing)) = read else {
                break;
            };
            count += 1;
            let Some(mut event) = event else { continue };
            if !self.enters(&mut event, executing) {
                continue;
            }
            match &event {
                Event::TaskNew(new) => {
                    has_process |= new.at.pid == new.at.tid;
                    self.recorded.born(new.at.pid, new.at.tid);
                    self.owners.born(new.at.pid, new.at.tid, new.at.time);
                    let (parent, child, space) = (new.parent.0, new.at.pid, space.unwrap_or_default());
                    changes.push((new.at.time, Change::Born { parent, child, space }));
                }
                Event::TaskExec(exec) => {
                    has_process = true;
                    self.recorded.executed(exec.at.time, exec.at.pid, exec.old_tid);
                    changes.push((exec.at.time, Change::Executed(exec.at.pid, space.unwrap_or_default())));
                    self.perf_maps.ended(exec.at.pid);
                    self.owners.executed(exec.at.pid, exec.at.time);
                }
                Event::TaskRename { at, .. } if at.pid == at.tid => changes.push((at.time, Change::Renamed(at.pid))),
                Event::TaskExit(exit) => {
                    self.recorded.ended(exit.at.time, exit.at.pid, exit.at.tid);
                    let cpu_time = &mut self.counts.of_recorded.cpu_time;
                    *cpu_time = cpu_time.saturating_add(exit.cpu_time);
                }
                _ => {}
            }
            self.write(&event);
        }
        (count, has_process)
    }
}
