//! `sudo ngmi record --user bob`: other processes of bob gain nothing from it. The test tries to take over the
//! privileged helper's socket and, as if that had worked, asks the helper to record what the terms do not allow.

use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::socket::SockType;
use profiler::capture::hooks::disks::BlockMode;
use profiler::capture::hooks::faults::Faults;
use profiler::capture::hooks::waits::OffCpu;
use profiler::capture::privilege::terms::{Scope, Terms};
use profiler::capture::socket::link::Link;
use profiler::capture::socket::wire::{Mapped, Reply, Request, Start};
use profiler::record::privilege::joint;

use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Oracle, ngmi};

/// Has an account, which `--user` and `SUDO_UID` require.
const NOBODY: u32 = 65534;

/// As the user types it.
fn as_nobody(program: impl AsRef<std::ffi::OsStr>, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.uid(NOBODY).gid(NOBODY).current_dir(folder).stdin(Stdio::null());
    command
}

fn give(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
}

const START: &str = r#"{"Start":{"pid":1,"command":[]}}"#;

#[test]
fn the_socket_of_the_unprivileged_process_cannot_be_stolen() {
    needs_capture!();
    for way in [&["--user", "nobody"][..], &[]] {
        let mut recorder = Ngmi::record().args(way);
        if way.is_empty() {
            recorder = recorder.env("SUDO_UID", NOBODY.to_string());
        }
        let folder = recorder.dir().to_owned();
        give(&folder);
        let burn = folder.join("burn");
        Oracle::c("burn").copied(&burn);
        Oracle::c("thief").copied(&folder.join("thief"));
        let thief = as_nobody("./thief", &folder)
            .arg(&burn)
            .args(["stolen.events", START])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let outcome = recorder.program(&burn, ["300"]).run();
        let thief = thief.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&thief.stdout);
        assert_eq!(said, "found\nrefused: Operation not permitted\n", "{way:?}");
        assert_eq!(outcome.file("stolen.events").metadata().unwrap().len(), 0);
        assert!(outcome.profile().main_of("burn").share("burn_here") > 0.5);
    }
}

/// The privileged helper for a recording by these terms that the user reads; the user's end of its socket.
fn capture(scope: Scope) -> (Child, Link) {
    let terms = Terms {
        scope,
        user: Some(NOBODY),
        sample_hz: 100,
        stack_copy: 65536,
        check_walks: false,
        faults: Faults::default(),
        off_cpu: OffCpu::default(),
        block: BlockMode::Off,
        exact_touch: false,
        self_account: false,
        max_overhead: None,
        exclude_pids: Vec::new(),
    };
    let (ours, theirs) = joint(SockType::SeqPacket).unwrap();
    let fd = theirs.as_raw_fd().to_string();
    let mut capture = Command::new(ngmi::binary());
    capture.args(["__capture", "--fd", &fd, "--terms", &terms.to_word().unwrap()]);
    (capture.spawn().unwrap(), Link::from(ours))
}

fn start(pid: Option<u32>) -> Request {
    let command = Vec::new();
    Request::Start(Start { pid, command })
}

