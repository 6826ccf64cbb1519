//! Encodes events for a chunk's payload; `decode` is the inverse.

mod block;
pub mod switch;

use profiler_common::fault::Waits;
use profiler_common::numbered;
use profiler_common::stack::{FLAG_CHECK, FLAG_USER_REGS, FLAG_WALK_COMPLETE};

use super::bytes::{Malformed, put, put_bytes, put_difference};
use super::fields::{Record, Stored, bits, put_thread};
use super::format::{MAX_FRAMES, MAX_STACK, MAX_TEXT};
use super::stack_copy::Picture;
use super::{At, Attempts, End, Event, Fault, MAX_ORDER, OtherFaults, PagesRead, Sample, StackAhead, Stacks};
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
            Event::TaskNew(task) => self.record(out, Tag::TaskNew, task),
            Event::TaskExec(exec) => self.record(out, Tag::TaskExec, exec),
            Event::TaskExit(exit) => self.record(out, Tag::TaskExit, exit),
            Event::TaskAlive { at, cpu_time } => {
                self.at(out, Tag::TaskAlive, at);
                cpu_time.put(out);
            }
            Event::TaskRename { at, name } => {
                self.at(out, Tag::TaskRename, at);
                name.put(out);
            }
            Event::Mapping(mapping) => self.record(out, Tag::Mapping, mapping),
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
            Event::PagesPopulated(pages) => self.record(out, Tag::PagesPopulated, pages),
            Event::Wait(wait) => return self.wait(out, wait),
            Event::StackAhead(stack) => return self.stack_ahead(out, stack),
            Event::CallPath(path) => self.record(out, Tag::CallPath, path),
            Event::FileName(name) => switch::file_name(out, name),
            Event::Bio(bio) => self.bio(out, bio),
            Event::Request(request) => self.request(out, request),
            Event::DeviceName(name) => {
                out.push(Tag::DeviceName as u8);
                name.put(out);
            }
            Event::Loss { loss, count } => {
                out.push(Tag::Loss as u8);
                loss.put(out);
                count.put(out);
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
        put_thread(out, (at.pid, at.tid));
    }

    fn record(&mut self, out: &mut Vec<u8>, tag: Tag, record: &impl Record) {
        self.at(out, tag, record.at());
        record.put(out);
    }

    fn sample(&mut self, out: &mut Vec<u8>, sample: &Sample<'_>) -> Result<(), Malformed> {
        self.at(out, Tag::Sample, &sample.at);
        sample.cpu.put(out);
        sample.cpu_time.put(out);
        self.stacks(out, sample.at.pid, &sample.stacks)
    }

    fn stacks(&mut self, out: &mut Vec<u8>, pid: u32, stacks: &Stacks<'_>) -> Result<(), Malformed> {
        stacks.flags.put(out);
        out.extend(stacks.user.to_le_bytes());
        // Most events occur in user mode and have none.
        stacks.kernel.put(out);
        if has_registers(stacks.flags) {
            stacks.regs.put(out);
        }
        let copy = &stacks.copy[..stacks.copy.len().min(MAX_STACK)];
        self.picture.encode(out, pid, copy_start(stacks), copy)
    }

    fn fault(&mut self, out: &mut Vec<u8>, fault: &Fault<'_>) -> Result<(), Malformed> {
        self.at(out, Tag::Fault, &fault.at);
        fault.cpu.put(out);
        fault.flags.put(out);
        put_difference(out, self.address, fault.address.0);
        self.address = fault.address.0;
        put_difference(out, fault.at.time.0, fault.start.unwrap_or(fault.at.time).0);
        let file = fault.vma.and_then(|vma| vma.file);
        let waits = Some(fault.waits).filter(|waits| *waits != Waits::default());
        let attempts = Some(fault.attempts).filter(|attempts| *attempts != Attempts::default());
        let read_and_signal = Some((fault.read, fault.signal)).filter(|numbers| *numbers != (0, 0));
        let others = Some(fault.others).filter(|others| *others != OtherFaults::default());
        out.push(bits([
            fault.start.is_some(),
            fault.vma.is_some(),
            file.is_some(),
            waits.is_some(),
            attempts.is_some(),
            read_and_signal.is_some(),
            fault.mapped.is_some(),
            others.is_some(),
        ]));
        put_present(out, fault.vma.map(|vma| vma.flags));
        put_present(out, file);
        put_present(out, waits);
        put_present(out, attempts);
        if let Some(numbers) = read_and_signal {
            // Up to version 6, a range of pages.
            out.extend([0, 0]);
            numbers.put(out);
        }
        if let Some(mapped) = fault.mapped {
            put_block(out, mapped);
        }
        put_present(out, others);
        self.stacks(out, fault.at.pid, &fault.stacks)
    }

    fn pages_read(&mut self, out: &mut Vec<u8>, pages: &PagesRead) {
        self.at(out, Tag::PagesRead, &pages.at);
        put_difference(out, pages.at.time.0, pages.since.0);
        pages.file.put(out);
        pages.first.put(out);
        pages.count.put(out);
        let order = pages.order.map_or(0, |order| order.min(MAX_ORDER) + 1);
        out.push(u8::from(pages.in_fault) | order << 1);
    }

    fn end(&mut self, out: &mut Vec<u8>, end: &End) {
        out.push(Tag::End as u8);
        self.time(out, end.time.0);
        end.reason.put(out);
        end.status.put(out);
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

/// Appends a value whose presence the decoder knows.
fn put_present(out: &mut Vec<u8>, value: Option<impl Stored>) {
    if let Some(value) = value {
        value.put(out);
    }
}

/// Appends a kernel symbol to a chunk of kernel symbols.
pub fn kernel_symbol(out: &mut Vec<u8>, offset: KernelOffset, start: KernelOffset, name: &[u8]) {
    put(out, offset.0);
    put_difference(out, offset.0, start.0);
    put_bytes(out, name, MAX_TEXT);
}
