//! Attaches the hooks of waits, and configures which system calls have a descriptor or a path.

use aya::{Btf as Types, Ebpf};
use profiler_common::config::{CALL_WORDS, CallSet, Config};
use profiler_common::switch::CALL_I386;
use serde::{Deserialize, Serialize};
use syscalls::{x86, x86_64};

use super::btf::Btf;
use super::hook;
use crate::proc::kallsyms;
use base::event::HookStatus;

/// Waits of a thread that are examined however fast they follow each other: two milliseconds of work.
const BURST: u32 = 2000;

/// Which waits are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OffCpu {
    /// None.
    Off,
    /// Each that lasts at least this long, in ns; shorter ones are aggregated.
    AtLeast(u32),
}

impl Default for OffCpu {
    fn default() -> Self {
        Self::AtLeast(0)
    }
}

/// Configures what is recorded, and where the programs find the fields that they need.
pub fn configure(config: &mut Config, asked: OffCpu, types: &Btf) {
    config.calls_with_file = calls(WITH_DESCRIPTOR, I386_WITH_DESCRIPTOR);
    config.calls_with_path = calls(WITH_PATH, I386_WITH_PATH);
    config.calls_with_path_second = calls(WITH_PATH_SECOND, I386_WITH_PATH_SECOND);
    let OffCpu::AtLeast(shortest) = asked else { return };
    (config.waits, config.wait_min, config.wait_burst) = (1, shortest, BURST);
    // For wakers only: the kernel writes half its list of symbols for it, which takes tens of milliseconds.
    if let Some((offsets, count)) = preempt_count(types) {
        (config.preempt_count_known, config.per_cpu_offset, config.preempt_count) = (1, offsets, count);
    }
}

/// Which argument of a system call of `config` is a path.
pub fn path_argument(config: &Config, call: u32) -> Option<usize> {
    let is_among = |set: &CallSet| {
        let words = if call & CALL_I386 == 0 { &set.native } else { &set.i386 };
        let number = call & !CALL_I386;
        let word = words.get(usize::try_from(number / 32).unwrap_or(CALL_WORDS));
        word.is_some_and(|word| word >> (number % 32) & 1 != 0)
    };
    [&config.calls_with_path, &config.calls_with_path_second]
        .into_iter()
        .position(is_among)
}

/// The programs that it needs in addition to that of the switches, which are always traced.
pub fn programs(asked: OffCpu) -> &'static [&'static str] {
    match asked {
        OffCpu::Off => &[],
        OffCpu::AtLeast(_) => &["sched_waking"],
    }
}

/// Attaches the hook that reports wakers.
pub fn watch(ebpf: &mut Ebpf, types: &Types, asked: OffCpu, status: &mut Vec<HookStatus>) {
    let remedy = "no action needed: wakers are left out (docs/waits.md)";
    status.extend(hook::attach_tracepoints(
        ebpf,
        types,
        ("switch", programs(asked)),
        remedy,
    ));
}

/// Where each CPU's count of nested interrupts is: the array of the CPUs' offsets, and the count's place above such
/// an offset. It is a separate variable, except in 6.2 to 6.14, where it is in `pcpu_hot`
/// (arch/x86/include/asm/preempt.h).
fn preempt_count(types: &Btf) -> Option<(u64, u64)> {
    let (variable, field) = match types.offset("pcpu_hot.preempt_count") {
        Some(field) => ("pcpu_hot", field),
        None => ("__preempt_count", 0),
    };
    let [offsets, variable] = kallsyms::addresses(["__per_cpu_offset", variable]).ok()?;
    Some((offsets?, variable?.checked_add(u64::from(field))?))
}

/// The calls of 64-bit programs with these numbers, and those of the i386 table that have the same name or one in
/// `i386`.
fn calls(numbers: &[libc::c_long], i386: &[&str]) -> CallSet {
    let mut set = CallSet::EMPTY;
    let numbers = numbers.iter().filter_map(|&number| usize::try_from(number).ok());
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

fn mark(calls: &mut [u32; CALL_WORDS], numbers: impl Iterator<Item = usize>) {
    for number in numbers {
        if let Some(word) = calls.get_mut(number / 32) {
            *word |= 1 << (number % 32);
        }
    }
}

/// The first argument is a descriptor, and the call may wait for the file behind it.
#[cfg(target_arch = "x86_64")]
const WITH_DESCRIPTOR: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_lseek,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_copy_file_range,
    libc::SYS_readahead,
    libc::SYS_fadvise64,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_syncfs,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_getdents,
    libc::SYS_getdents64,
    libc::SYS_flock,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_connect,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
];
/// The first argument is a path.
#[cfg(target_arch = "x86_64")]
const WITH_PATH: &[libc::c_long] = &[
    libc::SYS_open,
    libc::SYS_creat,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_statfs,
    libc::SYS_access,
    libc::SYS_execve,
    libc::SYS_rename,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_link,
    libc::SYS_unlink,
    libc::SYS_readlink,
    libc::SYS_truncate,
    libc::SYS_chdir,
];
/// The second argument is a path, relative to the descriptor in the first.
#[cfg(target_arch = "x86_64")]
const WITH_PATH_SECOND: &[libc::c_long] = &[
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_readlinkat,
    libc::SYS_execveat,
];

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

// There is no eBPF object for other architectures yet.
#[cfg(not(target_arch = "x86_64"))]
const WITH_DESCRIPTOR: &[libc::c_long] = &[];
#[cfg(not(target_arch = "x86_64"))]
const WITH_PATH: &[libc::c_long] = &[];
#[cfg(not(target_arch = "x86_64"))]
const WITH_PATH_SECOND: &[libc::c_long] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_has_its_bit() {
        let mut calls = [0; CALL_WORDS];
        mark(&mut calls, [0, 33, 511, 512].into_iter());
        assert_eq!((calls[0], calls[1], calls[15]), (1, 2, 1 << 31));
        assert_eq!(calls.iter().map(|word| word.count_ones()).sum::<u32>(), 3);
    }

    #[cfg(target_arch = "x86_64")]
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
