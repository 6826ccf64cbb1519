//! A shell in the place of Firefox: which signals it gets, and what happens to its file.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use super::super::ON_SIGNAL;
use super::*;
use crate::record::firefox::settle;

const TEXT: &str = r#"{"a":1,"profileGatheringLogEnd_TSms":7.5}"#;

/// The shell, next to Firefox's library, in a folder for its file.
struct Fake {
    folder: tempfile::TempDir,
    child: Child,
}

impl Fake {
    /// Writes `text` on the second signal, after these commands.
    fn start(text: &str, before: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        fs::copy("/bin/sh", place("browser")).unwrap();
        File::create(place("libxul.so")).unwrap();
        fs::write(place("text"), text).unwrap();
        // Its only thread has the name of Firefox's sampler while it "samples".
        let script = format!(
            "comm() {{ printf %s $1 > /proc/$$/comm; }}; \
             trap 'comm SamplerThread; : > started' USR1; \
             trap '{before}; cat text >> profile_0_$$.json; comm browser; : > stopped' USR2; : > ready; \
             while [ ! -e stop ]; do sleep 0.02; [ ! -e idle ] || comm browser; [ ! -e exec ] || exec sleep 1000; done"
        );
        fs::write(place("script"), script).unwrap();
        let mut shell = Command::new(place("browser"));
        shell
            .arg0("browser")
            .arg("script")
            .current_dir(&folder)
            .env(ON_SIGNAL, folder.path());
        let fake = Self {
            child: shell.spawn().unwrap(),
            folder,
        };
        fake.wait_for("ready");
        fake
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn place(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self) -> PathBuf {
        self.place(&format!("profile_0_{}.json", self.pid()))
    }

    fn wait_for(&self, name: &str) {
        while !self.place(name).exists() {
            sleep(STEP);
        }
    }

    fn create(&self, name: &str) {
        File::create(self.place(name)).unwrap();
    }

    fn find(&self) -> RunningFirefox {
        RunningFirefox::find(&[std::process::id(), self.pid()]).unwrap()
    }

    /// Finds it, and starts its profiler.
    fn started(&self) -> RunningFirefox {
        let mut running = self.find();
        running.start().unwrap();
        running
    }

    fn end(&mut self) {
        self.create("stop");
        self.child.wait().unwrap();
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What it says of a profile that it could not take; nothing of it is in the folder.
fn problem(running: RunningFirefox) -> String {
    let ours = tempfile::tempdir().unwrap();
    let problem = running.collect(ours.path()).unwrap_err();
    assert_eq!(fs::read_dir(ours.path()).unwrap().count(), 0);
    problem
}

#[test]
fn a_firefox_is_started_and_its_file_collected() {
    let (fake, ours) = (Fake::start(TEXT, ":"), tempfile::tempdir().unwrap());
    let running = fake.started();
    assert_eq!(running.pid(), fake.pid());
    fake.wait_for("started");
    assert!(is_sampling(fake.pid()));
    let collected = running.collect(ours.path()).unwrap();
    let copy = ours.path().join(fake.file().file_name().unwrap());
    assert_eq!(fs::read_to_string(copy).unwrap(), TEXT);
    assert_eq!(collected.place(), fake.file());
    settle(Some(&collected), false); // the event log could not take the copy
    assert!(fake.file().exists());
    settle(Some(&collected), true);
    assert!(!fake.file().exists());
    // A file of the user is never overwritten.
    fake.wait_for("stopped");
    fs::write(fake.file(), "theirs").unwrap();
    let error = RunningFirefox::find(&[fake.pid()]).unwrap_err().to_string();
    assert!(error.contains("would overwrite"), "{error}");
}

#[test]
fn a_failed_recording_stops_it_and_leaves_nothing() {
    let fake = Fake::start(TEXT, ":");
    drop(fake.started());
    fake.wait_for("stopped");
    assert!(!fake.file().exists());
}

#[test]
fn a_file_that_is_too_large_or_cannot_be_copied_stays() {
    let fake = Fake::start(TEXT, "truncate -s 257M profile_0_$$.json");
    let problem = problem(fake.started());
    assert!(
        problem.contains("larger than 256 MiB; run `ngmi load --merge /"),
        "{problem}"
    );
    assert!(fake.file().metadata().unwrap().len() > SIZE_LIMIT);

    let fake = Fake::start(TEXT, ":");
    let problem = fake.started().collect(&fake.place("missing")).unwrap_err();
    assert!(problem.contains("could not be copied"), "{problem}");
    assert_eq!(fs::read_to_string(fake.file()).unwrap(), TEXT);
}

#[test]
fn a_failed_copy_leaves_no_part() {
    let folder = tempfile::tempdir().unwrap();
    let unreadable = File::open(folder.path()).unwrap(); // a folder
    let to = folder.path().join("copy");
    assert!(copy(&unreadable, &to).is_err() && !to.exists());
}

#[test]
fn a_profiler_that_was_started_after_the_check_is_left_alone() {
    let fake = Fake::start(TEXT, ":");
    let mut running = fake.find();
    pidfd::send(&running.0.process, Signal::SIGUSR1).unwrap(); // the user
    fake.wait_for("started");
    let error = running.start().unwrap_err().to_string();
    assert!(error.contains("runs already"), "{error}");
    drop(running);
    assert!(is_sampling(fake.pid()) && !fake.place("stopped").exists());
}

#[test]
fn a_profile_of_the_user_is_not_taken() {
    for collects in [true, false] {
        let fake = Fake::start(TEXT, ":");
        let running = fake.started();
        pidfd::send(&running.0.process, Signal::SIGUSR2).unwrap(); // the user
        fake.wait_for("stopped");
        if collects {
            let problem = problem(running);
            assert!(problem.contains("not requested by ngmi"), "{problem}");
        } else {
            drop(running);
        }
        assert_eq!(fs::read_to_string(fake.file()).unwrap(), TEXT);
    }
}

#[test]
fn a_profiler_that_was_stopped_gets_no_signal() {
    let fake = Fake::start(TEXT, ":");
    let running = fake.started();
    fake.create("idle");
    while is_sampling(fake.pid()) {
        sleep(STEP);
    }
    let problem = problem(running);
    assert!(problem.contains("stopped before the recording ended"), "{problem}");
    assert!(!fake.place("stopped").exists());
}

#[test]
fn another_program_in_the_process_gets_no_signal() {
    let mut fake = Fake::start(TEXT, ":");
    let mut other = fake.find();
    let running = fake.started();
    fake.create("exec");
    while is_firefox(fake.pid()) {
        sleep(STEP);
    }
    let error = other.start().unwrap_err().to_string();
    assert!(error.contains("no longer catches"), "{error}");
    let problem = problem(running);
    assert!(problem.contains("markers are lost"), "{problem}");
    assert_eq!(fake.child.try_wait().unwrap(), None);
}

#[test]
fn giving_up_stops_it_and_names_its_file() {
    let fake = Fake::start(TEXT, ":");
    let mut running = fake.find();
    let handle = running.handle();
    assert_eq!(handle.abandon(), None);
    running.start().unwrap();
    let note = handle.abandon().unwrap();
    assert!(note.contains(fake.file().to_str().unwrap()), "{note}");
    fake.wait_for("stopped");
    drop(running);
    assert!(fake.file().exists());
}

#[test]
fn collecting_does_not_wait_for_a_firefox_that_ended() {
    let mut fake = Fake::start("{", ":");
    let running = fake.started();
    fake.end();
    let problem = problem(running);
    assert!(problem.contains("ended before"), "{problem}");
}

#[test]
fn other_processes_get_no_signal() {
    let error = RunningFirefox::find(&[std::process::id()]).unwrap_err().to_string();
    assert!(error.contains("ngmi load --merge"), "{error}");
}
