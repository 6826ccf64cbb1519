//! Stacks of events: found again, or walked and interned.

use std::sync::Arc;

use super::memo::{Lasting, MemoKey, Spot, lasts};
use super::{EventKind, MAX_STACKS, Replay};
use crate::replay::intern::{FrameFiles, JitFunction};
use crate::replay::walks::KernelWalk;
use crate::{FrameId, FrameName, ProcessId, SourceFrame, StackId, ThreadId, TruncationReason};
use base::addr::{Avma, KernelOffset, Timestamp};
use base::event::{At, Stacks};
use profiler_common::stack::{FLAG_CHECK, FLAG_USER_REGS};
use unwind::{End, FramePlace, Mapped, RawFrame, Walked};

impl Replay<'_, '_> {
    /// The stack of an event, found again or new; counts how it ended.
    pub(super) fn stack_of(
        &mut self,
        at: &At,
        thread: ThreadId,
        stacks: &Stacks<'_>,
        kind: EventKind,
    ) -> Option<StackId> {
        let stack = self.resolved_stack(at, thread, stacks, kind);
        let tallies = &mut self.tallies;
        let tally = match kind {
            EventKind::Sample => &mut tallies.samples,
            EventKind::Fault => &mut tallies.faults,
            EventKind::Wait => &mut tallies.waits,
        };
        if let Some(stack) = stack {
            tally.count(&self.tables, &mut tallies.ends, stack);
        }
        stack
    }

    /// As above, without counting.
    pub(super) fn resolved_stack(
        &mut self,
        at: &At,
        thread: ThreadId,
        stacks: &Stacks<'_>,
        kind: EventKind,
    ) -> Option<StackId> {
        let process = self.tasks.threads[thread.index()].process;
        self.resolved((at.time, at.tid), at, Some(process), stacks, kind)
    }

    /// As above, for a process that may be unrecorded; a kept log finds the stack by `key`, with the time of the
    /// current event.
    pub(super) fn resolved(
        &mut self,
        key: (Timestamp, u32),
        at: &At,
        process: Option<ProcessId>,
        stacks: &Stacks<'_>,
        kind: EventKind,
    ) -> Option<StackId> {
        // Without user registers it is a kernel thread, or one that has lost them.
        let has_registers = stacks.flags & FLAG_USER_REGS != 0;
        // Also where the stack is not wanted: it is dropped when its process has ended.
        let owner = || process.filter(|process| self.tasks.owns_space_since(*process, at.time));
        let end = has_registers
            .then(|| self.dictionary.end_of(stacks, kind, owner))
            .flatten();
        if self.noted_events.is_off() && !self.sink.wants_stacks(kind) {
            return None;
        }
        let kernel = self.dictionary.kernel_of(stacks);
        let same = same_as_earlier(process, stacks, end, kernel.is_some());
        let remembered = same.and_then(|same| self.memo.get(&self.tasks, same));
        let known = self.known(key);
        let stack = if let Some(remembered) = remembered {
            known.unwrap_or(remembered)
        } else {
            let before = Before {
                end,
                same,
                known,
                kernel: kernel.as_ref(),
            };
            self.looked_at(at, stacks, process, &before)
        };
        if self.noted.is_none() {
            self.noted_events.push(key.0, key.1, stack);
        }
        stack
    }

    /// What a kept log says about the event's stack.
    #[expect(clippy::option_option, reason = "the absence of a stack is known too")]
    fn known(&mut self, (time, tid): (Timestamp, u32)) -> Option<Option<StackId>> {
        let resolved = self.preamble.resolved.as_mut()?;
        let known = resolved.stack(time, tid);
        let known = known.map(|stack| self.known.stack(&mut self.tables, &mut self.interner, stack?));
        if resolved.is_used_up() {
            self.known.give_up();
            self.preamble.resolved = None;
        }
        known
    }

