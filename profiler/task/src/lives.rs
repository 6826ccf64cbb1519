//! Start, exec, renaming and end of processes and threads.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use profiler_common::fault::BEFORE_UNKNOWN;

use super::space::Space;
use super::{FaultAccount, Image, MAX_REGIONS, Process, ProcessId, Tasks, Thread, ThreadId};
use base::addr::Timestamp;
use base::event::{At, TaskExec, TaskExit, TaskNew};

/// `CLONE_VM` of linux/sched.h: the address space is shared.
const CLONE_VM: u64 = 0x100;

/// An event that is shown on the time line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happening {
    /// The process started.
    Start(ProcessId),
    /// The process replaced its program; its record contains the new one.
    Exec(ProcessId),
    /// The last thread of the process ended.
    Exit(ProcessId),
}

impl Tasks {
    pub(super) fn born(&mut self, task: &TaskNew) -> Option<Happening> {
        let at = &task.at;
        let start = if task.existed {
            at.time.max(self.recording_start)
        } else {
            at.time
        };
        let existed = task.existed || at.time < self.recording_start;
        if at.tid != at.pid {
            let is_first = self.process_of(at.pid).is_none();
            let process = self.process(at.pid, start);
            if is_first {
                self.join_cgroup(process, at, None);
            }
            self.created_thread(process, task, start);
            return None;
        }
        if task.existed && self.is_alive(at.pid, at.time) {
            // The snapshot found what a live event has reported already.
            let process = self.by_pid[&at.pid];
            self.processes[process.index()].existed = true;
            self.join_cgroup(process, at, None);
            return None;
        }
        let parent = self.process_of(task.parent.0);
        let process = self.new_process(at.pid, start, parent, task.clone_flags & CLONE_VM != 0);
        self.processes[process.index()].existed = existed;
        self.join_cgroup(process, at, parent);
        if parent.is_none() {
            self.processes[process.index()].name = text(&task.name);
        }
        self.created_thread(process, task, start);
        (!task.existed).then_some(Happening::Start(process))
    }

    /// Its own cgroup, if it was read, else that of its parent.
    fn join_cgroup(&mut self, process: ProcessId, at: &At, parent: Option<ProcessId>) {
        let inherited = || self.processes[parent?.index()].cgroup.clone();
        let read = self.cgroups.get(&(at.pid, at.time)).cloned();
        let is_read = read.is_some();
        if let Some(cgroup) = read.or_else(inherited) {
            let record = &mut self.processes[process.index()];
            (record.cgroup, record.cgroup_inherited) = (Some(cgroup), !is_read);
        }
    }

    pub(super) fn exec(&mut self, exec: &TaskExec) -> Option<Happening> {
        let at = &exec.at;
        let process = self.process(at.pid, at.time);
        let record = &mut self.processes[process.index()];
        record.path = text(&exec.path);
        record.command_line = Arc::new(arguments(&exec.command_line));
        record.name = program_name(&record.path).map_or_else(|| text(&exec.name), str::to_owned);
        let main = self.thread(at.pid, at.pid, at.time);
        self.threads[main.index()].name = text(&exec.name);
        if exec.existed {
            return None;
        }
        // The calling thread takes over the first thread's id; the first thread ended a moment ago.
        if self.threads[main.index()].end.take().is_some() {
            self.images[process.index()].alive += 1;
        }
        if exec.old_tid != at.pid
            && let Some(caller) = self.by_tid.get(&exec.old_tid).copied()
            && self.threads[caller.index()].process == process
        {
            self.end_thread(caller, at.time);
        }
        self.processes[process.index()].end = None;
        self.processes[process.index()].exit_code = None;
        self.replace_space(process, at.time, &exec.name);
        Some(Happening::Exec(process))
    }

    /// Drops the old program's mappings. The new program's were created just before the exec was
    /// reported.
    fn replace_space(&mut self, process: ProcessId, now: Timestamp, name: &[u8]) {
        let code = self.new_code();
        let image = &mut self.images[process.index()];
        let renamed = image
            .renamed
            .take()
            .filter(|(time, new)| *time >= image.since && new == name);
        let began = renamed.map_or(image.since, |(time, _)| time);
        let mut space = match image.tentative.take() {
            Some(space) => space,
            None => image.space.borrow().clone(),
        };
        space.forget_before(began);
        space.code = code;
        let mappings = space.regions().len();
        let old = std::mem::replace(&mut image.space, Rc::new(RefCell::new(space)));
        image.since = now;
        self.regions += mappings;
        self.left(&old);
    }

