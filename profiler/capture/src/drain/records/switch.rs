//! Converts records of waits and file names to events.

use profiler_common::switch::{
    self, CallPath as PathRecord, FileNameHead, NO_PRIORITY, StackAheadHead, WAIT_BIRTH, WAIT_HAS_FILE, WAIT_IN_CALL,
    WAIT_PREEMPTED, WAIT_UNFINISHED, WAIT_UNSEEN_START, WAIT_WOKEN, lock,
};
use profiler_common::{RecordHeader, RecordKind};

use crate::proc::kallsyms::KernelAddresses;

use super::fields::{at, file, read, stacks};
use base::addr::Timestamp;
use base::event::{At, Call, CallPath, FileId, KernelLock, OpenFile, StackAhead, Wait, Waker};

pub(super) fn wait(record: &[u8], kernel: Option<&mut KernelAddresses>) -> Option<Wait> {
    let record = read::<switch::Wait>(record)?;
    let at = at(&record.header);
    Some(wait_of(at, record.header.cpu, (&record.body, &record.stacks), kernel))
}

/// The lock of a wait's record; `None` too where the kernel hides its addresses.
fn lock_of(body: &switch::WaitBody, kernel: Option<&mut KernelAddresses>) -> Option<KernelLock> {
    let switch::KernelLock {
        address,
        holder_pid,
        holder_tid,
    } = body.lock;
    let kernel = kernel.filter(|_| address != 0 && body.flags & WAIT_PREEMPTED == 0)?;
    Some(KernelLock {
        id: kernel.lock(address),
        flags: body.lock_flags & !lock::FRESH,
        holder: (holder_tid != 0).then_some((holder_pid, holder_tid)),
    })
}

/// The system call of a wait's record, according to its flags.
fn call_of(flags: u32, number: u32, arguments: [u64; 3], open: &switch::OpenFile) -> Option<Call> {
    let open = (flags & WAIT_HAS_FILE != 0).then(|| OpenFile {
        file: file(open.inode, open.device, open.generation),
        mode: open.mode,
        magic: open.magic,
        name: open.name,
    });
    (flags & WAIT_IN_CALL != 0).then_some(Call {
        number,
        arguments,
        file: open,
    })
}

/// Converts a wait of the kernel side.
pub fn wait_of(
    at: At,
    cpu: u16,
    (body, place): (&switch::WaitBody, &profiler_common::stack::Stacks),
    kernel: Option<&mut KernelAddresses>,
) -> Wait {
    let is = |flag| body.flags & flag != 0;
    let call = call_of(body.flags, body.call, body.arguments, &body.file);
    let waker = is(WAIT_WOKEN).then_some(Waker {
        time: Timestamp(body.waker.time),
        pid: body.waker.pid,
        tid: body.waker.tid,
        user: body.waker.user,
        kernel: body.waker.kernel,
    });
    // Neither switch was seen.
    let is_unknown = is(WAIT_UNFINISHED) && (is(WAIT_BIRTH) || is(WAIT_UNSEEN_START));
    Wait {
        at,
        cpu,
        out: Timestamp(body.out),
        end: Timestamp(body.end),
        off: body.off,
        queued: body.queued,
        longest: body.longest,
        count: body.count.max(1),
        state: body.state,
        flags: body.flags,
        call,
        waker,
        lock: lock_of(body, kernel),
        priority: (body.priority != NO_PRIORITY && !is_unknown).then_some(body.priority),
        stacks: stacks(place, &[]).unwrap_or_default(),
    }
}

pub(super) fn stack_ahead(record: &[u8]) -> Option<StackAhead<'_>> {
    let head = read::<StackAheadHead>(record)?;
    Some(StackAhead {
        at: at(&head.header),
        stacks: stacks(&head.stacks, record.get(size_of::<StackAheadHead>()..)?)?,
    })
}

pub(super) fn call_path(record: &[u8]) -> Option<CallPath> {
    let record = read::<PathRecord>(record)?;
    Some(CallPath {
        at: at(&record.header),
        path: record.path.get(..record.len as usize)?.to_vec(),
    })
}

/// A file name up to the root of its file system: the process that used the file, the file, the key that records use
/// for this name, and its names from the last one up, each terminated by a NUL.
pub fn file_name(record: &[u8]) -> Option<(u32, FileId, u64, &[u8])> {
    if read::<RecordHeader>(record)?.kind != RecordKind::FileName as u16 {
        return None;
    }
    let head = read::<FileNameHead>(record)?;
    let names = record.get(size_of::<FileNameHead>()..)?.get(..head.len as usize)?;
    let id = file(head.file.inode, head.file.device, head.file.generation);
    Some((head.header.pid, id, head.file.name, names))
}

/// What is known of a wait whose start was not seen.
pub struct Unseen {
    state: u32,
    flags: u32,
    call: Option<Call>,
}

impl Unseen {
    /// From what the iterator over the tasks found.
    pub fn of(asleep: &switch::Asleep) -> Self {
        Self {
            state: asleep.state,
            flags: asleep.flags,
            call: call_of(asleep.flags, asleep.call, asleep.arguments, &asleep.file),
        }
    }

    /// Adds it to the wait's own record.
    pub fn complete(self, wait: &mut Wait) {
        wait.state = self.state;
        wait.flags |= self.flags;
        wait.call = self.call;
    }
}
