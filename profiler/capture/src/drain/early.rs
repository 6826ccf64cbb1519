//! What was captured before the recording began: which threads exist at its beginning, and where they come from.
//! Threads that ended before are not part of it.

use rustc_hash::{FxHashMap, FxHashSet};

use base::addr::Timestamp;
use base::event::{At, Event};

/// Leaves out threads that had ended by `beginning`. A process stays if a child of it does, since the child started
/// with its mappings.
pub fn living(events: Vec<Event<'static>>, beginning: Timestamp) -> Vec<Event<'static>> {
    let mut ended: FxHashMap<(u32, u32), Timestamp> = FxHashMap::default();
    for event in &events {
        if let Event::TaskExit(exit) = event
            && exit.at.time < beginning
        {
            ended.insert((exit.at.pid, exit.at.tid), exit.at.time);
        }
    }
    let has_ended = |at: &At| ended.get(&(at.pid, at.tid)).is_some_and(|end| at.time <= *end);
    // Ended processes with a child that has not ended. Children follow their parents.
    let mut needed: FxHashSet<u32> = FxHashSet::default();
    for event in events.iter().rev() {
        let Event::TaskNew(new) = event else { continue };
        let parent = At {
            pid: new.parent.0,
            tid: new.parent.0,
            ..new.at
        };
        if (!has_ended(&new.at) || needed.contains(&new.at.pid)) && has_ended(&parent) {
            needed.insert(parent.pid);
        }
    }
    let stays = |event: &Event<'_>| {
        let at = match event {
            Event::TaskNew(task) => &task.at,
            Event::TaskExec(exec) => &exec.at,
            Event::TaskExit(exit) => &exit.at,
            Event::TaskRename { at, .. } => at,
            _ => return true,
        };
        !has_ended(at) || at.tid == at.pid && needed.contains(&at.pid)
    };
    let mut events = events;
    events.retain(stays);
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::event::{TaskExit, TaskNew};

    fn at(time: u64, pid: u32, tid: u32) -> At {
        let time = Timestamp(time);
        At { time, pid, tid }
    }

    fn born(time: u64, parent: u32, pid: u32, tid: u32) -> Event<'static> {
        Event::TaskNew(TaskNew {
            at: at(time, pid, tid),
            parent: (parent, parent),
            ..TaskNew::default()
        })
    }

    fn exit(time: u64, pid: u32, tid: u32) -> Event<'static> {
        Event::TaskExit(TaskExit {
            at: at(time, pid, tid),
            ..TaskExit::default()
        })
    }

    #[test]
    fn tasks_ended_before_the_start_are_omitted() {
        let events = vec![
            born(1, 1, 7, 7),
            born(2, 7, 7, 8),
            exit(3, 7, 8),
            // A process that has ended, and another that has ended but has a live child.
            born(4, 7, 9, 9),
            exit(5, 9, 9),
            born(6, 7, 10, 10),
            born(7, 10, 11, 11),
            exit(8, 10, 10),
            // A new process that reuses the pid of one that has ended.
            born(9, 7, 9, 9),
            exit(30, 7, 7),
        ];
        let living = living(events.clone(), Timestamp(20));
        let stay = [0, 5, 6, 7, 8, 9].map(|place| events[place].clone());
        assert_eq!(living, stay);
    }
}
