//! Whose processes may be recorded for an ordinary user. One who was lent capabilities by ngmi's file: those of the user's own that can never have more
//! rights. One whom root or sudo records a command for: the user's own, until they start a program that the user may not look into.
//!
//! A stack copy is memory of the recorded process. The kernel itself ends an ordinary user's perf events when a process starts a program that the user may
//! not look into (`begin_new_exec` in fs/exec.c), and so do our programs ([`configure`]). What is recorded by lent capabilities has `no_new_privs` besides.

use std::io;
use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;

use anyhow::{Context as _, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use profiler_common::config::{Config, MISSING};
use profiler_common::scope::{HIDES_ALWAYS, HIDES_AT_EXEC};
use rustc_hash::FxHashSet;

use super::disks::BlockMode;
use super::drain::Drain;
use super::terms::{Scope, Terms};
use super::{procfs, snapshot};

/// The user who started us through file capabilities. `None`: root, or somebody who could be root by sudo.
pub fn privilege() -> Option<u32> {
    let user = nix::unistd::getuid();
    (!user.is_root()).then(|| user.as_raw())
}

/// Processes that are to be recorded, held so that nobody else can take over their numbers unseen.
#[derive(Debug, Default)]
pub struct Judged(Vec<(u32, OwnedFd)>);

impl Judged {
    /// Takes hold of the processes that the terms name, before the other half, which decides when to start, can make their numbers another's.
    ///
    /// # Errors
    /// When one is not there.
    pub fn named(terms: &Terms) -> anyhow::Result<Self> {
        match &terms.scope {
            Scope::Pids(pids) if is_limited(terms) => Self::hold(pids),
            _ => Ok(Self::default()),
        }
    }

    /// Takes hold of the process that is to become the command.
    ///
    /// # Errors
    /// When it is not there.
    pub fn and_command(self, terms: &Terms, pids: &[u32]) -> anyhow::Result<Self> {
        match &terms.scope {
            Scope::Command if is_limited(terms) => Self::hold(pids),
            _ => Ok(self),
        }
    }

    fn hold(pids: &[u32]) -> anyhow::Result<Self> {
        let held = pids.iter().map(|&pid| {
            open_process(pid).with_context(|| format!("there is no process {pid}; `ps -e` lists those that run"))
        });
        held.collect::<anyhow::Result<_>>().map(Self)
    }

    /// After they were put under recording: each is still the one that was judged. Numbers of threads that ended meanwhile, which may be
    /// other people's soon, are recorded no more.
    ///
    /// # Errors
    /// When a process ended, or has other rights by now.
    pub fn confirm(&self, terms: &Terms, drain: &mut Drain) -> anyhow::Result<()> {
        let is_held = |pid| self.0.iter().any(|(held, _)| *held == pid);
        let is_whole = terms.scope == Scope::System || !is_limited(terms);
        if !is_whole && !drain.recorded.threads().all(|(pid, _)| is_held(pid)) {
            bail!("what is to be recorded changed while the recording began: try again");
        }
        drain.left_out.looks = is_limited(terms);
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
            // What it starts from now on is seen; what it started since it was judged was not.
            judge(&procfs::identity(*pid)?, terms)?;
        }
        Ok(())
    }
}

/// Has the kernel side leave out processes that the user who reads the log may not look into.
///
/// # Errors
/// When this kernel does not show which those are.
pub fn configure(config: &mut Config, terms: &Terms) -> anyhow::Result<()> {
    config.hides = match privilege() {
        Some(_) => HIDES_ALWAYS,
        // What the user starts by root's leave may hide itself, as browsers do, and is the user's all the same.
        None if terms.hides() => HIDES_AT_EXEC,
        None => 0,
    };
    let is_shown = match (config.task_exec_state, config.exec_state_dumpable) {
        (MISSING, _) => config.mm_flags != MISSING,
        (_, dumpable) => dumpable != MISSING,
    };
    if config.hides != 0 && !is_shown {
        bail!(
            "this kernel does not show which processes hide their memory from their users, so that only root's own recordings are possible: run it in a \
             root shell, or record everything with `sudo ngmi record -a`"
        );
    }
    Ok(())
}

/// Whether the log is for somebody who is not root.
fn is_limited(terms: &Terms) -> bool {
    privilege().is_some() || terms.user.is_some()
}

/// Processes that the kernel side records no more although they run on.
#[derive(Debug, Default)]
pub struct LeftOut {
    /// The log is for a user who may not look into all processes.
    looks: bool,
    count: u32,
}

impl LeftOut {
    /// The recording of a process ended.
    pub fn ended(&mut self, pid: u32) {
        if self.looks && procfs::stat(pid, pid).is_ok_and(|stat| !stat.is_over) {
            self.count = self.count.saturating_add(1);
        }
    }

    /// For a person, if there is something to say.
    pub fn sentence(&self) -> Option<String> {
        (self.count > 0).then(|| {
            format!(
                "{} processes hid their memory from their user while they ran (set-user-id programs, or files without read permission), and are not \
                 recorded from there on; a recording by root's own shell, or `sudo ngmi record -a`, has them whole",
                self.count
            )
        })
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

/// What is the whole machine's is left out for a user who was lent capabilities, and told.
///
/// # Errors
/// When it was asked for by name.
pub fn limit(terms: &mut Terms) -> anyhow::Result<Vec<String>> {
    if privilege().is_none() {
        return Ok(Vec::new());
    }
    if terms.exact_touch {
        bail!("--exact-touch changes a setting of the whole machine: run with sudo");
    }
    if terms.scope == Scope::System {
        bail!("the whole system is recorded for root only: run with sudo");
    }
    let mut told = Vec::new();
    if std::mem::replace(&mut terms.block, BlockMode::Off) != BlockMode::Off {
        told.push(
            "disk requests are left out: they are the whole machine's, with the names of other people's files; `sudo ngmi record` records them"
                .to_owned(),
        );
    }
    Ok(told)
}

/// Fails unless a process may be recorded by these terms.
///
/// # Errors
/// With what to type instead.
pub fn judge(process: &procfs::Identity, terms: &Terms) -> anyhow::Result<()> {
    match (privilege(), terms.user) {
        (Some(user), _) => judge_lent(process, user),
        // Which process is the command, the other half says only when it is that user already.
        (None, Some(user)) if terms.scope == Scope::Command => judge_command(process, user),
        _ => Ok(()),
    }
}

/// Fails unless a process is the user's own and can never have more rights than the user.
fn judge_lent(process: &procfs::Identity, user: u32) -> anyhow::Result<()> {
    let (pid, group) = (process.pid, nix::unistd::getgid().as_raw());
    if process.user != Some(user) || process.group != Some(group) {
        bail!("process {pid} is not yours: run with sudo");
    }
    if process.has_capabilities || !shows_itself(process, user) {
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

/// Fails unless a process is one that the user may look into.
fn judge_command(process: &procfs::Identity, user: u32) -> anyhow::Result<()> {
    let pid = process.pid;
    if process.user != Some(user) {
        bail!("process {pid} is not user {user}'s, who is to run the command");
    }
    if process.has_permitted || !shows_itself(process, user) {
        bail!("process {pid} has rights that user {user} has not, or hides its memory");
    }
    Ok(())
}

/// The files of a process that hides its memory from its own user are root's (`task_dump_owner` in fs/proc/base.c).
fn shows_itself(process: &procfs::Identity, user: u32) -> bool {
    let status = std::fs::metadata(format!("/proc/{}/status", process.pid));
    status.is_ok_and(|status| status.uid() == user)
}
