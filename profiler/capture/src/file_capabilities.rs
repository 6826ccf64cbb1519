//! Which processes may be recorded for an ordinary user. A user who has rights through ngmi's file capabilities: the
//! user's own processes that can never gain rights. A user for whom root or sudo records a command: the user's own
//! processes, until they start a program that the user may not inspect.
//!
//! A stack copy is memory of the recorded process. The kernel itself ends an ordinary user's perf events when a
//! process starts a program that the user may not inspect (`begin_new_exec` in fs/exec.c), and so do our programs
//! ([`configure`]). What is recorded with file capabilities also has `no_new_privs`.

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
use base::plural::counted;

/// The user who started ngmi with file capabilities. `None`: root, or a user who could become root with sudo.
pub fn privilege() -> Option<u32> {
    let user = nix::unistd::getuid();
    (!user.is_root()).then(|| user.as_raw())
}

/// Processes to record, each held by a pidfd: another process can't take over its number unnoticed.
#[derive(Debug, Default)]
pub struct Judged(Vec<(u32, OwnedFd)>);

impl Judged {
    /// Opens the processes that the terms name, before the recorder, which decides when to start, can have their
    /// numbers reused.
    ///
    /// # Errors
    /// When one does not exist.
    pub fn named(terms: &Terms) -> anyhow::Result<Self> {
        match &terms.scope {
            Scope::Pids(pids) if is_limited(terms) => Self::hold(pids),
            _ => Ok(Self::default()),
        }
    }

    /// Opens the process that is to become the command.
    ///
    /// # Errors
    /// When it does not exist.
    pub fn and_command(self, terms: &Terms, pids: &[u32]) -> anyhow::Result<Self> {
        match &terms.scope {
            Scope::Command if is_limited(terms) => Self::hold(pids),
            _ => Ok(self),
        }
    }

    fn hold(pids: &[u32]) -> anyhow::Result<Self> {
        let held = pids.iter().map(|&pid| {
            open_process(pid).with_context(|| format!("there is no process {pid}; `ps -e` lists the running ones"))
        });
        held.collect::<anyhow::Result<_>>().map(Self)
    }

    /// Checks the processes again after their recording was set up: each has to be the one that was checked before.
    /// Numbers of threads that have ended since, which may soon be reused, are no longer recorded.
    ///
    /// # Errors
    /// When a process has ended or has other rights now.
    pub fn confirm(&self, terms: &Terms, drain: &mut Drain) -> anyhow::Result<()> {
        let is_held = |pid| self.0.iter().any(|(held, _)| *held == pid);
        let is_whole = terms.scope == Scope::System || !is_limited(terms);
        if !is_whole && !drain.recorded.threads().all(|(pid, _)| is_held(pid)) {
            bail!("a process to record changed while the recording began: try again");
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
            let mut ended = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
            snapshot::require_found(poll(&mut ended, PollTimeout::ZERO) == Ok(0), *pid)?;
            // What it starts from now on is seen; what it started since the check was not.
            judge(&procfs::identity(*pid)?, terms)?;
        }
        Ok(())
    }
}

/// Makes the kernel side leave out processes that the user who reads the log may not inspect.
///
/// # Errors
/// When this kernel does not show which those are.
pub fn configure(config: &mut Config, terms: &Terms) -> anyhow::Result<()> {
    config.hides = match privilege() {
        Some(_) => HIDES_ALWAYS,
        // What the user starts with root's permission may hide its memory, as browsers do, and still belongs to the
        // user.
        None if terms.hides() => HIDES_AT_EXEC,
        None => 0,
    };
    let is_shown = match (config.task_exec_state, config.exec_state_dumpable) {
        (MISSING, _) => config.mm_flags != MISSING,
        (_, dumpable) => dumpable != MISSING,
    };
    if config.hides != 0 && !is_shown {
        bail!(
            "this kernel does not show which processes hide their memory from their users, so only root itself can record: run ngmi in a \
             root shell, or record everything with `sudo ngmi record -a`"
        );
    }
    Ok(())
}

/// Whether the log is for a user other than root.
fn is_limited(terms: &Terms) -> bool {
    privilege().is_some() || terms.user.is_some()
}

/// Processes that the kernel side no longer records although they still run.
#[derive(Debug, Default)]
pub struct LeftOut {
    /// The log is for a user who may not inspect all processes.
    looks: bool,
    count: u32,
}

