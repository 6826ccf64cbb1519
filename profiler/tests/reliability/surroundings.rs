//! Recorders next to and inside each other, and programs in namespaces: pids, /proc, clocks.

use nix::sys::signal::Signal;

use crate::harness::skip::{needs_capture, skip};
use crate::harness::{Ngmi, Oracle, Outcome, Profile, ngmi, said};
use crate::stops::{Recorder, expect_all_time};

#[test]
fn two_recorders_at_once() {
    needs_capture!();
    let one = Ngmi::record().program(Oracle::c("burn"), ["1000"]).start();
    let two = Ngmi::record().program(Oracle::c("split"), ["1000"]).start();
    let (one, two) = (one.wait(), two.wait());
    expect_all_time(&one, 1000.0);
    assert!(two.profile().main_of("split").share("takes_three_parts") > 0.6);
    for (outcome, process) in [(&one, "burn"), (&two, "split")] {
        let names = outcome.profile().thread_names().join(" ");
        let others = outcome.profile().threads.iter().any(|thread| thread.process != process);
        assert!(!others, "each records only its own: {names}");
    }
}

#[test]
fn ngmi_records_ngmi() {
    needs_capture!();
    let inner = ngmi::binary();
    let mut arguments: Vec<std::ffi::OsString> = ["record", "--save-only", "-o", "inner.json.gz", "--"]
        .map(Into::into)
        .into();
    arguments.extend([Oracle::c("burn").path.into_os_string(), "800".into()]);
    let outcome = Ngmi::record().program(inner, arguments).run();
    outcome.expect_code(0);
    expect_all_time(&outcome, 800.0);
    let inner = Profile::read(&outcome.file("inner.json.gz"));
    let recorded = inner.main_of("burn").cpu_ms();
    assert!(recorded >= 800.0 * 0.98, "inside: {recorded} of 800 ms");
}

#[test]
fn ngmi_records_perf() {
    needs_capture!();
    let burn = Oracle::c("burn");
    let script = format!(
        "perf record -q -e cpu-clock -o perf.data {} 800 && perf script -i perf.data | grep -c burn_here",
        burn.path.display()
    );
    let outcome = Ngmi::record().program("sh", ["-c", &script]).run();
    if outcome.code() != 0 && outcome.stderr.contains("not found") {
        skip("perf is not installed");
        return;
    }
    expect_all_time(&outcome, 800.0);
    let perfs: u64 = outcome
        .stdout
        .lines()
        .filter_map(|line| line.trim().parse::<u64>().ok())
        .sum();
    assert!(
        perfs > 0,
        "perf lacks its samples: {}{}",
        outcome.stdout,
        outcome.stderr
    );
}

/// Records `burn`, started by `unshare`.
fn unshared(arguments: &[&str]) -> Option<Outcome> {
    let burn = Oracle::c("burn").path.into_os_string();
    let arguments = arguments.iter().map(Into::into).chain([burn, "700".into()]);
    let outcome = Ngmi::record()
        .program("unshare", arguments.collect::<Vec<std::ffi::OsString>>())
        .run();
    // ngmi's own summary begins with the program's name too.
    let refusal = |line: &&str| line.starts_with("unshare: ") && !line.starts_with("unshare: main thread");
    if let Some(refusal) = outcome.stderr.lines().find(refusal) {
        skip(refusal);
        return None;
    }
    Some(outcome)
}

#[test]
fn a_program_that_sees_no_other_process() {
    needs_capture!();
    let Some(outcome) = unshared(&["--pid", "--fork", "--mount-proc"]) else {
        return;
    };
    assert_eq!(said(&outcome.stdout, "pid"), 1, "{}", outcome.stdout);
    expect_all_time(&outcome, 700.0);
    assert!(outcome.profile().main_of("burn").share("burn_here") > 0.9);
}

