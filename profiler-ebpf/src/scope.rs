//! Which threads are recorded: those in [`THREADS`], or every task but the recorder's own, of which [`selection`] may leave out some.

use core::ffi::c_void;

use profiler_common::fault::BEFORE_UNKNOWN;
use profiler_common::scope::{self, ThreadState, Wanted};
use profiler_common::selection::{ENTERED, EXECUTING};
use profiler_common::space::{first_space_id, space_id};
use profiler_common::task::TaskNew;
use profiler_common::{Loss, RecordKind};

use crate::emit::{At, lose, now, task_event};
use crate::kernel::Task;
use crate::maps::{BOUNDS, SPACES, THREADS, WANTED, WANTED_COUNTS, config, volatile};
use crate::selection;

/// The thread's state if it is recorded. The state of a thread that user space wants, and with `-a` of any thread, is created when the
/// thread is first seen.
#[inline(always)]
pub fn thread(task: Task) -> Option<*mut ThreadState> {
    if is_elsewhere(task) {
        return None;
    }
    let state = also_hidden(task)?;
    if is_out(task) {
        return None;
    }
    Some(state)
}

/// Whether the thread is not recorded because of its cgroup, as far as that is remembered.
#[inline(always)]
pub fn is_elsewhere(task: Task) -> bool {
    selection::is_by_cgroup() && selection::is_elsewhere(task)
}

/// Whether the recording of a recorded thread is to end: it hides itself, or is not one of those to record any more.
#[inline(always)]
pub fn is_out(task: Task) -> bool {
    config!(hides) == scope::HIDES_ALWAYS && task.is_hidden() || is_unselected(task)
}

/// Whether a recorded thread is not one of those to record any more.
#[inline(always)]
pub fn is_unselected(task: Task) -> bool {
    selection::is_used() && !selection::contains(task, true)
}

/// As [`thread`], but includes one that [`is_out`]: only its end is recorded.
#[inline(always)]
pub fn also_hidden(task: Task) -> Option<*mut ThreadState> {
    let known = THREADS.get_ptr_mut(&task.address());
    if known.is_some() {
        return known;
    }
    if config!(whole_system) == 0 && !is_anybody_wanted() {
        return None;
    }
    if is_elsewhere(task) {
        return None;
    }
    if selection::is_used() && !selection::contains(task, false) {
        return None;
    }
    if meet(task.number(), task.pid(), task.tid()) == 0 {
        return None;
    }
    THREADS.get_ptr_mut(&task.address())
}

/// Creates the state of a thread that is first seen. 0: it is not to be recorded.
///
/// Exported, so that the verifier checks it once, and not in each program that looks up a thread.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn meet(task: u64, pid: u32, tid: u32) -> u32 {
    if tid == 0 {
        return 0; // the idle task, or one that is not in the recorder's pid namespace
    }
    // SAFETY: user space writes an entry once.
    if let Some(&wanted) = unsafe { WANTED.get(&tid) } {
        enter(task, pid, tid, wanted);
        // Another CPU may see the thread at the same time: the one that removes the entry counts it.
        if WANTED.remove(&tid).is_ok() {
            met();
        }
        return 1;
    }
    if config!(whole_system) == 0 || is_excluded(pid) {
        return 0;
    }
    let wanted = Wanted {
        since: now(),
        space: first_space_id(pid),
        before: BEFORE_UNKNOWN,
    };
    if enter(task, pid, tid, wanted).is_none() {
        return 0;
    }
    if selection::is_used() {
        entered(
            Task::new(task as *const c_void),
            At {
                time: wanted.since,
                pid,
                tid,
            },
            wanted.space,
        );
    }
    1
}

