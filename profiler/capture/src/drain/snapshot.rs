//! What existed when the recording began: threads, names, programs and mappings of running processes.

use anyhow::{Context as _, bail};
use profiler_common::fault::BEFORE_UNKNOWN;
use profiler_common::scope::Wanted;
use profiler_common::space::first_space_id;
use rustc_hash::FxHashSet;

use super::cycle::Drain;
use super::selected::Selected;
use crate::privilege::terms::Scope;
use crate::proc::procfs;
use crate::space::maps;
use base::addr::Timestamp;
use base::event::{At, Event, TaskExec, TaskNew};

/// How often threads are listed, at most, until no new one appears: a thread that is not recorded yet may start
/// others meanwhile.
const ROUNDS: u32 = 32;

/// Starts recording everything in scope that exists already. The hooks are attached: later threads report themselves.
///
/// # Errors
/// When a requested process is gone.
pub fn take_all(drain: &mut Drain, scope: &Scope, pids: &[u32], excluded: &[u32]) -> anyhow::Result<()> {
    let selected = drain.selected.clone();
    // The process that waits to become the command is not a program yet.
    let is_program = *scope != Scope::Command;
    for &pid in pids {
        require_found(take(drain, pid, is_program, None), pid)?;
    }
    if scope.is_of_machine() {
        let processes = procfs::processes().context("cannot read /proc")?;
        for pid in processes.into_iter().filter(|pid| !excluded.contains(pid)) {
            take(drain, pid, true, selected.as_deref());
        }
    }
    Ok(())
}

/// Fails unless a requested process exists.
pub fn require_found(found: bool, pid: u32) -> anyhow::Result<()> {
    if !found {
        bail!("process {pid} ended before the recording began");
    }
    Ok(())
}

/// Starts recording a running process with all its threads. `program`: also writes which program it runs.
///
/// False: it is gone.
fn take(drain: &mut Drain, pid: u32, program: bool, selected: Option<&Selected>) -> bool {
    let mut found = false;
    // Threads that are exiting: no report of their end follows.
    let mut ended = FxHashSet::default();
    for _ in 0..ROUNDS {
        let threads = procfs::threads(pid).unwrap_or_default();
        let new: Vec<u32> = threads
            .into_iter()
            .filter(|tid| !drain.recorded.knows(pid, *tid) && !ended.contains(tid))
            .filter(|tid| selected.is_none_or(|selected| selected.contains(pid, *tid, false)))
            .collect();
        if new.is_empty() {
            break;
        }
        for tid in new {
            let since = procfs::now();
            // The process that waits to become the command has no faults meanwhile.
            let before = procfs::stat(pid, tid)
                .ok()
                .filter(|_| !program)
                .map_or(BEFORE_UNKNOWN, |stat| stat.faults);
            let wanted = Wanted {
                since: since.0,
                space: first_space_id(pid),
                before,
            };
            drain.want(tid, wanted);
            let Some(stat) = procfs::stat(pid, tid).ok().filter(|stat| !stat.has_ended) else {
                drain.threads.forget(tid);
                ended.insert(tid);
                continue;
            };
            drain.recorded.born(pid, tid);
            drain.owners.born(pid, tid, stat.started);
            found = true;
            drain.write(&Event::TaskNew(TaskNew {
                at: At {
                    time: stat.started,
                    pid,
                    tid,
                },
                parent: (if tid == pid { stat.parent } else { pid }, 0),
                existed: true,
                clone_flags: 0,
                name: stat.name,
            }));
        }
    }
    if found {
        describe(drain, pid, procfs::now(), program);
        drain.publish();
    }
    found
}

/// Writes the program and the mappings of a running process, as of `time`.
pub fn describe(drain: &mut Drain, pid: u32, time: Timestamp, program: bool) {
    let at = At { time, pid, tid: pid };
    if program {
        let (path, command_line) = procfs::program(pid);
        let name = procfs::stat(pid, pid).map(|stat| stat.name).unwrap_or_default();
        drain.write(&Event::TaskExec(TaskExec {
            at,
            existed: true,
            old_tid: pid,
            name,
            path,
            command_line,
        }));
    }
    // A kernel thread has none, nor has a process that has just ended.
    for mapping in maps::read(at).unwrap_or_default() {
        drain.found(mapping);
    }
}
