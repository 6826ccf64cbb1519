//! Code generated at run time: with perf maps, jitdump, no information, or invalid maps.

use crate::harness::profile::share;
use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Oracle, Outcome, said};

fn record(mode: &str) -> Outcome {
    let ngmi = Ngmi::record();
    let dir = ngmi.dir().to_owned();
    let outcome = ngmi.program(Oracle::c("jit"), [mode.as_ref(), dir.as_os_str()]).run();
    outcome.expect_code(0);
    let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", said(&outcome.stdout, "pid")));
    outcome
}

#[test]
fn a_perf_map_names_the_code() {
    needs_capture!();
    let profile = record("map").profile();
    let main = profile.main_of("jit");
    let inside = main.share("jit_hot_loop with spaces");
    assert!(inside > 0.9, "{inside}");
    for neighbour in ["jit_before", "jit_after"] {
        assert!(
            main.samples.iter().all(|sample| !sample.holds(neighbour)),
            "{neighbour}"
        );
    }
    let below = share(&main.samples, |sample| {
        !sample.holds("jit_hot_loop with spaces") || sample.holds("calls_compiled")
    });
    assert!(
        below > 0.95,
        "its caller is below it, through the frame pointer: {below}"
    );
}

#[test]
fn a_jitdump_names_the_code() {
    needs_capture!();
    let profile = record("dump").profile();
    let inside = profile.main_of("jit").share("jit_dumped_loop");
    assert!(inside > 0.9, "{inside}");
}

#[test]
fn replaced_code_has_its_own_name() {
    needs_capture!();
    let profile = record("replace").profile();
    let main = profile.main_of("jit");
    for name in ["jit_dumped_loop", "jit_replacing_loop"] {
        let inside = main.share(name);
        assert!((0.45..0.55).contains(&inside), "{name}: {inside}");
    }
}

#[test]
fn a_perf_map_that_was_written_before_the_recording() {
    needs_capture!();
    let jit = Oracle::c("jit");
    let mut program = std::process::Command::new(jit.as_ref())
        .args(["map", "/none", "4000"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let pid = program.id();
    let map = std::path::PathBuf::from(format!("/tmp/perf-{pid}.map"));
    while !std::fs::metadata(&map).is_ok_and(|metadata| metadata.len() > 0) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let outcome = Ngmi::record().args(["-p", &pid.to_string(), "-d", "1"]).run();
    program.kill().unwrap();
    program.wait().unwrap();
    std::fs::remove_file(&map).unwrap();
    let inside = outcome.profile().main_of("jit").share("jit_hot_loop with spaces");
    assert!(inside > 0.9, "{inside}");
}

/// The program itself may be below /tmp.
const HIDE_TMP: &str = "mount -t tmpfs none /mnt\ncp \"$0\" /mnt/jit\nmount -t tmpfs none /tmp\nset -- /mnt/jit\n";
const OWN: [&str; 5] = ["--mount", "--pid", "--fork", "--propagation", "private"];

/// Records `jit` in separate namespaces, which no longer exist when names are looked up.
fn in_namespaces(arguments: &[&str], script: &str, mode: &str) -> crate::harness::Profile {
    let jit = Oracle::c("jit");
    let script = format!("set -e\n{script}exec \"${{1:-$0}}\" {mode}");
    let place = jit.as_ref().display().to_string();
    let unshare = [arguments, &["sh", "-c", &script, &place]].concat();
    let outcome = Ngmi::record().program("unshare", unshare).run();
    outcome.expect_code(0);
    outcome.profile()
}

#[test]
fn a_perf_map_visible_only_in_the_container() {
    needs_capture!();
    let profile = in_namespaces(&OWN, HIDE_TMP, "map /none");
    let inside = profile.main_of("jit").share("jit_hot_loop with spaces");
    assert!(inside > 0.9, "{inside}");
}

#[test]
fn a_jitdump_visible_only_in_the_container() {
    needs_capture!();
    let profile = in_namespaces(&OWN, "mount -t tmpfs none /mnt\n", "dump /mnt");
    let inside = profile.main_of("jit").share("jit_dumped_loop");
    assert!(inside > 0.9, "{inside}");
}

#[test]
fn a_perf_map_in_our_folder_under_the_containers_pid() {
    needs_capture!();
    // The shell becomes the program, with process ID 1 in its namespace.
    let stale = std::path::Path::new("/tmp/perf-1.map");
    let profile = in_namespaces(&["--pid", "--fork"], "", "map /none");
    let _ = std::fs::remove_file(stale);
    let inside = profile.main_of("jit").share("jit_hot_loop with spaces");
    assert!(inside > 0.9, "{inside}");
}

#[test]
fn unannounced_code_is_a_separate_module() {
    needs_capture!();
    let profile = record("none").profile();
    expect_anonymous(&profile);
}

#[test]
fn a_garbage_perf_map_loses_only_names() {
    needs_capture!();
    let profile = record("garbage").profile();
    expect_anonymous(&profile);
}

fn expect_anonymous(profile: &crate::harness::Profile) {
    let main = profile.main_of("jit");
    let inside = share(&main.samples, |sample| {
        sample
            .stack
            .first()
            .and_then(|frame| frame.module.as_deref())
            .is_some_and(|module| module.contains("anonymous") || module.to_lowercase().contains("jit]"))
    });
    assert!(
        inside > 0.85,
        "samples whose innermost frame is anonymous code: {inside}"
    );
}
