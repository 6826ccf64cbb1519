//! `repeat-log LOG FILE TIMES`: writes a log that repeats the events of LOG, as a recording of
//! TIMES times the length would contain them.
//!
//! Each repetition has different processes, threads, walks and temporary files; programs, libraries
//! and the permanent files of the machine stay the same.

use std::collections::HashSet;
use std::fs::File;
use std::process::ExitCode;

use profiler::addr::Timestamp;
use profiler::event::format::ChunkKind;
use profiler::event::read::LogReader;
use profiler::event::write::LogWriter;
use profiler::event::{At, Event, FileId, Stacks};

/// The pause between two repetitions, in ns, after which everything still open has ended.
const PAUSE: u64 = 15_000_000_000;
/// Pids are below 2²² (`PID_MAX_LIMIT` of linux/threads.h).
const PID_BITS: u32 = 22;
/// Inode numbers of temporary files are below 2⁴⁸.
const INODE_BITS: u32 = 48;
/// Changes the keys of stacks; it is odd, which makes those of each repetition distinct.
const KEYS: u64 = 0x9e37_79b9_7f4a_7c15;
/// The folders of files that stay the same in each repetition.
const FOR_GOOD: [&[u8]; 6] = [b"/usr/", b"/lib", b"/etc/", b"/bin/", b"/opt/", b"/var/"];

fn main() -> std::io::Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [log, file, times] = words.as_slice() else {
        eprintln!("repeat-log LOG FILE TIMES: TIMES is 1 to 256");
        return Ok(ExitCode::from(2));
    };
    let Some(times) = times.parse().ok().filter(|times| (1..=256).contains(times)) else {
        eprintln!("repeat-log: TIMES is 1 to 256");
        return Ok(ExitCode::from(2));
    };
    let mut reader = LogReader::new(File::open(log)?)?;
    let Some(header) = reader.header().cloned() else {
        eprintln!("repeat-log: the log has no header");
        return Ok(ExitCode::FAILURE);
    };
    let mut out = LogWriter::new(File::create(file)?, &header)?;
    let (mut last, mut for_good) = (header.start, HashSet::new());
    let mut run = reader.events(&[ChunkKind::Events]);
    while let Some(event) = run.next_event()? {
        match &event {
            Event::Mapping(mapping) => note(&mut for_good, mapping.file, &mapping.path),
            Event::FileName(name) => note(&mut for_good, name.file, &name.path),
            Event::Watermark(time) => last = last.max(*time),
            Event::End(end) => last = last.max(end.time),
            _ => {}
        }
    }
    let length = last.0 - header.start.0 + PAUSE;
    for number in 0..times {
        let again = Again {
            number,
            time: length * number,
            for_good: &for_good,
        };
        let mut run = reader.events(&[ChunkKind::Events]);
        while let Some(mut event) = run.next_event()? {
            if matches!(event, Event::End(_) | Event::DeviceName(_)) && number + 1 < times {
                continue;
            }
            again.event(&mut event);
            out.event(&event)?;
        }
    }
    let preamble = [
        ChunkKind::KernelSymbols,
        ChunkKind::Module,
        ChunkKind::Attachment,
        ChunkKind::Cost,
        ChunkKind::Owners,
        ChunkKind::Usage,
        ChunkKind::Resolved,
    ];
    let mut run = reader.events(&preamble);
    while let Some(event) = run.next_event()? {
        out.event(&event)?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn note(for_good: &mut HashSet<FileId>, file: FileId, path: &[u8]) {
    if FOR_GOOD.iter().any(|start| path.starts_with(start)) && !path.ends_with(b" (deleted)") {
        for_good.insert(file);
    }
}

/// Changes the events for one repetition.
struct Again<'a> {
    number: u64,
    /// How much later this repetition is, in ns.
    time: u64,
    for_good: &'a HashSet<FileId>,
}

impl Again<'_> {
    fn time(&self, time: &mut Timestamp) {
        time.0 = time.0.saturating_add(self.time);
    }

    fn id(&self, id: &mut u32) {
        if *id != 0 {
            *id += u32::try_from(self.number << PID_BITS).unwrap_or(0);
        }
    }

    fn at(&self, at: &mut At) {
        self.time(&mut at.time);
        self.id(&mut at.pid);
        self.id(&mut at.tid);
    }

    fn file(&self, file: &mut FileId) {
        if file.inode != 0 && !self.for_good.contains(file) {
            file.inode = file.inode.wrapping_add(self.number << INODE_BITS);
        }
    }

    fn key(&self, key: &mut u64) {
        if *key != 0 {
            *key ^= self.number.wrapping_mul(KEYS);
        }
    }

    fn stacks(&self, stacks: &mut Stacks<'_>) {
        self.key(&mut stacks.user);
    }

    fn event(&self, event: &mut Event<'_>) {
        match event {
            Event::TaskNew(task) => {
                self.at(&mut task.at);
                self.id(&mut task.parent.0);
                self.id(&mut task.parent.1);
            }
            Event::TaskExec(exec) => {
                self.at(&mut exec.at);
                self.id(&mut exec.old_tid);
            }
            Event::TaskExit(exit) => self.at(&mut exit.at),
            Event::TaskAlive { at, .. } | Event::TaskRename { at, .. } => self.at(at),
            Event::Mapping(mapping) => {
                self.at(&mut mapping.at);
                self.file(&mut mapping.file);
            }
            Event::UserStack(stack) => self.key(&mut stack.key),
            Event::Sample(sample) => {
                self.at(&mut sample.at);
                self.stacks(&mut sample.stacks);
            }
            Event::StackAhead(ahead) => {
                self.at(&mut ahead.at);
                self.stacks(&mut ahead.stacks);
            }
            Event::CallPath(path) => self.at(&mut path.at),
            Event::FileName(name) => self.file(&mut name.file),
            Event::Watermark(time) => self.time(time),
            Event::End(end) => self.time(&mut end.time),
            event => self.fact(event),
        }
    }

    fn fact(&self, event: &mut Event<'_>) {
        match event {
            Event::Fault(fault) => {
                self.at(&mut fault.at);
                fault.start.iter_mut().for_each(|start| self.time(start));
                if let Some(file) = fault.vma.as_mut().and_then(|vma| vma.file.as_mut()) {
                    self.file(&mut file.file);
                }
                self.stacks(&mut fault.stacks);
            }
            Event::PagesRead(pages) => {
                self.at(&mut pages.at);
                self.time(&mut pages.since);
                self.file(&mut pages.file);
            }
            Event::PagesPopulated(pages) => self.at(&mut pages.at),
            Event::Wait(wait) => {
                self.at(&mut wait.at);
                self.time(&mut wait.out);
                self.time(&mut wait.end);
                if let Some(open) = wait.call.as_mut().and_then(|call| call.file.as_mut()) {
                    self.file(&mut open.file);
                }
                if let Some(waker) = &mut wait.waker {
                    self.time(&mut waker.time);
                    self.id(&mut waker.pid);
                    self.id(&mut waker.tid);
                    self.key(&mut waker.user);
                }
                self.stacks(&mut wait.stacks);
            }
            Event::Bio(bio) => {
                self.at(&mut bio.at);
                bio.file.iter_mut().for_each(|file| self.file(file));
            }
            Event::Request(request) => {
                self.at(&mut request.at);
                let times = [&mut request.queued, &mut request.inserted, &mut request.issued];
                times.into_iter().flatten().for_each(|time| self.time(time));
            }
            _ => {}
        }
    }
}
