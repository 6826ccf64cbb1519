//! Encodes waits and the records that they refer to.

use super::{Encoder, Tag, put_file};
use crate::event::bytes::{Malformed, put, put_bytes, put_difference};
use crate::event::format::MAX_TEXT;
use crate::event::{CallPath, FileName, KernelLock, LockId, OpenFile, StackAhead, Wait};

/// `DEFAULT_PRIO` of include/linux/sched/prio.h: that of nice 0.
pub const DEFAULT_PRIORITY: u64 = 120;

impl Encoder {
    pub(super) fn wait(&mut self, out: &mut Vec<u8>, wait: &Wait) -> Result<(), Malformed> {
        self.at(out, Tag::Wait, &wait.at);
        let time = wait.at.time.0;
        put(out, u64::from(wait.cpu));
        put_difference(out, time, wait.end.0);
        put_difference(out, time, wait.out.0);
        // For a single wait, this is its total time.
        put_difference(out, wait.end.0.saturating_sub(wait.out.0), wait.off);
        put(out, wait.queued);
        put_difference(out, wait.off, wait.longest);
        for value in [wait.count, wait.state, wait.flags] {
            put(out, u64::from(value));
        }
        let file = wait.call.and_then(|call| call.file);
        let name = file.map_or(0, |file| file.name);
        let present = [
            wait.call.is_some(),
            file.is_some(),
            wait.waker.is_some(),
            name != 0,
            wait.lock.is_some(),
            wait.priority.is_some(),
        ];
        out.push(present.iter().enumerate().map(|(bit, is)| u8::from(*is) << bit).sum());
        if let Some(call) = &wait.call {
            put(out, u64::from(call.number));
            for argument in call.arguments {
                put(out, argument);
            }
        }
        if let Some(file) = &file {
            put_open_file(out, file);
            if name != 0 {
                put(out, name);
            }
        }
        if let Some(waker) = &wait.waker {
            put_difference(out, time, waker.time.0);
            put(out, u64::from(waker.pid));
            put_difference(out, u64::from(waker.pid), u64::from(waker.tid));
            put(out, waker.user);
            put(out, waker.kernel);
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

    pub(super) fn call_path(&mut self, out: &mut Vec<u8>, path: &CallPath) {
        self.at(out, Tag::CallPath, &path.at);
        put_bytes(out, &path.path, MAX_TEXT);
    }
}

/// Appends a file's name.
pub(super) fn file_name(out: &mut Vec<u8>, name: &FileName) {
    if name.number == 0 {
        out.push(Tag::FileName as u8);
    } else {
        out.push(Tag::NumberedFileName as u8);
        put(out, name.number);
    }
    put_file(out, &name.file);
    put_bytes(out, &name.path, MAX_TEXT);
}

fn put_lock(out: &mut Vec<u8>, lock: &KernelLock) {
    let (is_static, number) = match lock.id {
        LockId::Static(offset) => (1, offset.0),
        LockId::Number(number) => (0, number),
    };
    out.push(is_static | u8::from(lock.holder.is_some()) << 1);
    put(out, number);
    put(out, u64::from(lock.flags));
    if let Some((pid, tid)) = lock.holder {
        put(out, u64::from(pid));
        put_difference(out, u64::from(pid), u64::from(tid));
    }
}

fn put_open_file(out: &mut Vec<u8>, file: &OpenFile) {
    put_file(out, &file.file);
    put(out, u64::from(file.mode));
    put(out, u64::from(file.magic));
}
