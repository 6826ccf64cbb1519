//! task: births, executables, names and ends of threads.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::{bpf_probe_read_kernel_str, bpf_probe_read_user};
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use profiler_common::RecordKind;
use profiler_common::scope::{ThreadState, Wanted};
use profiler_common::selection::ENTERED;
use profiler_common::space::space_id;
use profiler_common::switch::ENDED_LATER;
use profiler_common::task::{COMM_LEN, COMMAND_LINE_LEN, PATH_LEN, TaskExec, TaskExit, TaskNew, TaskRename};

use crate::emit::{At, now, task_event};
use crate::kernel::{Binprm, Task, current_ids};
use crate::maps::config;
use crate::preempt::Held;
use crate::{cpu, fault, scope, selection, wait};

/// `CLONE_VM` of include/uapi/linux/sched.h: the child has the creator's address space.
const CLONE_VM: u64 = 0x100;

/// `task_newtask(struct task_struct *task, unsigned long clone_flags)`, in the creator's context.
///
/// Not `sched_process_fork`: the workers of io_uring do not pass it.
#[btf_tracepoint(function = "task_newtask")]
pub fn task_newtask(ctx: BtfTracePointContext) -> i32 {
    let _held = Held::new();
    // After the end the table of threads stays as it is, for user space to read.
    if now() >= scope::end() {
        return 0;
    }
    let child = Task::new(ctx.arg::<*const c_void>(0));
    let clone_flags = ctx.arg::<u64>(1);
    let (parent_pid, parent_tid) = current_ids();
    let (pid, tid) = (child.pid(), child.tid());
    let creator = scope::current_thread();
    selection::process_born(parent_pid, pid);
    if !scope::inherits(creator, child, pid) {
        scope::forget(child);
        return 0;
    }
    let space = scope::space_of_child(creator, parent_pid, pid, clone_flags & CLONE_VM != 0);
    // Its mappings and its program are those of a process that is not recorded.
    let entered = if selection::is_used() && creator.is_none() {
        ENTERED
    } else {
        0
    };
    // One moment: a thread's running time and its waits add up to its lifetime.
    let at = At::now(pid, tid);
    let wanted = Wanted {
        since: at.time,
        space,
        before: 0,
    };
    if let Some(state) = scope::enter(child.address(), pid, tid, wanted) {
        // If it is born before the beginning, its first wait is not seen, as with all others that exist then.
        if scope::is_within(at.time) {
            // SAFETY: the entry was just created.
            unsafe { wait::born(state) };
        }
    }
    task_event(RecordKind::TaskNew, at, |record: *mut TaskNew| {
        // SAFETY: a reserved record of this type.
        unsafe {
            (*record).parent_pid = parent_pid;
            (*record).parent_tid = parent_tid;
            (*record).clone_flags = clone_flags | entered;
            (*record).space = space;
            child.copy_comm(&raw mut (*record).comm);
        }
    });
    0
}

/// `sched_process_exec(struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm)`, in the process's context, with
/// the new address space.
#[btf_tracepoint(function = "sched_process_exec")]
pub fn sched_process_exec(ctx: BtfTracePointContext) -> i32 {
    let _held = Held::new();
    let task = Task::new(ctx.arg::<*const c_void>(0));
    let bprm = Binprm::new(ctx.arg::<*const c_void>(2));
    let (pid, tid) = (task.pid(), task.tid());
    let Some(state) = scope::also_hidden(task) else {
        return 0;
    };
    if config!(hides) != 0 && task.is_hidden() || scope::is_unselected(task) {
        end_here(task, state);
        return 0;
    }
    let at = At::now(pid, tid);
    if at.time >= scope::end() {
        return 0;
    }
    let space = space_id(pid, at.time);
    let old_tid = if config!(pid_namespace_level) == 0 {
        ctx.arg::<u32>(1)
    } else {
        // SAFETY: the current thread's own entry.
        unsafe { (*state).tid }
    };
    // SAFETY: as above.
    unsafe {
        (*state).space = space;
        // A thread other than the first has the first one's id now.
        (*state).tid = tid;
    }
    task_event(RecordKind::TaskExec, at, |record: *mut TaskExec| {
        // SAFETY: a reserved record of this type.
        unsafe {
            (*record).old_tid = old_tid;
            (*record).pad = 0;
            (*record).space = space;
            task.copy_comm(&raw mut (*record).comm);
            (*record).path_len = copy_path(bprm, &raw mut (*record).path);
            (*record).command_line_len = copy_command_line(task, &raw mut (*record).command_line);
        }
    });
    0
}

