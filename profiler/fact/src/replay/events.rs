//! The state machine from ordered events to facts.

mod beginning;
mod block;
mod fault;
mod known;
mod last;
mod lock;
mod memo;
mod preamble;
mod stack;
mod unused;
mod wait;

use std::mem::swap;
use std::time::Duration;

use profiler_common::Loss;
use profiler_common::stack::FLAG_IN_KERNEL;
use rustc_hash::FxHashMap;

use self::beginning::FirstReports;
use self::known::KnownStacks;
use self::last::LastWalks;
use self::memo::Memo;
pub use self::preamble::Preamble;
use self::wait::{Ahead, FindingInputs};
use crate::replay::files::FileIndex;
use crate::replay::intern::Interner;
use crate::replay::join::Join;
use crate::replay::mapped::Blocks;
use crate::replay::resolved::EventStacks;
use crate::replay::stack_ends::{Ends, Tally};
use crate::replay::walks::Dictionary;
use crate::{EventKind, FactSink, Mark, MarkKind, ProcessId, SampleFact, StackNode, Tables, ThreadId};
use base::addr::Timestamp;
use base::event::{At, End, Event, Sample, TaskExit};
use task::{Happening, Tasks};
use unwind::Walker;

/// Maximum number of distinct stacks: some hundred times those of an hour of browsing. Later ones are empty.
const MAX_STACKS: usize = 1 << 26;

/// How stacks ended, by event kind.
#[derive(Default)]
struct Tallies {
    ends: Ends,
    samples: Tally,
    faults: Tally,
    waits: Tally,
}

/// What a replay found in addition to the tables.
pub struct Findings {
    /// Stack of each event.
    pub stacks: EventStacks,
    /// The stacks these refer to, if they differ from the tables' stacks by now.
    pub noted: Option<Vec<StackNode>>,
    /// Touched files and offsets.
    pub files: FileIndex,
    /// The last value of each loss counter.
    pub losses: FxHashMap<u32, u64>,
}

/// Facts under construction.
pub struct Replay<'b, 's> {
    /// What facts refer to; processes and threads are in `tasks` except while the sink is called.
    tables: Tables,
    tasks: Tasks,
    walker: Walker<'b>,
    interner: Interner,
    preamble: Preamble,
    tallies: Tallies,
    /// Files that faults, reads, waits and requests touched.
    files: FileIndex,
    /// Bios and devices.
    block: block::State,
    /// Pages that were mapped so far.
    blocks: Blocks,
    /// Why faults and waits took so long.
    join: Join,
    /// Stacks sent by the kernel side.
    dictionary: Dictionary,
    /// Stacks that were walked before.
    memo: Memo,
    /// Each thread's last walk.
    last_walks: LastWalks,
    /// Stacks that a kept log knows.
    known: KnownStacks,
    /// Stack of each event.
    noted_events: EventStacks,
    /// The stacks these refer to, once there were too many to note later events.
    noted: Option<Vec<StackNode>>,
    /// Number of stacks at which unused ones are searched.
    stacks_room: usize,
    /// Number of kept stacks at which code in anonymous memory becomes one frame.
    merge_nameless_at: usize,
    ahead: Ahead,
    inputs: FindingInputs,
    first_reports: FirstReports,
    /// Last value of each loss counter.
    losses: FxHashMap<u32, u64>,
    /// Markers of processes that are not in the log.
    unrecorded: u64,
    sink: &'s mut dyn FactSink,
}

impl<'b, 's> Replay<'b, 's> {
    /// Begins with what is known about the recording.
    pub fn new(mut tables: Tables, walker: Walker<'b>, mut preamble: Preamble, sink: &'s mut dyn FactSink) -> Self {
        let mut tasks = Tasks::new(tables.recording.start);
        tasks.know_cgroups(std::mem::take(&mut preamble.cgroups));
        let recording = &mut tables.recording;
        recording.cost = preamble.cost.take();
        recording.containers = std::mem::take(&mut preamble.containers).into_values().collect();
        std::mem::take(&mut preamble.usage).finish(recording);
        let (mut files, mut known) = (FileIndex::default(), KnownStacks::default());
        if let Some(resolved) = &mut preamble.resolved {
            files = FileIndex::of(&resolved.tables.files, &resolved.mapped_as);
            let recording = std::mem::take(&mut tables.recording);
            known = KnownStacks::new(std::mem::take(&mut resolved.tables.stacks));
            tables = Tables {
                recording,
                ..std::mem::take(&mut resolved.tables)
            };
        }
        Self {
            tasks,
            interner: Interner::of(&tables),
            tables,
            walker,
            preamble,
            tallies: Tallies::default(),
            files,
            block: block::State::default(),
            blocks: Blocks::default(),
            join: Join::default(),
            dictionary: Dictionary::default(),
            memo: Memo::default(),
            last_walks: LastWalks::default(),
            known,
            noted_events: EventStacks::off(),
            noted: None,
            stacks_room: unused::LOOK,
            merge_nameless_at: unused::MAX_NAMELESS_STACKS,
            ahead: Ahead::default(),
            inputs: FindingInputs::default(),
            first_reports: FirstReports::default(),
            losses: FxHashMap::default(),
            unrecorded: 0,
            sink,
        }
    }