    /// Remembers a new stack if it will be the same next time.
    fn looked_at(
        &mut self,
        at: &At,
        stacks: &Stacks<'_>,
        process: Option<ProcessId>,
        before: &Before<'_>,
    ) -> Option<StackId> {
        let Before {
            end,
            same,
            known,
            kernel,
        } = *before;
        let user = same.and_then(|same| self.memo.user_part(&self.tasks, same));
        let walked = end.filter(|_| user.is_none());
        let walked = walked.and_then(|_| self.dictionary.user.get(stacks.user));
        let has_dump = self.preamble.jit.has_dump(at.pid);
        let is_lasting =
            |same: &MemoKey| user.is_some() || lasts(&self.tasks, *same, walked.as_ref(), Lasting::new(has_dump));
        let is_full = self.tables.stacks.len() >= MAX_STACKS;
        let cut = || Some(self.interner.truncated(&mut self.tables, TruncationReason::Limit));
        let (stack, lasting) = if let Some(known) = known.or_else(|| is_full.then(cut)) {
            (known, same.filter(is_lasting))
        } else {
            let (user, lasts) = match user {
                Some(user) => (user, true),
                None => self.user_part(at, stacks, process, walked.as_ref()),
            };
            let lasting = same.filter(|_| lasts);
            if let Some(lasting) = lasting {
                self.memo.put_user_part(&self.tasks, lasting, user);
            }
            (self.with_kernel(user, kernel), lasting)
        };
        if let Some(lasting) = lasting {
            self.memo.put(&self.tasks, lasting, stack);
        }
        stack
    }

    /// User frames, walked by the kernel side or unwound from a copy; and whether they stay valid while their code
    /// is mapped.
    fn user_part(
        &mut self,
        at: &At,
        stacks: &Stacks<'_>,
        process: Option<ProcessId>,
        walked: Option<&Walked>,
    ) -> (Option<StackId>, bool) {
        let Some(process) = process.filter(|_| stacks.flags & FLAG_USER_REGS != 0) else {
            return (None, true);
        };
        match walked.filter(|walked| is_whole(stacks, walked.end)) {
            Some(walked) => self.walked(at, process, walked),
            None => (self.unwound(at, stacks, process, walked), false),
        }
    }

    /// Adds the kernel's frames to the user frames.
    fn with_kernel(&mut self, mut stack: Option<StackId>, kernel: Option<&KernelWalk>) -> Option<StackId> {
        for (offset, is_return_address) in kernel.iter().flat_map(|kernel| kernel.frames()).rev() {
            let frame = self.kernel_frame(offset, is_return_address);
            stack = Some(self.interner.stack(&mut self.tables, stack, frame));
        }
        stack
    }

    /// User frames walked by the kernel side: those shared with the thread's last walk are free, those at known
    /// locations take one lookup.
    fn walked(&mut self, at: &At, process: ProcessId, walked: &Walked) -> (Option<StackId>, bool) {
        let tasks = &self.tasks;
        let reason = self.walker.reason(Mapped { tasks, process }, walked);
        let code = self.tasks.code_of(process);
        let mut last = self.last_walks.take(at.tid);
        let mapped = code.map(|code| (process, code));
        let shared = last.cut_to(mapped, reason, &walked.frames);
        let mut stack = last.stack();
        if stack.is_none() {
            stack = reason.map(|reason| self.interner.truncated(&mut self.tables, reason));
        }
        let mut lasting = Lasting::new(self.preamble.jit.has_dump(at.pid));
        for (depth, address) in walked.frames.iter().enumerate().rev().skip(shared) {
            let spot = code.map(|code| Spot::new(code, depth, *address));
            let known = spot.and_then(|spot| self.memo.frame(spot));
            let frame = known.unwrap_or_else(|| self.frame_at(at, process, (depth, *address), spot));
            let made = self.interner.stack(&mut self.tables, stack, frame);
            last.push(*address, made, || {
                spot.is_some_and(|spot| lasting.has(&self.tasks, process, spot))
            });
            stack = Some(made);
        }
        let lasts = last.lasts() && code.is_some();
        self.last_walks.put(at.tid, last);
        (stack, lasts)
    }

    fn frame_at(&mut self, at: &At, process: ProcessId, (depth, frame): (usize, u64), spot: Option<Spot>) -> FrameId {
        let tasks = &self.tasks;
        let raw = self.walker.frame(Mapped { tasks, process }, depth, frame);
        let frame = self.user_frame(at, process, &raw);
        if let Some(spot) = spot {
            self.memo.put_frame(&self.tasks, process, spot, frame);
        }
        frame
    }

