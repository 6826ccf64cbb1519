//! Programs that need not look at a call, since another one has handled it.
//!
//! The kernel skips a program that is already running on this CPU, preempted in another thread. Where a function has two
//! programs for this reason, the second finds in the thread's state that the first has run. A note on this CPU shows the
//! same with a third of the instructions.

use aya_ebpf::helpers::generated::bpf_get_current_task;
use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;

/// What the programs are attached to; each has a note.
#[derive(Clone, Copy)]
pub enum Function {
    /// The handler of exceptions (arm64).
    #[cfg_attr(bpf_target_arch = "x86_64", expect(dead_code))]
    Exception,
    /// The entry of `handle_mm_fault`.
    Entry,
    /// Its exit.
    Exit,
}

/// The last call that was handled: the task, and the address that it accesses. All zeroes: none.
#[map]
static HANDLED: PerCpuArray<[u64; 2]> = PerCpuArray::with_max_entries(3, 0);

/// The current thread's call for `address`. The task is a number, since the verifier refuses to compare typed pointers.
#[inline(always)]
fn call(address: u64) -> [u64; 2] {
    // SAFETY: the helper has no preconditions.
    [unsafe { bpf_get_current_task() }, address]
}

/// Notes that this program handles the call.
///
/// If the thread moves to another CPU before the second program runs, that one finds no note and looks at the call itself. The
/// note that is left behind makes one program of a later call with the same address return early, and the other one handles it.
#[inline(always)]
pub fn note(function: Function, address: u64) {
    if let Some(handled) = HANDLED.get_ptr_mut(function as u32) {
        // SAFETY: this CPU's own. If the program is preempted here, half a note matches no call.
        unsafe { *handled = call(address) };
    }
}

/// Whether another program has handled the call on this CPU. Removes its note.
#[inline(always)]
pub fn is_handled(function: Function, address: u64) -> bool {
    let Some(handled) = HANDLED.get_ptr_mut(function as u32) else {
        return false;
    };
    // SAFETY: this CPU's own. A note that another thread writes meanwhile may be removed, which costs time only.
    unsafe {
        let is_handled = *handled == call(address);
        if is_handled {
            (*handled)[0] = 0;
        }
        is_handled
    }
}