    /// Notes each event's stack until there are this many stacks.
    pub fn note_stacks(&mut self, most: usize) {
        self.noted_events = EventStacks::default();
        self.stacks_room = most;
    }

    /// Treats nameless code in anonymous memory as one frame.
    pub fn merge_anonymous(&mut self) {
        self.interner.merge_anonymous();
    }

    /// Treats nameless code in anonymous memory as one frame when more stacks than this are kept.
    pub fn merge_nameless_above(&mut self, most: usize) {
        self.merge_nameless_at = most;
    }

    /// Takes the next event, in order.
    pub fn event(&mut self, event: &Event<'_>) {
        let time = match event {
            Event::Sample(sample) => sample.at.time,
            Event::Fault(fault) => fault.at.time,
            Event::PagesRead(pages) => pages.at.time,
            Event::PagesPopulated(pages) => pages.at.time,
            Event::Wait(wait) => wait.at.time,
            Event::StackAhead(stack) => stack.at.time,
            Event::Bio(bio) => bio.at.time,
            Event::Request(request) => request.at.time,
            Event::TaskNew(task) => task.at.time,
            Event::TaskExec(exec) => exec.at.time,
            Event::TaskExit(exit) => exit.at.time,
            Event::TaskAlive { at, .. } | Event::TaskRename { at, .. } => at.time,
            Event::Mapping(mapping) => mapping.at.time,
            Event::Loss { loss, count } => {
                self.losses.insert(*loss, *count);
                return;
            }
            Event::End(end) => {
                self.end(end);
                return;
            }
            Event::CallPath(path) => {
                self.path_came_ahead(path);
                return;
            }
            Event::DeviceName(name) => {
                self.device_name(name);
                return;
            }
            Event::FileName(name) => {
                self.files.name(&self.tables.files, name);
                return;
            }
            Event::UserStack(stack) => {
                let now = self.tables.recording.end;
                if self.dictionary.user(stack, now) {
                    self.memo.clear();
                }
                return;
            }
            Event::KernelStack(stack) => {
                let now = self.tables.recording.end;
                if self.dictionary.kernel(stack, &self.preamble.kernel, now) {
                    self.memo.clear();
                }
                return;
            }
            _ => return,
        };
        self.markers_until(time);
        self.forget_ended(time);
        self.give_up_unused();
        let Some(event) = self.within(event, time) else { return };
        let event = &*event;
        match event {
            Event::Sample(sample) => return self.sample(sample),
            Event::Fault(fault) => return self.fault(fault),
            Event::PagesRead(pages) => return self.pages_read(pages),
            Event::PagesPopulated(pages) => return self.pages_populated(pages),
            Event::Wait(wait) => return self.wait(wait),
            Event::StackAhead(stack) => return self.stack_came_ahead(stack),
            Event::Bio(bio) => return self.bio(bio),
            Event::Request(request) => return self.request(request),
            _ => {}
        }
        if let Event::TaskExit(TaskExit { cpu_time, .. }) | Event::TaskAlive { cpu_time, .. } = event {
            let recording = &mut self.tables.recording;
            recording.cpu_time_seen = recording.cpu_time_seen.saturating_add(*cpu_time);
        }
        if let Some(happening) = self.tasks.apply(event) {
            self.happened(happening, time);
        }
        if let Event::TaskExit(exit) = event {
            self.join_end(&exit.at);
        }
    }

