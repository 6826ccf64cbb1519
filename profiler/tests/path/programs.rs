//! The programs, one per shape of a path.

use crate::harness::skip::needs_capture;
use crate::run::{Piece, Run, record};

#[test]
fn oracles_build() {
    for name in [
        "chain",
        "join",
        "pipeline",
        "convoy",
        "preempt",
        "holders",
        "child",
        "uring",
        "ticked",
        "ahead",
        "journal",
        "mmaplock",
        "inodelock",
        "inversion",
    ] {
        assert!(crate::harness::Oracle::c(&format!("path/{name}")).path.exists());
    }
}

/// Records a program until each of its pieces is on the path within a millisecond.
#[track_caller]
fn exact(name: &str) -> Option<Run> {
    record(name, Run::difference)
}

#[test]
fn a_chain_of_threads_over_six_primitives() {
    needs_capture!();
    let Some(run) = exact("chain") else { return };
    run.expect_first("socket", "cpu");
    let tids: Vec<u32> = run.expected.iter().map(|piece| piece.tid).collect();
    let links = run.links();
    let followed: Vec<_> = links.iter().map(|(_, tid)| *tid).collect();
    assert_eq!(followed, tids, "{links:?}");
    // Each thread but the first and the last is there because the next one waited for it over this.
    let vias: Vec<_> = links.iter().filter_map(|(via, _)| *via).collect();
    assert_eq!(vias, ["pipe", "socket", "poll", "condition", "condition"], "{links:?}");
    // A span that ends while one of them works leads to it, over the threads that wait for each other then.
    for piece in run.expected.iter().filter(|piece| piece.tid != run.window.tid) {
        let pieces = run.pieces_up_to(piece.start + (piece.end - piece.start) / 2);
        assert_eq!(pieces.last().unwrap().held_up_tid, piece.tid, "{piece:?}");
    }
}

#[test]
fn a_join_with_one_slow_branch() {
    needs_capture!();
    let Some(run) = exact("join") else { return };
    run.expect_first("slow", "cpu");
    // Its 240 ms overlap the first thread's own 10 ms. Where it has to wait for a CPU, it does so there, too.
    let row = &run.report["by_part"][0];
    let (time, saves) = (row["time_ns"].as_u64().unwrap(), row["saves_ns"].as_u64().unwrap());
    let span = run.window.end - run.window.start;
    assert!(saves <= span && saves >= time - time / 10, "{row}");
}

#[test]
fn a_pipeline_waits_for_its_slowest_stage() {
    needs_capture!();
    let Some(run) = record("pipeline", |_| None) else {
        return;
    };
    run.expect_first("middle", "cpu");
    let all = (run.window.end - run.window.start) / 1_000_000;
    // All but the milliseconds of the last stage, in which the middle one works on.
    assert!(
        run.thread_ms("middle") > all / 2,
        "{} of {all} ms",
        run.thread_ms("middle")
    );
    // The scheduler may have them share a CPU, in which the first stage then is on the path while the middle one waits.
    let works = |piece: &&Piece| piece.thread == "source" && piece.reason != "run-queue";
    let source: u64 = run.pieces.iter().filter(works).map(|piece| piece.duration_ns).sum();
    assert!(source / 1_000_000 < all / 10, "{source} ns of {all} ms");
}

#[test]
fn a_convoy_behind_a_lock() {
    needs_capture!();
    let Some(run) = exact("convoy") else { return };
    run.expect_first("holder 2", "cpu");
    let links = run.links();
    let vias: Vec<_> = links.iter().filter_map(|(via, _)| *via).collect();
    assert_eq!(vias, ["lock"; 4], "the starter and three holders: {links:?}");
}

#[test]
fn a_hog_that_preempts() {
    needs_capture!();
    let Some(run) = exact("preempt") else { return };
    run.expect_first("hog", "run-queue");
}

#[test]
fn a_child_that_waits_for_its_own_child() {
    needs_capture!();
    let Some(run) = exact("child") else { return };
    run.expect_first("slow", "cpu");
    let expected: Vec<u32> = run.expected.iter().map(|piece| piece.tid).collect();
    let links = run.links();
    let followed: Vec<_> = links.iter().map(|(_, tid)| *tid).collect();
    assert_eq!(followed, expected, "{links:?}");
    let vias: Vec<_> = links.iter().map(|(via, _)| *via).collect();
    let child = Some("child");
    assert_eq!(vias, [None, child, child, child, None], "{links:?}");
}

#[test]
fn a_completion_of_io_uring() {
    needs_capture!();
    let Some(run) = exact("uring") else { return };
    run.expect_first("writer", "cpu");
    let links = run.links();
    let vias: Vec<_> = links.iter().map(|(via, _)| *via).collect();
    assert_eq!(vias, [None, Some("poll"), None], "{links:?}");
}

#[test]
fn an_event_loop_that_timers_interrupt() {
    needs_capture!();
    let Some(run) = exact("ticked") else { return };
    run.expect_first("worker", "cpu");
    // As much is saved: neither the ticks nor the timeouts were waited for.
    let (row, span) = (&run.report["by_part"][0], run.window.end - run.window.start);
    let (time, saves) = (row["time_ns"].as_u64().unwrap(), row["saves_ns"].as_u64().unwrap());
    assert!(saves <= span && saves >= time - time / 10, "{row}");
}