#[test]
fn a_program_without_proc() {
    needs_capture!();
    let script = "umount -l /proc && exec \"$0\" \"$@\"";
    let Some(outcome) = unshared(&["--mount", "--propagation", "private", "sh", "-c", script]) else {
        return;
    };
    expect_all_time(&outcome, 700.0);
    assert!(outcome.profile().main_of("burn").share("burn_here") > 0.9);
}

/// A recorder in a new pid namespace, as in a container.
fn contained(unshare: &[&str], record: &[&str]) -> (tempfile::TempDir, std::process::Output) {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = std::process::Command::new("unshare");
    recorder.args(unshare).arg(ngmi::binary()).current_dir(dir.path());
    recorder
        .args(["record", "--save-only", "-o", "out.json.gz"])
        .args(record);
    let output = recorder.output().unwrap();
    (dir, output)
}

/// Ids, names and relations are those that the container's own programs see.
#[test]
fn a_recorder_in_a_container() {
    needs_capture!();
    let burn = Oracle::c("burn").path;
    // The last one is in a container within this one.
    let script = "echo parent=$$; \"$0\" 300 & echo child=$!; wait; unshare --pid --fork \"$0\" 100";
    let (dir, output) = contained(
        &["--pid", "--fork", "--mount-proc"],
        &["--", "sh", "-c", script, burn.to_str().unwrap()],
    );
    let said_by = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{said_by:?}");
    let profile = Profile::read(&dir.path().join("out.json.gz"));
    let (parent, child) = (said(&said_by.0, "parent"), said(&said_by.0, "child"));
    assert!(
        parent < 100 && child < 100,
        "not the numbers of a container: {said_by:?}"
    );
    assert_eq!(profile.main_of_pid(parent).process, "sh");
    let burner = profile.main_of_pid(child);
    assert_eq!(burner.process, "burn");
    assert!(burner.share("burn_here") > 0.9, "{said_by:?}");
    let burners = profile.threads.iter().filter(|thread| thread.process == "burn");
    let mut pids: Vec<u64> = burners.filter_map(|thread| thread.pid.parse().ok()).collect();
    pids.dedup();
    assert_eq!(pids.len(), 2, "{pids:?}");
    assert!(pids.iter().all(|pid| *pid >= child && *pid < 100), "{pids:?}");
}

#[test]
fn a_recording_of_everything_in_a_container_leaves_out_what_is_outside() {
    needs_capture!();
    let burn = Oracle::c("burn").path;
    let mut outside = std::process::Command::new(&burn);
    let mut outside = outside
        .arg("20000")
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let (dir, output) = contained(
        &["--pid", "--fork", "--mount-proc"],
        &["-a", "--", burn.to_str().unwrap(), "300"],
    );
    outside.kill().unwrap();
    outside.wait().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profile = Profile::read(&dir.path().join("out.json.gz"));
    let burners = profile.threads.iter().filter(|thread| thread.process == "burn");
    let pids: Vec<&str> = burners.map(|thread| &*thread.pid).collect();
    let inside = said(&String::from_utf8_lossy(&output.stdout), "pid").to_string();
    assert!(!pids.is_empty() && pids.iter().all(|pid| *pid == inside), "{pids:?}");
}

#[test]
fn a_recorder_that_sees_the_processes_of_another_container_refuses() {
    needs_capture!();
    let (dir, output) = contained(&["--pid", "--fork"], &["--", "true"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("mount -t proc proc /proc"),
        "{said}"
    );
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        0,
        "nothing is left: {said}"
    );
}

/// The program's own clocks do not affect the recording.
#[test]
fn a_program_whose_clocks_are_far_ahead() {
    needs_capture!();
    let Some(outcome) = unshared(&["--time", "--monotonic", "100000", "--boottime", "100000", "--fork"]) else {
        return;
    };
    expect_all_time(&outcome, 700.0);
    let profile = outcome.profile();
    let burn = profile.main_of("burn");
    let last = burn.samples.iter().map(|sample| sample.time).fold(0.0, f64::max);
    assert!(last < 100_000_000.0, "sampled {last} ms after the beginning");
    assert!(burn.share("burn_here") > 0.9);
}

