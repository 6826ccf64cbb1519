//! Numbers of threads and processes in the recorder's pid namespace.

use aya_ebpf::helpers::bpf_get_current_pid_tgid;

use super::Task;
use crate::maps::config;
use crate::read::{load, probe};

/// Bytes of a `struct upid`: a number, and its namespace.
const UPID: u64 = 16;
/// Offset of the namespace.
const NAMESPACE: u64 = 8;

impl Task {
    /// The thread's id, as `gettid`; 0: it is not in the namespace, or has ended.
    #[inline(always)]
    pub fn tid(self) -> u32 {
        if config!(pid_namespace_level) == 0 {
            return load(self.0, config!(task_pid)).unwrap_or(0);
        }
        number_at(self.address())
    }

    /// The thread group's id, as `getpid`; 0: as above.
    #[inline(always)]
    pub fn pid(self) -> u32 {
        if config!(pid_namespace_level) == 0 {
            return load(self.0, config!(task_tgid)).unwrap_or(0);
        }
        self.group_leader_address().map_or(0, number_at)
    }
}

/// The number of the task at an address. Not loaded: a function that the verifier checks separately takes no pointer.
#[inline(always)]
fn number_at(task: u64) -> u32 {
    number_of(probe(task, config!(task_thread_pid)).unwrap_or(0))
}

/// The current thread group and thread; zeroes if they are not in the namespace.
#[inline(always)]
pub fn current_ids() -> (u32, u32) {
    if config!(pid_namespace_level) == 0 {
        let pair = bpf_get_current_pid_tgid();
        return ((pair >> 32) as u32, pair as u32);
    }
    let task = Task::current();
    (task.pid(), task.tid())
}

/// The number that the `struct pid` at an address has in the namespace (`pid_nr_ns` in kernel/pid.c); 0: none.
///
/// Exported, so that the verifier checks it once for each program.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn number_of(numbers: u64) -> u32 {
    let level = config!(pid_namespace_level);
    if numbers == 0 || probe::<u32>(numbers, config!(pid_level)).unwrap_or(0) < level {
        return 0;
    }
    let place = numbers + u64::from(level) * UPID;
    if probe::<u64>(place + NAMESPACE, config!(pid_numbers)) != Some(config!(pid_namespace)) {
        return 0;
    }
    probe(place, config!(pid_numbers)).unwrap_or(0)
}
