//! Threads that are alive at Stop: their time is all there.

use std::time::Duration;

use profiler::capture::wire::{Scope, Start};
use profiler::event::Event;

use crate::harness::{Waiting, check, compile, record, skipped, start, time_before};

/// A thread that spins for ever, and one that spins for 30 ms and then sleeps.
const PROGRAM: &str = r"
#include <pthread.h>
#include <time.h>
#include <unistd.h>
static void *for_ever(void *arg) { for (volatile int i = 0;; i++) {} return arg; }
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, for_ever, 0);
    struct timespec t;
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); while (t.tv_nsec < 30000000);
    for (;;) pause();
}
";
/// A tick of the slowest kernels, and what the kernel's own figure lags behind for a thread that runs.
const TICK: u64 = 10_000_000;

#[test]
fn their_time_is_what_the_kernel_says() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "alive", PROGRAM, &["-O1"]);
    let mut waiting = Waiting::new(&program, &[]);
    let pid = waiting.pid();
    let request = Start {
        // So few samples that most of the time is left at the end.
        sample_hz: 3,
        ..start(Scope::Command { pid })
    };
    let before = time_before(pid);
    let mut at_stop = Vec::new();
    let recording = record(request, || {
        drop(
            waiting
                .0
                .stdin
                .take()
                .map(|mut input| std::io::Write::write_all(&mut input, b"\n")),
        );
        // On a busy machine it takes a while until they have run so long.
        let ran = || profiler::capture::procfs::threads(pid).unwrap().into_iter().map(time_before).max();
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(200));
            if ran() > Some(200_000_000) {
                break;
            }
        }
        for tid in profiler::capture::procfs::threads(pid).unwrap() {
            at_stop.push((tid, time_before(tid)));
        }
    });
    let after: Vec<u64> = at_stop.iter().map(|(tid, _)| time_before(*tid)).collect();
    waiting.0.kill().unwrap();
    waiting.0.wait().unwrap();

    assert_eq!(at_stop.len(), 2);
    for ((tid, kernels), after) in at_stop.iter().zip(after) {
        let before = if *tid == pid { before } else { 0 };
        let ended = recording.events.iter().filter_map(|event| match event {
            Event::TaskAlive { at, cpu_time } if at.tid == *tid => Some(*cpu_time),
            _ => None,
        });
        let ended: Vec<u64> = ended.collect();
        assert_eq!(ended.len(), 1, "thread {tid}: {ended:?}");
        let ours = recording.cpu_time(*tid) + ended[0];
        check(ours, kernels - before, after - before, TICK);
    }
    assert!(at_stop.iter().any(|(_, time)| *time > 150_000_000), "{at_stop:?}");
}
