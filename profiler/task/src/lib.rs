//! Processes, threads and mappings over time, from the ordered events of a log: which threads ran,
//! and what was mapped at an address.
//!
//! A process is known from its first event on:
//!
//! ```
//! use base::addr::Timestamp;
//! use base::event::{At, Event, TaskNew};
//! use task::Tasks;
//!
//! let mut tasks = Tasks::new(Timestamp(0));
//! let at = At { time: Timestamp(5), pid: 7, tid: 7 };
//! tasks.apply(&Event::TaskNew(TaskNew { at, name: b"cat".to_vec(), ..TaskNew::default() }));
//! assert!(tasks.process_of(7).is_some() && tasks.process_of(8).is_none());
//! ```

mod lifetime;
mod lives;
pub mod moved;
pub mod space;

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

pub use lifetime::{FaultAccount, Process, ProcessId, Thread, ThreadId};
pub use lives::Happening;
use space::{MappedFiles, Region, Space};

use base::addr::{Avma, Timestamp};
use base::event::{At, Event, Mapping};

/// Maximum number of processes for which mappings are kept before anything else is known of them.
const MAX_UNRECORDED: usize = 1 << 16;
/// Maximum number of mappings of all live processes: several hundred times those of a browser.
/// Beyond it, a fork inherits none.
const MAX_REGIONS: usize = 1 << 23;

/// Paths of processes' cgroups, by process id and the time of its [`base::event::TaskNew`].
pub type Cgroups = FxHashMap<(u32, Timestamp), Arc<str>>;

/// All processes and threads so far, and the address spaces of the live ones.
///
/// The kernel reuses pids and tids: each lifetime has a unique id.
#[derive(Debug, Default)]
pub struct Tasks {
    /// Processes by [`ProcessId`].
    pub processes: Vec<Process>,
    /// Threads by [`ThreadId`].
    pub threads: Vec<Thread>,
    /// All mapped files.
    pub files: MappedFiles,
    /// The last process with each pid.
    by_pid: FxHashMap<u32, ProcessId>,
    /// The last thread with each tid.
    by_tid: FxHashMap<u32, ThreadId>,
    /// Further state of processes, by [`ProcessId`].
    images: Vec<Image>,
    /// Mappings of otherwise unknown processes: perf reports those of the whole system.
    unrecorded: FxHashMap<u32, Space>,
    /// Cgroups of processes, by id and the time of their [`base::event::TaskNew`].
    cgroups: Cgroups,
    recording_start: Timestamp,
    /// Number of mappings of all address spaces; shared ones are counted more than once.
    regions: usize,
    /// The last value of [`Space::code`].
    last_code: u64,
}

/// A process's address space, with the state to detect its replacement.
#[derive(Debug, Default)]
struct Image {
    /// Shared after vfork and similar calls, until one of the two processes calls exec.
    space: Rc<RefCell<Space>>,
    /// Mappings since the last rename, while the space is shared: if an exec follows, they belong
    /// to the new program.
    tentative: Option<Space>,
    /// When the first thread was last renamed, and how: exec does this between dropping the old
    /// mappings and creating the new ones (`begin_new_exec`).
    renamed: Option<(Timestamp, Vec<u8>)>,
    /// Start of the process, or its last exec.
    since: Timestamp,
    /// Number of known live threads.
    alive: u32,
}

impl Image {
    fn shares_space(&self) -> bool {
        Rc::strong_count(&self.space) > 1
    }
}

impl Tasks {
    /// Creates an empty state.
    pub fn new(recording_start: Timestamp) -> Self {
        Self {
            recording_start,
            ..Self::default()
        }
    }

    /// Takes note of the cgroups of processes that are not born yet.
    pub fn know_cgroups(&mut self, cgroups: Cgroups) {
        self.cgroups = cgroups;
    }

    /// Processes an event; events that do not concern tasks are ignored. Returns what should be
    /// marked on the time line.
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

    /// The thread of an event; an unknown one is assumed to begin now. A thread can still have
    /// events shortly after its reported exit.
    pub fn thread_at(&mut self, at: &At) -> ThreadId {
        let id = self.thread(at.pid, at.tid, at.time);
        if let Some(end) = &mut self.threads[id.index()].end {
            *end = (*end).max(at.time);
        }
        id
    }

