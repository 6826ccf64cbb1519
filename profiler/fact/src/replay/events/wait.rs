//! Converts events of waits, and the records that precede them, to facts.

use std::collections::BTreeMap;
use std::time::Duration;

use profiler_common::stack::FLAG_USER_REGS;
use profiler_common::switch::{
    CALL_I386, OUTSIDE, PATH_LEN, WAIT_BY_INTERRUPT, WAIT_IN_FAULT, WAIT_LIKE_EARLIER, WAIT_PREEMPTED, WAIT_THROTTLED,
    WAIT_UNFINISHED, WAIT_UNSEEN_START, WAIT_WAKER_UNSURE,
};
use rustc_hash::FxHashMap;

use super::{EventKind, Replay};
use crate::prune::{Visit, visit_stack};
use crate::reasons::{self, CallScene, Clue, KernelFunction, Scene};
use crate::wait::{Coverage, Futex, WaitCall, WaitReason, WakerFact};
use crate::{FrameId, Location, LockKind, MappedFileId, ProcessId, StackId, Tables, ThreadId, WaitFact};
use base::addr::{Avma, Timestamp};
use base::event::{At, Call, CallPath, OpenFile, StackAhead, Stacks, Wait, Waker};

/// Maximum number of stacks with pending waits or requests; the oldest are dropped first.
const MAX_STACKS_AHEAD: usize = 1 << 20;
/// The same for paths.
const MAX_PATHS_AHEAD: usize = 1 << 16;
/// Types of files that have a name: directories, devices, regular files and links (`S_IFMT`).
const NAMED_TYPES: [u32; 5] = [0o040_000, 0o020_000, 0o060_000, 0o100_000, 0o120_000];
/// Bit in the key of a waker's stack, above the tid of the thread that it woke.
const OF_WAKER: u32 = 1 << 31;

/// Records that arrived before the ones that refer to them.
#[derive(Default)]
pub(super) struct Ahead {
    stacks: BTreeMap<(Timestamp, u32), Option<StackId>>,
    paths: BTreeMap<(Timestamp, u32), String>,
}

impl Ahead {
    /// Visits the stacks that it keeps.
    pub fn visit(&mut self, visit: &mut dyn Visit) {
        self.stacks.values_mut().for_each(|stack| visit_stack(stack, visit));
    }
}

/// Results for kernel stacks, computed once for each.
#[derive(Default)]
pub(super) struct FindingInputs {
    stacks: FxHashMap<StackId, Option<Clue>>,
    frames: FxHashMap<FrameId, KernelFunction>,
    calls: FxHashMap<u32, String>,
    /// Whether a waker's stack is that of an interrupt.
    interrupts: FxHashMap<StackId, Option<bool>>,
    /// The kind of lock that a stack waits for.
    pub(super) locks: FxHashMap<StackId, Option<LockKind>>,
}

impl FindingInputs {
    /// Stacks and frames have new numbers.
    pub fn forget(&mut self) {
        self.stacks.clear();
        self.frames.clear();
        self.interrupts.clear();
        self.locks.clear();
    }
}

impl Replay<'_, '_> {
    /// A stack arrived early: it uses the current mappings.
    pub(super) fn stack_came_ahead(&mut self, ahead: &StackAhead<'_>) {
        let thread = self.tasks.thread_at(&ahead.at);
        let stack = self.resolved_stack(&ahead.at, thread, &ahead.stacks, EventKind::Wait);
        let stacks = &mut self.ahead.stacks;
        stacks.insert((ahead.at.time, ahead.at.tid), stack);
        if stacks.len() > MAX_STACKS_AHEAD {
            stacks.pop_first();
        }
    }

    /// The path of a system call arrived early.
    pub(super) fn path_came_ahead(&mut self, path: &CallPath) {
        let paths = &mut self.ahead.paths;
        let kept = path.path.get(..PATH_LEN).unwrap_or(&path.path);
        paths.insert((path.at.time, path.at.tid), String::from_utf8_lossy(kept).into_owned());
        if paths.len() > MAX_PATHS_AHEAD {
            paths.pop_first();
        }
    }

    /// The early stack for a record of this thread with the time `time`; returned only once. `None` if there is none.
    #[expect(clippy::option_option, reason = "the absence of a stack is known too")]
    pub(super) fn stack_ahead(&mut self, time: Timestamp, tid: u32) -> Option<Option<StackId>> {
        self.ahead.stacks.remove(&(time, tid))
    }

