//! Encodes waits and the records that they refer to.

use super::{Encoder, Tag, put_present};
use crate::event::bytes::{Malformed, put_difference};
use crate::event::fields::{Stored as _, bits, put_thread};
use crate::event::{FileName, KernelLock, LockId, StackAhead, Wait};

/// `DEFAULT_PRIO` of include/linux/sched/prio.h: that of nice 0.
pub const DEFAULT_PRIORITY: u64 = 120;

impl Encoder {
    pub(super) fn wait(&mut self, out: &mut Vec<u8>, wait: &Wait) -> Result<(), Malformed> {
        self.at(out, Tag::Wait, &wait.at);
        let time = wait.at.time.0;
        wait.cpu.put(out);
        put_difference(out, time, wait.end.0);
        put_difference(out, time, wait.out.0);
        // For a single wait, this is its total time.
        put_difference(out, wait.end.0.saturating_sub(wait.out.0), wait.off);
        wait.queued.put(out);
        put_difference(out, wait.off, wait.longest);
        wait.count.put(out);
        wait.state.put(out);
        wait.flags.put(out);
        let file = wait.call.and_then(|call| call.file);
        let name = file.map(|file| file.name).filter(|name| *name != 0);
        out.push(bits([
            wait.call.is_some(),
            file.is_some(),
            wait.waker.is_some(),
            name.is_some(),
            wait.lock.is_some(),
            wait.priority.is_some(),
        ]));
        put_present(out, wait.call.map(|call| (call.number, call.arguments)));
        put_present(out, file.map(|file| (file.file, (file.mode, file.magic))));
        put_present(out, name);
        if let Some(waker) = &wait.waker {
            put_difference(out, time, waker.time.0);
            put_thread(out, (waker.pid, waker.tid));
            waker.user.put(out);
            waker.kernel.put(out);
        }
        if let Some(lock) = &wait.lock {
            put_lock(out, lock);
        }
        if let Some(priority) = wait.priority {
            put_difference(out, DEFAULT_PRIORITY, i64::from(priority).cast_unsigned());
        }
        self.stacks(out, wait.at.pid, &wait.stacks)
    }

    pub(super) fn stack_ahead(&mut self, out: &mut Vec<u8>, stack: &StackAhead<'_>) -> Result<(), Malformed> {
        self.at(out, Tag::StackAhead, &stack.at);
        self.stacks(out, stack.at.pid, &stack.stacks)
    }
}

/// Appends a file's name.
pub(super) fn file_name(out: &mut Vec<u8>, name: &FileName) {
    if name.number == 0 {
        out.push(Tag::FileName as u8);
    } else {
        out.push(Tag::NumberedFileName as u8);
        name.number.put(out);
    }
    name.file.put(out);
    name.path.put(out);
}

fn put_lock(out: &mut Vec<u8>, lock: &KernelLock) {
    let (is_static, number) = match lock.id {
        LockId::Static(offset) => (true, offset.0),
        LockId::Number(number) => (false, number),
    };
    out.push(bits([is_static, lock.holder.is_some()]));
    number.put(out);
    lock.flags.put(out);
    if let Some(holder) = lock.holder {
        put_thread(out, holder);
    }
}
