//! Threads that outlive the recording: the time that they ran since their last samples, and the pages that they read last.

use std::thread;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use profiler_common::fault::ReadRun;

use super::drain::Drain;
use super::records;
use crate::addr::Timestamp;
use crate::event::{At, Event};

/// A living thread, what it ran since its last sample, and the pages that it read last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreported {
    pid: u32,
    tid: u32,
    /// In ns.
    cpu_time: u64,
    /// Told only when another run begins, or the thread ends.
    run: ReadRun,
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

/// What the living threads have not told yet.
pub fn unreported(drain: &mut Drain) -> Vec<Unreported> {
    drain.note_reads();
    let measured = drain.measures_time();
    let of = |(pid, tid)| {
        let state = drain.state(tid)?;
        let cpu_time = if measured {
            state.total.saturating_sub(state.reported)
        } else {
            0
        };
        let run = state.faults.run;
        (cpu_time > 0 || run.count > 0).then_some(Unreported {
            pid,
            tid,
            cpu_time,
            run,
        })
    };
    drain.recorded.threads().filter_map(of).collect()
}

/// Writes it for those that still live, by thread. The others have told it themselves.
pub fn write(drain: &mut Drain, time: Timestamp, unreported: &[Unreported]) {
    let mut alive: Vec<Unreported> = unreported
        .iter()
        .copied()
        .filter(|one| drain.recorded.knows(one.pid, one.tid))
        .collect();
    alive.sort_unstable_by_key(|one| (one.pid, one.tid));
    for Unreported {
        pid,
        tid,
        cpu_time,
        run,
    } in alive
    {
        let at = At { time, pid, tid };
        let mut read = records::read_run(at, &run);
        if read.count > 0 && !drain.was_told(&read) {
            read.file = drain.file_of_record(read.file);
            drain.write(&Event::PagesRead(read));
        }
        if cpu_time > 0 {
            drain.write(&Event::TaskAlive { at, cpu_time });
        }
    }
}
