//! The program is left alone: it sees the same start conditions with and without a recorder. Each exception is listed
//! here with its reason.

use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::skip::{needs_capture, skip};
use crate::harness::{Ngmi, Oracle, ngmi, procfs};
use crate::terminal::in_terminal;

const NOBODY: u32 = 65534;

/// Prefixes of facts that must differ, and why.
const INHERENT: &[(&str, &str)] = &[
    ("parent\t", "the recorder starts the program and waits for it"),
    (
        "environment\tMOZ_USE_PERFORMANCE_MARKER_FILE=",
        "requests markers from Firefox (docs/profile.md)",
    ),
    (
        "environment\tMOZ_PERFORMANCE_MARKER_DIR=",
        "the folder where Firefox writes its markers",
    ),
    ("environment\t_=", "set by a shell: the name of the program it started"),
];

/// Settings that shells and their tools change for the programs they start.
const SURROUNDINGS: &str = "trap '' HUP INT PIPE USR1 RTMIN; umask 027; ulimit -c 0; ulimit -n 500; exec 7</etc/passwd 8>/dev/null; \
                            exec nice -n 3 ionice -c 2 -n 6 taskset -c 0 choom -n 50 -- \"$0\" \"$@\"";

/// The facts that the program wrote to `path`, sorted.
fn facts(path: &Path) -> Vec<String> {
    let text = ngmi::read_lossy(path);
    let mut facts: Vec<String> = text.lines().map(str::to_owned).collect();
    assert!(facts.len() > 100, "{}: {text}", path.display());
    facts.sort();
    facts
}

/// Compares the facts of the recorded program with those of the bare run.
#[track_caller]
fn expect_the_same(bare: &Path, recorded: &Path) {
    let (bare, recorded) = (facts(bare), facts(recorded));
    let only = |these: &[String], others: &[String]| -> Vec<String> {
        let is_inherent = |fact: &str| INHERENT.iter().any(|(start, _)| fact.starts_with(start));
        let new = these.iter().filter(|fact| !others.contains(fact) && !is_inherent(fact));
        new.cloned().collect()
    };
    let (lost, new) = (only(&bare, &recorded), only(&recorded, &bare));
    assert!(lost.is_empty() && new.is_empty(), "bare: {lost:#?}\nrecorded: {new:#?}");
    let count = |facts: &[String]| facts.iter().filter(|fact| fact.starts_with("fd ")).count();
    assert_eq!(count(&bare), count(&recorded), "descriptors");
    assert!(recorded.iter().any(|fact| fact == "parent\tngmi"));
}

/// Runs `command` in `folder` and renames the file `facts` that the program wrote to `bare`. The standard descriptors
/// and the environment are those of a run of [`Ngmi`].
fn run_bare(mut command: Command, folder: &Path) {
    let file = |name: &str| std::fs::File::create(folder.join(name)).unwrap();
    let status = command
        .current_dir(folder)
        .env("DEBUGINFOD_URLS", "")
        .stdin(Stdio::null())
        .stdout(file("stdout"))
        .stderr(file("stderr"))
        .status()
        .unwrap();
    assert!(status.success(), "{}", ngmi::read_lossy(&folder.join("stderr")));
    std::fs::rename(folder.join("facts"), folder.join("bare")).unwrap();
}

/// The program's arguments: the file that it writes, and the folder below which it mounts.
fn words(folder: &Path) -> [String; 2] {
    ["facts".to_owned(), folder.display().to_string()]
}

/// Runs with the usual settings, and with each of them changed.
#[test]
fn a_program_of_root_runs_as_without_the_recorder() {
    needs_capture!();
    let alone = Oracle::c("alone").path;
    for setup in ["exec \"$0\" \"$@\"", SURROUNDINGS] {
        let recorder = Ngmi::record_under(setup);
        let mut bare = Command::new("sh");
        bare.args(["-c", setup]).arg(&alone).args(words(recorder.dir()));
        run_bare(bare, recorder.dir());
        let words = words(recorder.dir());
        let outcome = recorder.program(&alone, words).run();
        outcome.expect_code(0);
        expect_the_same(&outcome.file("bare"), &outcome.file("facts"));
    }
}