/// A guest of `tests/kernels/check` sets it.
#[test]
fn the_program_that_guests_record_builds() {
    assert!(Oracle::c("burn").path.exists());
}

/// For a guest: `NGMI_MAY_CHANGE_MACHINE=1` allows the test to change clock and CPUs.
fn may_change_machine() -> bool {
    let may = std::env::var_os("NGMI_MAY_CHANGE_MACHINE").is_some();
    if !may {
        skip("clock and CPUs are changed in a guest only (NGMI_MAY_CHANGE_MACHINE)");
    }
    may
}

/// From the beginning to the end, and not a second longer than possible. (An emulated machine's clocks differ too
/// much from each other to compare CPU times: with `hpet` as the clock source, a program ends before the time has
/// passed that it used by its own clock.)
#[track_caller]
fn expect_whole(outcome: &Outcome, asked_ms: f64) {
    let profile = outcome.profile();
    let burn = profile.main_of("burn");
    let (from, to) = (burn.life.0, burn.life.1.expect("burn ended"));
    assert!(
        (asked_ms * 0.8..300_000.0).contains(&(to - from)),
        "lived from {from} to {to} ms"
    );
    let last = burn.samples.iter().map(|sample| sample.time).fold(from, f64::max);
    assert!(to - last < asked_ms / 4.0, "sampled until {last} of {to} ms");
    assert!(burn.share("burn_here") > 0.8, "{}", burn.share("burn_here"));
}

#[test]
fn the_clock_jumps() {
    needs_capture!();
    if !may_change_machine() {
        return;
    }
    let recorder = Recorder::start(Ngmi::record(), "1500");
    for time in ["2001-01-01", "2033-03-03"] {
        let status = std::process::Command::new("date").args(["-s", time]).output().unwrap();
        assert!(status.status.success());
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    expect_whole(&recorder.running.wait(), 1500.0);
}

const CPU: usize = 1;

/// Returns false if this guest's CPU can't be taken offline (printed and counted as skipped).
fn set_cpu(recorder: &Recorder, is_online: bool) -> bool {
    let file = format!("/sys/devices/system/cpu/cpu{CPU}/online");
    match std::fs::write(&file, if is_online { "1" } else { "0" }) {
        Ok(()) => true,
        Err(error) => {
            skip(&format!("{file}: {error}"));
            recorder.running.signal(Signal::SIGINT);
            false
        }
    }
}

/// The program runs on no other CPU from here on: only a recorder that samples that CPU sees it.
fn pin(recorder: &Recorder) {
    let mut cpus = nix::sched::CpuSet::new();
    cpus.set(CPU).unwrap();
    let pid = nix::unistd::Pid::from_raw(i32::try_from(recorder.burn).unwrap());
    nix::sched::sched_setaffinity(pid, &cpus).unwrap();
}

#[test]
fn a_cpu_goes_and_comes_back() {
    needs_capture!();
    if !may_change_machine() {
        return;
    }
    let recorder = Recorder::start(Ngmi::record(), "4000");
    for is_online in [false, true] {
        if !set_cpu(&recorder, is_online) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    pin(&recorder);
    expect_whole(&recorder.running.wait(), 4000.0);
}

/// As when the machine sleeps: the list of CPUs is unchanged.
#[test]
fn a_cpu_is_gone_for_a_moment() {
    needs_capture!();
    if !may_change_machine() {
        return;
    }
    let recorder = Recorder::start(Ngmi::record(), "12000");
    if !set_cpu(&recorder, false) || !set_cpu(&recorder, true) {
        return;
    }
    pin(&recorder);
    expect_whole(&recorder.running.wait(), 12_000.0);
}
