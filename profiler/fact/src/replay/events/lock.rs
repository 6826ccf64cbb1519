//! Which lock of the kernel a wait was for.

use profiler_common::switch::lock;

use super::Replay;
use super::wait::kernel_functions;
use crate::reasons;
use crate::{KernelLock, LockHolder, LockKind, StackId, WaitReason};
use base::event::{At, LockId, Wait};

impl Replay<'_, '_> {
    /// The lock of a wait. A record has the last lock that its thread was about to sleep for: the wait is for it if the
    /// innermost function of its stack is one of such a lock.
    pub(super) fn kernel_lock(
        &mut self,
        wait: &Wait,
        stack: Option<StackId>,
        reason: WaitReason,
    ) -> Option<KernelLock> {
        use WaitReason::{RunQueue, Stopped, Throttled, Unknown};
        let last = wait.lock.as_ref()?;
        if matches!(reason, RunQueue | Throttled | Stopped | Unknown) {
            return None;
        }
        let kind = self.kind_of_lock(stack?)?;
        let is = |flag: u32| last.flags & flag != 0;
        kind.fits(last.flags).then(|| KernelLock {
            id: last.id,
            kind,
            is_read: is(lock::READ),
            is_own_mmap: is(lock::OWN_MMAP),
            name: self.name_of_lock(last.id).map(Into::into),
            holder: last
                .holder
                .filter(|(_, tid)| wait.count == 1 && *tid != wait.at.tid)
                .map(|(pid, tid)| {
                    let time = wait.out;
                    LockHolder {
                        pid,
                        tid,
                        thread: self.tasks.known_thread(&At { time, pid, tid }),
                        is_reader: is(lock::HELD_BY_READERS),
                    }
                }),
        })
    }

    fn kind_of_lock(&mut self, stack: StackId) -> Option<LockKind> {
        let (tables, known) = (&self.tables, &mut self.inputs.locks);
        *known.entry(stack).or_insert_with(|| {
            let functions = kernel_functions(tables, stack);
            reasons::kernel_lock(functions.map(|(_, name)| name)).map(|lock| lock.kind)
        })
    }

    /// The variable that it is, or in which it is.
    fn name_of_lock(&self, id: LockId) -> Option<String> {
        let LockId::Static(offset) = id else { return None };
        let (start, name) = self.preamble.kernel.get(&offset)?;
        match offset.0.checked_sub(start.0)? {
            0 => Some(name.clone()),
            distance => Some(format!("{name}+{distance:#x}")),
        }
    }
}
