//! The event log as a source of facts: read, put in order, unwound, interned. Exact, and of any size.

use std::io::{Read, Seek};
use std::time::Duration;

use anyhow::Result;
use profiler_common::Loss;
use profiler_common::sample::FLAG_IN_KERNEL;
use rustc_hash::FxHashMap;

use super::intern::Interner;
use super::jit::JitIndex;
use super::places::{self, Places};
use super::{FactSink, FactSource, Mark, MarkKind, Recording, SampleFact, StackEnds, Tables, markers};
use crate::addr::Timestamp;
use crate::event::format::ChunkKind;
use crate::event::order::Order;
use crate::event::read::LogReader;
use crate::event::{Attachment, AttachmentKind, End, Event, Header, Sample};
use crate::task::{Happening, Tasks};
use crate::unwind::{Binaries, RawFrame, Walker};

/// Reads a log as facts.
pub struct LogSource<'a, R> {
    reader: LogReader<R>,
    binaries: &'a dyn Binaries,
    progress: Box<dyn FnMut(u64) + 'a>,
}

impl<'a, R: Read + Seek> LogSource<'a, R> {
    /// A source that unwinds with `binaries`.
    pub fn new(reader: LogReader<R>, binaries: &'a dyn Binaries) -> Self {
        Self {
            reader,
            binaries,
            progress: Box::new(|_| {}),
        }
    }

    /// Calls `progress` now and then with the bytes that are read.
    pub fn on_progress(&mut self, progress: impl FnMut(u64) + 'a) {
        self.progress = Box::new(progress);
    }

    fn attachments(&mut self) -> Result<Vec<Attachment>> {
        let mut attachments = Vec::new();
        let mut events = self.reader.events(&[ChunkKind::Attachment]);
        while let Some(event) = events.next_event()? {
            if let Event::Attachment(attachment) = event {
                attachments.push(attachment);
            }
        }
        Ok(attachments)
    }
}

impl<R: Read + Seek> FactSource for LogSource<'_, R> {
    fn replay(&mut self, sink: &mut dyn FactSink) -> Result<Tables> {
        let header = self.reader.header().cloned();
        let mut replay = Replay::new(header.as_ref(), self.binaries);
        let attachments = self.attachments()?;
        attachments.iter().for_each(|attachment| replay.jit.add(attachment));
        let mut order = Order::default();
        let mut events = self.reader.events(&[ChunkKind::Events, ChunkKind::KernelSymbols]);
        while let Some(event) = events.next_event()? {
            order.push(event);
            while let Some(event) = order.pop() {
                replay.take(event, sink);
            }
            (self.progress)(events.position());
        }
        order.finish();
        while let Some(event) = order.pop() {
            replay.take(event, sink);
        }
        replay.markers(&attachments, sink);
        replay.losses.insert(Loss::EventLate as u32, order.late());
        replay
            .losses
            .insert(Loss::LogDamaged as u32, self.reader.damaged_chunks());
        Ok(replay.finish())
    }
}

/// The state of a replay.
struct Replay<'a> {
    tasks: Tasks,
    tables: Tables,
    interner: Interner,
    places: Places<'a>,
    walker: Walker,
    jit: JitIndex,
    losses: FxHashMap<u32, u64>,
    ends: FxHashMap<(String, Option<super::TruncationReason>), u64>,
    frames: Vec<RawFrame>,
    last: Timestamp,
    bad_lines: u64,
}

impl<'a> Replay<'a> {
    fn new(header: Option<&Header>, binaries: &'a dyn Binaries) -> Self {
        let mut tables = Tables::default();
        let recording = &mut tables.recording;
        match header {
            Some(header) => from_header(recording, header),
            None => recording
                .notes
                .push("the log's header is damaged: command, rate and clock are unknown".to_owned()),
        }
        let start = recording.start;
        Self {
            tasks: Tasks::new(start),
            tables,
            interner: Interner::default(),
            places: Places::new(binaries),
            walker: Walker::new(),
            jit: JitIndex::default(),
            losses: FxHashMap::default(),
            ends: FxHashMap::default(),
            frames: Vec::new(),
            last: start,
            bad_lines: 0,
        }
    }

