//! Which processes may be recorded for an ordinary user. A user who has rights through ngmi's file capabilities: the
//! user's own processes that can never gain rights. A user for whom root or sudo records a command: the user's own
//! processes, until they start a program that the user may not inspect.
//!
//! A stack copy is memory of the recorded process. The kernel itself ends an ordinary user's perf events when a
//! process starts a program that the user may not inspect (`begin_new_exec` in fs/exec.c), and so do our programs
//! ([`configure`]). What is recorded with file capabilities also has `no_new_privs`.

use std::os::unix::fs::MetadataExt as _;

use anyhow::bail;
use profiler_common::config::{Config, MISSING};
use profiler_common::scope::{HIDES_ALWAYS, HIDES_AT_EXEC};

use super::terms::{Scope, Terms};
use crate::hooks::disks::BlockMode;
use crate::proc::procfs;

/// The user who started ngmi with file capabilities. `None`: root, or a user who could become root with sudo.
pub fn privilege() -> Option<u32> {
    let user = nix::unistd::getuid();
    (!user.is_root()).then(|| user.as_raw())
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
pub fn is_limited(terms: &Terms) -> bool {
    privilege().is_some() || terms.user.is_some()
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
    match terms.scope {
        Scope::System => bail!("only root can record the whole system: run with sudo"),
        Scope::Selected(_) => {
            bail!(
                "only root can record processes by cgroup, name, program or user: run with sudo, or name your own with -p"
            )
        }
        Scope::Command | Scope::Pids(_) => {}
    }
    let mut warnings = Vec::new();
    if std::mem::replace(&mut terms.block, BlockMode::Off) != BlockMode::Off {
        warnings.push(
            "block requests are left out: they are of the whole machine and include names of other users' files; use `sudo ngmi record` to record them"
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
        bail!("permission denied for process {pid}: run with sudo");
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
