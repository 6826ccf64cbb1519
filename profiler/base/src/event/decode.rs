//! Decodes events from a chunk's payload; the inverse of `encode`. The input is untrusted.

mod block;
mod switch;

use std::borrow::Cow;

use super::bytes::{Bytes, Malformed};
use super::encode::{Tag, copy_start, has_registers};
use super::fields::{Record, Stored, get_thread};
use super::format::{MAX_FRAMES, MAX_STACK};
use super::stack_copy::Picture;
use super::{
    At, End, Event, Fault, FaultVma, KernelStack, MAX_ORDER, PagesRead, Sample, StackAhead, Stacks, UserStack,
};
use crate::addr::{Avma, KernelOffset, Timestamp};
use crate::block_pages::{BLOCK, BlockPages, MAX_RUNS};

/// State from earlier events of the chunk.
#[derive(Default)]
pub struct Decoder {
    /// Time of the previous event.
    time: u64,
    /// Address of the previous fault.
    address: u64,
    /// The stack memory so far.
    picture: Picture,
}

impl Decoder {
    /// Resets the state for a new chunk.
    pub fn clear(&mut self) {
        (self.time, self.address) = (0, 0);
        self.picture.clear();
    }

    /// Decodes the next event of an Events chunk.
    pub fn event(&mut self, bytes: &mut Bytes<'_>) -> Result<Event<'static>, Malformed> {
        let tag = Tag::from_number(bytes.byte()?).ok_or(Malformed)?;
        Ok(match tag {
            Tag::Loss => Event::Loss {
                loss: Stored::get(bytes)?,
                count: Stored::get(bytes)?,
            },
            Tag::Watermark => Event::Watermark(self.time(bytes)?),
            Tag::End => Event::End(End {
                time: self.time(bytes)?,
                reason: Stored::get(bytes)?,
                status: Stored::get(bytes)?,
            }),
            Tag::UserStack => Event::UserStack(UserStack {
                key: bytes.get_u64_le()?,
                end: bytes.byte()?,
                frames: Cow::Owned(frames(bytes, |frame| frame)?),
            }),
            Tag::KernelStack => Event::KernelStack(KernelStack {
                key: bytes.get_u64_le()?,
                frames: Cow::Owned(frames(bytes, KernelOffset)?),
            }),
            Tag::FileName => Event::FileName(switch::file_name(bytes, false)?),
            Tag::NumberedFileName => Event::FileName(switch::file_name(bytes, true)?),
            Tag::DeviceName => Event::DeviceName(Stored::get(bytes)?),
            tag => {
                let at = self.at(bytes)?;
                return self.event_of_thread(tag, at, bytes);
            }
        })
    }

    fn event_of_thread(&mut self, tag: Tag, at: At, bytes: &mut Bytes<'_>) -> Result<Event<'static>, Malformed> {
        Ok(match tag {
            Tag::TaskNew => Event::TaskNew(Record::get(at, bytes)?),
            Tag::TaskExec => Event::TaskExec(Record::get(at, bytes)?),
            Tag::TaskExit => Event::TaskExit(Record::get(at, bytes)?),
            Tag::TaskAlive => Event::TaskAlive {
                at,
                cpu_time: Stored::get(bytes)?,
            },
            Tag::TaskRename => Event::TaskRename {
                at,
                name: Stored::get(bytes)?,
            },
            Tag::Mapping => Event::Mapping(Record::get(at, bytes)?),
            Tag::Sample => Event::Sample(self.sample(at, bytes)?),
            Tag::Fault => Event::Fault(self.fault(at, bytes)?),
            Tag::PagesRead => Event::PagesRead(pages_read(at, bytes)?),
            Tag::PagesPopulated => Event::PagesPopulated(Record::get(at, bytes)?),
            Tag::Wait => Event::Wait(self.wait(at, bytes)?),
            Tag::StackAhead => Event::StackAhead(StackAhead {
                at,
                stacks: self.stacks(at.pid, bytes)?,
            }),
            Tag::CallPath => Event::CallPath(Record::get(at, bytes)?),
            Tag::Bio => Event::Bio(block::bio(at, bytes)?),
            Tag::Request => Event::Request(block::request(at, bytes)?),
            Tag::Loss
            | Tag::Watermark
            | Tag::End
            | Tag::UserStack
            | Tag::KernelStack
            | Tag::FileName
            | Tag::NumberedFileName
            | Tag::DeviceName => return Err(Malformed),
        })
    }

    fn time(&mut self, bytes: &mut Bytes<'_>) -> Result<Timestamp, Malformed> {
        self.time = bytes.get_difference(self.time)?;
        Ok(Timestamp(self.time))
    }

    fn at(&mut self, bytes: &mut Bytes<'_>) -> Result<At, Malformed> {
        let time = self.time(bytes)?;
        let (pid, tid) = get_thread(bytes)?;
        Ok(At { time, pid, tid })
    }

    fn sample(&mut self, at: At, bytes: &mut Bytes<'_>) -> Result<Sample<'static>, Malformed> {
        Ok(Sample {
            at,
            cpu: Stored::get(bytes)?,
            cpu_time: Stored::get(bytes)?,
            stacks: self.stacks(at.pid, bytes)?,
        })
    }

    fn stacks(&mut self, pid: u32, bytes: &mut Bytes<'_>) -> Result<Stacks<'static>, Malformed> {
        let mut stacks = Stacks {
            flags: bytes.get_u32()?,
            user: bytes.get_u64_le()?,
            kernel: bytes.get()?,
            ..Stacks::default()
        };
        if has_registers(stacks.flags) {
            stacks.regs = Stored::get(bytes)?;
        }
        let mut copy = Vec::new();
        self.picture
            .decode(bytes, pid, copy_start(&stacks), MAX_STACK, &mut copy)?;
        stacks.copy = Cow::Owned(copy);
        Ok(stacks)
    }

    fn fault(&mut self, at: At, bytes: &mut Bytes<'_>) -> Result<Fault<'static>, Malformed> {
        let mut fault = Fault {
            at,
            cpu: Stored::get(bytes)?,
            flags: Stored::get(bytes)?,
            ..Fault::default()
        };
        self.address = bytes.get_difference(self.address)?;
        fault.address = Avma(self.address);
        let start = Timestamp(bytes.get_difference(at.time.0)?);
        let present = bytes.byte()?;
        let is = |bit: u8| present >> bit & 1 != 0;
        if is(2) && !is(1) {
            return Err(Malformed);
        }
        fault.start = is(0).then_some(start);
        if is(1) {
            let flags = bytes.get()?;
            let file = if is(2) { Some(Stored::get(bytes)?) } else { None };
            fault.vma = Some(FaultVma { flags, file });
        }
        if is(3) {
            fault.waits = Stored::get(bytes)?;
        }
        if is(4) {
            fault.attempts = Stored::get(bytes)?;
        }
        if is(5) {
            // The range of pages that versions up to 6 have here does not show which of them were mapped.
            bytes.get()?;
            bytes.get_u32()?;
            (fault.read, fault.signal) = Stored::get(bytes)?;
        }
        if is(6) {
            fault.mapped = Some(block(bytes)?);
        }
        if is(7) {
            fault.others = Stored::get(bytes)?;
        }
        fault.stacks = self.stacks(at.pid, bytes)?;
        Ok(fault)
    }
}

/// Reads what [`super::encode::put_block`] wrote.
fn block(bytes: &mut Bytes<'_>) -> Result<BlockPages, Malformed> {
    let mut pages = BlockPages::default();
    let mut end = 0;
    for _ in 0..bytes.get_len(MAX_RUNS)? {
        let start = end + bytes.get_len(BLOCK)?;
        end = start + bytes.get_len(BLOCK)?;
        if end > BLOCK {
            return Err(Malformed);
        }
        pages.insert_range(start..end);
    }
    Ok(pages)
}

fn frames<T>(bytes: &mut Bytes<'_>, typed: impl Fn(u64) -> T) -> Result<Vec<T>, Malformed> {
    let count = bytes.get_len(MAX_FRAMES)?;
    let mut frames = Vec::with_capacity(count);
    let mut previous = 0;
    for _ in 0..count {
        previous = bytes.get_difference(previous)?;
        frames.push(typed(previous));
    }
    Ok(frames)
}

fn pages_read(at: At, bytes: &mut Bytes<'_>) -> Result<PagesRead, Malformed> {
    let mut read = PagesRead {
        at,
        since: Timestamp(bytes.get_difference(at.time.0)?),
        file: Stored::get(bytes)?,
        first: Stored::get(bytes)?,
        count: Stored::get(bytes)?,
        ..PagesRead::default()
    };
    let kind = bytes.byte()?;
    read.in_fault = kind & 1 != 0;
    read.order = (kind >> 1).checked_sub(1);
    if read.order.is_some_and(|order| order > MAX_ORDER) {
        return Err(Malformed);
    }
    Ok(read)
}

/// Decodes the next symbol of a chunk of kernel symbols.
pub fn kernel_symbol(bytes: &mut Bytes<'_>) -> Result<Event<'static>, Malformed> {
    let offset = bytes.get()?;
    let start = bytes.get_difference(offset)?;
    Ok(Event::KernelSymbol {
        offset: KernelOffset(offset),
        start: KernelOffset(start),
        name: Stored::get(bytes)?,
    })
}