#[track_caller]
fn expect_refusal(scope: Scope, pid: Option<u32>, why: &str) {
    let (mut child, link) = capture(scope);
    let log = tempfile::tempfile().unwrap();
    link.send(&start(pid), Some(log.as_fd())).unwrap();
    match link.receive().unwrap() {
        Some((Reply::Refused(reason), _)) => assert!(reason.contains(why), "{reason}"),
        other => panic!("not refused: {other:?}"),
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(log.metadata().unwrap().len(), 0);
}

#[test]
fn the_command_must_be_a_process_of_the_user() {
    needs_capture!();
    let folder = tempfile::tempdir().unwrap();
    give(folder.path());
    let sleep = |command: &mut Command| command.arg("60").stdin(Stdio::null()).spawn().unwrap();
    let mut roots = sleep(&mut Command::new("/bin/sleep"));
    let mut daemons = sleep(Command::new("/bin/sleep").uid(1).gid(1));
    // A process that its own user may not inspect: its file is executable, but not readable.
    let unreadable = folder.path().join("unreadable");
    std::fs::copy("/bin/sleep", &unreadable).unwrap();
    std::fs::set_permissions(&unreadable, std::fs::Permissions::from_mode(0o711)).unwrap();
    let mut hidden = sleep(&mut as_nobody(&unreadable, folder.path()));
    for (pid, why) in [
        (1, "does not belong to user 65534"),
        (std::process::id(), "does not belong to user 65534"),
        (roots.id(), "does not belong to user 65534"),
        (daemons.id(), "does not belong to user 65534"),
        (hidden.id(), "hides its memory"),
    ] {
        expect_refusal(Scope::Command, Some(pid), why);
    }
    let mut own = sleep(&mut as_nobody("/bin/sleep", folder.path()));
    expect_refusal(Scope::Pids(vec![own.id()]), Some(own.id()), "do not allow");
    expect_refusal(Scope::System, Some(own.id()), "do not allow");
    expect_refusal(Scope::Command, None, "without the command's process");
    let (mut child, link) = capture(Scope::Command);
    let log = tempfile::tempfile().unwrap();
    link.send(&start(Some(own.id())), Some(log.as_fd())).unwrap();
    assert!(matches!(link.receive().unwrap(), Some((Reply::Ready(_), _))));
    drop(link);
    child.wait().unwrap();
    for process in [&mut roots, &mut daemons, &mut hidden, &mut own] {
        process.kill().unwrap();
        process.wait().unwrap();
    }
}

/// A process given by its pid is recorded only if it is still the same one: the user decides when to begin.
#[test]
fn the_pid_of_an_ended_process_is_worthless() {
    needs_capture!();
    let mut named = Command::new("/bin/sleep").arg("60").spawn().unwrap();
    let (mut child, link) = capture(Scope::Pids(vec![named.id()]));
    // By now it has the process, or never will.
    std::thread::sleep(std::time::Duration::from_millis(500));
    named.kill().unwrap();
    named.wait().unwrap();
    let log = tempfile::tempfile().unwrap();
    link.send(&start(None), Some(log.as_fd())).unwrap();
    assert!(matches!(link.receive().unwrap(), Some((Reply::Refused(_), _))));
    assert!(child.wait().unwrap().success());
    assert_eq!(log.metadata().unwrap().len(), 0);
}

/// What root finds in other users' processes is passed on only if the user could open it.
#[test]
fn no_descriptor_of_root_reaches_the_user() {
    needs_capture!();
    let folder = tempfile::tempdir().unwrap();
    give(folder.path());
    let copy = |name: &str, mode| {
        let path = folder.path().join(name);
        std::fs::copy("/bin/sleep", &path).unwrap();
        chown(&path, Some(0), Some(0)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    let (secret, open) = (copy("secret", 0o700), copy("open", 0o755));
    let mut running = [&secret, &open].map(|path| Command::new(path).arg("60").spawn().unwrap());
    std::thread::sleep(std::time::Duration::from_millis(200));
    let pids = running.iter().map(Child::id).collect();
    let (mut child, link) = capture(Scope::Pids(pids));
    let log = tempfile::tempfile().unwrap();
    link.send(&start(None), Some(log.as_fd())).unwrap();
    assert!(matches!(link.receive().unwrap(), Some((Reply::Ready(_), _))));
    link.send(&Request::Stop, None).unwrap();
    let mut handed: Vec<(Mapped, Option<File>)> = Vec::new();
    while let Some((reply, descriptor)) = link.receive().unwrap() {
        if let Reply::Mapped(mapped) = reply {
            handed.push((mapped, descriptor.map(File::from)));
        }
    }
    child.wait().unwrap();
    for process in &mut running {
        process.kill().unwrap();
        process.wait().unwrap();
    }
    let of = |path: &Path| {
        let found = handed.iter().find(|(mapped, _)| Path::new(&mapped.path) == path);
        found.unwrap_or_else(|| panic!("{} is not named", path.display()))
    };
    assert!(of(&open).1.is_some());
    let (mapped, file) = of(&secret);
    assert!(
        file.is_none() && mapped.problem.as_ref().is_some_and(|why| why.contains("denied")),
        "{mapped:?}"
    );
}
