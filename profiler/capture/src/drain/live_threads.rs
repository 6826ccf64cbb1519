//! The final snapshot of live threads: the time that they ran since their last samples, the pages that they read
//! last, waits and requests in progress.

use std::thread;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use profiler_common::Loss;
use profiler_common::scope::ThreadState;
use profiler_common::switch::{
    ENDED_LATER, WAIT_PREEMPTED, WAIT_THROTTLED, WAIT_UNFINISHED, WAIT_UNSEEN_START, WaitBody,
};

use super::cycle::Drain;
use super::records::{self, wait_of};
use super::selected::Selected;
use crate::proc::kallsyms::KernelAddresses;
use crate::proc::procfs;
use base::addr::Timestamp;
use base::event::{At, Event, Wait};

/// A live thread, as the kernel side knows it.
#[derive(Debug, Clone, Copy)]
pub struct LiveThread {
    pid: u32,
    tid: u32,
    state: ThreadState,
    /// The kernel no longer knows it: if it reports no end now, its last switch was not shown.
    is_gone: bool,
}

/// Switches out the running threads, to make the program at the switch add up the time of threads that run without a
/// pause: a thread of ours goes to each CPU. CPUs that we may not use, such as those isolated for real-time work, are
/// left alone.
pub fn switch_out() {
    let this_thread = Pid::from_raw(0);
    let Ok(allowed) = sched_getaffinity(this_thread) else {
        return;
    };
    thread::scope(|scope| {
        for cpu in (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu) == Ok(true)) {
            let visit = move || {
                let mut only = CpuSet::new();
                // Returns when the thread runs on that CPU; an offline CPU has no thread to switch out.
                let _ = only.set(cpu).and_then(|()| sched_setaffinity(this_thread, &only));
            };
            // Without another thread, the time of one more running thread ends at its last sample.
            let _ = thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, visit);
        }
    });
}

/// The live threads.
pub fn find(drain: &mut Drain) -> Vec<LiveThread> {
    drain.start_noting_reports();
    let states = drain.threads.states();
    let of = |(pid, tid)| {
        let state = states.of(pid, tid)?;
        let is_gone = state.waits.seen != ENDED_LATER && procfs::stat(pid, tid).is_err();
        // One that sleeps elsewhere by now has not reported it.
        let is_out = |selected: &Selected| !is_gone && !selected.contains(pid, tid, true);
        if drain.selected.as_deref().is_some_and(is_out) {
            return None;
        }
        Some(LiveThread {
            pid,
            tid,
            state,
            is_gone,
        })
    };
    drain.recorded.threads().filter_map(of).collect()
}

/// Writes what is known of the live threads. The others have reported themselves.
pub fn write(
    drain: &mut Drain,
    (beginning, time): (Timestamp, Timestamp),
    live_threads: &[LiveThread],
    has_waits: bool,
) {
    let mut alive: Vec<&LiveThread> = live_threads
        .iter()
        .filter(|one| drain.recorded.knows(one.pid, one.tid))
        .collect();
    alive.sort_unstable_by_key(|one| (one.pid, one.tid));
    let missed = alive.iter().filter(|one| one.is_gone).count() as u64;
    drain.losses.count(Loss::SwitchMissed, missed);
    for &LiveThread { pid, tid, state, .. } in alive {
        let at = At { time, pid, tid };
        let read = records::read_run(at, &state.faults.run);
        if read.count > 0 && !drain.has_reported(tid, read.since) {
            drain.write_complete(Event::PagesRead(read));
        }
        for rest in records::rest_of(at, &state.faults.others) {
            drain.write_complete(Event::Fault(rest));
        }
        let kernel = drain.kernel.as_mut();
        let waits = waits(at, beginning, &state, kernel).filter(|_| has_waits);
        for wait in waits {
            if !drain.has_reported(tid, wait.out) {
                drain.write_complete(Event::Wait(wait));
            }
        }
        let cpu_time = drain.unreported(&state);
        if cpu_time > 0 {
            drain.write(&Event::TaskAlive { at, cpu_time });
        }
    }
}

/// Aggregated waits that were not reported yet, and the one in progress.
fn waits(
    at: At,
    beginning: Timestamp,
    state: &ThreadState,
    mut kernel: Option<&mut KernelAddresses>,
) -> impl Iterator<Item = Wait> + use<> {
    let waits = &state.waits;
    let merged =
        (waits.merged.count > 0).then(|| wait_of(at, 0, (&waits.merged, &waits.merged_stacks), kernel.as_deref_mut()));
    let now = match (waits.now.out, waits.seen) {
        // It was not switched in or out.
        (_, 0) => Some((state.since.max(beginning.0), WAIT_UNSEEN_START)),
        (0, _) => None,
        (out, _) => Some((out, waits.now.flags)),
    };
    let now = now.map(|(out, flags)| {
        let off = at.time.0.saturating_sub(out);
        let body = WaitBody {
            out,
            end: at.time.0,
            off,
            longest: off,
            queued: if flags & (WAIT_PREEMPTED | WAIT_THROTTLED) == WAIT_PREEMPTED {
                off
            } else {
                0
            },
            flags: flags | WAIT_UNFINISHED,
            ..waits.now
        };
        wait_of(at, 0, (&body, &waits.stacks), kernel)
    });
    merged.into_iter().chain(now)
}