/// `sched_process_exit(struct task_struct *p, ...)`, in `do_exit`: the thread continues to run for a while (since 6.16 it even
/// frees its address space after this), so its end is its last switch-out, on a CPU that shows its switches.
#[btf_tracepoint(function = "sched_process_exit")]
pub fn sched_process_exit(ctx: BtfTracePointContext) -> i32 {
    let _held = Held::new();
    let task = Task::new(ctx.arg::<*const c_void>(0));
    // At its last switch it may have no number in a pid namespace any more.
    if config!(pid_namespace_level) != 0 {
        selection::thread_ended(task, true);
    }
    if cpu::is_watched() {
        return 0;
    }
    let Some(state) = scope::also_hidden(task) else {
        return 0;
    };
    end_here(task, state);
    0
}

/// `cgroup_attach_task(struct cgroup *dst_cgrp, const char *path, struct task_struct *leader, bool threadgroup)`: a process or a thread has
/// moved. One that moved itself is recorded from now on, or until now; another one from its next event on.
#[btf_tracepoint(function = "cgroup_attach_task")]
pub fn cgroup_attach_task(_: BtfTracePointContext) -> i32 {
    let _held = Held::new();
    let task = Task::current();
    if let Some(state) = scope::also_hidden(task)
        && scope::is_unselected(task)
    {
        end_here(task, state);
    }
    0
}

/// Stops recording the thread, which continues to run.
#[inline(always)]
fn end_here(task: Task, state: *mut ThreadState) {
    let time = now();
    // SAFETY: the current thread's own entry.
    let unreported = unsafe { cpu::on_cpu_time(state, time).saturating_sub((*state).reported) };
    ended(task, state, time, unreported);
}

/// Reports a thread's last moment.
#[inline(always)]
pub fn ended(task: Task, state: *mut ThreadState, time: u64, unreported: u64) {
    if time >= scope::end() {
        // SAFETY: the thread's own entry; it runs here.
        unsafe { (*state).waits.seen = ENDED_LATER };
        return;
    }
    // SAFETY: the thread's own entry; it runs here.
    let at = unsafe {
        At {
            tid: scope::last_tid(task, state),
            ..scope::at(state, time)
        }
    };
    // SAFETY: as above.
    let counts = unsafe {
        wait::tell_merged(state, at);
        if selection::was_limited() && scope::is_unselected(task) {
            fault::count_outside(state, task);
        }
        fault::ended(state, at)
    };
    task_event(RecordKind::TaskExit, at, |record: *mut TaskExit| {
        // SAFETY: a reserved record of this type.
        unsafe {
            (*record).exit_code = task.exit_code();
            (*record).pad = 0;
            (*record).cpu_time = unreported;
            (*record).sum_exec_runtime = task.sum_exec_runtime();
            (*record).minor_faults = task.minor_faults();
            (*record).major_faults = task.major_faults();
            (*record).faults = counts;
        }
    });
    // SAFETY: as above.
    scope::leave(task, unsafe { (*state).tid });
}

/// `task_rename(struct task_struct *task, const char *comm)`: before the change.
#[btf_tracepoint(function = "task_rename")]
pub fn task_rename(ctx: BtfTracePointContext) -> i32 {
    let _held = Held::new();
    let task = Task::new(ctx.arg::<*const c_void>(0));
    let name = ctx.arg::<*const c_void>(1);
    let (pid, tid) = (task.pid(), task.tid());
    if scope::thread(task).is_none() {
        return 0;
    }
    task_event(RecordKind::TaskRename, At::now(pid, tid), |record: *mut TaskRename| {
        // SAFETY: a reserved record of this type; the helper stops at the buffer's end.
        unsafe {
            (*record).comm = [0; COMM_LEN];
            bpf_probe_read_kernel_str((&raw mut (*record).comm).cast(), COMM_LEN as u32, name);
        }
    });
    0
}

/// Returns the valid bytes.
///
/// # Safety
/// `to` must be writable.
#[inline(always)]
unsafe fn copy_path(bprm: Binprm, to: *mut [u8; PATH_LEN]) -> u32 {
    let Some(path) = bprm.filename() else { return 0 };
    // SAFETY: the helper stops at the buffer's end.
    let copied = unsafe { bpf_probe_read_kernel_str(to.cast(), PATH_LEN as u32, path.cast()) };
    if copied > 0 { (copied - 1) as u32 } else { 0 } // without the NUL
}

/// Returns the valid bytes.
///
/// # Safety
/// `to` must be writable.
#[inline(always)]
unsafe fn copy_command_line(task: Task, to: *mut [u8; COMMAND_LINE_LEN]) -> u32 {
    let Some((start, end)) = task.mm().and_then(|mm| mm.arguments()) else {
        return 0;
    };
    let len = end.saturating_sub(start).min(COMMAND_LINE_LEN as u64) as u32;
    // SAFETY: at most the buffer's size is read.
    let failed = unsafe { bpf_probe_read_user(to.cast(), len, start as *const c_void) } != 0;
    if failed { 0 } else { len }
}