/// Reports a thread that is recorded from now on, although no recorded thread created it.
#[inline(always)]
fn entered(task: Task, at: At, space: u64) {
    let executing = if task.is_executing() { EXECUTING } else { 0 };
    task_event(RecordKind::TaskNew, at, |record: *mut TaskNew| {
        // SAFETY: a reserved record of this type.
        unsafe {
            (*record).parent_pid = 0;
            (*record).parent_tid = 0;
            (*record).clone_flags = ENTERED | executing;
            (*record).space = space;
            task.copy_comm(&raw mut (*record).comm);
        }
    });
}

/// When the recording begins; `u64::MAX`: not known yet.
///
/// Hooks are attached one by one, and existing threads are looked up meanwhile. Before the beginning and after the end the programs
/// keep track of which threads are recorded and of nothing else, so all records and sums cover the same period.
#[inline(always)]
pub fn beginning() -> u64 {
    bound(scope::BEGINNING)
}

/// As above.
#[inline(always)]
pub fn end() -> u64 {
    bound(scope::END)
}

#[inline(always)]
fn bound(place: u32) -> u64 {
    match BOUNDS.get(place).map_or(0, volatile) {
        0 => u64::MAX,
        time => time,
    }
}

/// Whether an event at `time` is part of the recording.
#[inline(always)]
pub fn is_within(time: u64) -> bool {
    let (Some(beginning), Some(end)) = (BOUNDS.get(scope::BEGINNING), BOUNDS.get(scope::END)) else {
        return false;
    };
    // One less, so that 0, which means unknown yet, is the latest time of all: old verifiers would follow a branch for it through all the rest.
    time > volatile(beginning).wrapping_sub(1) && time <= volatile(end).wrapping_sub(1)
}

/// The end of the recording is not known yet: an event that began within it is part of it. User space sets the end in advance.
#[inline(always)]
pub fn goes_on() -> bool {
    BOUNDS.get(scope::END).is_some_and(|end| volatile(end) == 0)
}

/// When the recording of the thread begins.
///
/// # Safety
/// `state` must be an entry of [`THREADS`].
#[inline(always)]
pub unsafe fn since(state: *const ThreadState) -> u64 {
    // SAFETY: by this function's own condition.
    unsafe { (*state).since }.max(beginning())
}

/// When the wait of a recorded thread that no switch has shown yet began, as far as the recording shows it.
///
/// The thread may be woken meanwhile, so its entry is left to its waker.
#[inline(always)]
pub fn unseen_since(task: Task) -> Option<u64> {
    if is_out(task) {
        return None;
    }
    let since = match THREADS.get_ptr(&task.address()) {
        // SAFETY: words of an entry, which may be another thread's by now, and are numbers in that case, too.
        Some(state) => unsafe { ((*state).waits.seen == 0).then_some((*state).since)? },
        // SAFETY: user space writes an entry once.
        None => unsafe { WANTED.get(task.tid()) }?.since,
    };
    Some(since.max(beginning()))
}

/// The current thread's state, if it is recorded.
#[inline(always)]
pub fn current_thread() -> Option<*mut ThreadState> {
    thread(Task::current())
}

/// The thread at `time`, with the ids that were last reported.
///
/// # Safety
/// `state` must be an entry of [`THREADS`].
#[inline(always)]
pub unsafe fn at(state: *const ThreadState, time: u64) -> At {
    // SAFETY: by this function's own condition.
    let (pid, tid) = unsafe { ((*state).pid, (*state).tid) };
    At { time, pid, tid }
}

/// Records a thread, by the address of its `task_struct`. `None`: the table is full.
#[inline(always)]
pub fn enter(task: u64, pid: u32, tid: u32, wanted: Wanted) -> Option<*mut ThreadState> {
    // It is too large for a program's stack, so it starts as zeroes, which no program reads yet.
    if THREADS.insert(&task, &BLANK, 0).is_err() {
        lose(Loss::ThreadTableFull);
    }
    let state = THREADS.get_ptr_mut(&task)?;
    // SAFETY: the entry was created above.
    unsafe {
        (*state).pid = pid;
        (*state).tid = tid;
        (*state).space = wanted.space;
        (*state).faults.counts.before = wanted.before;
        (*state).since = wanted.since;
    }
    Some(state)
}

