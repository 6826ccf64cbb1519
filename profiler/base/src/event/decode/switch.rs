//! Decodes waits and the records that they refer to.

use super::Decoder;
use crate::addr::{KernelOffset, Timestamp};
use crate::event::bytes::{Bytes, Malformed};
use crate::event::encode::switch::DEFAULT_PRIORITY;
use crate::event::fields::{Stored, get_thread};
use crate::event::{At, Call, FileName, KernelLock, LockId, OpenFile, Wait, Waker};

impl Decoder {
    pub(super) fn wait(&mut self, at: At, bytes: &mut Bytes<'_>) -> Result<Wait, Malformed> {
        let cpu = Stored::get(bytes)?;
        let end = Timestamp(bytes.get_difference(at.time.0)?);
        let out = Timestamp(bytes.get_difference(at.time.0)?);
        let off = bytes.get_difference(end.0.saturating_sub(out.0))?;
        let mut wait = Wait {
            at,
            cpu,
            out,
            end,
            off,
            queued: Stored::get(bytes)?,
            longest: bytes.get_difference(off)?,
            count: Stored::get(bytes)?,
            state: Stored::get(bytes)?,
            flags: Stored::get(bytes)?,
            ..Wait::default()
        };
        let present = bytes.byte()?;
        let is = |bit: u8| present >> bit & 1 != 0;
        if present >> 6 != 0 || is(1) && !is(0) || is(3) && !is(1) || wait.count == 0 {
            return Err(Malformed);
        }
        if is(0) {
            wait.call = Some(Call {
                number: Stored::get(bytes)?,
                arguments: Stored::get(bytes)?,
                file: if is(1) { Some(open_file(bytes, is(3))?) } else { None },
            });
        }
        if is(2) {
            let time = Timestamp(bytes.get_difference(at.time.0)?);
            let (pid, tid) = get_thread(bytes)?;
            wait.waker = Some(Waker {
                time,
                pid,
                tid,
                user: Stored::get(bytes)?,
                kernel: Stored::get(bytes)?,
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
}

pub(super) fn file_name(bytes: &mut Bytes<'_>, is_numbered: bool) -> Result<FileName, Malformed> {
    Ok(FileName {
        number: if is_numbered { bytes.get()? } else { 0 },
        file: Stored::get(bytes)?,
        path: Stored::get(bytes)?,
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
        1 => Some(get_thread(bytes)?),
        _ => return Err(Malformed),
    };
    Ok(KernelLock { id, flags, holder })
}

fn open_file(bytes: &mut Bytes<'_>, has_name: bool) -> Result<OpenFile, Malformed> {
    Ok(OpenFile {
        file: Stored::get(bytes)?,
        mode: Stored::get(bytes)?,
        magic: Stored::get(bytes)?,
        name: if has_name { bytes.get()? } else { 0 },
    })
}
