//! The internal subcommands that `record` starts: the privileged helper, the process that opens files for it, the one
//! that executes the command, the one that writes the profile, and the one that drops caches.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, UnixAddr, sockopt};

use super::args::{CaptureArgs, ExecArgs, Inherited, OpenArgs};
use crate::capture::files::opener;
use crate::capture::privilege::terms::Terms;
use crate::capture::proc::{open_files, priority};
use crate::capture::socket::channel::ChannelError;
use crate::capture::socket::link::inherited;
use crate::record::cache::system::serve;
use crate::record::command::become_command;
use crate::record::conversion;

pub fn capture(args: &CaptureArgs) -> Result<ExitCode> {
    let mut terms = args.terms.clone();
    let socket = match (&args.fd, &args.socket) {
        (Some(fd), None) => inherited(*fd)?,
        (None, Some(path)) => connect(path, &mut terms)?,
        _ => bail!("this subcommand is internal; use `ngmi record`"),
    };
    priority::start();
    // Four perf events are open for each CPU.
    let _raised = open_files::raise();
    match capture::run(socket, terms, opener::process) {
        // The recorder gave up, and has printed the reason.
        Err(error) if matches!(error.downcast_ref(), Some(ChannelError::Closed)) => Ok(ExitCode::FAILURE),
        ended => ended.map(|()| ExitCode::SUCCESS),
    }
}

/// Connects to the recorder, which must run as the user who invoked sudo and for whom the recording
/// is.
fn connect(path: &Path, terms: &mut Terms) -> Result<OwnedFd> {
    if !nix::unistd::geteuid().is_root() {
        bail!("only sudo starts the privileged helper on its own; use `ngmi record`");
    }
    let socket = socket::socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?;
    socket::connect(socket.as_raw_fd(), &UnixAddr::new(path)?)
        .with_context(|| format!("cannot connect to the recorder at {}", path.display()))?;
    let peer = socket::getsockopt(&socket, sockopt::PeerCredentials)?;
    let asked = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse::<u32>().ok());
    if asked.is_some_and(|uid| uid != peer.uid()) {
        bail!(
            "user {} is at the socket, but user {} invoked sudo",
            peer.uid(),
            asked.unwrap_or_default()
        );
    }
    terms.user = Some(peer.uid()).filter(|&uid| uid != 0);
    Ok(socket)
}

pub fn open(args: &OpenArgs) -> Result<ExitCode> {
    // It was started with the privileged helper's priority.
    priority::drain();
    opener::helper::serve(inherited(args.fd)?, args.user)?;
    Ok(ExitCode::SUCCESS)
}

pub fn exec(args: &ExecArgs) -> Result<ExitCode> {
    become_command(inherited(args.fd)?, args.ignored, &args.command)?;
    Ok(ExitCode::from(125))
}

pub fn convert(args: &Inherited) -> Result<ExitCode> {
    conversion::serve(inherited(args.fd)?, args.network)?;
    Ok(ExitCode::SUCCESS)
}

pub fn drop_caches() -> Result<ExitCode> {
    serve(std::io::stdin(), std::io::stdout())?;
    Ok(ExitCode::SUCCESS)
}
