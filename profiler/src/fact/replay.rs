//! The state machine from ordered events to facts.

use std::collections::VecDeque;
use std::mem::swap;
use std::time::Duration;

use profiler_common::Loss;
use profiler_common::stack::{FLAG_IN_KERNEL, FLAG_USER_REGS};
use rustc_hash::FxHashMap;

use super::jit::JitIndex;
use super::marker_file::ProgramMarker;
use super::resolved::{Resolved, SampleStacks};
use super::stack_ends::Tally;
use super::walks::Dictionary;
use super::{
    FactSink, FrameId, FrameName, Mark, MarkKind, ProcessId, SampleFact, SourceFrame, StackId, Tables, ThreadId,
    TruncationReason,
};
use crate::addr::{Avma, KernelOffset, Timestamp};
use crate::event::{At, End, Event, Sample, Stacks, TaskExit};
use crate::task::{Happening, Tasks};
use crate::unwind::{Interner, JitFunction, Known, Mapped, Place, RawFrame, Walked, Walker};

/// Distinct stacks that are kept: some hundred times those of an hour of a browser. Later ones are cut to nothing.
const MAX_STACKS: usize = 1 << 26;

/// What stands beside the stream of events in a log.
#[derive(Default)]
pub struct Beside {
    /// Start and name of the kernel function around an address; around a return address, by the address before it.
    pub kernel: FxHashMap<KernelOffset, (KernelOffset, String)>,
    /// Names of code made at run time.
    pub jit: JitIndex,
    /// Markers of the program's own, by start.
    pub markers: VecDeque<ProgramMarker>,
    /// What was unwound and named before.
    pub resolved: Option<Resolved>,
}

/// Facts under construction.
pub struct Replay<'b, 's> {
    /// What facts refer to; processes and threads are with `tasks`, except while the sink looks.
    tables: Tables,
    tasks: Tasks,
    walker: Walker<'b>,
    interner: Interner,
    beside: Beside,
    ends: Tally,
    /// Stacks that the kernel side sent.
    dictionary: Dictionary,
    /// Which stack each sample has.
    samples: SampleStacks,
    /// Last value of each loss counter.
    losses: FxHashMap<u32, u64>,
    /// Markers of processes that the log does not know.
    strangers: u64,
    sink: &'s mut dyn FactSink,
}

impl<'b, 's> Replay<'b, 's> {
    /// Begins with what is known of the recording.
    pub fn new(mut tables: Tables, walker: Walker<'b>, mut beside: Beside, sink: &'s mut dyn FactSink) -> Self {
        if let Some(resolved) = &mut beside.resolved {
            let recording = std::mem::take(&mut tables.recording);
            tables = Tables {
                recording,
                ..std::mem::take(&mut resolved.tables)
            };
        }
        Self {
            tasks: Tasks::new(tables.recording.start),
            interner: Interner::of(&tables),
            tables,
            walker,
            beside,
            ends: Tally::default(),
            dictionary: Dictionary::default(),
            samples: SampleStacks::default(),
            losses: FxHashMap::default(),
            strangers: 0,
            sink,
        }
    }

    /// Takes the next event, in order.
    pub fn event(&mut self, event: &Event<'_>) {
        let time = match event {
            Event::Sample(sample) => sample.at.time,
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
            Event::UserStack(stack) => {
                self.dictionary.user(stack);
                return;
            }
            Event::KernelStack(stack) => {
                self.dictionary.kernel(stack);
                return;
            }
            _ => return,
        };
        self.markers_until(time);
        let recording = &mut self.tables.recording;
        recording.end = recording.end.max(time);
        if let Event::Sample(sample) = event {
            self.sample(sample);
            return;
        }
        if let Event::TaskExit(TaskExit { cpu_time, .. }) | Event::TaskAlive { cpu_time, .. } = event {
            recording.cpu_time_seen = recording.cpu_time_seen.saturating_add(*cpu_time);
        }
        if let Some(happening) = self.tasks.apply(event) {
            self.happened(happening, time);
        }
    }