    /// The thread of an event, if it is recorded: an unknown one is not added.
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

    /// The start of the mappings of a region's file, up to that region, without other
    /// files in between: where its first byte is, if it is mapped.
    pub fn start_of_file(&self, process: ProcessId, region: &Region) -> Avma {
        let start = |space: &Space| {
            let regions = space.regions();
            let before = regions.partition_point(|other| other.start <= region.start);
            let of_file = regions[..before]
                .iter()
                .rev()
                .take_while(|other| other.file == region.file);
            let mut start = None;
            for other in of_file {
                start = Some(other.start);
                if other.offset.0 == 0 {
                    break;
                }
            }
            start
        };
        let Some(image) = self.images.get(process.index()) else {
            return region.start;
        };
        let tentative = image.tentative.as_ref().and_then(start);
        tentative
            .or_else(|| start(&image.space.borrow()))
            .unwrap_or(region.start)
    }

    /// The last address of a process's highest mapping: that of its stack, or of the vdso.
    pub fn highest(&self, process: ProcessId) -> Option<u64> {
        let image = self.images.get(process.index())?;
        let last = |space: &Space| Some(space.regions().last()?.end.0.saturating_sub(1));
        let tentative = image.tentative.as_ref().and_then(last);
        tentative.max(last(&image.space.borrow()))
    }

    /// Like [`Self::region`], but for code that was moved to large pages, the original file
    /// mapping.
    pub fn code_region(&self, process: ProcessId, address: Avma) -> Option<Region> {
        let image = &self.images[process.index()];
        let tentative = image
            .tentative
            .as_ref()
            .and_then(|space| space.find_code(address))
            .copied();
        tentative.or_else(|| image.space.borrow().find_code(address).copied())
    }

    /// A version number of a process's mapped code: while it is unchanged, an address in a file's
    /// code has the same meaning. `None`: it is about to change.
    pub fn code_of(&self, process: ProcessId) -> Option<u64> {
        let image = self.images.get(process.index())?;
        image.tentative.is_none().then(|| image.space.borrow().code)
    }

    /// Whether the process shares its address space with no other process, as it would after vfork,
    /// and it is the same one as at that time.
    pub fn owns_space_since(&self, process: ProcessId, time: Timestamp) -> bool {
        let image = self.images.get(process.index());
        image.is_some_and(|image| !image.shares_space() && image.since <= time)
    }

    /// The range around this address with code of the same file, which does not change while it is
    /// mapped. `None`: the address is not in one.
    pub fn code_of_file(&self, process: ProcessId, address: Avma) -> Option<Range<Avma>> {
        const NOT_FILES: [&str; 3] = ["/memfd:", "/dev/", "/SYSV"];
        let region = self.region(process, address)?;
        let file = self.files.get(region.file);
        let looks_like_one = NOT_FILES.iter().any(|start| file.path.starts_with(start));
        let is_code = region.executable && !file.is_anonymous() && !looks_like_one;
        is_code.then_some(region.start..region.end)
    }

    /// The range around this address with code, of a file or not. `None`: the address is not in
    /// code.
    pub fn code_around(&self, process: ProcessId, address: Avma) -> Option<Range<Avma>> {
        let region = self.region(process, address)?;
        region.executable.then_some(region.start..region.end)
    }

    /// A new version number for a space with changed code.
    fn new_code(&mut self) -> u64 {
        self.last_code += 1;
        self.last_code
    }

    /// The last process with a pid.
    pub fn process_of(&self, pid: u32) -> Option<ProcessId> {
        self.by_pid.get(&pid).copied()
    }

    fn map(&mut self, mapping: &Mapping) -> Option<Happening> {
        let file = self.files.intern(mapping);
        let Some(process) = self.process_of(mapping.at.pid) else {
            if self.unrecorded.len() < MAX_UNRECORDED || self.unrecorded.contains_key(&mapping.at.pid) {
                self.unrecorded.entry(mapping.at.pid).or_default().map(mapping, file);
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
