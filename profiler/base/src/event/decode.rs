//! Decodes events from a chunk's payload; the inverse of `encode`. The input is untrusted.

mod block;
mod switch;

use std::borrow::Cow;

use profiler_common::fault::{FaultCounts, Waits};
use profiler_common::stack::UserRegs;

use super::bytes::{Bytes, Malformed};
use super::encode::{Tag, copy_start, has_registers};
use super::format::{MAX_FRAMES, MAX_STACK, MAX_TEXT};
use super::stack_copy::Picture;
use super::{
    At, Attempts, End, Event, Fault, FaultFile, FaultVma, FileId, KernelStack, MAX_ORDER, Mapping, OtherFaults,
    PagesPopulated, PagesRead, Sample, Stacks, TaskExec, TaskExit, TaskNew, UserStack,
};
use crate::addr::{Avma, FileOffset, KernelOffset, Timestamp};
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
                loss: bytes.get_u32()?,
                count: bytes.get()?,
            },
            Tag::Watermark => Event::Watermark(self.time(bytes)?),
            Tag::End => Event::End(self.end(bytes)?),
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
            Tag::DeviceName => Event::DeviceName(block::device_name(bytes)?),
            tag => {
                let at = self.at(bytes)?;
                return self.event_of_thread(tag, at, bytes);
            }
        })
    }

    fn event_of_thread(&mut self, tag: Tag, at: At, bytes: &mut Bytes<'_>) -> Result<Event<'static>, Malformed> {
        Ok(match tag {
            Tag::TaskNew => Event::TaskNew(task_new(at, bytes)?),
            Tag::TaskExec => Event::TaskExec(task_exec(at, bytes)?),
            Tag::TaskExit => Event::TaskExit(task_exit(at, bytes)?),
            Tag::TaskAlive => Event::TaskAlive {
                at,
                cpu_time: bytes.get()?,
            },
            Tag::TaskRename => Event::TaskRename { at, name: text(bytes)? },
            Tag::Mapping => Event::Mapping(mapping(at, bytes)?),
            Tag::Sample => Event::Sample(self.sample(at, bytes)?),
            Tag::Fault => Event::Fault(self.fault(at, bytes)?),
            Tag::PagesRead => Event::PagesRead(pages_read(at, bytes)?),
            Tag::PagesPopulated => Event::PagesPopulated(PagesPopulated {
                at,
                start: Avma(bytes.get()?),
                len: bytes.get()?,
            }),
            Tag::Wait => Event::Wait(self.wait(at, bytes)?),
            Tag::StackAhead => Event::StackAhead(self.stack_ahead(at, bytes)?),
            Tag::CallPath => Event::CallPath(switch::call_path(at, bytes)?),
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
        let pid = bytes.get_u32()?;
        let tid = u32::try_from(bytes.get_difference(u64::from(pid))?).map_err(|_| Malformed)?;
        Ok(At { time, pid, tid })
    }

    fn sample(&mut self, at: At, bytes: &mut Bytes<'_>) -> Result<Sample<'static>, Malformed> {
        Ok(Sample {
            at,
            cpu: cpu(bytes)?,
            cpu_time: bytes.get()?,
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
            stacks.regs = UserRegs {
                ip: bytes.get()?,
                sp: bytes.get()?,
                fp: bytes.get()?,
                lr: bytes.get()?,
            };
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
            cpu: cpu(bytes)?,
            flags: bytes.get_u32()?,
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
            let file = if is(2) { Some(fault_file(bytes)?) } else { None };
            fault.vma = Some(FaultVma { flags, file });
        }
        if is(3) {
            fault.waits = Waits {
                lock: bytes.get()?,
                disk: bytes.get()?,
                blocked: bytes.get()?,
                preempted: bytes.get()?,
                reclaim: bytes.get()?,
            };
        }
        if is(4) {
            fault.attempts = Attempts {
                error_code: bytes.get_u32()?,
                asked: bytes.get_u32()?,
                returned: bytes.get_u32()?,
                retries: bytes.get_u32()?,
            };
        }
        if is(5) {
            // The range of pages that versions up to 6 have here does not show which of them were mapped.
            bytes.get()?;
            bytes.get_u32()?;
            (fault.read, fault.signal) = (bytes.get_u32()?, bytes.get_u32()?);
        }
        if is(6) {
            fault.mapped = Some(block(bytes)?);
        }
        if is(7) {
            fault.others = OtherFaults {
                count: bytes.get_u32()?,
                time: bytes.get()?,
            };
        }
        fault.stacks = self.stacks(at.pid, bytes)?;
        Ok(fault)
    }

    fn end(&mut self, bytes: &mut Bytes<'_>) -> Result<End, Malformed> {
        let time = self.time(bytes)?;
        let reason = String::from_utf8_lossy(bytes.get_bytes(MAX_TEXT)?).into_owned();
        let status = match bytes.byte()? {
            0 => None,
            1 => Some(bytes.get_u32()?.cast_signed()),
            _ => return Err(Malformed),
        };
        Ok(End { time, reason, status })
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

fn text(bytes: &mut Bytes<'_>) -> Result<Vec<u8>, Malformed> {
    bytes.get_bytes(MAX_TEXT).map(<[u8]>::to_vec)
}

fn flag(bytes: &mut Bytes<'_>) -> Result<bool, Malformed> {
    match bytes.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed),
    }
}

fn cpu(bytes: &mut Bytes<'_>) -> Result<u16, Malformed> {
    u16::try_from(bytes.get()?).map_err(|_| Malformed)
}

fn file(bytes: &mut Bytes<'_>) -> Result<FileId, Malformed> {
    Ok(FileId {
        inode: bytes.get()?,
        major: bytes.get_u32()?,
        minor: bytes.get_u32()?,
        generation: bytes.get_u32()?,
    })
}

fn fault_file(bytes: &mut Bytes<'_>) -> Result<FaultFile, Malformed> {
    Ok(FaultFile {
        file: file(bytes)?,
        offset: FileOffset(bytes.get()?),
        magic: bytes.get_u32()?,
        mmap_miss: bytes.get_u32()?,
    })
}

fn pages_read(at: At, bytes: &mut Bytes<'_>) -> Result<PagesRead, Malformed> {
    let mut read = PagesRead {
        at,
        since: Timestamp(bytes.get_difference(at.time.0)?),
        file: file(bytes)?,
        first: bytes.get()?,
        count: bytes.get_u32()?,
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

fn task_exit(at: At, bytes: &mut Bytes<'_>) -> Result<TaskExit, Malformed> {
    let mut exit = TaskExit {
        at,
        exit_code: bytes.get_u32()?,
        cpu_time: bytes.get()?,
        sum_exec_runtime: bytes.get()?,
        minor_faults: bytes.get()?,
        major_faults: bytes.get()?,
        faults: None,
    };
    if flag(bytes)? {
        exit.faults = Some(FaultCounts {
            seen: bytes.get()?,
            lost: bytes.get()?,
            filtered: bytes.get()?,
            failed: bytes.get()?,
            before: bytes.get()?,
        });
    }
    Ok(exit)
}

fn task_new(at: At, bytes: &mut Bytes<'_>) -> Result<TaskNew, Malformed> {
    Ok(TaskNew {
        at,
        parent: (bytes.get_u32()?, bytes.get_u32()?),
        existed: flag(bytes)?,
        clone_flags: bytes.get()?,
        name: text(bytes)?,
    })
}

fn task_exec(at: At, bytes: &mut Bytes<'_>) -> Result<TaskExec, Malformed> {
    Ok(TaskExec {
        at,
        existed: flag(bytes)?,
        old_tid: bytes.get_u32()?,
        name: text(bytes)?,
        path: text(bytes)?,
        command_line: text(bytes)?,
    })
}

fn mapping(at: At, bytes: &mut Bytes<'_>) -> Result<Mapping, Malformed> {
    let (start, len, offset) = (Avma(bytes.get()?), bytes.get()?, FileOffset(bytes.get()?));
    Ok(Mapping {
        at,
        start,
        len,
        offset,
        file: file(bytes)?,
        protection: bytes.get_u32()?,
        flags: bytes.get_u32()?,
        path: text(bytes)?,
        build_id: text(bytes)?,
    })
}

/// Decodes the next symbol of a chunk of kernel symbols.
pub fn kernel_symbol(bytes: &mut Bytes<'_>) -> Result<Event<'static>, Malformed> {
    let offset = bytes.get()?;
    let start = bytes.get_difference(offset)?;
    Ok(Event::KernelSymbol {
        offset: KernelOffset(offset),
        start: KernelOffset(start),
        name: text(bytes)?,
    })
}
