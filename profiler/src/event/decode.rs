//! The bytes of a chunk's payload back to events; the mirror image of `encode`. The bytes are hostile.

use std::borrow::Cow;

use profiler_common::sample::UserRegs;

use super::bytes::{Bytes, Malformed};
use super::encode::{Tag, has_registers, stack_start};
use super::format::{MAX_FRAMES, MAX_STACK, MAX_TEXT};
use super::stack_copy::Picture;
use super::{At, End, Event, FileId, KernelStack, Mapping, Sample, TaskExec, TaskExit, TaskNew, UserStack};
use crate::addr::{Avma, FileOffset, KernelOffset, Timestamp};

/// What the chunk's earlier events said.
#[derive(Default)]
pub struct Decoder {
    /// Time of the previous event.
    time: u64,
    /// The stacks so far.
    picture: Picture,
}

impl Decoder {
    /// A chunk begins.
    pub fn clear(&mut self) {
        self.time = 0;
        self.picture.clear();
    }

    /// The next event of an Events chunk.
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
            Tag::TaskExit => Event::TaskExit(TaskExit {
                at,
                exit_code: bytes.get_u32()?,
                cpu_time: bytes.get()?,
                sum_exec_runtime: bytes.get()?,
                minor_faults: bytes.get()?,
                major_faults: bytes.get()?,
            }),
            Tag::TaskAlive => Event::TaskAlive {
                at,
                cpu_time: bytes.get()?,
            },
            Tag::TaskRename => Event::TaskRename { at, name: text(bytes)? },
            Tag::Mapping => Event::Mapping(mapping(at, bytes)?),
            Tag::Sample => Event::Sample(self.sample(at, bytes)?),
            Tag::Loss | Tag::Watermark | Tag::End | Tag::UserStack | Tag::KernelStack => return Err(Malformed),
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
        let cpu = u16::try_from(bytes.get()?).map_err(|_| Malformed)?;
        let cpu_time = bytes.get()?;
        let flags = bytes.get_u32()?;
        let (user_stack, kernel_stack) = (bytes.get_u64_le()?, bytes.get_u64_le()?);
        let regs = if has_registers(flags) {
            UserRegs {
                ip: bytes.get()?,
                sp: bytes.get()?,
                fp: bytes.get()?,
                lr: bytes.get()?,
            }
        } else {
            UserRegs::default()
        };
        let mut sample = Sample {
            at,
            cpu,
            cpu_time,
            flags,
            user_stack,
            kernel_stack,
            regs,
            stack: Cow::Borrowed(&[]),
        };
        let mut stack = Vec::new();
        self.picture
            .decode(bytes, at.pid, stack_start(&sample), MAX_STACK, &mut stack)?;
        sample.stack = Cow::Owned(stack);
        Ok(sample)
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
    let inode = bytes.get()?;
    Ok(Mapping {
        at,
        start,
        len,
        offset,
        file: FileId {
            major: bytes.get_u32()?,
            minor: bytes.get_u32()?,
            generation: bytes.get_u32()?,
            inode,
        },
        protection: bytes.get_u32()?,
        flags: bytes.get_u32()?,
        path: text(bytes)?,
        build_id: text(bytes)?,
    })
}

/// The next symbol of a chunk of kernel symbols.
pub fn kernel_symbol(bytes: &mut Bytes<'_>) -> Result<Event<'static>, Malformed> {
    let offset = bytes.get()?;
    let start = bytes.get_difference(offset)?;
    Ok(Event::KernelSymbol {
        offset: KernelOffset(offset),
        start: KernelOffset(start),
        name: text(bytes)?,
    })
}
