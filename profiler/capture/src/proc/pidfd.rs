//! Descriptors of processes, which never refer to a later process with the same id.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;

/// `pidfd_open(2)`: the descriptor becomes readable when the process ends.
///
/// # Errors
/// The process does not exist.
pub fn open(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes two numbers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(pid), 0) };
    match i32::try_from(fd) {
        // SAFETY: the kernel has just created this descriptor, close-on-exec, for us.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `pidfd_send_signal(2)`.
///
/// # Errors
/// The process has ended, or belongs to another user.
pub fn send(process: impl AsFd, signal: Signal) -> io::Result<()> {
    let (fd, number) = (process.as_fd().as_raw_fd(), signal as i32);
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: without information about the signal the kernel reads nothing of ours.
    let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, number, no_info, 0) };
    if sent == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Whether the process has ended, even if its parent has not waited for it yet; also if that can't be known.
pub fn has_ended(process: impl AsFd) -> bool {
    let mut fds = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::ZERO) != Ok(0)
}
