//! x86-64: its eBPF object, exceptions and system calls, with those of the i386 table.

use aya::{Btf as Types, Ebpf};
use base::event::HookStatus;
use libc::c_long;
use profiler_common::config::{CallSet, Config, MISSING};
use profiler_common::unwind::Arch;
use syscalls::{x86, x86_64};

use super::{calls, mark};
use crate::hooks::ahead::{self, Wanted};
use crate::hooks::btf::Btf;
use crate::hooks::hook;
use crate::proc::kallsyms;

/// The object that scripts/build-ebpf built from profiler-ebpf/.
pub static OBJECT: Option<&[u8]> = Some(aya::include_bytes_aligned!("../../../ebpf/ngmi-x86_64.o"));
/// The processor of the walker's rules.
pub const ARCH: Arch = Arch::X86_64;
/// Programs on the exceptions that begin faults: both or none are attached.
pub const EXCEPTIONS: [&str; 2] = ["page_fault_user", "page_fault_kernel"];
/// None: a program on a tracepoint of an exception is never preempted.
pub const EXCEPTION_TWINS: &[[&str; 2]] = &[];

/// [`EXCEPTIONS`], with what they attach to.
pub fn exception_programs() -> impl Iterator<Item = Wanted> {
    ahead::by_name(&EXCEPTIONS)
}

/// Attaches [`EXCEPTIONS`].
pub fn exceptions(ebpf: &mut Ebpf, types: &Types, remedy: &str) -> Vec<HookStatus> {
    hook::attach_tracepoints(ebpf, types, ("fault", &EXCEPTIONS), remedy)
}

/// Writes the machine's properties that the programs need: none.
pub fn configure(_: &mut Config) {}

/// Writes where each CPU's count of nested interrupts is: the array of the CPUs' offsets, and the count's place above such an offset, or, in a
/// kernel that does not list its variables, above the CPU's run queue, by the kernel's types. `None`: neither is known. The count is a
/// separate variable, except in 6.2 to 6.14, where it is in `pcpu_hot` (arch/x86/include/asm/preempt.h).
pub fn preempt_count(config: &mut Config, types: &Btf) -> Option<()> {
    let (variable, field) = match types.offset("pcpu_hot.preempt_count") {
        Some(field) => ("pcpu_hot", field),
        None => ("__preempt_count", 0),
    };
    let field = u64::from(field);
    if let Ok([Some(offsets), Some(count)]) = kallsyms::addresses(["__per_cpu_offset", variable]) {
        config.preempt_count = count.checked_add(field)?;
        config.kernel_array = offsets;
        return Some(());
    }
    if config.task_cfs_rq == MISSING || config.cfs_rq_rq == MISSING {
        return None;
    }
    let [count, queue] = [variable, "runqueues"].map(|name| types.cpu_variable(name).map(u64::from));
    config.preempt_count = count?.checked_add(field)?.wrapping_sub(queue?);
    Some(())
}

/// Writes the levels of page tables and the bits of a physical address. An encrypting kernel gives up the address bit that it uses
/// for that (`early_detect_mem_encrypt` in arch/x86/kernel/cpu/amd.c), and one that does not use five levels hides
/// `la57`. `None`: the kernel does not say.
pub fn page_tables(config: &mut Config) -> Option<()> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    (config.table_levels, config.table_bits) = levels_and_bits(&cpuinfo)?;
    Some(())
}

fn levels_and_bits(cpuinfo: &str) -> Option<(u32, u32)> {
    let value = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim())
    };
    let levels = if value("flags")?.split(' ').any(|flag| flag == "la57") {
        5
    } else {
        4
    };
    let bits = value("address sizes")?.split(' ').next()?.parse().ok()?;
    (32..=52).contains(&bits).then_some((levels, bits))
}

/// Calls whose first argument is a descriptor, and which may wait for the file behind it.
pub fn calls_with_descriptor() -> CallSet {
    calls(WITH_DESCRIPTOR, I386_WITH_DESCRIPTOR)
}

