//! What the machine itself took from its CPUs: on a shared host, up to half of a second's time for a while.

use std::time::Duration;

/// What hardware and software interrupts and the hypervisor took so far, all CPUs together: `proc_stat(5)`, in steps of 10 ms of each kind.
pub fn taken() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let counts = stat.lines().next().unwrap().split_whitespace().skip(1);
    let ticks: u64 = counts.skip(5).take(3).map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    // USER_HZ is 100 on every architecture that ngmi runs on.
    Duration::from_millis(ticks * 10)
}
