//! Holds the processes that a limited user may record, so that what was checked is what is recorded.

use std::io;
use std::os::fd::OwnedFd;

use anyhow::{Context as _, bail};
use rustc_hash::FxHashSet;

use crate::drain::cycle::Drain;
use crate::drain::snapshot;
use crate::privilege::file_capabilities;
use crate::privilege::terms::{Scope, Terms};
use crate::proc::{pidfd, procfs};

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
            Scope::Pids(pids) if file_capabilities::is_limited(terms) => Self::hold(pids),
            _ => Ok(Self::default()),
        }
    }

    /// Opens the process that is to become the command.
    ///
    /// # Errors
    /// When it does not exist.
    pub fn and_command(self, terms: &Terms, pids: &[u32]) -> anyhow::Result<Self> {
        match &terms.scope {
            Scope::Command if file_capabilities::is_limited(terms) => Self::hold(pids),
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
        let is_whole = terms.scope.is_of_machine() || !file_capabilities::is_limited(terms);
        if !is_whole && !drain.recorded.threads().all(|(pid, _)| is_held(pid)) {
            bail!("a process to record changed while the recording began: try again");
        }
        drain.left_out.looks = file_capabilities::is_limited(terms) && !terms.scope.is_of_machine();
        for (pid, process) in &self.0 {
            let there: FxHashSet<u32> = procfs::threads(*pid).unwrap_or_default().into_iter().collect();
            let threads = drain.recorded.threads().filter(|(of, _)| of == pid);
            let ended: Vec<u32> = threads.map(|(_, tid)| tid).filter(|tid| !there.contains(tid)).collect();
            for tid in ended {
                drain.threads.forget(tid);
                drain.recorded.ended(procfs::now(), *pid, tid);
            }
            snapshot::require_found(!pidfd::has_ended(process), *pid)?;
            // What it starts from now on is seen; what it started since the check was not.
            file_capabilities::judge(&procfs::identity(*pid)?, terms)?;
        }
        Ok(())
    }
}

/// Opens the process of a thread.
fn open_process(thread: u32) -> io::Result<(u32, OwnedFd)> {
    let pid = procfs::identity(thread)?.pid;
    Ok((pid, pidfd::open(pid)?))
}