    pub(super) fn rename(&mut self, at: &At, name: &[u8]) -> Option<Happening> {
        let thread = self.thread(at.pid, at.tid, at.time);
        self.threads[thread.index()].name = text(name);
        if at.tid != at.pid {
            return None;
        }
        let process = self.threads[thread.index()].process;
        let record = &mut self.processes[process.index()];
        if record.path.is_empty() {
            record.name = text(name);
        }
        let image = &mut self.images[process.index()];
        image.renamed = Some((at.time, name.to_vec()));
        if image.shares_space() {
            image.tentative = Some(Space::default());
        }
        None
    }

    pub(super) fn exit(&mut self, exit: &TaskExit) -> Option<Happening> {
        let at = &exit.at;
        let id = self.thread(at.pid, at.tid, at.time);
        let thread = &mut self.threads[id.index()];
        thread.cpu_time_after_last_sample = thread.cpu_time_after_last_sample.saturating_add(exit.cpu_time);
        // After an `execve` by another thread than the first, two threads end with the same id.
        let add = |sum: &mut Option<u64>, value: u64| {
            if exit.sum_exec_runtime != 0 {
                *sum = Some(sum.unwrap_or(0).saturating_add(value));
            }
        };
        add(&mut thread.sum_exec_runtime, exit.sum_exec_runtime);
        add(&mut thread.minor_faults, exit.minor_faults);
        add(&mut thread.major_faults, exit.major_faults);
        let account = exit.faults.map(|counts| FaultAccount {
            seen: counts.seen,
            lost: counts.lost,
            filtered: counts.filtered,
            failed: counts.failed,
            before: (counts.before != BEFORE_UNKNOWN).then_some(counts.before),
        });
        thread.faults = match (thread.faults, account) {
            (Some(first), Some(other)) => Some(first.with(other)),
            (first, other) => other.or(first),
        };
        let (process, is_main) = (thread.process, thread.is_main);
        let was_alive = thread.end.is_none();
        self.end_thread(id, at.time);
        let image = &mut self.images[process.index()];
        let record = &mut self.processes[process.index()];
        if is_main || record.exit_code.is_none() {
            record.exit_code = Some(exit.exit_code);
        }
        if image.alive > 0 || !was_alive {
            return None;
        }
        record.end = Some(at.time.max(self.recording_start));
        // A process that has ended is in the kernel in its last moments.
        let dead = std::mem::take(image);
        image.since = at.time;
        self.left(&dead.space);
        Some(Happening::Exit(process))
    }

    /// Whether the thread outlives the recording.
    pub(super) fn outlived(&mut self, at: &At, cpu_time: u64) -> Option<Happening> {
        let id = self.thread(at.pid, at.tid, at.time);
        let thread = &mut self.threads[id.index()];
        thread.cpu_time_after_last_sample = thread.cpu_time_after_last_sample.saturating_add(cpu_time);
        None
    }

    /// Attributes what a thread did before to the recorder, not to the program. False: the thread
    /// did not exist before.
    pub fn begins(&mut self, id: ThreadId, time: Timestamp) -> bool {
        let Some(thread) = self.threads.get_mut(id.index()) else {
            return false;
        };
        let existed = (self.processes.get(thread.process.index())).is_some_and(|process| process.existed);
        if existed {
            thread.start = thread.start.max(time);
        }
        existed
    }

    /// A process stops using an address space.
    fn left(&mut self, space: &Rc<RefCell<Space>>) {
        if Rc::strong_count(space) == 1 {
            self.regions = self.regions.saturating_sub(space.borrow().regions().len());
        }
    }

    fn end_thread(&mut self, id: ThreadId, time: Timestamp) {
        let time = time.max(self.recording_start);
        let thread = &mut self.threads[id.index()];
        if thread.end.replace(time).is_none() {
            let image = &mut self.images[thread.process.index()];
            image.alive = image.alive.saturating_sub(1);
        }
    }

    /// Whether the current lifetime of a pid began no later than `time` and has not ended.
    fn is_alive(&self, pid: u32, time: Timestamp) -> bool {
        self.process_of(pid).is_some_and(|id| {
            let process = &self.processes[id.index()];
            process.end.is_none() && process.start <= time.max(self.recording_start)
        })
    }

