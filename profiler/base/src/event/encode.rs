//! Encodes events for a chunk's payload; `decode` is the inverse.

mod block;
pub mod switch;

use profiler_common::numbered;
use profiler_common::stack::{FLAG_CHECK, FLAG_USER_REGS, FLAG_WALK_COMPLETE};

use super::bytes::{Malformed, put, put_bytes, put_difference};
use super::format::{MAX_FRAMES, MAX_STACK, MAX_TEXT};
use super::stack_copy::Picture;
use super::{
    At, End, Event, Fault, FileId, MAX_ORDER, Mapping, OtherFaults, PagesRead, Sample, StackAhead, Stacks, TaskExec,
    TaskExit, TaskNew,
};
use crate::addr::KernelOffset;
use crate::block_pages::BlockPages;

numbered! {
    /// First byte of each event in an Events chunk.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Tag: u8 {
        /// [`Event::TaskNew`]
        TaskNew = 1,
        /// [`Event::TaskExec`]
        TaskExec = 2,
        /// [`Event::TaskExit`]
        TaskExit = 3,
        /// [`Event::TaskRename`]
        TaskRename = 4,
        /// [`Event::Mapping`]
        Mapping = 5,
        // 6 was the move of a mapping, which was never written; the number must not be reused.
        /// [`Event::Sample`]
        Sample = 7,
        /// [`Event::Loss`]
        Loss = 8,
        /// [`Event::Watermark`]
        Watermark = 9,
        /// [`Event::End`]
        End = 10,
        /// [`Event::TaskAlive`]
        TaskAlive = 11,
        /// [`Event::UserStack`]
        UserStack = 12,
        /// [`Event::KernelStack`]
        KernelStack = 13,
        /// [`Event::Fault`]
        Fault = 14,
        /// [`Event::PagesRead`]
        PagesRead = 15,
        /// [`Event::Wait`]
        Wait = 16,
        /// [`Event::StackAhead`]
        StackAhead = 17,
        /// [`Event::CallPath`]
        CallPath = 18,
        /// [`Event::FileName`]
        FileName = 19,
        /// [`Event::Bio`]
        Bio = 20,
        /// [`Event::Request`]
        Request = 21,
        /// [`Event::DeviceName`]
        DeviceName = 22,
        /// [`Event::FileName`] that events refer to by its number
        NumberedFileName = 23,
        /// [`Event::PagesPopulated`]
        PagesPopulated = 24,
    }
}

/// State that later events of the chunk refer to.
#[derive(Default)]
pub struct Encoder {
    /// Time of the previous event.
    time: u64,
    /// Address of the previous fault.
    address: u64,
    /// The stack memory so far.
    picture: Picture,
}

impl Encoder {
    /// Resets the state for a new chunk.
    pub fn clear(&mut self) {
        (self.time, self.address) = (0, 0);
        self.picture.clear();
    }

    /// Whether the event's stack fits into this chunk.
    pub fn has_room(&self, event: &Event<'_>) -> bool {
        match event {
            Event::Sample(Sample { stacks, .. })
            | Event::Fault(Fault { stacks, .. })
            | Event::StackAhead(StackAhead { stacks, .. }) => self.picture.has_room(stacks.copy.len().min(MAX_STACK)),
            _ => true,
        }
    }

    /// Appends an event of an Events chunk; events with separate chunk kinds are ignored.
    pub fn event(&mut self, out: &mut Vec<u8>, event: &Event<'_>) -> Result<(), Malformed> {
        match event {
            Event::TaskNew(task) => self.task_new(out, task),
            Event::TaskExec(exec) => self.task_exec(out, exec),
            Event::TaskExit(exit) => self.task_exit(out, exit),
            Event::TaskAlive { at, cpu_time } => {
                self.at(out, Tag::TaskAlive, at);
                put(out, *cpu_time);
            }
            Event::TaskRename { at, name } => {
                self.at(out, Tag::TaskRename, at);
                put_bytes(out, name, MAX_TEXT);
            }
            Event::Mapping(mapping) => self.mapping(out, mapping),
            Event::UserStack(stack) => {
                out.push(Tag::UserStack as u8);
                out.extend(stack.key.to_le_bytes());
                out.push(stack.end);
                put_frames(out, stack.frames.iter().copied());
            }
            Event::KernelStack(stack) => {
                out.push(Tag::KernelStack as u8);
                out.extend(stack.key.to_le_bytes());
                put_frames(out, stack.frames.iter().map(|offset| offset.0));
            }
            Event::Sample(sample) => return self.sample(out, sample),
            Event::Fault(fault) => return self.fault(out, fault),
            Event::PagesRead(pages) => self.pages_read(out, pages),
            Event::PagesPopulated(pages) => {
                self.at(out, Tag::PagesPopulated, &pages.at);
                put(out, pages.start.0);
                put(out, pages.len);
            }
            Event::Wait(wait) => return self.wait(out, wait),
            Event::StackAhead(stack) => return self.stack_ahead(out, stack),
            Event::CallPath(path) => self.call_path(out, path),
            Event::FileName(name) => switch::file_name(out, name),
            Event::Bio(bio) => self.bio(out, bio),
            Event::Request(request) => self.request(out, request),
            Event::DeviceName(name) => block::device_name(out, name),
            Event::Loss { loss, count } => {
                out.push(Tag::Loss as u8);
                put(out, u64::from(*loss));
                put(out, *count);
            }
            Event::Watermark(time) => {
                out.push(Tag::Watermark as u8);
                self.time(out, time.0);
            }
            Event::End(end) => self.end(out, end),
            Event::KernelSymbol { .. }
            | Event::Module(_)
            | Event::Attachment(_)
            | Event::Resolved(_)
            | Event::Cost(_)
            | Event::Owners(_)
            | Event::Usage(_) => {}
        }
        Ok(())
    }

