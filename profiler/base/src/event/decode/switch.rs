//! Decodes waits and the records that they refer to.

use super::{Decoder, cpu, file, text};
use crate::addr::{KernelOffset, Timestamp};
use crate::event::bytes::{Bytes, Malformed};
use crate::event::encode::switch::DEFAULT_PRIORITY;
use crate::event::{At, Call, CallPath, FileName, KernelLock, LockId, OpenFile, StackAhead, Wait, Waker};

impl Decoder {
    pub(super) fn wait(&mut self, at: At, bytes: &mut Bytes<'_>) -> Result<Wait, Malformed> {
        let cpu = cpu(bytes)?;
        let end = Timestamp(bytes.get_difference(at.time.0)?);
        let out = Timestamp(bytes.get_difference(at.time.0)?);
        let off = bytes.get_difference(end.0.saturating_sub(out.0))?;
        let mut wait = Wait {
            at,
            cpu,
            out,
            end,
            off,
            queued: bytes.get()?,
            longest: bytes.get_difference(off)?,
            count: bytes.get_u32()?,
            state: bytes.get_u32()?,
            flags: bytes.get_u32()?,
            ..Wait::default()
        };
        let present = bytes.byte()?;
        let is = |bit: u8| present >> bit & 1 != 0;
        if present >> 6 != 0 || is(1) && !is(0) || is(3) && !is(1) || wait.count == 0 {
            return Err(Malformed);
        }
        if is(0) {
            wait.call = Some(Call {
                number: bytes.get_u32()?,
                arguments: [bytes.get()?, bytes.get()?, bytes.get()?],
                file: if is(1) { Some(open_file(bytes, is(3))?) } else { None },
            });
        }
        if is(2) {
            let time = Timestamp(bytes.get_difference(at.time.0)?);
            let pid = bytes.get_u32()?;
            wait.waker = Some(Waker {
                time,
                pid,
                tid: u32::try_from(bytes.get_difference(u64::from(pid))?).map_err(|_| Malformed)?,
                user: bytes.get()?,
                kernel: bytes.get()?,
            });
        }
        if is(4) {
            wait.lock = Some(lock(bytes)?);
        }
        if is(5) {
            let priority = bytes.get_difference(DEFAULT_PRIORITY)?.cast_signed();
            wait.priority = Some(i32::try_from(priority).map_err(|_| Malformed)?);
        }
        wait.stacks = self.stacks(at.pid, bytes)?;
        Ok(wait)
    }

    pub(super) fn stack_ahead(&mut self, at: At, bytes: &mut Bytes<'_>) -> Result<StackAhead<'static>, Malformed> {
        let stacks = self.stacks(at.pid, bytes)?;
        Ok(StackAhead { at, stacks })
    }
}

pub(super) fn call_path(at: At, bytes: &mut Bytes<'_>) -> Result<CallPath, Malformed> {
    Ok(CallPath { at, path: text(bytes)? })
}

pub(super) fn file_name(bytes: &mut Bytes<'_>, is_numbered: bool) -> Result<FileName, Malformed> {
    Ok(FileName {
        number: if is_numbered { bytes.get()? } else { 0 },
        file: file(bytes)?,
        path: text(bytes)?,
    })
}

fn lock(bytes: &mut Bytes<'_>) -> Result<KernelLock, Malformed> {
    let present = bytes.byte()?;
    let number = bytes.get()?;
    let id = match present & 1 {
        0 => LockId::Number(number),
        _ => LockId::Static(KernelOffset(number)),
    };
    let flags = bytes.get_u32()?;
    let holder = match present >> 1 {
        0 => None,
        1 => {
            let pid = bytes.get_u32()?;
            let tid = bytes.get_difference(u64::from(pid))?;
            Some((pid, u32::try_from(tid).map_err(|_| Malformed)?))
        }
        _ => return Err(Malformed),
    };
    Ok(KernelLock { id, flags, holder })
}

fn open_file(bytes: &mut Bytes<'_>, has_name: bool) -> Result<OpenFile, Malformed> {
    Ok(OpenFile {
        file: file(bytes)?,
        mode: bytes.get_u32()?,
        magic: bytes.get_u32()?,
        name: if has_name { bytes.get()? } else { 0 },
    })
}
