//! The eBPF programs: one file per event kind, and what they share.
//!
//! | file | contents |
//! |---|---|
//! | sample, switch, fault, block, task | the programs |
//! | wait | what a switch shows about a wait, and which thread ends it |
//! | names | files' names, each sent once |
//! | scope, selection | which threads are recorded |
//! | twin | several programs for one call, of which one handles it |
//! | cpu | how long a thread has been on CPUs |
//! | walk | user stacks along unwind tables |
//! | lookup | what covers an address: its range of code, its row |
//! | intern | sends each distinct stack once |
//! | stack, copy | the stacks of an event: walked, and copied where the walk ends early |
//! | arch | what depends on the processor: registers, system calls, page tables |
//! | kernel, read | every kernel struct field that is read |
//! | emit | the only place that submits a record or counts a loss |
//! | maps | the maps of several files, and the configuration |
#![no_std]
#![no_main]
// `swap` of core's atomics; this target lacks it because its first version has no compare-and-exchange.
#![feature(core_intrinsics)]
#![allow(internal_features)]

mod arch;
mod block;
mod copy;
mod cpu;
mod emit;
mod fault;
mod intern;
mod kernel;
mod lookup;
mod maps;
mod names;
mod preempt;
mod read;
mod sample;
mod scope;
mod selection;
mod stack;
mod switch;
mod task;
mod thinning;
mod twin;
mod wait;
mod walk;

/// The kernel offers the helpers that we use to GPL-compatible programs only.
#[unsafe(no_mangle)]
#[unsafe(link_section = "license")]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // Never reached: the verifier rejects a program with an endless loop, so no panic may remain in one.
    loop {}
}
