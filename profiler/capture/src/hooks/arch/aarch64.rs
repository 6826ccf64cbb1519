//! arm64: its eBPF object, exceptions and system calls.

use std::num::NonZeroUsize;

use aya::{Btf as Types, Ebpf};
use base::event::HookStatus;
use libc::c_long;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use profiler_common::config::{CallSet, Config};
use profiler_common::unwind::{Arch, address_mask};

use super::{calls, mark};
use crate::hooks::ahead::Wanted;
use crate::hooks::btf::Btf;
use crate::hooks::hook::{self, hook};
use crate::proc::{kallsyms, machine, page_cache};

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
    config.page_shift = page_shift();
    if let Some(highest) = highest_address() {
        config.address_mask = address_mask(highest);
    }
}

/// Writes where the count of nested interrupts of the current CPU is: in its current task, at this offset. `None`: this kernel does not have it.
pub fn preempt_count(config: &mut Config, types: &Btf) -> Option<()> {
    config.preempt_count = types.offset("task_struct.thread_info.preempt.count")?.into();
    Some(())
}

/// Writes the levels of page tables, the bits of an address that they translate, and where the kernel's own one is. `None`: the kernel hides
/// its addresses, or memory has addresses of more than 48 bits, which are not in one piece in an entry (`__pte_to_phys`).
pub fn page_tables(config: &mut Config) -> Option<()> {
    let bits = highest_address()?.checked_ilog2()? + 1;
    let levels = levels(page_shift(), bits)?;
    let [kernel_array] = kallsyms::addresses(["swapper_pg_dir"]).ok()?;
    config.kernel_array = kernel_array.filter(|_| machine::memory_end() <= 1 << (48 - 30))?;
    (config.table_levels, config.table_bits) = (levels, bits);
    Some(())
}

/// Levels of the tables that translate this number of bits: each has one page of entries of 8 bytes. `None`: the kernel has no such tables.
fn levels(page_shift: u32, bits: u32) -> Option<u32> {
    let levels = bits.checked_sub(page_shift)?.div_ceil(page_shift.checked_sub(3)?);
    (2..=5).contains(&levels).then_some(levels)
}

fn page_shift() -> u32 {
    page_cache::page_size().trailing_zeros()
}

/// An address whose highest bit is the highest one of this machine's user addresses.
fn highest_address() -> Option<u64> {
    // Where addresses have 52 bits, the kernel uses 47 or 48 of them unless a program asks for more (Documentation/arch/arm64/memory.rst).
    if has_mapping_at(HIGH) {
        return Some(HIGH);
    }
    // Otherwise it puts stacks at the upper end.
    highest_mapping()
}

/// An address of 52 bits, far below the last one.
const HIGH: u64 = (1 << 52) - (1 << 32);

/// Whether the kernel maps a page at this address, or above: it has to be asked for the address.
fn has_mapping_at(address: u64) -> bool {
    let (Some(hint), Some(len)) = (
        usize::try_from(address).ok().and_then(NonZeroUsize::new),
        usize::try_from(page_cache::page_size())
            .ok()
            .and_then(NonZeroUsize::new),
    ) else {
        return false;
    };
    // SAFETY: a mapping of its own, which nothing else uses; the kernel never replaces another one for a hint.
    unsafe {
        let Ok(memory) = mmap_anonymous(Some(hint), len, ProtFlags::PROT_NONE, MapFlags::MAP_PRIVATE) else {
            return false;
        };
        let is_there = memory.addr().get() >= hint.get();
        let _ = munmap(memory, len.get()); // a page of addresses
        is_there
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

#[cfg(test)]
mod tests {
    use super::*;

    /// `CONFIG_PGTABLE_LEVELS` of arch/arm64/Kconfig.
    #[test]
    fn levels_are_those_of_the_kernels_configurations() {
        let known = [
            (12, 39, 3),
            (12, 48, 4),
            (12, 52, 5),
            (14, 36, 2),
            (14, 47, 3),
            (14, 48, 4),
            (14, 52, 4),
            (16, 42, 2),
            (16, 48, 3),
            (16, 52, 3),
        ];
        for (page_shift, bits, expected) in known {
            assert_eq!(levels(page_shift, bits), Some(expected), "{page_shift} {bits}");
        }
        assert_eq!((levels(12, 11), levels(0, 48), levels(12, 64)), (None, None, None));
    }
}