    pub(super) fn wait(&mut self, wait: &Wait) {
        let thread = self.tasks.thread_at(&wait.at);
        if self.is_before_the_command(wait) && self.tasks.begins(thread, wait.end) {
            return;
        }
        let stack = match self.stack_ahead(wait.out, wait.at.tid) {
            Some(stack) => stack,
            None => self.resolved_stack(&wait.at, thread, &wait.stacks, EventKind::Wait),
        };
        if let Some(stack) = stack {
            let tallies = &mut self.tallies;
            tallies.waits.count(&self.tables, &mut tallies.ends, stack);
        }
        let recording = &mut self.tables.recording;
        recording.waits_seen = recording.waits_seen.saturating_add(u64::from(wait.count));
        let call = wait.call.as_ref().map(|call| self.call(wait, call));
        let is = |flag: u32| wait.flags & flag != 0;
        let end = wait.end.max(wait.out);
        // Whatever a record says: a thread is off-CPU no longer than from the first switch-out to the last switch-in.
        // A wait in progress at the start of the recording begins with it.
        let start = wait.out.max(self.tables.recording.start).min(end);
        let off = Duration::from_nanos(wait.off).min(end.since(start));
        let reason = self.reason(wait, call.as_ref(), stack);
        let fact = WaitFact {
            start,
            end,
            thread,
            stack,
            off,
            queued: Duration::from_nanos(wait.queued).min(off),
            longest: Duration::from_nanos(wait.longest).min(off),
            count: wait.count.max(1),
            reason,
            futex: self.futex(wait, call.as_ref(), (thread, reason)),
            lock: self.kernel_lock(wait, stack, reason).map(Box::new),
            priority: wait.priority.and_then(|priority| i16::try_from(priority).ok()),
            call,
            waker: (wait.waker.as_ref())
                .filter(|waker| waker.tid != OUTSIDE)
                .map(|waker| self.waker(wait, waker)),
            coverage: if is(WAIT_UNSEEN_START) || wait.out < start {
                Coverage::StartMissed
            } else if is(WAIT_UNFINISHED) {
                Coverage::EndMissed
            } else if is(WAIT_LIKE_EARLIER) {
                Coverage::StackReused
            } else {
                Coverage::Full
            },
            in_fault: is(WAIT_IN_FAULT),
            // One that is in progress has got none yet.
            cpu: (!is(WAIT_UNFINISHED)).then_some(wait.cpu),
        };
        if wait.flags & (WAIT_THROTTLED | WAIT_PREEMPTED) == WAIT_THROTTLED && fact.count == 1 {
            let (fact, throttled) = split_at_wakeup(fact);
            self.tables.recording.waits_seen += 1;
            self.finished_wait(&fact);
            self.finished_wait(&throttled);
        } else {
            self.finished_wait(&fact);
        }
    }

    fn finished_wait(&mut self, fact: &WaitFact) {
        self.first_reports.waited(fact);
        self.show_tasks();
        self.sink.wait(&self.tables, fact);
        self.show_tasks();
        self.join_wait(fact);
    }

    /// The command starts blocked until the recorder is ready: a wait in progress at the start of a command's
    /// recording is that one.
    fn is_before_the_command(&self, wait: &Wait) -> bool {
        let recording = &self.tables.recording;
        let was_under_way = wait.flags & WAIT_UNSEEN_START != 0 || wait.out < recording.start;
        was_under_way && wait.flags & WAIT_UNFINISHED == 0 && recording.scope == "command"
    }

    fn call(&mut self, wait: &Wait, call: &Call) -> WaitCall {
        let arch = &self.tables.recording.arch;
        let name = self.inputs.calls.entry(call.number);
        let name = name.or_insert_with(|| reasons::call_name(arch, call.number)).clone();
        WaitCall {
            number: call.number,
            name,
            file: call.file.as_ref().and_then(|file| self.open_file(file)),
            // For several calls in one, the first call's path.
            path: self
                .ahead
                .paths
                .remove(&(wait.out, wait.at.tid))
                .filter(|_| wait.count <= 1),
        }
    }

    /// The futex of a wait for a lock or a condition.
    fn futex(
        &mut self,
        wait: &Wait,
        call: Option<&WaitCall>,
        (thread, reason): (ThreadId, WaitReason),
    ) -> Option<Futex> {
        let is_futex = matches!(reason, WaitReason::Lock | WaitReason::Condition);
        let scene = scene(wait.call.as_ref()?, call?);
        let address = reasons::futex_address(&scene).filter(|_| is_futex)?;
        let process = self.tasks.threads.get(thread.index())?.process;
        let place = self.data_at(process, address);
        Some(Futex { address, place })
    }

    /// The file whose data is at an address, and the distance from the start of its mappings.
    fn data_at(&mut self, process: ProcessId, address: Avma) -> Option<(MappedFileId, u64)> {
        let region = self.tasks.region(process, address)?;
        let region = if self.tasks.files.get(region.file).is_anonymous() {
            self.data_before(process, &region)?
        } else {
            region
        };
        let file = self
            .files
            .of_region(&mut self.tables.files, &self.tasks.files, &region)?;
        let start = self.tasks.start_of_file(process, &region);
        let distance = address.0.saturating_sub(start.0);
        self.files.has_futex(file, distance);
        Some((file, distance))
    }