#[inline(always)]
fn is_anybody_wanted() -> bool {
    let count = |place: u32| WANTED_COUNTS.get(place).map_or(0, volatile);
    count(scope::WANTED) > count(scope::MET)
}

#[inline(always)]
fn met() {
    if let Some(count) = WANTED_COUNTS.get_ptr_mut(scope::MET) {
        // SAFETY: one word. Two CPUs at once may count one: then threads are looked up in vain, which takes a moment each time.
        unsafe { *count += 1 };
    }
}

/// A thread about which nothing is known yet.
static BLANK: ThreadState = ThreadState {
    since: 0,
    total: 0,
    reported: 0,
    counted: 0,
    tid: 0,
    space: 0,
    pid: 0,
    // SAFETY: numbers only.
    faults: unsafe { core::mem::zeroed() },
    // SAFETY: as above.
    waits: unsafe { core::mem::zeroed() },
};

/// Whether a new thread, `child` of process `pid`, is recorded: if its creator, the current thread, is, or by what it is itself.
#[inline(always)]
pub fn inherits(creator: Option<*mut ThreadState>, child: Task, pid: u32) -> bool {
    if config!(whole_system) != 0 {
        pid != 0
            && !is_elsewhere(child)
            && !is_excluded(pid)
            && !(selection::is_used() && !selection::contains(child, false))
    } else {
        creator.is_some()
    }
}

/// The address space of the current thread's child: its creator's, or a new one with the same mappings.
#[inline(always)]
pub fn space_of_child(creator: Option<*mut ThreadState>, creator_pid: u32, child_pid: u32, shares: bool) -> u64 {
    let creators = match creator {
        // SAFETY: the creator is the current thread, so its entry stays.
        Some(creator) => unsafe { (*creator).space },
        None => first_space_id(creator_pid),
    };
    if shares {
        return creators;
    }
    let space = space_id(child_pid, now());
    // SAFETY: the run is one word.
    if let Some(run) = unsafe { SPACES.get(&creators) }
        && SPACES.insert(&space, run, 0).is_err()
    {
        lose(Loss::SpaceTableFull);
    }
    space
}

/// Removes a thread that ends.
#[inline(always)]
pub fn leave(task: Task, tid: u32) {
    let _ = THREADS.remove(&task.address()); // absent is as good as removed
    // User space may have wanted it after its creator had already added it to the recording.
    if is_anybody_wanted() && WANTED.remove(&tid).is_ok() {
        met();
    }
}

/// Removes a thread whose last switch was not shown: a new thread that is not recorded has its address now.
#[inline(always)]
pub fn forget(task: Task) {
    // Mostly there is none, and looking takes no lock.
    if THREADS.get_ptr(&task.address()).is_some() {
        let _ = THREADS.remove(&task.address());
    }
}

/// The id under which a thread's end is reported.
///
/// The thread that called `execve` takes over the first thread's id, while that one runs its last instructions. If that
/// `execve` has been reported by now, the id means the other thread.
///
/// # Safety
/// `state` must be the entry of `task`, which is the current one.
#[inline(always)]
pub unsafe fn last_tid(task: Task, state: *const ThreadState) -> u32 {
    // SAFETY: by this function's own condition.
    let (pid, tid) = unsafe { ((*state).pid, (*state).tid) };
    let number = task.tid();
    if number == tid || number == 0 {
        return tid;
    }
    let Some(successor) = task.group_leader_address().and_then(|leader| THREADS.get_ptr(&leader)) else {
        return tid;
    };
    // SAFETY: the successor's entry stays while it waits for this thread to be gone, and one word is read.
    if unsafe { (*successor).tid } == pid {
        number
    } else {
        tid
    }
}

#[inline(always)]
fn is_excluded(pid: u32) -> bool {
    let excluded = config!(exclude_pid);
    excluded[0] == pid || excluded[1] == pid || excluded[2] == pid
}
