//! Threads that outlive the recording: the time that they ran since their last samples.

use std::thread;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use super::drain::Drain;
use crate::addr::Timestamp;
use crate::event::{At, Event};

/// A living thread and what it ran since its last sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreported {
    pid: u32,
    tid: u32,
    cpu_time: u64,
}

/// Switches out whoever runs, so that the program at the switch sums up the time of threads that run without a pause: a thread of
/// ours goes to each CPU. CPUs that we may not use, such as those kept apart for real-time work, are left alone.
pub fn switch_out() {
    let this_thread = Pid::from_raw(0);
    let Ok(allowed) = sched_getaffinity(this_thread) else {
        return;
    };
    thread::scope(|scope| {
        for cpu in (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu) == Ok(true)) {
            let visit = move || {
                let mut only = CpuSet::new();
                // Back when the thread runs there; a CPU that went offline has nobody to switch out.
                let _ = only.set(cpu).and_then(|()| sched_setaffinity(this_thread, &only));
            };
            // Without one more thread the time of one more running thread ends at its last sample.
            let _ = thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, visit);
        }
    });
}

/// What the living threads ran since their last samples.
pub fn unreported(drain: &Drain) -> Vec<Unreported> {
    let of = |(pid, tid)| {
        let cpu_time = drain.unreported(tid).filter(|time| *time > 0)?;
        Some(Unreported { pid, tid, cpu_time })
    };
    drain.recorded.threads().filter_map(of).collect()
}

/// Writes the time of those that still live, by thread.
pub fn write(drain: &mut Drain, time: Timestamp, unreported: &[Unreported]) {
    let mut alive: Vec<Unreported> = unreported
        .iter()
        .copied()
        .filter(|one| drain.recorded.knows(one.pid, one.tid))
        .collect();
    alive.sort_unstable_by_key(|one| (one.pid, one.tid));
    for Unreported { pid, tid, cpu_time } in alive {
        let at = At { time, pid, tid };
        drain.write(&Event::TaskAlive { at, cpu_time });
    }
}