    fn take(&mut self, event: Event<'_>, sink: &mut dyn FactSink) {
        match event {
            Event::Sample(sample) => self.sample(&sample, sink),
            Event::Loss { loss, count } => {
                self.losses.insert(loss, count);
            }
            Event::KernelSymbol { offset, start, name } => {
                self.interner
                    .kernel_symbol(offset, start, String::from_utf8_lossy(&name).into_owned());
            }
            Event::End(end) => self.end(end),
            other => {
                let happening = self.tasks.apply(&other);
                let time = time_of(&other);
                self.last = self.last.max(time);
                if let Some(happening) = happening {
                    self.mark(happening, time, sink);
                }
            }
        }
    }

    fn end(&mut self, end: End) {
        self.last = self.last.max(end.time);
        self.tables.recording.end_reason = Some(end.reason);
        self.tables.recording.command_status = end.status;
    }

    fn sample(&mut self, sample: &Sample<'_>, sink: &mut dyn FactSink) {
        let thread = self.tasks.thread_at(&sample.at);
        let process = self.tasks.threads[thread.index()].process;
        self.sync_tables();
        let mut frames = std::mem::take(&mut self.frames);
        let mut space = self.places.space(&self.tasks, process, &mut self.tables);
        let ended = self.walker.walk(&mut space, sample, &mut frames);
        let is_user = sample.flags & profiler_common::sample::FLAG_USER_REGS != 0;
        let mut parent = None;
        if is_user {
            if let Err(reason) = ended {
                parent = Some(self.interner.truncated(&mut self.tables, reason));
            }
            let when = (sample.at.pid, sample.at.time);
            for (index, frame) in frames.iter().enumerate().rev() {
                let named = self
                    .places
                    .location(&self.tasks, process, &mut self.tables, &self.jit, when, *frame);
                if index + 1 == frames.len() {
                    let module = places::module_name(&self.tables, &named.location);
                    *self.ends.entry((module, ended.err())).or_default() += 1;
                }
                parent = Some(
                    self.interner
                        .push(&mut self.tables, parent, named, frame.is_return_address),
                );
            }
        }
        for (depth, offset) in sample.kernel.iter().enumerate().rev() {
            let location = self.places.kernel(&mut self.tables, *offset);
            parent = Some(self.interner.push(&mut self.tables, parent, location.into(), depth > 0));
        }
        self.frames = frames;
        self.last = self.last.max(sample.at.time);
        self.tables.recording.samples_seen += 1;
        self.tables.recording.cpu_time_seen += sample.cpu_time;
        let fact = SampleFact {
            time: sample.at.time,
            thread,
            stack: parent,
            cpu_time: Duration::from_nanos(sample.cpu_time),
            in_kernel: sample.flags & FLAG_IN_KERNEL != 0,
            weight: 1,
        };
        sink.sample(&self.tables, &fact);
    }

    /// Brings the tables' tasks up to what the task layer knows: new lives only, the rest at the end.
    fn sync_tables(&mut self) {
        let (processes, threads) = (self.tables.processes.len(), self.tables.threads.len());
        self.tables
            .processes
            .extend_from_slice(&self.tasks.processes[processes..]);
        self.tables.threads.extend_from_slice(&self.tasks.threads[threads..]);
    }

    fn mark(&mut self, happening: Happening, time: Timestamp, sink: &mut dyn FactSink) {
        let (Happening::Start(id) | Happening::Exec(id) | Happening::Exit(id)) = happening;
        let process = &self.tasks.processes[id.index()];
        let Some(thread) = process.main_thread else { return };
        let kind = match happening {
            Happening::Start(_) => MarkKind::ProcessStart,
            Happening::Exec(_) => MarkKind::Exec {
                path: process.path.clone(),
                command_line: process.command_line.clone(),
            },
            Happening::Exit(_) => MarkKind::ProcessExit {
                status: process.exit_code.unwrap_or(0),
            },
        };
        self.sync_tables();
        sink.mark(
            &self.tables,
            &Mark {
                start: time,
                end: None,
                thread,
                stack: None,
                kind,
            },
        );
    }

