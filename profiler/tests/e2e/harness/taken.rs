//! CPU time taken by the machine itself: on a shared host, up to half of the time for a while.

use std::time::Duration;

/// Time that hardware and software interrupts and the hypervisor took so far on all CPUs: `proc_stat(5)`, in steps of 10 ms per kind.
pub fn taken() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let counts = stat.lines().next().unwrap().split_whitespace().skip(1);
    let ticks: u64 = counts.skip(5).take(3).map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    // USER_HZ is 100 on every architecture that ngmi supports.
    Duration::from_millis(ticks * 10)
}