#[test]
fn a_users_program_under_sudo_runs_as_without_the_recorder() {
    needs_capture!();
    let recorder = Ngmi::record_as_sudo(NOBODY);
    let alone = Oracle::c("alone").copied(&recorder.dir().join("alone")).path;
    chown(recorder.dir(), Some(NOBODY), Some(NOBODY)).unwrap();
    let id = NOBODY.to_string();
    let mut bare = Command::new("setpriv");
    bare.args(["--reuid", &id, "--regid", &id, "--init-groups", "--"])
        .arg(&alone)
        .args(words(recorder.dir()));
    run_bare(bare, recorder.dir());
    let words = words(recorder.dir());
    let outcome = recorder.program(&alone, words).run();
    outcome.expect_code(0);
    expect_the_same(&outcome.file("bare"), &outcome.file("facts"));
}

/// A shell leads the session, as in a user's terminal window.
#[test]
fn a_program_in_a_terminal_runs_as_without_the_recorder() {
    needs_capture!();
    let place = tempfile::tempdir().unwrap();
    let alone = Oracle::c("alone").path.display().to_string();
    let ngmi = ngmi::binary().display().to_string();
    let recorder = [&ngmi, "record", "--save-only", "-oout.json.gz", "--"];
    for (recorder, file) in [(&recorder[..0], "bare"), (&recorder[..], "recorded")] {
        let shell = ["sh", "-c", "\"$@\"; true", "sh"];
        let own = [alone.as_str(), file, "/nonexistent"];
        let Some((mut child, _terminal)) = in_terminal(&[&shell, recorder, &own].concat(), place.path()) else {
            skip("no setsid here");
            return;
        };
        let end = Instant::now() + Duration::from_mins(2);
        while child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < end, "the program did not end within two minutes");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let at = |name| place.path().join(name);
    // The two runs differ in the name of the output file, which is an argument.
    for name in ["bare", "recorded"] {
        let text = ngmi::read_lossy(&at(name)).replace("argument\tbare", "argument\trecorded");
        std::fs::write(at(name), text).unwrap();
    }
    expect_the_same(&at("bare"), &at("recorded"));
}

/// The nice value of each thread of a process (proc(5): field 19 of `stat`).
fn nice(pid: u32) -> Vec<i32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let stats = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
    let words = stats.filter_map(|stat| stat.rsplit_once(") ")?.1.split(' ').nth(16)?.parse().ok());
    words.collect()
}

/// The program and the recorder keep the nice value that they were started with.
#[test]
fn only_the_privileged_helper_has_raised_priority() {
    needs_capture!();
    let allowed = Command::new("nice").args(["-n", "-10", "nice"]).output().unwrap();
    let own = nice(std::process::id())[0];
    if allowed.stdout.trim_ascii() != (own - 10).to_string().as_bytes() {
        skip("no right to raise the priority (CAP_SYS_NICE)");
        return;
    }
    let mut running = Ngmi::record().program(Oracle::c("burn").path, ["4000"]).start();
    let recorder = running.pid().as_raw().unsigned_abs();
    let words = |pid: u32, name: &str| procfs::command_line(pid).iter().any(|word| word == name);
    let of = |name: &str| procfs::descendants(recorder).into_iter().find(|&pid| words(pid, name));
    // Until it executes the command, its arguments are those of the recorder, then those of `ngmi __exec`.
    let command = || of("4000").filter(|&pid| !words(pid, "record") && !words(pid, "__exec"));
    let found = std::cell::Cell::new(None);
    running.wait_until("the command", |_| {
        found.set(command());
        found.get().is_some()
    });
    running.wait_until("the nice values", |_| {
        let of_first_thread = |name| of(name).and_then(|pid| nice(pid).first().copied());
        of_first_thread("__capture") == Some(-10) && of_first_thread("__open") == Some(-10)
    });
    for pid in [recorder, found.get().unwrap()] {
        assert!(nice(pid).iter().all(|&nice| nice == own), "{pid}: {:?}", nice(pid));
    }
    running.wait().expect_code(0);
}
