//! Bad input: a clear error with the cause and the remedy; the old profile is unchanged, and no partial file is left.

use std::path::Path;

use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Oracle, Outcome, ngmi};

const OLD: &str = "the old profile";

/// A run in a folder with an old profile.
fn with_old_profile() -> Ngmi {
    let ngmi = Ngmi::record();
    std::fs::write(ngmi.dir().join("out.json.gz"), OLD).unwrap();
    ngmi
}

/// Asserts a refusal with all `words`; the old profile must be unchanged and no other file may exist.
#[track_caller]
fn refused(outcome: &Outcome, words: &[&str]) {
    outcome.expect_refusal(words);
    assert_eq!(ngmi::read_lossy(&outcome.file("out.json.gz")), OLD);
    outcome.expect_files(&["out.json.gz"]);
}

#[test]
fn nothing_to_record() {
    refused(&with_old_profile().run(), &["ngmi record --"]);
}

#[test]
fn an_unknown_user() {
    needs_capture!();
    let outcome = with_old_profile()
        .args(["--user", "no such one"])
        .program("true", [""; 0])
        .run();
    refused(&outcome, &["no such one"]);
}

/// As on kernels that refuse eBPF programs: the command, which waits for its release, ends without output.
#[test]
fn programs_that_fail_to_load() {
    needs_capture!();
    if std::env::var_os("NGMI_BIN").is_some() {
        crate::harness::skip::skip("only debug builds accept another object, and NGMI_BIN selects another binary");
        return;
    }
    let outcome = with_old_profile()
        .env("NGMI_EBPF_OBJECT", "/nowhere/object.o")
        .program("touch", ["began"])
        .run();
    refused(&outcome, &["/nowhere/object.o"]);
    assert!(!outcome.stderr.contains("recorder is gone"), "{}", outcome.stderr);
}

/// A run in a folder with an old profile, whose event log would replace an old one.
fn over_an_old_log() -> Ngmi {
    let ngmi = with_old_profile().args(["--keep-events", "log"]);
    std::fs::write(ngmi.dir().join("log"), OLD).unwrap();
    ngmi
}

/// Asserts a refusal with the reason `why`; the old log must be unchanged, and no other log may be mentioned.
#[track_caller]
fn refused_with_old_log(outcome: &Outcome, why: &str) {
    outcome.expect_refusal(&[why]);
    assert!(!outcome.stderr.contains("is kept"), "{}", outcome.stderr);
    assert_eq!(ngmi::read_lossy(&outcome.file("log")), OLD);
    outcome.expect_files(&["log", "out.json.gz"]);
}

#[test]
fn an_old_event_log_survives_a_failed_start() {
    needs_capture!();
    if std::env::var_os("NGMI_BIN").is_some() {
        crate::harness::skip::skip("only debug builds accept another object, and NGMI_BIN selects another binary");
        return;
    }
    let outcome = over_an_old_log()
        .env("NGMI_EBPF_OBJECT", "/nowhere/object.o")
        .program("true", [""; 0])
        .run();
    refused_with_old_log(&outcome, "/nowhere/object.o");
}

/// The new log then only covers the process that should have become the command.
#[test]
fn an_old_event_log_survives_an_unexecutable_command() {
    needs_capture!();
    let ngmi = over_an_old_log();
    let elsewhere = tempfile::tempdir().unwrap();
    let program = elsewhere.path().join("script");
    std::fs::write(&program, "#!/nowhere/interpreter\n").unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let outcome = ngmi.program(&program, [""; 0]).run();
    refused_with_old_log(&outcome, "cannot run");
    assert!(
        outcome.stderr.contains("the interpreter of its `#!` line"),
        "{}",
        outcome.stderr
    );
    assert_eq!(outcome.stderr.matches("No such file").count(), 1, "{}", outcome.stderr);
}

#[test]
fn rates_out_of_range() {
    for (rate, says) in [
        ("0", "between"),
        ("10000000", "between"),
        ("-5", "-F"),
        ("fast", "fast"),
        ("1e99", "1e99"),
    ] {
        let outcome = with_old_profile().args(["-F", rate]).program("true", [""; 0]).run();
        refused(&outcome, &[rate, says]);
    }
}

#[test]
fn durations_out_of_range() {
    for duration in ["0", "-1", "nan", "1e300", "soon"] {
        refused(
            &with_old_profile().args(["-d", duration]).program("true", [""; 0]).run(),
            &[duration],
        );
    }
}

#[test]
fn a_command_that_does_not_exist() {
    needs_capture!();
    for command in ["no-such-command", "./no-such-file"] {
        refused(&with_old_profile().program(command, [""; 0]).run(), &[command]);
    }
}

#[test]
fn a_command_that_is_not_executable() {
    needs_capture!();
    let outcome = with_old_profile().program("/etc/passwd", [""; 0]).run();
    refused(&outcome, &["/etc/passwd"]);
    refused(&with_old_profile().program("/etc", [""; 0]).run(), &["/etc"]);
}

#[test]
fn a_program_of_another_format() {
    needs_capture!();
    let ngmi = with_old_profile();
    let elsewhere = tempfile::tempdir().unwrap();
    let program = elsewhere.path().join("nonsense");
    std::fs::write(&program, b"\x7fELF nonsense").unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let outcome = ngmi.program(&program, [""; 0]).run();
    // Like shells, execvp may try to run it as a script: then it is a failing program, which was recorded.
    assert!(
        (1..=127).contains(&outcome.code()),
        "{}: {}",
        outcome.code(),
        outcome.stderr
    );
    outcome.expect_no_panic().expect_files(&["out.json.gz"]);
}