    /// User frames as far as the walk and the copy reach.
    fn unwound(
        &mut self,
        at: &At,
        stacks: &Stacks<'_>,
        process: ProcessId,
        walked: Option<&Walked>,
    ) -> Option<StackId> {
        let tasks = &self.tasks;
        let walk = self.walker.stack(Mapped { tasks, process }, stacks, walked);
        if let Some(walked) = walked {
            self.dictionary.check(stacks, walked, &walk);
        }
        let mut stack = None;
        if let Err(reason) = walk.end {
            stack = Some(self.interner.truncated(&mut self.tables, reason));
        }
        for raw in walk.frames.iter().rev() {
            let frame = self.user_frame(at, process, raw);
            stack = Some(self.interner.stack(&mut self.tables, stack, frame));
        }
        stack
    }

    fn user_frame(&mut self, at: &At, process: ProcessId, raw: &RawFrame) -> FrameId {
        let back = u64::from(raw.is_return_address);
        let found = match raw.place {
            FramePlace::MadeAtRunTime(_) => {
                self.preamble
                    .jit
                    .lookup(at.pid, Avma(raw.address.0.wrapping_sub(back)), at.time)
            }
            _ => None,
        };
        let jit = found.as_ref().map(|found| JitFunction {
            start: found.start(),
            code: found.code(),
        });
        let mut known = FrameFiles {
            modules: &mut self.walker.modules,
            files: &self.tasks.files,
        };
        let frame = self
            .interner
            .user_frame(&mut self.tables, &mut known, process, raw, jit);
        if let Some(found) = found {
            self.tables.names.entry(frame).or_insert_with(|| found.name());
        }
        frame
    }

    fn kernel_frame(&mut self, offset: KernelOffset, is_return_address: bool) -> FrameId {
        let distinct = self.tables.frames.len();
        let frame = self.interner.kernel_frame(&mut self.tables, offset, is_return_address);
        if self.tables.frames.len() == distinct {
            return frame;
        }
        // A call that never returns may be its function's last instruction: the address behind it is another function's. Early
        // logs name only the address itself.
        let call = KernelOffset(offset.0.wrapping_sub(u64::from(is_return_address)));
        let kernel = &self.preamble.kernel;
        let known = kernel
            .get(&call)
            .or_else(|| kernel.get(&offset).filter(|(start, _)| *start != offset));
        if let Some((start, name)) = known {
            let symbol: Arc<str> = name.as_str().into();
            let source = SourceFrame {
                function: Arc::clone(&symbol),
                file: None,
                line: None,
            };
            let inline_chain = vec![source];
            self.tables.names.insert(
                frame,
                FrameName {
                    symbol,
                    symbol_start: start.0,
                    symbol_size: None,
                    inline_chain,
                },
            );
        }
        frame
    }
}

/// What is known about a stack before it is examined.
#[expect(clippy::option_option, reason = "the absence of a stack is known too")]
struct Before<'k> {
    /// How its walk ended.
    end: Option<End>,
    /// Identifies equal stacks.
    same: Option<MemoKey>,
    /// The stack according to a kept log: it needs no unwinding.
    known: Option<Option<StackId>>,
    kernel: Option<&'k KernelWalk>,
}

/// What identifies equal stacks of other events; `None` if each has to be examined.
fn same_as_earlier(
    process: Option<ProcessId>,
    stacks: &Stacks<'_>,
    end: Option<End>,
    has_kernel: bool,
) -> Option<MemoKey> {
    let kernel = if has_kernel { stacks.kernel } else { 0 };
    let Some(process) = process.filter(|_| stacks.flags & FLAG_USER_REGS != 0) else {
        return Some(MemoKey {
            process: None,
            user: 0,
            kernel,
        });
    };
    is_whole(stacks, end?).then_some(MemoKey {
        process: Some(process),
        user: stacks.user,
        kernel,
    })
}

/// Whether the walk is complete: nothing is to be unwound from a copy.
fn is_whole(stacks: &Stacks<'_>, end: End) -> bool {
    stacks.flags & FLAG_CHECK == 0 && (end.reason().is_none() || stacks.copy.is_empty())
}
