//! CPU time is attributed to the functions that spent it.

use crate::emulated::is_emulated;
use crate::harness::skip::{self, needs_capture};
use crate::harness::{Ngmi, Oracle, assert_near, said};

/// Minimum share of a short program's time that is its work: on an emulated machine, startup takes as long.
pub fn share_of_work(on_a_machine: f64) -> f64 {
    if is_emulated() {
        on_a_machine / 2.0
    } else {
        on_a_machine
    }
}

/// Uses the median of three recordings: a CPU that is taken away for a while affects only one part.
#[test]
fn proportions_match_three_to_one() {
    needs_capture!();
    let runs = [(); 3].map(|()| {
        let outcome = Ngmi::record()
            .args(["-F", "1000"])
            .program(Oracle::c("split"), ["4000"])
            .run();
        let profile = outcome.profile();
        let main = profile.main_of("split");
        let three = main.share("takes_three_parts");
        // The program's own clock verifies the expected share.
        let measured = said(&outcome.stdout, "three_ns") as f64 / said(&outcome.stdout, "cpu_ns") as f64;
        let one = main.share("takes_one_part");
        [measured, three - measured, one - (1.0 - measured)]
    });
    let middle = |which: usize| {
        let mut values = runs.map(|run| run[which]);
        values.sort_by(f64::total_cmp);
        values[1]
    };
    // The work is three to one; other load on the machine can make one part more expensive than the other.
    assert_near("three parts, as the program measured them", middle(0), 0.75, 0.08);
    let tolerance = if is_emulated() { 0.1 } else { 0.03 };
    assert_near(
        "takes_three_parts, less what it measured itself",
        middle(1),
        0.0,
        tolerance,
    );
    assert_near("takes_one_part, likewise", middle(2), 0.0, tolerance);
}

#[test]
fn cpu_time_is_measured_by_the_kernel() {
    needs_capture!();
    for rate in ["50", "1000"] {
        let outcome = Ngmi::record()
            .args(["-F", rate])
            .program(Oracle::c("split"), ["1500"])
            .run();
        let profile = outcome.profile();
        let cpu = profile.main_of("split").cpu_ms();
        let measured = said(&outcome.stdout, "cpu_ns") as f64 / 1e6;
        // The clocks of a guest differ by some percent (docs/testing.md).
        let tolerance = if is_emulated() { 0.1 } else { 0.02 };
        outcome.assert_cpu_ms(
            &format!("split at {rate} Hz"),
            cpu,
            measured,
            tolerance * measured + 25.0,
        );
    }
}

#[test]
fn the_sample_rate_is_the_requested_rate() {
    needs_capture!();
    // A prime, which avoids synchronization with the kernel's tick.
    let outcome = Ngmi::record()
        .args(["-F", "199"])
        .program(Oracle::c("burn"), ["4000"])
        .run();
    let profile = outcome.profile();
    let samples: f64 = profile.main_of("burn").samples.iter().map(|sample| sample.weight).sum();
    assert_near("samples in 4 s of CPU time at 199 Hz", samples, 796.0, 64.0);
    assert_near(
        "interval, in ms",
        profile.meta["interval"].as_f64().unwrap(),
        1000.0 / 199.0,
        0.01,
    );
}

#[test]
fn samples_that_are_left_out_are_represented() {
    needs_capture!();
    let outcome = Ngmi::limited("0.01%")
        .args(["-F", "4000", "--self-account", "--json"])
        .program(Oracle::c("burn"), ["2500"])
        .run();
    let json = outcome.stdout.find("\n{").unwrap();
    let summary: serde_json::Value = serde_json::from_str(&outcome.stdout[json..]).unwrap();
    if summary["cost"]["programs"].is_null() {
        skip::skip("the kernel does not measure the time in eBPF programs here");
        return;
    }
    // At worst, each of some 160 samples represents 64: five standard deviations.
    let represented = summary["samples"].as_f64().unwrap();
    assert_near(
        "samples in 2.5 s of CPU time at 4,000 Hz",
        represented,
        10_000.0,
        4_000.0,
    );
    let profile = outcome.profile();
    let main = profile.main_of("burn");
    let taken: f64 = main.samples.iter().map(|sample| sample.weight).sum();
    assert!(taken < 0.9 * represented, "{taken} of {represented}");
    assert_near("CPU time in ms", main.cpu_ms(), 2500.0, 125.0);
}
