//! Starts the privileged helper: directly as root or with file capabilities, otherwise through sudo.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{self, AddressFamily, Backlog, Shutdown, SockFlag, SockType, UnixAddr, sockopt};
use nix::unistd::Uid;

use super::identity::hide_from_its_user;
use crate::capture::privilege::terms::Terms;
use crate::capture::proc::capabilities;
use crate::capture::socket::link::Link;

/// How long the privileged helper may take to connect after sudo has granted access.
const CONNECT_LIMIT: Duration = Duration::from_secs(20);

/// The running privileged helper.
#[derive(Debug)]
pub struct Capture {
    /// The connection, with the messages of [`crate::capture::socket::wire`].
    pub link: Arc<Link>,
    /// Its process, if it is our child.
    child: Option<Child>,
}

impl Capture {
    /// Starts the privileged helper for a recording with these terms.
    ///
    /// # Errors
    /// When there is no way to get privileges, with exactly what to type.
    pub fn start(terms: &Terms) -> Result<Self> {
        let terms = terms.to_word()?;
        // The file grants its capabilities again to the process started from it: this one has dropped them.
        if Uid::effective().is_root() || capabilities::granted().records() {
            Self::directly(&terms)
        } else {
            Self::through_sudo(&terms)
        }
    }

    /// Signals that there is nothing more to do, and waits for its end.
    pub fn wait(self) {
        // The thread that receives replies still has the socket open: a helper that is recording would otherwise
        // never end.
        let _ = socket::shutdown(self.link.as_fd().as_raw_fd(), Shutdown::Write);
        if let Some(mut child) = self.child {
            let _ = child.wait();
        }
    }

    fn directly(terms: &str) -> Result<Self> {
        let (ours, theirs) = joint(SockType::SeqPacket)?;
        let child = Command::new("/proc/self/exe")
            .args(["__capture", "--terms", terms, "--fd", &theirs.as_raw_fd().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("starting the privileged helper")?;
        Ok(Self {
            link: Arc::new(ours.into()),
            child: Some(child),
        })
    }

    fn through_sudo(terms: &str) -> Result<Self> {
        let exe = std::env::current_exe().context("finding the program file of ngmi")?;
        let sudo =
            sudo_path().with_context(|| format!("recording needs root, but sudo was not found; {}", remedy()))?;
        let folder = private_folder()?;
        let path = folder.path().join("capture");
        let listener = listen(&path)?;
        hide_from_its_user()?;
        // In the background (-b), since sudo would otherwise take the terminal from the program.
        let mut child = Command::new(sudo)
            .args(["-b", "-p", "[ngmi] recording needs root; password of %p: ", "--"])
            .arg(exe)
            .args(["__capture", "--terms", terms, "--socket"])
            .arg(path)
            .spawn()
            .context("starting sudo")?;
        let socket = accept(&listener, &mut child)?;
        let peer = socket::getsockopt(&socket, sockopt::PeerCredentials)?;
        if peer.uid() != 0 {
            bail!(
                "process {} of user {} answered instead of the privileged helper",
                peer.pid(),
                peer.uid()
            );
        }
        Ok(Self {
            link: Arc::new(socket.into()),
            child: None,
        })
    }
}

/// A socket pair: our end, and one that a child inherits by its number, if it is open when the child starts.
///
/// # Errors
/// When the kernel refuses.
pub fn joint(kind: SockType) -> Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socket::socketpair(AddressFamily::Unix, kind, None, SockFlag::SOCK_CLOEXEC)?;
    fcntl(&theirs, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok((ours, theirs))
}

/// What to type instead, with the current command line.
pub fn remedy() -> String {
    let mut typed: Vec<_> = std::env::args_os().skip(1).collect();
    // A run of several was started by ngmi with its own arguments.
    if typed.iter().any(|word| word == "--run-fd") {
        typed.drain(1..typed.len().min(5));
    }
    let words: Vec<String> = (typed.iter()).map(|word| shell_word(&word.to_string_lossy())).collect();
    let exe = std::env::current_exe().map_or_else(|_| "ngmi".to_owned(), |exe| shell_word(&exe.to_string_lossy()));
    format!("run `sudo {exe} {}` (or become root with `su`)", words.join(" "))
}

fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.,=:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn sudo_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    std::env::split_paths(&path)
        .map(|dir| dir.join("sudo"))
        .find(|file| file.is_file())
}

fn private_folder() -> Result<tempfile::TempDir> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|dir| dir.is_dir());
    let parent = runtime.unwrap_or_else(std::env::temp_dir);
    tempfile::Builder::new()
        .prefix("ngmi-")
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir_in(&parent)
        .with_context(|| format!("cannot create a folder for the socket in {}", parent.display()))
}

fn listen(path: &Path) -> Result<UnixListener> {
    let listener = socket::socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?;
    let bound = || -> nix::Result<()> {
        socket::bind(listener.as_raw_fd(), &UnixAddr::new(path)?)?;
        socket::listen(&listener, Backlog::new(1)?)
    };
    bound().with_context(|| format!("cannot listen on {}", path.display()))?;
    Ok(listener.into())
}

fn accept(listener: &UnixListener, sudo: &mut Child) -> Result<OwnedFd> {
    let mut granted = None;
    loop {
        let mut fds = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::from(50u8)) {
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => {
                let (socket, _) = listener.accept()?;
                let _ = sudo.wait();
                return Ok(socket.into());
            }
            Err(error) => return Err(error).context("waiting for the privileged helper"),
        }
        match sudo.try_wait()? {
            Some(status) if !status.success() => {
                bail!("recording needs root, and sudo refused; {}", remedy());
            }
            Some(_) if granted.get_or_insert_with(Instant::now).elapsed() > CONNECT_LIMIT => {
                bail!("the privileged helper did not start under sudo; {}", remedy());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip_through_a_shell() {
        assert_eq!(shell_word("a-b/c.d"), "a-b/c.d");
        assert_eq!(shell_word("it's a"), r"'it'\''s a'");
        assert_eq!(shell_word(""), "''");
    }
}