    /// The last process with a pid; an unknown one is assumed to begin at `time`.
    fn process(&mut self, pid: u32, time: Timestamp) -> ProcessId {
        match self.process_of(pid) {
            Some(id) => id,
            None => self.new_process(pid, time, None, false),
        }
    }

    fn new_process(&mut self, pid: u32, start: Timestamp, parent: Option<ProcessId>, shares: bool) -> ProcessId {
        let id = ProcessId(number(self.processes.len()));
        let mut process = Process {
            parent,
            ..Process::born(pid, String::new(), start.max(self.recording_start))
        };
        let unrecorded = self.unrecorded.remove(&pid);
        let mut image = Image {
            since: start,
            ..Image::default()
        };
        if let Some(parent) = parent {
            let record = &self.processes[parent.index()];
            process.name.clone_from(&record.name);
            process.path.clone_from(&record.path);
            process.command_line.clone_from(&record.command_line);
            let space = &self.images[parent.index()].space;
            let mappings = space.borrow().regions().len();
            if shares {
                image.space = Rc::clone(space);
            } else if self.regions + mappings <= MAX_REGIONS {
                image.space = Rc::new(RefCell::new(space.borrow().clone()));
                self.regions += mappings;
            }
        } else if let Some(mut space) = unrecorded {
            space.code = self.new_code();
            self.regions += space.regions().len();
            image.space = Rc::new(RefCell::new(space));
        }
        if let Some(last) = self.by_pid.insert(pid, id) {
            self.bury(last, start);
        }
        self.processes.push(process);
        self.images.push(image);
        id
    }

    /// If the end of a lifetime was missed, it ends when the id is reused.
    fn bury(&mut self, id: ProcessId, time: Timestamp) {
        let record = &mut self.processes[id.index()];
        record.end.get_or_insert(time);
        if let Some(main) = record.main_thread {
            self.threads[main.index()].end.get_or_insert(time);
        }
        let dead = std::mem::take(&mut self.images[id.index()]);
        self.left(&dead.space);
    }

    /// The last thread with a tid in this process; an unknown one is assumed to begin at `time`.
    pub(super) fn thread(&mut self, pid: u32, tid: u32, time: Timestamp) -> ThreadId {
        let process = self.process(pid, time);
        match self.by_tid.get(&tid) {
            Some(id) if self.threads[id.index()].process == process => *id,
            _ => {
                let name = self.processes[process.index()].name.clone();
                self.new_thread(process, tid, time, name.as_bytes())
            }
        }
    }

    fn created_thread(&mut self, process: ProcessId, task: &TaskNew, start: Timestamp) {
        let creator = self.by_tid.get(&task.parent.1).copied().filter(|_| !task.existed);
        let thread = self.new_thread(process, task.at.tid, start, &task.name);
        let record = &mut self.threads[thread.index()];
        record.creator = creator.or(record.creator);
    }

    fn new_thread(&mut self, process: ProcessId, tid: u32, start: Timestamp, name: &[u8]) -> ThreadId {
        let start = start.max(self.recording_start);
        if let Some(id) = self.by_tid.get(&tid).copied() {
            let thread = &mut self.threads[id.index()];
            if thread.process == process && thread.end.is_none() && thread.start >= start {
                // The snapshot found what a live event has reported already.
                thread.start = start;
                return id;
            }
            self.end_thread(id, start);
        }
        let id = ThreadId(number(self.threads.len()));
        let record = &mut self.processes[process.index()];
        let is_main = tid == record.pid;
        self.threads.push(Thread {
            is_main,
            ..Thread::born(process, tid, text(name), start)
        });
        if is_main {
            record.main_thread = Some(id);
            if record.name.is_empty() {
                record.name = text(name);
            }
        }
        self.by_tid.insert(tid, id);
        self.images[process.index()].alive += 1;
        id
    }
}

/// Ids are 32 bits: four billion lifetimes would exceed the available memory.
fn number(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn arguments(bytes: &[u8]) -> Vec<String> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if bytes.is_empty() {
        Vec::new()
    } else {
        bytes.split(|byte| *byte == 0).map(text).collect()
    }
}

/// Base name of a program's path; `None` for one that was started through a file descriptor.
fn program_name(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    (!name.is_empty() && !path.starts_with("/dev/fd/") && !path.starts_with("/proc/self/fd/")).then_some(name)
}