    /// Markers that the programs wrote, on the main thread of the process that wrote them.
    fn markers(&mut self, attachments: &[Attachment], sink: &mut dyn FactSink) {
        self.sync_tables();
        for file in attachments.iter().filter(|file| file.kind == AttachmentKind::Markers) {
            let (found, bad) = markers::parse(&file.bytes);
            self.bad_lines += bad;
            let process = self.tasks.process_of(file.pid);
            let Some(thread) = process.and_then(|id| self.tasks.processes[id.index()].main_thread) else {
                continue;
            };
            let start = self.tables.recording.start;
            for marker in found
                .into_iter()
                .filter(|marker| marker.end.unwrap_or(marker.start) >= start)
            {
                self.last = self.last.max(
                    marker
                        .end
                        .unwrap_or(marker.start)
                        .min(Timestamp(self.last.0 + 1_000_000_000)),
                );
                let kind = MarkKind::Program { text: marker.name };
                let mark = Mark {
                    start: marker.start.max(start),
                    end: marker.end,
                    thread,
                    stack: None,
                    kind,
                };
                sink.mark(&self.tables, &mark);
            }
        }
    }

    fn finish(mut self) -> Tables {
        self.interner.name_kernel(&mut self.tables);
        self.tables.processes = std::mem::take(&mut self.tasks.processes);
        self.tables.threads = std::mem::take(&mut self.tasks.threads);
        let recording = &mut self.tables.recording;
        recording.end = self.last;
        recording.sample_thinning = 1;
        recording.cpu_time_seen += self
            .tables
            .threads
            .iter()
            .map(|t| t.cpu_time_after_last_sample)
            .sum::<u64>();
        let mut losses: Vec<(u32, u64)> = self.losses.into_iter().filter(|(_, count)| *count > 0).collect();
        losses.sort_unstable();
        recording.losses = losses
            .into_iter()
            .map(|(loss, count)| {
                (
                    Loss::from_number(loss).map_or("unknown loss", Loss::name).to_owned(),
                    count,
                )
            })
            .collect();
        recording.stack_ends = self
            .ends
            .into_iter()
            .map(|((module, reason), samples)| StackEnds {
                module,
                reason,
                samples,
            })
            .collect();
        recording
            .stack_ends
            .sort_by(|a, b| (b.samples, &a.module, a.reason).cmp(&(a.samples, &b.module, b.reason)));
        for (what, count) in [("markers", self.bad_lines), ("JIT code maps", self.jit.bad)] {
            if count > 0 {
                recording.notes.push(format!(
                    "{count} lines of the program's {what} could not be read and were left out"
                ));
            }
        }
        self.tables
    }
}

fn from_header(recording: &mut Recording, header: &Header) {
    recording.ngmi_version.clone_from(&header.ngmi_version);
    recording.command.clone_from(&header.command);
    recording.scope.clone_from(&header.scope);
    recording.start = header.start;
    recording.start_unix_ms = header.start_unix_ms;
    recording.kernel.clone_from(&header.kernel);
    recording.arch.clone_from(&header.arch);
    recording.cpus = header.cpus;
    recording.sample_hz = header.sample_hz;
    recording.sample_event.clone_from(&header.sample_event);
    recording.stack_copy = header.stack_copy;
    recording.hooks.clone_from(&header.hooks);
}

fn time_of(event: &Event<'_>) -> Timestamp {
    match event {
        Event::TaskNew(task) if task.existed => Timestamp(0),
        Event::TaskNew(task) => task.at.time,
        Event::TaskExec(exec) if exec.existed => Timestamp(0),
        Event::TaskExec(exec) => exec.at.time,
        Event::TaskExit(exit) => exit.at.time,
        Event::TaskRename { at, .. } | Event::Remap { at, .. } => at.time,
        Event::Mapping(mapping) => mapping.at.time,
        _ => Timestamp(0),
    }
}
