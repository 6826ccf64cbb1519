//! Only the requested processes are recorded.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Oracle, Profile, procfs};

/// A busy program that was not started by a recorder and ends with the test.
struct Bystander(Child);

impl Bystander {
    fn start(program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Self {
        let child = Command::new(program).args(args).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        Self(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    fn is_in(&self, profile: &Profile) -> bool {
        profile
            .threads
            .iter()
            .any(|thread| thread.pid == self.pid() || thread.pid.starts_with(&format!("{}.", self.pid())))
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_bystander_is_not_recorded() {
    needs_capture!();
    let bystander = Bystander::start(Oracle::c("burn"), &["60000"]);
    let profile = Ngmi::record().program(Oracle::c("split"), ["800"]).run().profile();
    assert!(!bystander.is_in(&profile), "{:?}", profile.thread_names());
    assert!(
        profile.threads.iter().all(|thread| thread.process == "split"),
        "{:?}",
        profile.thread_names()
    );
}

#[test]
fn the_whole_system_without_the_recorder() {
    needs_capture!();
    let bystander = Bystander::start(Oracle::c("burn"), &["60000"]);
    let running = Ngmi::record().args(["-a", "-d", "2"]).start();
    std::thread::sleep(Duration::from_millis(800));
    let mut own = procfs::descendants(running.pid().as_raw().unsigned_abs());
    own.push(running.pid().as_raw().unsigned_abs());
    let profile = running.wait().profile();
    let main = profile.main_of_pid(u64::from(bystander.0.id()));
    assert!(
        main.share("burn_here") > 0.9,
        "mapped before the recording started, and named: {}",
        main.share("burn_here")
    );
    assert!(main.cpu_ms() > 100.0, "{}", main.cpu_ms());
    for pid in own {
        assert!(
            profile.threads.iter().all(|thread| thread.pid != pid.to_string()),
            "the recorder's own process {pid}"
        );
    }
}

#[test]
fn a_running_process_with_threads_and_later_children() {
    needs_capture!();
    let burn = Oracle::c("burn");
    // The program ends by itself, and the recording with it, however slow the start is on a busy machine.
    let script = format!("sleep 8; {} 400; sleep 1", burn.path.display());
    let threads = Bystander::start("sh", &["-c", &script]);
    let other = Bystander::start(&burn, &["60000"]);
    let outcome = Ngmi::record().args(["-p", &threads.pid()]).run();
    let warning = format!("1 running descendant of process {} is not recorded; ", threads.pid());
    assert!(
        outcome.stderr.contains(&warning),
        "the shell's sleep: {}",
        outcome.stderr
    );
    let profile = outcome.profile();
    assert!(threads.is_in(&profile));
    assert!(!other.is_in(&profile));
    assert!(profile.main_of("burn").share("burn_here") > 0.9, "a child born later");
}

#[test]
fn two_running_processes_and_their_names() {
    needs_capture!();
    let (one, two) = (
        Bystander::start(Oracle::c("burn"), &["60000"]),
        Bystander::start(Oracle::c("split"), &["60000"]),
    );
    let both = format!("{},{}", one.pid(), two.pid());
    let outcome = Ngmi::record().args(["-d", "1", "-p", &both]).run();
    assert!(!outcome.stderr.contains("descendant"), "{}", outcome.stderr);
    let profile = outcome.profile();
    assert!(profile.main_of("burn").share("burn_here") > 0.9);
    assert!(profile.main_of("split").share("takes_three_parts") > 0.6);
    assert_eq!(profile.threads.len(), 2, "{:?}", profile.thread_names());
}

#[test]
fn recording_ends_with_its_process() {
    needs_capture!();
    let child = Bystander::start(Oracle::c("burn"), &["1500"]);
    let profile = Ngmi::record().args(["-p", &child.pid()]).run().profile();
    assert!(child.is_in(&profile));
}

#[test]
fn nothing_is_left_of_a_recording_of_nothing() {
    needs_capture!();
    let ngmi = Ngmi::record();
    let never = ngmi.dir().join("never");
    std::fs::copy("/bin/true", &never).unwrap();
    let running = ngmi.arg("--exe").arg(&never).arg("--wait").start();
    // It shows nothing while it waits.
    std::thread::sleep(Duration::from_secs(4));
    running.signal(nix::sys::signal::Signal::SIGINT);
    let outcome = running.wait();
    outcome.expect_refusal(&["no thread was recorded"]);
    outcome.expect_files(&["never"]);
}