    fn time(&mut self, out: &mut Vec<u8>, time: u64) {
        put_difference(out, self.time, time);
        self.time = time;
    }

    fn at(&mut self, out: &mut Vec<u8>, tag: Tag, at: &At) {
        out.push(tag as u8);
        self.time(out, at.time.0);
        put(out, u64::from(at.pid));
        put_difference(out, u64::from(at.pid), u64::from(at.tid));
    }

    fn task_new(&mut self, out: &mut Vec<u8>, task: &TaskNew) {
        self.at(out, Tag::TaskNew, &task.at);
        put(out, u64::from(task.parent.0));
        put(out, u64::from(task.parent.1));
        out.push(u8::from(task.existed));
        put(out, task.clone_flags);
        put_bytes(out, &task.name, MAX_TEXT);
    }

    fn task_exec(&mut self, out: &mut Vec<u8>, exec: &TaskExec) {
        self.at(out, Tag::TaskExec, &exec.at);
        out.push(u8::from(exec.existed));
        put(out, u64::from(exec.old_tid));
        put_bytes(out, &exec.name, MAX_TEXT);
        put_bytes(out, &exec.path, MAX_TEXT);
        put_bytes(out, &exec.command_line, MAX_TEXT);
    }

    fn task_exit(&mut self, out: &mut Vec<u8>, exit: &TaskExit) {
        self.at(out, Tag::TaskExit, &exit.at);
        put(out, u64::from(exit.exit_code));
        for value in [
            exit.cpu_time,
            exit.sum_exec_runtime,
            exit.minor_faults,
            exit.major_faults,
        ] {
            put(out, value);
        }
        out.push(u8::from(exit.faults.is_some()));
        if let Some(counts) = &exit.faults {
            for value in [counts.seen, counts.lost, counts.filtered, counts.failed, counts.before] {
                put(out, value);
            }
        }
    }

    fn mapping(&mut self, out: &mut Vec<u8>, mapping: &Mapping) {
        self.at(out, Tag::Mapping, &mapping.at);
        for value in [mapping.start.0, mapping.len, mapping.offset.0] {
            put(out, value);
        }
        put_file(out, &mapping.file);
        put(out, u64::from(mapping.protection));
        put(out, u64::from(mapping.flags));
        put_bytes(out, &mapping.path, MAX_TEXT);
        put_bytes(out, &mapping.build_id, MAX_TEXT);
    }

    fn sample(&mut self, out: &mut Vec<u8>, sample: &Sample<'_>) -> Result<(), Malformed> {
        self.at(out, Tag::Sample, &sample.at);
        put(out, u64::from(sample.cpu));
        put(out, sample.cpu_time);
        self.stacks(out, sample.at.pid, &sample.stacks)
    }

    fn stacks(&mut self, out: &mut Vec<u8>, pid: u32, stacks: &Stacks<'_>) -> Result<(), Malformed> {
        put(out, u64::from(stacks.flags));
        out.extend(stacks.user.to_le_bytes());
        // Most events occur in user mode and have none.
        put(out, stacks.kernel);
        if has_registers(stacks.flags) {
            let regs = &stacks.regs;
            for value in [regs.ip, regs.sp, regs.fp, regs.lr] {
                put(out, value);
            }
        }
        let copy = &stacks.copy[..stacks.copy.len().min(MAX_STACK)];
        self.picture.encode(out, pid, copy_start(stacks), copy)
    }