    /// Ends the input; returns the finished tables and other results.
    pub fn finish(mut self) -> (Tables, Findings) {
        self.markers_until(Timestamp(u64::MAX));
        self.finish_requests();
        if self.unrecorded > 0 {
            let count = self.unrecorded;
            let note = format!("ignored markers of unrecorded processes: {count}");
            self.tables.recording.notes.push(note);
        }
        if self.dictionary.missing() > 0 {
            self.losses.insert(Loss::StackUnknown as u32, self.dictionary.missing());
        }
        self.tables.recording.walks = self.dictionary.finish();
        self.tables.processes = self.tasks.processes;
        self.tables.threads = self.tasks.threads;
        self.files.finish(&mut self.tables.files, &self.tasks.files);
        self.tables.recording.stack_ends = self.tallies.samples.finish(&self.tables);
        self.tables.recording.fault_stack_ends = self.tallies.faults.finish(&self.tables);
        self.tables.recording.wait_stack_ends = self.tallies.waits.finish(&self.tables);
        let findings = Findings {
            stacks: self.noted_events,
            noted: self.noted,
            files: self.files,
            losses: self.losses,
        };
        (self.tables, findings)
    }

    fn end(&mut self, end: &End) {
        self.markers_until(end.time);
        let recording = &mut self.tables.recording;
        recording.end = recording.end.max(end.time);
        recording.end_reason = Some(end.reason.clone());
        recording.command_status = end.status;
    }

    fn happened(&mut self, happening: Happening, time: Timestamp) {
        let (process, kind) = match happening {
            Happening::Start(process) => (process, MarkKind::ProcessStart),
            Happening::Exec(process) => {
                let record = &self.tasks.processes[process.index()];
                let (path, command_line) = (record.path.clone(), record.command_line.clone());
                (process, MarkKind::Exec { path, command_line })
            }
            Happening::Exit(process) => {
                self.dictionary.user.ended(process, time);
                let status = self.tasks.processes[process.index()].exit_code.unwrap_or_default();
                (process, MarkKind::ProcessExit { status })
            }
        };
        if time < self.tables.recording.start {
            return;
        }
        let thread = self.main_thread(process, time);
        self.mark(&Mark {
            start: time,
            end: None,
            thread,
            stack: None,
            kind,
        });
    }

    /// Drops what is known about processes with no more events: their stacks, and what the sink keeps individually.
    fn forget_ended(&mut self, now: Timestamp) {
        while let Some(process) = self.dictionary.user.next_ended(now) {
            if self.tasks.processes[process.index()].end.is_some() {
                self.dictionary.user.forget(process);
                self.show_tasks();
                self.sink.process_ended(&self.tables, process);
                self.show_tasks();
            }
        }
    }

    /// The first thread of a process, created here if it was not seen.
    fn main_thread(&mut self, process: ProcessId, time: Timestamp) -> ThreadId {
        let record = &self.tasks.processes[process.index()];
        let pid = record.pid;
        record
            .main_thread
            .unwrap_or_else(|| self.tasks.thread_at(&At { time, pid, tid: pid }))
    }

    /// Emits the program's own markers that began by now.
    fn markers_until(&mut self, time: Timestamp) {
        while let Some(marker) = self.preamble.markers.pop_front_if(|marker| marker.start <= time) {
            let last = marker.end.unwrap_or(marker.start);
            if last < self.tables.recording.start {
                continue;
            }
            let Some(process) = self.tasks.process_of(marker.pid) else {
                self.unrecorded += 1;
                continue;
            };
            let start = marker.start.max(self.tables.recording.start);
            let thread = match marker.tid {
                Some(tid) => self.tasks.thread_at(&At {
                    time: start,
                    pid: marker.pid,
                    tid,
                }),
                None => self.main_thread(process, start),
            };
            let kind = MarkKind::Program { text: marker.text };
            self.mark(&Mark {
                start,
                end: marker.end,
                thread,
                stack: None,
                kind,
            });
        }
    }

    fn mark(&mut self, mark: &Mark) {
        self.show_tasks();
        self.sink.mark(&self.tables, mark);
        self.show_tasks();
    }

    /// Moves processes and threads into the tables, or back.
    fn show_tasks(&mut self) {
        swap(&mut self.tables.processes, &mut self.tasks.processes);
        swap(&mut self.tables.threads, &mut self.tasks.threads);
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        let thread = self.tasks.thread_at(&sample.at);
        let stack = self.stack_of(&sample.at, thread, &sample.stacks, EventKind::Sample);
        let recording = &mut self.tables.recording;
        let weight = 1 << sample.stacks.represents();
        recording.samples_seen = recording.samples_seen.saturating_add(u64::from(weight));
        recording.cpu_time_seen = recording.cpu_time_seen.saturating_add(sample.cpu_time);
        let fact = SampleFact {
            time: sample.at.time,
            thread,
            stack,
            cpu_time: Duration::from_nanos(sample.cpu_time),
            in_kernel: sample.stacks.flags & FLAG_IN_KERNEL != 0,
            weight,
        };
        self.show_tasks();
        self.sink.sample(&self.tables, &fact);
        self.show_tasks();
    }
}