impl LeftOut {
    /// Notes that the recording of a process ended.
    pub fn ended(&mut self, pid: u32) {
        if self.looks && procfs::stat(pid, pid).is_ok_and(|stat| !stat.has_ended) {
            self.count = self.count.saturating_add(1);
        }
    }

    /// A warning for the user, if any process was left out.
    pub fn sentence(&self) -> Option<String> {
        (self.count > 0).then(|| {
            format!(
                "not recorded to the end: {} that hid memory from the user while running (set-user-id programs, or files without read \
                 permission); use a root shell, or `sudo ngmi record -a`, to record them completely",
                counted(u64::from(self.count), "process")
            )
        })
    }
}

/// `pidfd_open(2)` on the process of a thread: the descriptor becomes readable when the process ends.
fn open_process(thread: u32) -> io::Result<(u32, OwnedFd)> {
    let pid = procfs::identity(thread)?.pid;
    // SAFETY: the call takes two numbers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(pid), 0) };
    match i32::try_from(fd) {
        // SAFETY: the kernel has just created this descriptor, close-on-exec, for us.
        Ok(fd) if fd >= 0 => Ok((pid, unsafe { OwnedFd::from_raw_fd(fd) })),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Leaves out what belongs to the whole machine for a user with file capabilities, and returns warnings about it.
///
/// # Errors
/// When it was requested explicitly.
pub fn limit(terms: &mut Terms) -> anyhow::Result<Vec<String>> {
    if privilege().is_none() {
        return Ok(Vec::new());
    }
    if terms.exact_touch {
        bail!("--exact-touch changes a setting of the whole machine: run with sudo");
    }
    if terms.scope == Scope::System {
        bail!("only root can record the whole system: run with sudo");
    }
    let mut warnings = Vec::new();
    if std::mem::replace(&mut terms.block, BlockMode::Off) != BlockMode::Off {
        warnings.push(
            "disk requests are left out: they are of the whole machine and include names of other users' files; use `sudo ngmi record` to record them"
                .to_owned(),
        );
    }
    Ok(warnings)
}

/// Fails unless these terms allow recording a process.
///
/// # Errors
/// With the command to type instead.
pub fn judge(process: &procfs::Identity, terms: &Terms) -> anyhow::Result<()> {
    match (privilege(), terms.user) {
        (Some(user), _) => check_unprivileged(process, user),
        // The recorder names the command's process only once that process belongs to the user.
        (None, Some(user)) if terms.scope == Scope::Command => judge_command(process, user),
        _ => Ok(()),
    }
}

/// Fails unless a process is the user's own and can never have more rights than the user.
fn check_unprivileged(process: &procfs::Identity, user: u32) -> anyhow::Result<()> {
    let (pid, group) = (process.pid, nix::unistd::getgid().as_raw());
    if process.user != Some(user) || process.group != Some(group) {
        bail!("process {pid} is not yours: run with sudo");
    }
    if process.has_capabilities || !shows_itself(process, user) {
        bail!("process {pid} has rights that you don't have, or hides its memory: run with sudo");
    }
    if !process.no_new_privs {
        bail!(
            "process {pid} may start programs with more rights than yours (no_new_privs is not set), and their memory would be in the recording: \
             run with sudo, or start it with `ngmi record -- ...` or `setpriv --no-new-privs`"
        );
    }
    // The flag is that of the process's first thread. If that was the only one when it was set, all later threads
    // inherit it.
    if procfs::identity(pid)?.threads != 1 {
        bail!("process {pid} has several threads, and not all of them have no_new_privs set: run with sudo");
    }
    Ok(())
}

/// Fails unless the user may inspect the process.
fn judge_command(process: &procfs::Identity, user: u32) -> anyhow::Result<()> {
    let pid = process.pid;
    if process.user != Some(user) {
        bail!("process {pid} does not belong to user {user}, who is to run the command");
    }
    if process.has_permitted || !shows_itself(process, user) {
        bail!("process {pid} has rights that user {user} doesn't have, or hides its memory");
    }
    Ok(())
}

/// Whether a process hides its memory from its own user: then its files belong to root (`task_dump_owner` in
/// fs/proc/base.c).
fn shows_itself(process: &procfs::Identity, user: u32) -> bool {
    let status = std::fs::metadata(format!("/proc/{}/status", process.pid));
    status.is_ok_and(|status| status.uid() == user)
}
