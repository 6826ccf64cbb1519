//! Waits for time and for other threads.

use crate::harness::skip::needs_capture;
use crate::run::{Wait, record};

#[test]
fn sleep() {
    needs_capture!();
    let Some(run) = record("sleep") else { return };
    run.expect_times("sleep");
    let waits = run.expect_waits("sleep", &["sleep"], &["nanosleep", "clock_nanosleep"]);
    assert_eq!(waits.len(), 9);
    for (_, wait) in waits {
        assert_eq!(wait.waker.as_deref(), Some("interrupt"), "{wait:?}");
    }
}

#[test]
fn pipe() {
    needs_capture!();
    let Some(run) = record("pipe") else { return };
    run.expect_times("pipe");
    run.expect_waits("pipe", &["pipe"], &["read"]);
}

/// A 64-bit program's calls through the i386 table, whose numbers are different calls in the 64-bit table.
#[test]
fn int80() {
    needs_capture!();
    let Some(run) = record("int80") else { return };
    run.expect_waits("sleep", &["sleep"], &["nanosleep"]);
    run.expect_waits("poll", &["poll"], &["poll"]);
    run.expect_waits("read", &["pipe"], &["read"]);
    run.expect_waits("sleep as ever", &["sleep"], &["nanosleep", "clock_nanosleep"]);
}

#[test]
fn epoll() {
    needs_capture!();
    let Some(run) = record("epoll") else { return };
    run.expect_times("epoll");
    run.expect_waits("epoll", &["poll"], &["epoll_wait", "epoll_pwait", "epoll_pwait2"]);
}

#[test]
fn child() {
    needs_capture!();
    let Some(run) = record("child") else { return };
    run.expect_times("child");
    run.expect_waits("child", &["child"], &["wait4"]);
}

#[test]
fn lock() {
    needs_capture!();
    let Some(run) = record("lock") else { return };
    run.expect_times("lock");
    let waits = run.expect_waits("lock", &["lock"], &["futex"]);
    assert!(waits.len() >= 9, "the owner unlocks once the other thread sleeps");
    for (_, wait) in waits {
        // The owner sleeps for 20 ms, starting when the other thread may not have left its CPU yet.
        assert!(wait.off_ns >= 10_000_000, "{wait:?}");
        assert_eq!(wait.cause, None, "nothing holds up a sleeping owner: {wait:?}");
    }
    // The owner reads from the disk, which is reported where it is visible.
    let name = "lock behind a read";
    run.expect_times(name);
    let mut held_up = 0;
    for (episode, wait) in run.expect_waits(name, &["lock"], &["futex"]) {
        let read = |other: &Wait| other.tid == episode.waker && other.reason == "disk";
        let meanwhile = |other: &Wait| other.time_ns < wait.end_ns && other.end_ns > wait.time_ns;
        // A disk may respond before the owner starts to wait: then nothing held it up.
        if run.waits.iter().any(|other| read(other) && meanwhile(other)) {
            assert_eq!(wait.cause.as_deref(), Some("holder's wait"), "{wait:?}");
            assert_eq!(wait.cause_tid, Some(episode.waker), "{wait:?}");
            held_up += 1;
        }
    }
    if held_up == 0 {
        crate::harness::skip::skip("no disk has to be waited for here");
    }
}