    fn fault(&mut self, out: &mut Vec<u8>, fault: &Fault<'_>) -> Result<(), Malformed> {
        self.at(out, Tag::Fault, &fault.at);
        put(out, u64::from(fault.cpu));
        put(out, u64::from(fault.flags));
        put_difference(out, self.address, fault.address.0);
        self.address = fault.address.0;
        put_difference(out, fault.at.time.0, fault.start.unwrap_or(fault.at.time).0);
        let file = fault.vma.and_then(|vma| vma.file);
        let waits = &fault.waits;
        let waited = [waits.lock, waits.disk, waits.blocked, waits.preempted, waits.reclaim];
        let attempts = &fault.attempts;
        let attempts = [attempts.error_code, attempts.asked, attempts.returned, attempts.retries];
        let others = [fault.read, fault.signal];
        let parts = [
            fault.start.is_some(),
            fault.vma.is_some(),
            file.is_some(),
            waited != [0; 5],
            attempts != [0; 4],
            others != [0; 2],
            fault.mapped.is_some(),
            fault.others != OtherFaults::default(),
        ];
        let present = parts.iter().enumerate().map(|(bit, is)| u8::from(*is) << bit).sum();
        out.push(present);
        if let Some(vma) = fault.vma {
            put(out, vma.flags);
        }
        if let Some(file) = file {
            put_file(out, &file.file);
            put(out, file.offset.0);
            put(out, u64::from(file.magic));
            put(out, u64::from(file.mmap_miss));
        }
        if parts[3] {
            for time in waited {
                put(out, time);
            }
        }
        if parts[4] {
            for bits in attempts {
                put(out, u64::from(bits));
            }
        }
        if parts[5] {
            // Up to version 6, a range of pages.
            out.extend([0, 0]);
            for number in others {
                put(out, u64::from(number));
            }
        }
        if let Some(mapped) = fault.mapped {
            put_block(out, mapped);
        }
        if parts[7] {
            put(out, u64::from(fault.others.count));
            put(out, fault.others.time);
        }
        self.stacks(out, fault.at.pid, &fault.stacks)
    }

    fn pages_read(&mut self, out: &mut Vec<u8>, pages: &PagesRead) {
        self.at(out, Tag::PagesRead, &pages.at);
        put_difference(out, pages.at.time.0, pages.since.0);
        put_file(out, &pages.file);
        put(out, pages.first);
        put(out, u64::from(pages.count));
        let order = pages.order.map_or(0, |order| order.min(MAX_ORDER) + 1);
        out.push(u8::from(pages.in_fault) | order << 1);
    }

    fn end(&mut self, out: &mut Vec<u8>, end: &End) {
        out.push(Tag::End as u8);
        self.time(out, end.time.0);
        put_bytes(out, end.reason.as_bytes(), MAX_TEXT);
        match end.status {
            None => out.push(0),
            Some(status) => {
                out.push(1);
                put(out, u64::from(status.cast_unsigned()));
            }
        }
    }
}

/// Registers are stored if they are valid and a part of the stack remains to be unwound.
pub fn has_registers(flags: u32) -> bool {
    flags & FLAG_USER_REGS != 0 && (flags & FLAG_WALK_COMPLETE == 0 || flags & FLAG_CHECK != 0)
}

/// Frames of a stack have similar addresses.
fn put_frames(out: &mut Vec<u8>, frames: impl ExactSizeIterator<Item = u64>) {
    let count = frames.len().min(MAX_FRAMES);
    put(out, count as u64);
    let mut previous = 0;
    for frame in frames.take(count) {
        put_difference(out, previous, frame);
        previous = frame;
    }
}

/// Start of the stack copy: without valid registers it is unknown, and any value works.
pub fn copy_start(stacks: &Stacks<'_>) -> u64 {
    if has_registers(stacks.flags) { stacks.regs.sp } else { 0 }
}

/// Appends the runs of a block's pages: the distance from the one before, and the length.
fn put_block(out: &mut Vec<u8>, pages: BlockPages) {
    put(out, pages.runs().count() as u64);
    let mut end = 0;
    for run in pages.runs() {
        put(out, (run.start - end) as u64);
        put(out, run.len() as u64);
        end = run.end;
    }
}

fn put_file(out: &mut Vec<u8>, file: &FileId) {
    put(out, file.inode);
    for value in [file.major, file.minor, file.generation] {
        put(out, u64::from(value));
    }
}

/// Appends a kernel symbol to a chunk of kernel symbols.
pub fn kernel_symbol(out: &mut Vec<u8>, offset: KernelOffset, start: KernelOffset, name: &[u8]) {
    put(out, offset.0);
    put_difference(out, offset.0, start.0);
    put_bytes(out, name, MAX_TEXT);
}