    /// The file of a descriptor, if it has a name: a pipe has one if mkfifo created it.
    fn open_file(&mut self, open: &OpenFile) -> Option<MappedFileId> {
        const TYPE: u32 = 0o170_000;
        let is_named = open.name != 0 || NAMED_TYPES.contains(&(open.mode & TYPE)) || self.files.has_name(open.file);
        if open.file.inode == 0 || !is_named {
            return None;
        }
        let (list, files) = (&mut self.tables.files, &self.tasks.files);
        self.files.of_file(list, files, (open.file, open.name))
    }

    fn reason(&mut self, wait: &Wait, call: Option<&WaitCall>, stack: Option<StackId>) -> WaitReason {
        let input = stack.and_then(|stack| self.input(stack));
        let scene = Scene {
            state: wait.state,
            flags: wait.flags,
            call: wait.call.as_ref().zip(call).map(|(call, named)| scene(call, named)),
        };
        reasons::reason(&scene, input)
    }

    /// What the kernel's part of a stack says.
    fn input(&mut self, stack: StackId) -> Option<Clue> {
        if let Some(known) = self.inputs.stacks.get(&stack) {
            return *known;
        }
        let frames = &mut self.inputs.frames;
        let input = reasons::of_kernel(kernel_functions(&self.tables, stack), |frame, name| {
            *frames.entry(frame).or_insert_with(|| KernelFunction::new(name))
        });
        self.inputs.stacks.insert(stack, input);
        input
    }

    fn waker(&mut self, wait: &Wait, waker: &Waker) -> WakerFact {
        let at = At {
            time: waker.time,
            pid: waker.pid,
            tid: waker.tid,
        };
        let thread = self.tasks.known_thread(&at);
        let user = thread
            .filter(|_| self.dictionary.user.has(waker.user))
            .map(|_| waker.user);
        let stacks = Stacks {
            flags: user.map_or(0, |_| FLAG_USER_REGS),
            user: user.unwrap_or(0),
            kernel: waker.kernel,
            ..Stacks::default()
        };
        let stack = if stacks.user == 0 && stacks.kernel == 0 {
            None
        } else {
            // The woken thread's record refers to it now, and finds it by that thread.
            let key = (wait.at.time, wait.at.tid | OF_WAKER);
            let process = thread.map(|thread| self.tasks.threads[thread.index()].process);
            self.resolved(key, &at, process, &stacks, EventKind::Wait)
        };
        let unsure = wait.flags & WAIT_WAKER_UNSURE != 0;
        WakerFact {
            time: waker.time.max(self.tables.recording.start),
            pid: waker.pid,
            tid: waker.tid,
            thread,
            stack,
            by_interrupt: if unsure {
                stack.and_then(|stack| self.woken_by_interrupt(stack))
            } else {
                Some(wait.flags & WAIT_BY_INTERRUPT != 0)
            },
        }
    }

    /// What the waker's stack says.
    fn woken_by_interrupt(&mut self, stack: StackId) -> Option<bool> {
        let (tables, known) = (&self.tables, &mut self.inputs.interrupts);
        *known.entry(stack).or_insert_with(|| {
            let functions = kernel_functions(tables, stack);
            reasons::in_interrupt(functions.map(|(_, name)| name))
        })
    }
}

/// Splits the wait of a thread whose cgroup had no CPU quota left when it was woken: from then on it waited for that.
fn split_at_wakeup(wait: WaitFact) -> (WaitFact, WaitFact) {
    let throttled = wait.queued;
    let woken = Timestamp(
        wait.end
            .0
            .saturating_sub(u64::try_from(throttled.as_nanos()).unwrap_or(u64::MAX)),
    )
    .max(wait.start);
    let blocked = wait.off.saturating_sub(throttled);
    let second = WaitFact {
        start: woken,
        off: throttled,
        queued: Duration::ZERO,
        longest: throttled,
        reason: WaitReason::Throttled,
        futex: None,
        lock: None,
        call: None,
        waker: None,
        in_fault: false,
        ..wait.clone()
    };
    let first = WaitFact {
        end: woken,
        off: blocked,
        queued: Duration::ZERO,
        longest: blocked,
        cpu: None,
        ..wait
    };
    (first, second)
}

fn scene<'c>(call: &Call, named: &'c WaitCall) -> CallScene<'c> {
    CallScene {
        name: &named.name,
        arguments: call.arguments,
        mode: call.file.map(|file| file.mode),
        is_32_bit: call.number & CALL_I386 != 0,
    }
}

/// The kernel frames of a stack, innermost first, with their names.
pub(super) fn kernel_functions(tables: &Tables, stack: StackId) -> impl Iterator<Item = (FrameId, &str)> {
    let mut next = Some(stack);
    std::iter::from_fn(move || {
        let node = tables.stacks.get(next?.index())?;
        next = node.parent;
        let frame = tables.frames.get(node.frame.index())?;
        let name = tables.names.get(&node.frame).map_or("", |name| &*name.symbol);
        matches!(frame.location, Location::Kernel { .. }).then_some((node.frame, name))
    })
}
