//! The recorder's end of the socket to the privileged helper: one JSON message per packet (`SOCK_SEQPACKET`), with
//! descriptors attached.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::sys::socket::{self, ControlMessage, MsgFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::packet;
use super::wire::MESSAGE_LIMIT;
use crate::proc::open_files;

/// How long the peer may take to receive the descriptors in flight, which the kernel counts with the limit of open
/// files.
const PATIENCE: Duration = Duration::from_secs(10);

/// One end of the socket between the recorder and the privileged helper.
#[derive(Debug)]
pub struct Link {
    socket: OwnedFd,
}

impl From<OwnedFd> for Link {
    fn from(socket: OwnedFd) -> Self {
        Self { socket }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Link {
    /// Sends `message`, with a descriptor if there is one.
    ///
    /// # Errors
    /// When the peer is gone or the message is too long.
    pub fn send(&self, message: &impl Serialize, descriptor: Option<BorrowedFd<'_>>) -> Result<()> {
        let bytes = serde_json::to_vec(message)?;
        if bytes.len() > MESSAGE_LIMIT {
            bail!(
                "a message of {} bytes exceeds the limit of {MESSAGE_LIMIT}",
                bytes.len()
            );
        }
        let raw: Vec<RawFd> = descriptor.iter().map(AsRawFd::as_raw_fd).collect();
        let control = [ControlMessage::ScmRights(&raw)];
        let control = if raw.is_empty() { &control[..0] } else { &control[..] };
        let began = Instant::now();
        loop {
            let parts = [IoSlice::new(&bytes)];
            match socket::sendmsg::<()>(self.socket.as_raw_fd(), &parts, control, MsgFlags::MSG_NOSIGNAL, None) {
                Ok(_) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(Errno::ETOOMANYREFS) if began.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(1)),
                Err(error) => return Err(error).context("sending to the other process of ngmi"),
            }
        }
    }

    /// Receives one message; `None` when the peer is gone. A descriptor is dropped if it exceeds the limit of open
    /// files, or would leave too few for other uses.
    ///
    /// # Errors
    /// When the message is invalid: too long, not JSON, or with too many descriptors.
    pub fn receive<M: DeserializeOwned>(&self) -> Result<Option<(M, Option<OwnedFd>)>> {
        let mut bytes = vec![0; MESSAGE_LIMIT];
        let packet = loop {
            match packet::receive(self.socket.as_fd(), &mut bytes, MsgFlags::empty()) {
                Ok(packet) => break packet,
                Err(Errno::EINTR) => {}
                Err(Errno::ECONNRESET) => return Ok(None),
                Err(error) => return Err(error).context("receiving from the other process of ngmi"),
            }
        };
        if packet.len == 0 {
            return Ok(None);
        }
        if packet.is_over_limits {
            bail!("the other process of ngmi sent a message that exceeds the limits");
        }
        let message = serde_json::from_slice(&bytes[..packet.len])
            .context("the other process of ngmi sent an invalid message")?;
        let descriptor = packet
            .descriptor
            .filter(|descriptor| !open_files::is_of_the_last(descriptor));
        Ok(Some((message, descriptor)))
    }
}

/// Takes over a socket that this process was started with.
///
/// # Errors
/// When the number is not a socket: an internal subcommand was typed by a person.
pub fn inherited(fd: RawFd) -> Result<OwnedFd> {
    let is_socket = fd > 2
        && std::fs::read_link(format!("/proc/self/fd/{fd}"))
            .is_ok_and(|to| to.to_string_lossy().starts_with("socket:"));
    if !is_socket {
        bail!("descriptor {fd} is not a socket; this subcommand is internal to ngmi, use `ngmi record`");
    }
    // SAFETY: the descriptor is open (checked above), and nothing in this process has taken it: it was inherited
    // through exec.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    nix::fcntl::fcntl(&socket, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

    use super::*;
    use crate::socket::wire::{Reply, Request};

    fn pair() -> (Link, Link) {
        let (a, b) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap();
        (a.into(), b.into())
    }

    #[test]
    fn a_message_carries_a_descriptor() {
        let (a, b) = pair();
        let file = File::open("/proc/self/status").unwrap();
        a.send(&Request::Stop, Some(file.as_fd())).unwrap();
        let (request, descriptor) = b.receive::<Request>().unwrap().unwrap();
        assert_eq!(request, Request::Stop);
        let mut text = String::new();
        File::from(descriptor.unwrap()).read_to_string(&mut text).unwrap();
        assert!(text.starts_with("Name:"));
    }

    #[test]
    fn the_end_and_garbage_are_distinguished() {
        let (a, b) = pair();
        socket::send(a.as_fd().as_raw_fd(), b"{\"Stop\":", MsgFlags::empty()).unwrap();
        assert!(b.receive::<Request>().is_err());
        a.send(&Reply::Warning("x".into()), None).unwrap();
        assert!(b.receive::<Request>().is_err());
        drop(a);
        assert!(b.receive::<Request>().unwrap().is_none());
    }

    #[test]
    fn held_files_leave_descriptors_for_others() {
        if !open_files::is_limited("socket::link::tests::held_files_leave_descriptors_for_others", 64) {
            return;
        }
        let (a, b) = pair();
        let file = File::open("/proc/self/status").unwrap();
        let held: Vec<OwnedFd> = (0..100)
            .filter_map(|_| {
                a.send(&Request::Stop, Some(file.as_fd())).unwrap();
                b.receive::<Request>().unwrap().unwrap().1
            })
            .collect();
        assert!((20..48).contains(&held.len()), "{}", held.len());
        let all = open_files::take_all();
        assert!(all.len() >= 16, "{}", all.len());
        a.send(&Request::Stop, Some(file.as_fd())).unwrap();
        assert!(matches!(b.receive::<Request>().unwrap(), Some((Request::Stop, None))));
    }
}
