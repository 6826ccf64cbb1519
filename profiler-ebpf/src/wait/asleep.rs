//! Threads that are off-CPU when the recording begins. No switch shows where they are, and a hanging one is never switched in.

use core::ffi::c_void;

use aya_ebpf::bindings::seq_file;
use aya_ebpf::helpers::generated::{bpf_get_task_stack, bpf_seq_write};
use profiler_common::switch::{Asleep, WAIT_HAS_FILE, WAIT_IN_CALL, WAIT_IO};

use super::is_among;
use crate::emit::At;
use crate::kernel::Task;
use crate::maps::{ASLEEP, CONFIG};
use crate::preempt::Held;
use crate::{names, scope};

/// `struct bpf_iter__task`: the kernel calls the program once for each task, and once more without one.
#[repr(C)]
struct Context {
    /// `struct bpf_iter_meta *`, which begins with the file that is read.
    meta: *const *mut seq_file,
    task: *const c_void,
}

#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task")]
pub extern "C" fn asleep(context: *mut c_void) -> i32 {
    let context = context.cast::<Context>();
    // SAFETY: the kernel hands over such a context, and the verifier knows the types of its pointers.
    let (meta, task) = unsafe {
        (
            core::ptr::read_volatile(&raw const (*context).meta),
            core::ptr::read_volatile(&raw const (*context).task),
        )
    };
    if task.is_null() {
        return 0;
    }
    let task = Task::new(task);
    if task.is_runnable() || task.is_kernel_thread() {
        return 0;
    }
    let Some(out) = scope::unseen_since(task) else { return 0 };
    let _held = Held::new();
    let Some(asleep) = ASLEEP.get_ptr_mut(0) else { return 0 };
    // SAFETY: this CPU's own memory, which no other program uses.
    unsafe {
        describe(asleep, task, out);
        let seq = core::ptr::read_volatile(meta);
        // A task that does not fit now is requested once more.
        bpf_seq_write(seq, asleep.cast(), size_of::<Asleep>() as u32);
    }
    0
}

/// # Safety
/// `asleep` must be writable.
#[inline(always)]
unsafe fn describe(asleep: *mut Asleep, task: Task, out: u64) {
    // SAFETY: by this function's own condition.
    unsafe {
        ((*asleep).pid, (*asleep).tid, (*asleep).out) = (task.pid(), task.tid(), out);
        (*asleep).regs = task.user_regs();
        (*asleep).state = task.state();
        (*asleep).flags = if task.is_in_iowait() { WAIT_IO } else { 0 };
        let kernel = (&raw mut (*asleep).kernel).cast();
        let bytes = bpf_get_task_stack(task.as_ptr(), kernel, size_of_val(&(*asleep).kernel) as u32, 0);
        (*asleep).frames = if bytes > 0 { bytes as u32 / 8 } else { 0 };
        let Some(call) = task.call() else { return };
        (*asleep).flags |= WAIT_IN_CALL;
        (*asleep).call = call;
        task.arguments(call, &raw mut (*asleep).arguments);
        if is_among(&CONFIG.calls_with_file, call) {
            let at = At::now((*asleep).pid, (*asleep).tid);
            if let Some(file) = names::tell_open(task, (*asleep).arguments[0], at) {
                (*asleep).file = file;
                (*asleep).flags |= WAIT_HAS_FILE;
            }
        }
    }
}
