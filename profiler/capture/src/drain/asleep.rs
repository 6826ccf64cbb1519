//! Writes where threads were that were off-CPU when the recording began.

use profiler_common::stack::{
    FLAG_IN_KERNEL, FLAG_STACK_CUT, FLAG_STACK_STOPPED, FLAG_STACK_UNREADABLE, FLAG_USER_REGS, MAX_KERNEL_FRAMES, mix,
};
use profiler_common::switch::Asleep;

use super::cycle::Drain;
use super::records::Unseen;
use crate::hooks::sleepers::Sleeper;
use base::addr::Timestamp;
use base::event::{At, CallPath, Event, KernelStack, StackAhead, Stacks};

/// Writes where the recorded threads are, before their waits, which [`Drain`] completes when they are emitted.
pub fn write(drain: &mut Drain, sleepers: Vec<Sleeper>, limit: u32) {
    for Sleeper { asleep, copy, path } in sleepers {
        // A thread that has ended since, or has become a program that may not be inspected, has already reported its
        // wait.
        if !drain.recorded.knows(asleep.pid, asleep.tid) {
            continue;
        }
        let at = At {
            time: Timestamp(asleep.out),
            pid: asleep.pid,
            tid: asleep.tid,
        };
        let stacks = Stacks {
            flags: FLAG_USER_REGS | FLAG_IN_KERNEL | end_of(&copy, limit),
            user: 0,
            kernel: kernel_stack(drain, &asleep),
            regs: asleep.regs,
            copy: copy.into(),
        };
        drain.write(&Event::StackAhead(StackAhead { at, stacks }));
        if !path.is_empty() {
            drain.write(&Event::CallPath(CallPath { at, path }));
        }
        drain.asleep.insert((asleep.tid, at.time), Unseen::of(&asleep));
    }
}

fn end_of(copy: &[u8], limit: u32) -> u32 {
    match copy.len() {
        0 => FLAG_STACK_UNREADABLE,
        len if len == limit as usize => FLAG_STACK_CUT,
        _ => FLAG_STACK_STOPPED,
    }
}

/// The key of the kernel stack, which is written; 0: there is none, or kernel addresses are hidden.
fn kernel_stack(drain: &mut Drain, asleep: &Asleep) -> u64 {
    let count = (asleep.frames as usize).min(MAX_KERNEL_FRAMES);
    let addresses = &asleep.kernel[..count];
    let Some(kernel) = drain.kernel.as_mut().filter(|_| count > 0) else {
        return 0;
    };
    let key = addresses.iter().fold(0, |key, address| mix(key, *address)) | 1;
    let frames = addresses.iter().enumerate();
    let frames = frames
        .map(|(depth, address)| kernel.offset(*address, depth > 0))
        .collect();
    drain.write(&Event::KernelStack(KernelStack { key, frames }));
    key
}
