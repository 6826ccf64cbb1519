//! Large numbers: twenty thousand processes, five thousand threads, a hundred thousand mappings, a program that
//! executes itself repeatedly.

use profiler_common::Loss;

use crate::harness::skip::{needs_capture, skip};
use crate::harness::{Ngmi, Oracle, Outcome, said};
use crate::log::Log;

/// Records `many HOW ...`, and keeps the log.
fn many(arguments: &[&str]) -> Outcome {
    let outcome = Ngmi::record()
        .args([
            "--faults",
            "off",
            "--off-cpu",
            "off",
            "--block",
            "off",
            "--keep-events",
            "log",
        ])
        .program(Oracle::c("reliability/many"), arguments)
        .run();
    outcome.expect_no_panic();
    outcome
}

/// Asserts that `seen` of `happened` task events were recorded, or that the rest is counted as lost.
#[track_caller]
fn expect_all(log: &Log, seen: u64, happened: u64, what: &str) {
    let lost = log.lost(Loss::TaskRingFull) + log.lost(Loss::ThreadTableFull) + log.lost(Loss::ProgramMissed);
    assert!(seen <= happened, "{what}: {seen} of {happened}");
    assert!(seen + lost >= happened, "{what}: {seen} of {happened}, and {lost} lost");
    if lost > 0 {
        eprintln!("{what}: {} of {happened} lost, and counted", happened - seen);
    }
}

#[test]
fn twenty_thousand_processes_start_and_end() {
    needs_capture!();
    let outcome = many(&["processes", "20000"]);
    outcome.expect_code(0);
    let (log, parent) = (Log::read(&outcome.file("log")), said(&outcome.stdout, "pid"));
    let born = log
        .births
        .iter()
        .filter(|birth| u64::from(birth.parent.0) == parent)
        .count();
    expect_all(&log, born as u64, said(&outcome.stdout, "born"), "births");
    let ended = log.exits.iter().filter(|exit| u64::from(exit.at.pid) != parent).count();
    expect_all(&log, ended as u64, said(&outcome.stdout, "born"), "ends");
}

#[test]
fn five_thousand_threads_live_at_once() {
    needs_capture!();
    let outcome = many(&["threads", "5000"]);
    if outcome.code() == 77 {
        skip("the kernel allows no 5,000 threads here");
        return;
    }
    outcome.expect_code(0);
    let (log, pid) = (Log::read(&outcome.file("log")), said(&outcome.stdout, "pid"));
    let births = log
        .births
        .iter()
        .filter(|birth| u64::from(birth.at.pid) == pid && birth.at.tid != birth.at.pid);
    expect_all(&log, births.count() as u64, 5000, "births");
    let exits = log.exits.iter().filter(|exit| u64::from(exit.at.pid) == pid);
    expect_all(&log, exits.count() as u64, 5001, "ends");
}

#[test]
fn a_hundred_thousand_mappings() {
    needs_capture!();
    let library = Oracle::library("pure.c", "pure_spin");
    let path = library.path.to_str().unwrap();
    // In four processes: with the gaps between them each needs twice as many, and the kernel allows 65,530.
    let one = format!(
        "{} mappings 25000 {path} &",
        Oracle::c("reliability/many").path.display()
    );
    let script = format!("{one} {one} {one} {one} wait");
    let outcome = Ngmi::record()
        .args(["--off-cpu", "off", "--keep-events", "log"])
        .program("sh", ["-c", &script])
        .run();
    outcome.expect_code(0);
    let log = Log::read(&outcome.file("log"));
    let lost = log.lost(Loss::PerfRecordLost);
    let (mut made, mut seen) = (0, 0);
    for line in outcome.stdout.lines() {
        made += said(line, "made");
        let pid = u32::try_from(said(line, "pid")).unwrap();
        seen += log.mappings.get(&pid).copied().unwrap_or(0);
    }
    assert_eq!(made, 100_000, "{}", outcome.stdout);
    assert!(seen + lost >= made, "{seen} of {made} mappings, and {lost} lost");
    let profile = outcome.profile();
    let (mut all, mut named) = (0, 0);
    for thread in profile.threads.iter().filter(|thread| thread.process == "many") {
        let spin = thread
            .samples
            .iter()
            .filter(|sample| sample.holds("spin_cpu_ms") || sample.holds("among_many"));
        named += spin.count();
        all += thread.samples.len();
    }
    assert!(named > 0, "none of {all} samples is named");
}

#[test]
fn a_program_that_execs_itself_three_hundred_times() {
    needs_capture!();
    let outcome = many(&["execs", "300"]);
    outcome.expect_code(0);
    let log = Log::read(&outcome.file("log"));
    let pid = said(&outcome.stdout, "pid");
    let execs = log.execs.iter().filter(|exec| u64::from(exec.at.pid) == pid).count();
    // Once more from the process that waited to become the program.
    expect_all(&log, execs as u64, 301, "execs");
    let profile = outcome.profile();
    let samples = profile.threads.iter().flat_map(|thread| &thread.samples);
    let (all, named) = samples.fold((0, 0), |(all, named), sample| {
        (all + 1, named + usize::from(sample.holds("among_many")))
    });
    // Half of each lifetime is the loader's and the kernel's; the program's part has the program's name.
    assert!(
        named * 4 > all,
        "{named} of {all} samples are in the program's own function"
    );
}
