//! A process apart: one that is nobody's child, beside the command that this one becomes.
//!
//! It stands here because forking is `unsafe`; nothing of it is privileged.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, dup2_stdin, dup2_stdout, fork};

/// Which of the two processes this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that was there before, with the same id.
    Here,
    /// The new one. It has no descriptors but standard error and the one that it was to keep, and no folder of anybody's.
    Daemon,
}

/// Makes a process that the caller, and what the caller becomes, need never wait for. It keeps one descriptor.
///
/// # Errors
/// When this process has several threads, or no process can be made.
pub fn daemonize(keep: BorrowedFd<'_>) -> io::Result<Side> {
    // A thread that is not there any more may have held a lock.
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("the process has several threads"));
    }
    // SAFETY: there is one thread only, so the child is a whole copy of it: no lock is held by a thread that it lacks.
    match unsafe { fork()? } {
        ForkResult::Parent { child } => {
            waitpid(child, None)?;
            Ok(Side::Here)
        }
        ForkResult::Child => {
            // SAFETY: as above. The first child ends at once, so that the second one is left to init.
            let forked = unsafe { fork() };
            if !matches!(forked, Ok(ForkResult::Child)) {
                // SAFETY: ends the process and runs nothing of the parent's (`atexit`, buffers).
                unsafe { libc::_exit(i32::from(forked.is_err())) }
            }
            let ready = settle(keep);
            if ready.is_err() {
                // SAFETY: as above; nobody would know what to do with the error.
                unsafe { libc::_exit(1) }
            }
            Ok(Side::Daemon)
        }
    }
}

/// Lets go of what the caller's parents gave: a pipe that stays open would keep its reader waiting, a folder would stay busy.
fn settle(keep: BorrowedFd<'_>) -> io::Result<()> {
    let nothing = fs::File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&nothing)?;
    dup2_stdout(&nothing)?;
    drop(nothing);
    std::env::set_current_dir("/")?;
    let keep = keep.as_raw_fd().unsigned_abs();
    for (first, last) in [(3, keep.saturating_sub(1)), (keep.saturating_add(1).max(3), u32::MAX)] {
        if first <= last {
            // SAFETY: no descriptor above 2 but `keep` is used by this process again: the caller hands nothing else over.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    }
    Ok(())
}
