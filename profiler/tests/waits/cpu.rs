//! On-CPU time and time waiting for a CPU, compared with the kernel's own counters.

use crate::emulated::is_emulated;
use crate::harness::skip::needs_capture;
use crate::run::record;

/// Tolerance against the kernel's counter: 1 %. Under emulation, a thread takes some 20 ms to end after it last reads the counter,
/// and single threads were seen to deviate by 2 % from the kernel's counter at their end.
fn allowed(kernels: u64) -> u64 {
    kernels / if is_emulated() { 10 } else { 100 }
}

#[test]
fn a_hog_on_the_same_cpu() {
    needs_capture!();
    let Some(run) = record("hog") else { return };
    run.expect_times("hogged");
    for episode in run.episodes("hogged") {
        let waits = run.within(episode);
        assert!(waits.iter().all(|wait| wait.reason == "run-queue"), "{waits:#?}");
        assert!(waits.iter().all(|wait| wait.queued_ns == wait.off_ns), "{waits:#?}");
    }
    let life = run.episodes("whole life")[0];
    let of_thread = run.waits.iter().filter(|wait| wait.tid == life.tid);
    let reported: u64 = of_thread.map(|wait| wait.queued_ns).sum();
    // The second field of schedstat, and the known share: while the hog ran, no other thread did.
    let (kernels, hogs) = (life.offset, life.bytes);
    assert!(
        reported.abs_diff(kernels) <= allowed(kernels),
        "{reported} ns, {kernels} by the kernel"
    );
    assert!(
        reported >= hogs - allowed(hogs),
        "{reported} ns while the hog ran {hogs}"
    );
}

#[test]
fn lifetimes_add_up_and_match_the_kernel() {
    needs_capture!();
    let Some(run) = record("lives") else { return };
    assert_eq!(run.episodes.len(), 4);
    assert_eq!(run.lives.len(), 5, "and the first thread");
    assert!(run.waits.iter().all(|wait| wait.reason != "unknown"));
    for life in &run.lives {
        let difference = (life.on_ns + life.off_ns).abs_diff(life.life_ns);
        assert!(difference <= life.life_ns / 1000, "{life:?}");
    }
    for episode in &run.episodes {
        let life = run.lives.iter().find(|life| life.tid == episode.tid).unwrap();
        if episode.name == "sleeps" {
            // The thread hardly runs: most of the kernel's counter is the switch itself, which starts before it is reported.
            continue;
        }
        // The kernel excludes time taken by a hypervisor. The thread ends after it last reads the counter.
        let (kernels, stolen) = (episode.offset, episode.bytes);
        assert!(
            life.on_ns >= kernels - allowed(kernels),
            "{kernels} by the kernel: {life:?}"
        );
        assert!(
            life.on_ns <= kernels + allowed(kernels) + stolen,
            "{kernels} by the kernel, {stolen} stolen: {life:?}"
        );
    }
}

/// The kernel counts the time in which a cgroup had threads that could have run, and no quota.
#[test]
fn a_cpu_quota() {
    needs_capture!();
    let Some(run) = record("throttled") else { return };
    run.expect_times("throttled");
    let episode = run.episodes("throttled")[0];
    let kernels = episode.offset;
    assert!(kernels > 100_000_000, "{kernels} ns by the kernel");
    let throttled = run.waits.iter().filter(|wait| wait.reason == "throttled");
    let waits: Vec<_> = throttled.filter(|wait| wait.tid == episode.tid).collect();
    let reported: u64 = waits.iter().map(|wait| wait.off_ns - wait.queued_ns).sum();
    let allowed = kernels / if is_emulated() { 10 } else { 50 };
    assert!(
        reported.abs_diff(kernels) <= allowed,
        "{reported} ns, {kernels} by the kernel: {waits:#?}"
    );
}
