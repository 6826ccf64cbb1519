//! What an ordinary user may record who was lent capabilities by ngmi's file: processes of the user's own that can never have more rights.
//!
//! A stack copy is memory of the recorded process. The kernel itself ends an ordinary user's perf events when a process starts a set-user-id
//! program (`begin_new_exec` in fs/exec.c); our programs can't, so that what is recorded must not be able to: it has `no_new_privs`.

use std::io;
use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;

use anyhow::{Context as _, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustc_hash::FxHashSet;

use super::disks::BlockMode;
use super::drain::Drain;
use super::wire::{Scope, Start};
use super::{procfs, snapshot};

/// The user who started us through file capabilities. `None`: root, or somebody who could be root by sudo.
pub fn privilege() -> Option<u32> {
    let user = nix::unistd::getuid();
    (!user.is_root()).then(|| user.as_raw())
}

/// Processes that were judged, held so that nobody else can take over their numbers unseen.
#[derive(Debug, Default)]
pub struct Judged(Vec<(u32, OwnedFd)>);

impl Judged {
    /// Takes hold of the processes of a scope, before they are judged. Nothing for root.
    ///
    /// # Errors
    /// When one is not there.
    pub fn hold(scope: &Scope) -> anyhow::Result<Self> {
        let pids = match scope {
            _ if privilege().is_none() => &[],
            Scope::Command { pid } => std::slice::from_ref(pid),
            Scope::Pids(pids) => pids.as_slice(),
            Scope::System => &[],
        };
        let held = pids.iter().map(|&pid| {
            open_process(pid).with_context(|| format!("there is no process {pid}; `ps -e` lists those that run"))
        });
        held.collect::<anyhow::Result<_>>().map(Self)
    }

    /// After they were put under recording: each is still the one that was judged. Numbers of threads that ended meanwhile, which may be
    /// other people's soon, are recorded no more.
    ///
    /// # Errors
    /// When a process ended.
    pub fn confirm(&self, drain: &mut Drain) -> anyhow::Result<()> {
        let is_held = |pid| self.0.iter().any(|(held, _)| *held == pid);
        if privilege().is_some() && !drain.recorded.threads().all(|(pid, _)| is_held(pid)) {
            bail!("what is to be recorded changed while the recording began: try again");
        }
        for (pid, process) in &self.0 {
            let there: FxHashSet<u32> = procfs::threads(*pid).unwrap_or_default().into_iter().collect();
            let threads = drain.recorded.threads().filter(|(of, _)| of == pid);
            let ended: Vec<u32> = threads.map(|(_, tid)| tid).filter(|tid| !there.contains(tid)).collect();
            for tid in ended {
                drain.threads.forget(tid);
                drain.recorded.ended(procfs::now(), *pid, tid);
            }
            let mut over = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
            snapshot::require_found(poll(&mut over, PollTimeout::ZERO) == Ok(0), *pid)?;
        }
        Ok(())
    }
}

/// `pidfd_open(2)`, of the process of a thread: it can be read when the process has ended.
fn open_process(thread: u32) -> io::Result<(u32, OwnedFd)> {
    let pid = procfs::identity(thread)?.pid;
    // SAFETY: the call takes two numbers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(pid), 0) };
    match i32::try_from(fd) {
        // SAFETY: the kernel has just made this descriptor, close-on-exec, for us.
        Ok(fd) if fd >= 0 => Ok((pid, unsafe { OwnedFd::from_raw_fd(fd) })),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What is the whole machine's is left out, and told.
///
/// # Errors
/// When it was asked for by name.
pub fn limit(start: &mut Start) -> anyhow::Result<Vec<String>> {
    if privilege().is_none() {
        return Ok(Vec::new());
    }
    if start.exact_touch {
        bail!("--exact-touch changes a setting of the whole machine: run with sudo");
    }
    if start.scope == Scope::System {
        bail!("the whole system is recorded for root only: run with sudo");
    }
    let mut told = Vec::new();
    if std::mem::replace(&mut start.block, BlockMode::Off) != BlockMode::Off {
        told.push(
            "disk requests are left out: they are the whole machine's, with the names of other people's files; `sudo ngmi record` records them"
                .to_owned(),
        );
    }
    Ok(told)
}

/// Fails unless a process is the user's own and can never have more rights than the user.
///
/// # Errors
/// With what to type instead.
pub fn judge(process: &procfs::Identity) -> anyhow::Result<()> {
    let Some(user) = privilege() else { return Ok(()) };
    let (pid, group) = (process.pid, nix::unistd::getgid().as_raw());
    if process.user != Some(user) || process.group != Some(group) {
        bail!("process {pid} is not yours: run with sudo");
    }
    // The files of a process that hides its memory from its own user are root's (`task_dump_owner` in fs/proc/base.c).
    let owner = std::fs::metadata(format!("/proc/{pid}/status")).map(|status| status.uid());
    if process.has_capabilities || !matches!(owner, Ok(owner) if owner == user) {
        bail!("process {pid} has rights that you have not, or hides its memory: run with sudo");
    }
    if !process.no_new_privs {
        bail!(
            "process {pid} may start programs that have more rights than you (no_new_privs is not set), whose memory would be in the recording: \
             run with sudo, or start it by `ngmi record -- ...` or `setpriv --no-new-privs`"
        );
    }
    // That is its first thread's promise. If it is the only one after having made it, all others there will be inherit it.
    if procfs::identity(pid)?.threads != 1 {
        bail!("process {pid} has several threads, not all of which have promised to gain no rights: run with sudo");
    }
    Ok(())
}
