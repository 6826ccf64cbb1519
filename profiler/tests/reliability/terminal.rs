//! A terminal that goes away in the middle of a recording.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::skip::{needs_capture, skip};
use crate::harness::{Oracle, Profile, ngmi, procfs};

#[test]
fn the_terminal_dies_and_the_profile_is_written() {
    needs_capture!();
    let dir = tempfile::tempdir().unwrap();
    let terminal = nix::pty::openpty(None, None).unwrap();
    let side = || Stdio::from(terminal.slave.try_clone().unwrap());
    let child = Command::new("setsid")
        .args(["--ctty", "--wait"])
        .arg(ngmi::binary())
        .args(["record", "--save-only", "-o", "out.json.gz", "--"])
        .arg(Oracle::c("burn").as_ref())
        .arg("30000")
        .current_dir(dir.path())
        .stdin(side())
        .stdout(side())
        .stderr(side())
        .spawn();
    let Ok(mut child) = child else {
        skip("no setsid here");
        return;
    };
    let end = Instant::now() + Duration::from_mins(1);
    let burns = || {
        let all = procfs::descendants(child.id()).into_iter();
        let mut exes = all.filter_map(|pid| std::fs::read_link(format!("/proc/{pid}/exe")).ok());
        exes.any(|exe| exe.ends_with("burn"))
    };
    while !burns() {
        assert!(Instant::now() < end, "the program does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(700));
    // The last one that holds the other side: the kernel hangs up on everybody who is in the foreground.
    drop(terminal);
    child.wait().unwrap();
    let profile = dir.path().join("out.json.gz");
    while !profile.exists() {
        let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().collect();
        assert!(Instant::now() < end, "no profile: {left:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(Profile::read(&profile).main_of("burn").share("burn_here") > 0.9);
}
