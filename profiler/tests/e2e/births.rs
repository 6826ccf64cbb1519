//! Processes are followed through every way to create them; nothing is lost or misnamed.

use crate::harness::profile::Thread;
use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Oracle, Outcome, Profile, said};
use crate::proportions::share_of_work;

fn record(mode: &str) -> (Outcome, Profile) {
    let burn = Oracle::c("burn");
    let outcome = Ngmi::record()
        .program(Oracle::c("forkexec"), [burn.path.as_os_str(), mode.as_ref()])
        .run();
    let profile = outcome.profile();
    (outcome, profile)
}

/// The first thread of the process that became `burn`, checked against its own output.
fn burned<'a>(outcome: &Outcome, profile: &'a Profile) -> &'a Thread {
    let thread = profile.main_of_pid(said(&outcome.stdout, "pid"));
    assert_eq!(thread.process, "burn", "the executable gives the process its name");
    let measured = said(&outcome.stdout, "cpu_ns") as f64 / 1e6;
    outcome.assert_cpu_ms("burn", thread.cpu_ms(), measured, 12.0);
    assert!(
        thread.share("burn_here") > share_of_work(0.85),
        "{}",
        thread.share("burn_here")
    );
    thread
}

#[test]
fn fork_and_exec() {
    needs_capture!();
    let (outcome, profile) = record("exec");
    let burn = burned(&outcome, &profile);
    assert!(burn.samples.iter().all(|sample| !sample.holds("in_forked_child")));
    let execs = burn
        .markers
        .iter()
        .filter(|marker| marker.name.to_lowercase().contains("exec"))
        .count();
    assert!(
        execs >= 1,
        "a marker shows that the process became burn: {:?}",
        marker_names(burn)
    );
    assert_eq!(
        profile
            .main_of("forkexec")
            .samples
            .iter()
            .filter(|sample| sample.holds("burn_here"))
            .count(),
        0
    );
}

#[test]
fn fork_without_exec() {
    needs_capture!();
    let (_, profile) = record("noexec");
    let child = profile.the_thread("busy in the child", |thread| {
        !thread.samples.is_empty() && thread.samples.iter().any(|sample| sample.holds("in_forked_child"))
    });
    assert!(child.is_main);
    assert!(
        child.share("in_forked_child") > share_of_work(0.85),
        "the child's mappings are its parent's"
    );
    assert!(child.name.contains("only-forked"), "{:?}", profile.thread_names());
}

#[test]
fn a_grandchild() {
    needs_capture!();
    let (outcome, profile) = record("grandchild");
    burned(&outcome, &profile);
    let names = profile.thread_names();
    assert!(names.len() >= 3, "parent, child and grandchild: {names:?}");
}

#[test]
fn vfork_and_exec() {
    needs_capture!();
    let (outcome, profile) = record("vfork");
    burned(&outcome, &profile);
}

#[test]
fn exec_from_a_non_leader_thread() {
    needs_capture!();
    let (outcome, profile) = record("thread");
    let burn = burned(&outcome, &profile);
    assert!(
        burn.tid == burn.pid || burn.tid.starts_with(&burn.pid),
        "the caller takes over the leader's id"
    );
}

#[test]
fn a_daemon_by_double_fork() {
    needs_capture!();
    let (outcome, profile) = record("daemon");
    burned(&outcome, &profile);
}

#[test]
fn start_and_exit_are_marked() {
    needs_capture!();
    let outcome = Ngmi::record().program("sh", ["-c", "exit 3"]).run();
    outcome.expect_code(3);
    let profile = outcome.profile_at("out.json.gz");
    let thread = profile
        .threads
        .iter()
        .find(|thread| thread.is_main)
        .expect("the process exists without a sample");
    let names = marker_names(thread);
    assert!(
        names.iter().any(|name| name.to_lowercase().contains("exit")),
        "{names:?}"
    );
}

fn marker_names(thread: &Thread) -> Vec<&str> {
    thread.markers.iter().map(|marker| marker.name.as_str()).collect()
}
