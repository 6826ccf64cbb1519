//! Events to the bytes of a chunk's payload; `decode` is the mirror image.

use profiler_common::sample::{FLAG_CHECK, FLAG_USER_REGS, FLAG_WALK_COMPLETE};

use super::bytes::{Malformed, put, put_bytes, put_difference};
use super::format::{MAX_FRAMES, MAX_STACK, MAX_TEXT};
use super::stack_copy::Picture;
use super::{At, End, Event, Mapping, Sample, TaskExec, TaskExit, TaskNew};
use crate::addr::KernelOffset;

/// First byte of each event in an Events chunk.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
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
    // 6 was the move of a mapping, which was never written: no other event may take its number.
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
}

impl Tag {
    /// The tag with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        use Tag::{
            End, KernelStack, Loss, Mapping, Sample, TaskAlive, TaskExec, TaskExit, TaskNew, TaskRename, UserStack,
            Watermark,
        };
        [
            TaskNew,
            TaskExec,
            TaskExit,
            TaskRename,
            Mapping,
            Sample,
            Loss,
            Watermark,
            End,
            TaskAlive,
            UserStack,
            KernelStack,
        ]
        .into_iter()
        .find(|tag| *tag as u8 == number)
    }
}

/// What the chunk's later events may refer to.
#[derive(Default)]
pub struct Encoder {
    /// Time of the previous event.
    time: u64,
    /// The stacks so far.
    picture: Picture,
}

impl Encoder {
    /// A chunk begins.
    pub fn clear(&mut self) {
        self.time = 0;
        self.picture.clear();
    }

    /// The event's stack fits into this chunk.
    pub fn has_room(&self, event: &Event<'_>) -> bool {
        match event {
            Event::Sample(sample) => self.picture.has_room(sample.stack.len().min(MAX_STACK)),
            _ => true,
        }
    }

    /// Appends an event that belongs into an Events chunk; others have chunks of their own and are ignored.
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
            Event::KernelSymbol { .. } | Event::Module(_) | Event::Attachment(_) | Event::Resolved(_) => {}
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
    }

    fn mapping(&mut self, out: &mut Vec<u8>, mapping: &Mapping) {
        self.at(out, Tag::Mapping, &mapping.at);
        for value in [mapping.start.0, mapping.len, mapping.offset.0, mapping.file.inode] {
            put(out, value);
        }
        for value in [
            mapping.file.major,
            mapping.file.minor,
            mapping.file.generation,
            mapping.protection,
            mapping.flags,
        ] {
            put(out, u64::from(value));
        }
        put_bytes(out, &mapping.path, MAX_TEXT);
        put_bytes(out, &mapping.build_id, MAX_TEXT);
    }

    fn sample(&mut self, out: &mut Vec<u8>, sample: &Sample<'_>) -> Result<(), Malformed> {
        self.at(out, Tag::Sample, &sample.at);
        put(out, u64::from(sample.cpu));
        put(out, sample.cpu_time);
        put(out, u64::from(sample.flags));
        for key in [sample.user_stack, sample.kernel_stack] {
            out.extend(key.to_le_bytes());
        }
        if has_registers(sample.flags) {
            let regs = &sample.regs;
            for value in [regs.ip, regs.sp, regs.fp, regs.lr] {
                put(out, value);
            }
        }
        let stack = &sample.stack[..sample.stack.len().min(MAX_STACK)];
        self.picture.encode(out, sample.at.pid, stack_start(sample), stack)
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

/// Registers are kept where they are valid and something is left to unwind.
pub fn has_registers(flags: u32) -> bool {
    flags & FLAG_USER_REGS != 0 && (flags & FLAG_WALK_COMPLETE == 0 || flags & FLAG_CHECK != 0)
}

/// Frames of one stack lie close together.
fn put_frames(out: &mut Vec<u8>, frames: impl ExactSizeIterator<Item = u64>) {
    let count = frames.len().min(MAX_FRAMES);
    put(out, count as u64);
    let mut previous = 0;
    for frame in frames.take(count) {
        put_difference(out, previous, frame);
        previous = frame;
    }
}

/// Where the stack copy begins: without valid registers the place is unknown, and any will do.
pub fn stack_start(sample: &Sample<'_>) -> u64 {
    if has_registers(sample.flags) { sample.regs.sp } else { 0 }
}

/// Appends a kernel symbol to a chunk of kernel symbols.
pub fn kernel_symbol(out: &mut Vec<u8>, offset: KernelOffset, start: KernelOffset, name: &[u8]) {
    put(out, offset.0);
    put_difference(out, offset.0, start.0);
    put_bytes(out, name, MAX_TEXT);
}
