//! Processes, threads and mappings over time, from the ordered events of a log: who ran, and what lay at an address.

mod lives;
pub mod moved;
pub mod space;

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use rustc_hash::FxHashMap;

pub use lives::Happening;
use space::{Files, Region, Space};

use crate::addr::{Avma, Timestamp};
use crate::event::{At, Event, Mapping};
use crate::fact::{Process, ProcessId, Thread, ThreadId};

/// Most processes whose mappings are kept before anything else is known of them.
const MAX_STRANGERS: usize = 1 << 16;
/// Most mappings of all living processes: several hundred times those of a browser. Beyond it a fork inherits none.
const MAX_REGIONS: usize = 1 << 23;

/// Every life of a process or thread so far, and the address spaces of those that live.
///
/// The kernel uses the numbers again: each life has an id of its own.
#[derive(Debug, Default)]
pub struct Tasks {
    /// Processes by [`ProcessId`].
    pub processes: Vec<Process>,
    /// Threads by [`ThreadId`].
    pub threads: Vec<Thread>,
    /// Every file that was mapped.
    pub files: Files,
    /// The last life of each pid.
    by_pid: FxHashMap<u32, ProcessId>,
    /// The last life of each tid.
    by_tid: FxHashMap<u32, ThreadId>,
    /// What is known beside the facts, by [`ProcessId`].
    images: Vec<Image>,
    /// Mappings of processes that nothing else is known of: perf reports those of the whole system.
    strangers: FxHashMap<u32, Space>,
    recording_start: Timestamp,
    /// Mappings of all address spaces, those that are shared counted more than once.
    regions: usize,
    /// The last number of [`Space::code`].
    last_code: u64,
}

/// A process's address space, and what is needed to see it replaced.
#[derive(Debug, Default)]
struct Image {
    /// Shared after vfork and its like, until one of the two execs.
    space: Rc<RefCell<Space>>,
    /// Mappings since the last rename, while the space is shared: if an exec follows, they are the new program's.
    tentative: Option<Space>,
    /// When the first thread was renamed last, and how: the kernel does this in exec, between dropping the old
    /// mappings and making the new ones (`begin_new_exec`).
    renamed: Option<(Timestamp, Vec<u8>)>,
    /// Birth, or the last exec.
    since: Timestamp,
    /// Threads that are known and did not end yet.
    alive: u32,
}

impl Image {
    fn shares_space(&self) -> bool {
        Rc::strong_count(&self.space) > 1
    }
}

impl Tasks {
    /// Nothing is known yet.
    pub fn new(recording_start: Timestamp) -> Self {
        Self {
            recording_start,
            ..Self::default()
        }
    }

    /// Takes in an event; those that do not concern tasks are ignored. Says what is worth a mark.
    pub fn apply(&mut self, event: &Event<'_>) -> Option<Happening> {
        match event {
            Event::TaskNew(task) => self.born(task),
            Event::TaskExec(exec) => self.exec(exec),
            Event::TaskExit(exit) => self.exit(exit),
            Event::TaskAlive { at, cpu_time } => self.outlived(at, *cpu_time),
            Event::TaskRename { at, name } => self.rename(at, name),
            Event::Mapping(mapping) => self.map(mapping),
            _ => None,
        }
    }

    /// The thread that an event happened on; one that was not seen before is taken to begin now. A thread does a
    /// little more after its exit was reported.
    pub fn thread_at(&mut self, at: &At) -> ThreadId {
        let id = self.thread(at.pid, at.tid, at.time);
        if let Some(end) = &mut self.threads[id.index()].end {
            *end = (*end).max(at.time);
        }
        id
    }

    /// The thread that something happened on, if it is recorded: one that was not seen before stays a stranger.
    pub fn known_thread(&self, at: &At) -> Option<ThreadId> {
        let id = *self.by_tid.get(&at.tid)?;
        let thread = &self.threads[id.index()];
        let lives = thread.end.is_none_or(|end| at.time <= end);
        (lives && self.processes[thread.process.index()].pid == at.pid).then_some(id)
    }

    /// The mapping of a process that covers an address.
    pub fn region(&self, process: ProcessId, address: Avma) -> Option<Region> {
        let image = &self.images[process.index()];
        let tentative = image.tentative.as_ref().and_then(|space| space.find(address)).copied();
        tentative.or_else(|| image.space.borrow().find(address).copied())
    }

    /// As [`Self::region`]; where code was moved to large pages, what was mapped there from its file.
    pub fn code_region(&self, process: ProcessId, address: Avma) -> Option<Region> {
        let image = &self.images[process.index()];
        let tentative = image
            .tentative
            .as_ref()
            .and_then(|space| space.find_code(address))
            .copied();
        tentative.or_else(|| image.space.borrow().find_code(address).copied())
    }

    /// A number for what code a process has mapped: while it is the same, an address of a file's code means the same. `None`: it is
    /// about to change.
    pub fn code_of(&self, process: ProcessId) -> Option<u64> {
        let image = self.images.get(process.index())?;
        image.tentative.is_none().then(|| image.space.borrow().code)
    }

    /// The process shares its address space with nobody, as it would after vfork, and it is the one that it had at that time.
    pub fn owns_space_since(&self, process: ProcessId, time: Timestamp) -> bool {
        let image = self.images.get(process.index());
        image.is_some_and(|image| !image.shares_space() && image.since <= time)
    }

    /// The addresses around this one that are a file's code too, which does not change while it is mapped. `None`: it is none itself.
    pub fn code_of_file(&self, process: ProcessId, address: Avma) -> Option<Range<Avma>> {
        const NOT_FILES: [&str; 3] = ["/memfd:", "/dev/", "/SYSV"];
        let region = self.region(process, address)?;
        let file = self.files.get(region.file);
        let looks_like_one = NOT_FILES.iter().any(|start| file.path.starts_with(start));
        let is_code = region.executable && !file.is_anonymous() && !looks_like_one;
        is_code.then_some(region.start..region.end)
    }

    /// The addresses around this one that are code, of a file or not. `None`: it is none itself.
    pub fn code_around(&self, process: ProcessId, address: Avma) -> Option<Range<Avma>> {
        let region = self.region(process, address)?;
        region.executable.then_some(region.start..region.end)
    }

    /// A new number for a space whose code is another than before.
    fn new_code(&mut self) -> u64 {
        self.last_code += 1;
        self.last_code
    }

    /// The last life of a pid.
    pub fn process_of(&self, pid: u32) -> Option<ProcessId> {
        self.by_pid.get(&pid).copied()
    }

    fn map(&mut self, mapping: &Mapping) -> Option<Happening> {
        let file = self.files.intern(mapping);
        let Some(process) = self.process_of(mapping.at.pid) else {
            if self.strangers.len() < MAX_STRANGERS || self.strangers.contains_key(&mapping.at.pid) {
                self.strangers.entry(mapping.at.pid).or_default().map(mapping, file);
            }
            return None;
        };
        let image = &mut self.images[process.index()];
        if let Some(space) = &mut image.tentative {
            space.map(mapping, file);
        } else {
            let mut space = image.space.borrow_mut();
            let before = space.regions().len();
            if space.map(mapping, file) {
                self.last_code += 1;
                space.code = self.last_code;
            }
            self.regions = (self.regions + space.regions().len()).saturating_sub(before);
        }
        None
    }
}