/// Calls whose first argument is a path.
pub fn calls_with_path() -> CallSet {
    calls(WITH_PATH, I386_WITH_PATH)
}

/// Calls whose second argument is a path, relative to the descriptor in the first.
pub fn calls_with_path_second() -> CallSet {
    calls(WITH_PATH_SECOND, I386_WITH_PATH_SECOND)
}

/// The calls of 64-bit programs with these numbers, and those of the i386 table that have the same name or one in
/// `i386`.
fn calls(numbers: &[&[c_long]], i386: &[&str]) -> CallSet {
    let mut set = CallSet::EMPTY;
    let numbers = numbers
        .iter()
        .copied()
        .flatten()
        .filter_map(|&number| usize::try_from(number).ok());
    let names = numbers
        .clone()
        .filter_map(|number| Some(x86_64::Sysno::new(number)?.name()));
    let compat = names.chain(i386.iter().copied());
    mark(
        &mut set.i386,
        compat.filter_map(|name| Some(name.parse::<x86::Sysno>().ok()? as usize)),
    );
    mark(&mut set.native, numbers);
    set
}

const WITH_DESCRIPTOR: &[&[c_long]] = &[calls::WITH_DESCRIPTOR, &[libc::SYS_getdents]];
const WITH_PATH: &[&[c_long]] = &[
    calls::WITH_PATH,
    &[
        libc::SYS_open,
        libc::SYS_creat,
        libc::SYS_stat,
        libc::SYS_lstat,
        libc::SYS_access,
        libc::SYS_rename,
        libc::SYS_mkdir,
        libc::SYS_rmdir,
        libc::SYS_link,
        libc::SYS_unlink,
        libc::SYS_readlink,
    ],
];
const WITH_PATH_SECOND: &[&[c_long]] = &[calls::WITH_PATH_SECOND];

/// The same for the i386 table: calls that x86-64 does not have, or names differently (`syscall_32.tbl` of the
/// kernel).
const I386_WITH_DESCRIPTOR: &[&str] = &[
    "_llseek",
    "fadvise64_64",
    "fcntl64",
    "fstat64",
    "ftruncate64",
    "recvmmsg_time64",
    "sendfile64",
];
const I386_WITH_PATH: &[&str] = &["lstat64", "stat64", "statfs64", "truncate64"];
const I386_WITH_PATH_SECOND: &[&str] = &["fstatat64"];

#[cfg(test)]
mod tests {
    use super::*;
    use profiler_common::config::CALL_WORDS;

    #[test]
    fn levels_and_bits_are_those_in_use() {
        let cpuinfo = "processor\t: 0\nflags\t\t: fpu la57 vme\naddress sizes\t: 46 bits physical, 57 bits virtual\n";
        assert_eq!(levels_and_bits(cpuinfo), Some((5, 46)));
        assert_eq!(levels_and_bits(&cpuinfo.replace("la57 ", "")), Some((4, 46)));
        assert_eq!(levels_and_bits(&cpuinfo.replace("46", "64")), None);
        assert_eq!(levels_and_bits("flags: la57\n"), None);
    }

    #[test]
    fn calls_of_both_tables_are_found_by_name() {
        let has = |words: &[u32; CALL_WORDS], number: usize| words[number / 32] >> (number % 32) & 1 == 1;
        let set = calls(WITH_DESCRIPTOR, I386_WITH_DESCRIPTOR);
        // `read` and `getdents`, and `fstat64`, which exists only in the i386 table; 0 is
        // `restart_syscall` there.
        assert!(has(&set.native, 0) && has(&set.native, 78));
        assert!(has(&set.i386, 3) && has(&set.i386, 141) && has(&set.i386, 197) && !has(&set.i386, 0));
        for name in [I386_WITH_DESCRIPTOR, I386_WITH_PATH, I386_WITH_PATH_SECOND].concat() {
            assert!(name.parse::<x86::Sysno>().is_ok(), "{name}");
        }
    }
}
