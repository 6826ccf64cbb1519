//! arm64: its eBPF object, exceptions and system calls.

use aya::{Btf as Types, Ebpf};
use base::event::HookStatus;
use libc::c_long;
use profiler_common::config::{CallSet, Config};
use profiler_common::unwind::{Arch, address_mask};

use super::{calls, mark};
use crate::hooks::ahead::Wanted;
use crate::hooks::btf::Btf;
use crate::hooks::hook::{self, hook};
use crate::proc::page_cache;

/// The object that scripts/build-ebpf built from profiler-ebpf/.
pub static OBJECT: Option<&[u8]> = Some(aya::include_bytes_aligned!("../../../ebpf/ngmi-aarch64.o"));
/// The processor of the walker's rules.
pub const ARCH: Arch = Arch::Aarch64;
/// Programs on the exception that begins a fault: both or none are attached. The kernel has no tracepoint there. It skips a
/// program that was preempted in another thread on the same CPU; then its twin runs.
pub const EXCEPTIONS: [&str; 2] = ["memory_abort", "memory_abort_again"];
/// Of [`EXCEPTIONS`], those of which one runs where the kernel skips the other.
pub const EXCEPTION_TWINS: &[[&str; 2]] = &[EXCEPTIONS];
/// The function that serves them.
const ABORT: &str = "do_mem_abort";

/// [`EXCEPTIONS`], with what they attach to.
pub fn exception_programs() -> impl Iterator<Item = Wanted> {
    EXCEPTIONS.into_iter().map(|name| (name, ABORT))
}

/// Attaches [`EXCEPTIONS`].
pub fn exceptions(ebpf: &mut Ebpf, types: &Types, remedy: &str) -> Vec<HookStatus> {
    let result = EXCEPTIONS
        .iter()
        .try_for_each(|name| hook::attach_entry(ebpf, name, ABORT, types));
    vec![hook::with_remedy(
        hook("fault", &format!("fentry {ABORT}"), result),
        remedy,
    )]
}

/// Writes the machine's properties that the programs need: the size of pages, and the bits of addresses.
pub fn configure(config: &mut Config) {
    config.page_shift = page_cache::page_size().trailing_zeros();
    // The kernel puts stacks at the upper end of an address space.
    if let Some(highest) = highest_mapping() {
        config.address_mask = address_mask(highest);
    }
}

/// The last address of this process's highest mapping.
fn highest_mapping() -> Option<u64> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let ends = maps.lines().filter_map(|line| line.split([' ', '-']).nth(1));
    ends.filter_map(|end| u64::from_str_radix(end, 16).ok())
        .max()
        .map(|end| end.saturating_sub(1))
}

/// Where the count of nested interrupts of the current CPU is: in its current task, at this offset.
pub fn preempt_count(types: &Btf) -> Option<(u64, u64)> {
    let field = types.offset("task_struct.thread_info.preempt.count")?;
    Some((0, field.into()))
}

/// Levels of page tables and bits of a physical address. `None`: they are not read here (profiler-ebpf/src/arch/aarch64/table.rs).
pub fn page_tables() -> Option<(u32, u32)> {
    None
}

/// Calls whose first argument is a descriptor, and which may wait for the file behind it.
pub fn calls_with_descriptor() -> CallSet {
    calls(calls::WITH_DESCRIPTOR)
}

/// Calls whose first argument is a path.
pub fn calls_with_path() -> CallSet {
    calls(calls::WITH_PATH)
}

/// Calls whose second argument is a path, relative to the descriptor in the first.
pub fn calls_with_path_second() -> CallSet {
    calls(calls::WITH_PATH_SECOND)
}

/// The calls with these numbers. The programs do not name those of 32-bit programs.
fn calls(numbers: &[c_long]) -> CallSet {
    let mut set = CallSet::EMPTY;
    let numbers = numbers.iter().filter_map(|&number| usize::try_from(number).ok());
    mark(&mut set.native, numbers);
    set
}
