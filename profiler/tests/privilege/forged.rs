//! Messages to the privileged helper that ngmi's recorder would never send: a user of file capabilities can talk to
//! it directly.

use std::os::fd::AsRawFd;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::Child;

use nix::sys::socket::SockType;
use profiler::capture::hooks::disks::BlockMode;
use profiler::capture::hooks::faults::Faults;
use profiler::capture::hooks::waits::OffCpu;
use profiler::capture::privilege::terms::{Scope, Terms};
use profiler::capture::proc::selection::{Conditions, Selection};
use profiler::capture::socket::link::Link;
use profiler::capture::socket::wire::{Reply, Request, Start};
use profiler::record::privilege::joint;

use crate::harness::skip::needs_capture;
use crate::user::{ALL, User, said};

/// The privileged helper, started by the user, and the user's end of its socket.
fn capture(user: &User, scope: Scope) -> (Child, Link) {
    let (ours, theirs) = joint(SockType::SeqPacket).unwrap();
    let fd = theirs.as_raw_fd().to_string();
    let terms = terms(scope).to_word().unwrap();
    let mut capture = user.ngmi("__capture");
    let child = capture.args(["--fd", &fd, "--terms", &terms]).spawn().unwrap();
    (child, Link::from(ours))
}

fn terms(scope: Scope) -> Terms {
    Terms {
        scope,
        user: None,
        sample_hz: 100,
        stack_copy: 65536,
        check_walks: false,
        faults: Faults::default(),
        off_cpu: OffCpu::default(),
        block: BlockMode::default(),
        exact_touch: false,
        self_account: false,
        max_overhead: None,
        exclude_pids: Vec::new(),
    }
}

fn start(pid: Option<u32>) -> Request {
    let command = Vec::new();
    Request::Start(Start { pid, command })
}

/// Any process of any user.
fn everything() -> Selection {
    let names = vec!["*".to_owned()];
    Selection {
        chosen: Conditions {
            names,
            ..Conditions::default()
        },
        ..Selection::default()
    }
}

fn log() -> OwnedFd {
    tempfile::tempfile().unwrap().into()
}

#[test]
fn a_forged_start_is_rejected() {
    needs_capture!();
    let Some(user) = User::with(ALL) else { return };
    let ours = std::process::id(); // root's
    for (scope, pid, why) in [
        (Scope::System, None, "run with sudo"),
        (Scope::Selected(Box::new(everything())), None, "run with sudo"),
        (Scope::Pids(vec![ours]), None, "permission denied for process"),
        (Scope::Command, Some(ours), "permission denied for process"),
        (Scope::Command, Some(1), "permission denied for process"),
    ] {
        let (mut child, link) = capture(&user, scope.clone());
        let log = log();
        link.send(&start(pid), Some(log.as_fd())).unwrap();
        let Some((Reply::Refused(reason), _)) = link.receive().unwrap() else {
            panic!("{scope:?} was not refused");
        };
        assert!(reason.contains(why), "{scope:?}: {reason}");
        assert!(
            link.receive::<Reply>().unwrap().is_none(),
            "it continues after {scope:?}"
        );
        assert!(child.wait().unwrap().success());
        let log = std::fs::File::from(log);
        assert_eq!(log.metadata().unwrap().len(), 0, "something was recorded for {scope:?}");
    }
}

/// A command without `no_new_privs`: ngmi's recorder always sets it.
#[test]
fn a_forged_command_is_checked_like_any_process() {
    needs_capture!();
    let Some(user) = User::with(ALL) else { return };
    let mut burn = user.runs("./burn").arg("60000").spawn().unwrap();
    let (mut child, link) = capture(&user, Scope::Command);
    link.send(&start(Some(burn.id())), Some(log().as_fd())).unwrap();
    let reply = link.receive::<Reply>().unwrap();
    burn.kill().unwrap();
    burn.wait().unwrap();
    let Some((Reply::Refused(reason), _)) = reply else {
        panic!("not refused: {reply:?}");
    };
    assert!(reason.contains("no_new_privs"), "{reason}");
    assert!(child.wait().unwrap().success());
}

/// The path through sudo is for root only.
#[test]
fn a_socket_with_a_name_is_for_sudo() {
    needs_capture!();
    let Some(user) = User::with(ALL) else { return };
    let output = user
        .ngmi("__capture")
        .args([
            "--socket",
            "./any",
            "--terms",
            &terms(Scope::Command).to_word().unwrap(),
        ])
        .env("SUDO_UID", "0")
        .output()
        .unwrap();
    assert!(
        !output.status.success() && said(&output).contains("only sudo"),
        "{}",
        said(&output)
    );
}