    /// Nothing more comes: the finished tables, the samples' stacks, and the last value of each loss counter.
    pub fn finish(mut self) -> (Tables, SampleStacks, FxHashMap<u32, u64>) {
        self.markers_until(Timestamp(u64::MAX));
        if self.strangers > 0 {
            let note = format!(
                "{} markers are of processes that were not recorded; they are left out",
                self.strangers
            );
            self.tables.recording.notes.push(note);
        }
        if self.dictionary.missing() > 0 {
            self.losses.insert(Loss::StackUnknown as u32, self.dictionary.missing());
        }
        self.tables.recording.walks = self.dictionary.finish();
        self.tables.processes = self.tasks.processes;
        self.tables.threads = self.tasks.threads;
        self.tables.recording.stack_ends = self.ends.finish(&self.tables);
        (self.tables, self.samples, self.losses)
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
                let status = self.tasks.processes[process.index()].exit_code.unwrap_or_default();
                (process, MarkKind::ProcessExit { status })
            }
        };
        let thread = self.main_thread(process, time);
        self.mark(&Mark {
            start: time,
            end: None,
            thread,
            stack: None,
            kind,
        });
    }

    /// The first thread of a process, which may not have been seen.
    fn main_thread(&mut self, process: ProcessId, time: Timestamp) -> ThreadId {
        let record = &self.tasks.processes[process.index()];
        let pid = record.pid;
        record
            .main_thread
            .unwrap_or_else(|| self.tasks.thread_at(&At { time, pid, tid: pid }))
    }

    /// Hands out the program's own markers that began by now.
    fn markers_until(&mut self, time: Timestamp) {
        while let Some(marker) = self.beside.markers.pop_front_if(|marker| marker.start <= time) {
            let last = marker.end.unwrap_or(marker.start);
            if last < self.tables.recording.start {
                continue;
            }
            let Some(process) = self.tasks.process_of(marker.pid) else {
                self.strangers += 1;
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
        let stack = self.stack_of(&sample.at, thread, &sample.stacks);
        let recording = &mut self.tables.recording;
        recording.samples_seen += 1;
        recording.cpu_time_seen = recording.cpu_time_seen.saturating_add(sample.cpu_time);
        let fact = SampleFact {
            time: sample.at.time,
            thread,
            stack,
            cpu_time: Duration::from_nanos(sample.cpu_time),
            in_kernel: sample.stacks.flags & FLAG_IN_KERNEL != 0,
            weight: 1,
        };
        self.show_tasks();
        self.sink.sample(&self.tables, &fact);
        self.show_tasks();
    }

    /// The stack of an event, as it was found before or anew.
    fn stack_of(&mut self, at: &At, thread: ThreadId, stacks: &Stacks<'_>) -> Option<StackId> {
        // Without user registers it is a kernel thread, or one that has none any more.
        let walked = if stacks.flags & FLAG_USER_REGS == 0 {
            None
        } else {
            self.dictionary.user_of(stacks)
        };
        let known = self
            .beside
            .resolved
            .as_mut()
            .and_then(|known| known.stack(at.time, at.tid));
        let stack = match known {
            Some(stack) => stack,
            None => self.stack(
                at,
                stacks,
                self.tasks.threads[thread.index()].process,
                walked.as_deref(),
            ),
        };
        self.samples.push(at.time, at.tid, stack);
        if let Some(stack) = stack {
            self.ends.count(&self.tables, stack);
        }
        stack
    }

    /// User frames, and the kernel's on top of them.
    fn stack(&mut self, at: &At, stacks: &Stacks<'_>, process: ProcessId, walked: Option<&Walked>) -> Option<StackId> {
        if self.tables.stacks.len() >= MAX_STACKS {
            return Some(self.interner.truncated(&mut self.tables, TruncationReason::Limit));
        }
        let mut stack = None;
        if stacks.flags & FLAG_USER_REGS != 0 {
            let mapped = Mapped {
                tasks: &self.tasks,
                process,
            };
            let walk = self.walker.stack(mapped, stacks, walked);
            if let Some(walked) = walked {
                self.dictionary.check(stacks, walked, &walk);
            }
            if let Err(reason) = walk.end {
                stack = Some(self.interner.truncated(&mut self.tables, reason));
            }
            for raw in walk.frames.iter().rev() {
                let frame = self.user_frame(at, process, raw);
                stack = Some(self.interner.stack(&mut self.tables, stack, frame));
            }
        }
        let kernel = self.dictionary.kernel_of(stacks);
        for (depth, offset) in kernel.as_deref().unwrap_or_default().iter().enumerate().rev() {
            let frame = self.kernel_frame(*offset, depth > 0);
            stack = Some(self.interner.stack(&mut self.tables, stack, frame));
        }
        stack
    }

    fn user_frame(&mut self, at: &At, process: ProcessId, raw: &RawFrame) -> FrameId {
        let back = u64::from(raw.is_return_address);
        let found = match raw.place {
            Place::MadeAtRunTime(_) => self
                .beside
                .jit
                .lookup(at.pid, Avma(raw.address.0.wrapping_sub(back)), at.time),
            _ => None,
        };
        let jit = found.as_ref().map(|found| JitFunction {
            start: found.start(),
            code: found.code(),
        });
        let mut known = Known {
            modules: &mut self.walker.modules,
            files: &self.tasks.files,
        };
        let frame = self
            .interner
            .user_frame(&mut self.tables, &mut known, process, raw, jit);
        if let Some(found) = found {
            self.tables.names.entry(frame).or_insert_with(|| found.name());
        }
        frame
    }

    fn kernel_frame(&mut self, offset: KernelOffset, is_return_address: bool) -> FrameId {
        let distinct = self.tables.frames.len();
        let frame = self.interner.kernel_frame(&mut self.tables, offset, is_return_address);
        if self.tables.frames.len() == distinct {
            return frame;
        }
        // A call that never returns may be its function's last instruction: the address behind it is another function's. Early
        // logs name only the address itself.
        let call = KernelOffset(offset.0.wrapping_sub(u64::from(is_return_address)));
        let kernel = &self.beside.kernel;
        let known = kernel
            .get(&call)
            .or_else(|| kernel.get(&offset).filter(|(start, _)| *start != offset));
        if let Some((start, name)) = known {
            let source = SourceFrame {
                function: name.clone(),
                file: None,
                line: None,
            };
            let symbol = name.clone();
            let inline_chain = vec![source];
            self.tables.names.insert(
                frame,
                FrameName {
                    symbol,
                    symbol_start: start.0,
                    symbol_size: None,
                    inline_chain,
                },
            );
        }
        frame
    }
}
