//! The eBPF programs: one file a noun, and what they share.
//!
//! | file | tells |
//! |---|---|
//! | sample, switch, fault, block, task | the programs |
//! | wait | what a switch says of a wait, and who ends it |
//! | names | files' names, each sent once |
//! | scope | who is recorded |
//! | walk | user stacks along unwind tables |
//! | lookup | where an address lies: its range of code, its row |
//! | intern | each distinct stack is sent once |
//! | stack | the stacks of an event: walked, and copied where a walk does not reach |
//! | kernel | every field of a kernel struct that is read |
//! | emit | the only place that submits a record or counts a loss |
//! | maps | every map and the configuration |
#![no_std]
#![no_main]
// `swap` of core's atomics, which this target does not have because it has no compare-and-exchange in its first version.
#![feature(core_intrinsics)]
#![allow(internal_features)]

mod block;
mod emit;
mod fault;
mod intern;
mod kernel;
mod lookup;
mod maps;
mod names;
mod preempt;
mod sample;
mod scope;
mod stack;
mod switch;
mod task;
mod wait;
mod walk;

/// The kernel offers the helpers we use to GPL-compatible programs only.
#[unsafe(no_mangle)]
#[unsafe(link_section = "license")]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // Never reached: the verifier refuses a program with an endless loop, so no panic may be left in one.
    loop {}
}
