//! Detaches a process: the new process is not a child of this one, which becomes the command.
//!
//! It is in this folder because forking is `unsafe`; nothing in it is privileged.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, dup2_stdin, dup2_stdout, fork};

/// Which of the two processes this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The original one, with the same id.
    Here,
    /// The new one. It has no descriptors except standard error and the one it was to keep, and its working directory
    /// is `/`.
    Daemon,
}

/// Creates a process that neither the caller nor the command it becomes has to wait for. It keeps one descriptor.
///
/// # Errors
/// When this process has several threads, or no process can be created.
pub fn daemonize(keep: BorrowedFd<'_>) -> io::Result<Side> {
    // A thread that doesn't exist in the copy may have held a lock.
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("the process has several threads"));
    }
    // SAFETY: there is only one thread, so the child is a complete copy: no lock is held by a thread that it lacks.
    match unsafe { fork()? } {
        ForkResult::Parent { child } => {
            waitpid(child, None)?;
            Ok(Side::Here)
        }
        ForkResult::Child => {
            // SAFETY: as above. The first child exits at once, so init adopts the second one.
            let forked = unsafe { fork() };
            if !matches!(forked, Ok(ForkResult::Child)) {
                // SAFETY: ends the process and runs nothing of the parent's (`atexit`, buffers).
                unsafe { libc::_exit(i32::from(forked.is_err())) }
            }
            let ready = settle(keep);
            if ready.is_err() {
                // SAFETY: as above; the error can't be handled here.
                unsafe { libc::_exit(1) }
            }
            Ok(Side::Daemon)
        }
    }
}

/// Releases what was inherited: an open pipe would keep its reader waiting, and a working directory would keep its
/// file system busy.
fn settle(keep: BorrowedFd<'_>) -> io::Result<()> {
    let nothing = fs::File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&nothing)?;
    dup2_stdout(&nothing)?;
    drop(nothing);
    std::env::set_current_dir("/")?;
    let keep = keep.as_raw_fd().unsigned_abs();
    for (first, last) in [(3, keep.saturating_sub(1)), (keep.saturating_add(1).max(3), u32::MAX)] {
        if first <= last {
            // SAFETY: this process never uses a descriptor above 2 again except `keep`: the caller passes nothing
            // else.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    }
    Ok(())
}