#[test]
fn a_pid_that_is_gone() {
    needs_capture!();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = child.id().to_string();
    child.wait().unwrap();
    refused(&with_old_profile().args(["-p", &pid]).run(), &[&pid]);
    for pid in ["0", "-1", "4194305", "99999999999", "x"] {
        refused(&with_old_profile().args(["-p", pid]).run(), &[]);
    }
}

/// A zombie still has its process ID but has already ended; a recording would wait for its end forever.
#[test]
fn a_zombie_pid() {
    needs_capture!();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = child.id();
    let has_ended = || std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "));
    while !has_ended() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    refused(
        &with_old_profile().args(["-p", &pid.to_string()]).run(),
        &["ended before"],
    );
    child.wait().unwrap();
}

#[test]
fn an_unwritable_output() {
    needs_capture!();
    for place in ["/proc/profile.json.gz", "/no/such/folder/p.json.gz", "/", ".."] {
        let outcome = Ngmi::subcommand("record")
            .args(["--save-only", "-o", place])
            .program("touch", ["it-ran"])
            .run();
        outcome.expect_refusal(&[place]);
        outcome.expect_files(&[]);
    }
}

#[test]
fn an_output_through_a_link_is_not_followed() {
    needs_capture!();
    let ngmi = Ngmi::record();
    let target = ngmi.dir().join("target");
    std::fs::write(&target, OLD).unwrap();
    std::os::unix::fs::symlink(&target, ngmi.dir().join("out.json.gz")).unwrap();
    let outcome = ngmi.program("true", [""; 0]).run();
    outcome.expect_no_panic();
    assert_eq!(std::fs::read_to_string(outcome.file("target")).unwrap(), OLD);
}

#[test]
fn no_event_log_at_all() {
    for (name, bytes) in [("empty", &b""[..]), ("text", b"hello\n"), ("zeros", &[0; 1 << 12])] {
        let ngmi = Ngmi::subcommand("convert");
        std::fs::write(ngmi.dir().join("out.json.gz"), OLD).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let log = elsewhere.path().join(name);
        std::fs::write(&log, bytes).unwrap();
        refused(&ngmi.arg(&log).args(["-o", "out.json.gz"]).run(), &[name]);
    }
    let ngmi = Ngmi::subcommand("convert");
    std::fs::write(ngmi.dir().join("out.json.gz"), OLD).unwrap();
    refused(&ngmi.args(["no-such-log", "-o", "out.json.gz"]).run(), &["no-such-log"]);
}

/// Converts a damaged log, which must produce a profile of the rest or a refusal, never a panic or a partial profile.
fn convert_damaged(log: &[u8], what: &str) -> Option<Outcome> {
    let ngmi = Ngmi::subcommand("convert");
    std::fs::write(ngmi.dir().join("out.json.gz"), OLD).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let path = elsewhere.path().join("damaged");
    std::fs::write(&path, log).unwrap();
    let outcome = ngmi.arg(&path).args(["-o", "out.json.gz"]).run();
    outcome.expect_no_panic();
    assert!(outcome.code() <= 125, "{what}: {}", outcome.code());
    outcome.expect_files(&["out.json.gz"]);
    if outcome.code() == 0 {
        outcome.profile();
        return Some(outcome);
    }
    refused(&outcome, &["damaged"]);
    None
}

#[test]
fn a_truncated_or_corrupted_event_log() {
    needs_capture!();
    let outcome = Ngmi::record()
        .args(["--keep-events", "log"])
        .program(Oracle::c("split"), ["1000"])
        .run();
    outcome.expect_code(0);
    let log = std::fs::read(outcome.file("log")).unwrap();
    let truncated = convert_damaged(&log[..log.len() / 2], "half of it").expect("half a log converts");
    assert!(
        truncated.profile().main_of("split").share("takes_three_parts") > 0.6,
        "what remains is correct"
    );
    for cut in [0, 1, 7, 16, 100, log.len() - 1, log.len() - 100] {
        convert_damaged(&log[..cut], &format!("{cut} bytes of it"));
    }
    // Positions spread over the whole file by a fixed rule, which makes failures reproducible.
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut converted = 0;
    for _ in 0..24 {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let mut flipped = log.clone();
        let at = usize::try_from(seed >> 16).unwrap() % flipped.len();
        flipped[at] ^= 1 << (seed % 8);
        converted += usize::from(convert_damaged(&flipped, &format!("bit flipped at {at}")).is_some());
    }
    assert!(
        converted >= 20,
        "one flipped bit costs one chunk, not the recording: {converted} of 24 converted"
    );
}

#[test]
fn only_a_profile_is_served() {
    for (content, remedy) in [
        ("", "not a profile"),
        ("hello\n", "not a profile"),
        ("ngmi-log", "ngmi convert p.json.gz"),
        ("{\"meta\": {", "incomplete"),
    ] {
        let ngmi = Ngmi::subcommand("load");
        std::fs::write(ngmi.dir().join("p.json.gz"), content).unwrap();
        let outcome = ngmi.args(["--no-open", "p.json.gz"]).run();
        outcome.expect_refusal(&["p.json.gz", remedy]);
    }
}

#[test]
fn an_invalid_profile() {
    let ngmi = Ngmi::subcommand("lint");
    std::fs::write(ngmi.dir().join("p.json.gz"), "no profile").unwrap();
    ngmi.arg("p.json.gz").run().expect_refusal(&["p.json.gz"]);
    Ngmi::subcommand("lint")
        .arg("absent.json.gz")
        .run()
        .expect_refusal(&["absent.json.gz"]);
    assert!(!Path::new("absent.json.gz").exists());
}
