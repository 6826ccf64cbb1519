//! The socket to the recorder: one JSON message per packet, descriptors as `SCM_RIGHTS`. Incoming messages are hostile.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

use super::packet;
use super::wire::{MESSAGE_LIMIT, Reply, Request};

/// Replies that wait because the other side does not read. Beyond this, files are named without their descriptor.
const OPEN_FILES_LIMIT: usize = 128;
/// Bytes of replies that wait. Beyond this the other side has given up reading, or never meant to.
const WAITING_LIMIT: usize = 32 << 20;

/// What a reply that waits takes besides its own bytes.
const OVERHEAD: usize = 64;

/// An error of the other end.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// It closed the socket.
    #[error("the recorder is gone")]
    Closed,
    /// It sent something invalid.
    #[error("the recorder sent {0}")]
    Malformed(String),
    /// It does not read its messages.
    #[error("the recorder does not read its messages")]
    Stuck,
    /// The socket failed.
    #[error("socket to the recorder: {0}")]
    Socket(#[from] Errno),
}

impl ChannelError {
    /// A message that the protocol does not allow at this point.
    pub fn refused(what: &str) -> Self {
        Self::Malformed(what.to_owned())
    }
}

/// The privileged helper's end of the socket.
pub struct Channel {
    socket: OwnedFd,
    waiting: VecDeque<(Vec<u8>, Option<OwnedFd>)>,
    waiting_bytes: usize,
    buffer: Vec<u8>,
}

impl Channel {
    /// Takes a connected `SOCK_SEQPACKET` socket.
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            buffer: vec![0; MESSAGE_LIMIT],
        }
    }

    /// Waits for a message, at most this long, and no longer than until one of the `others` can be read.
    pub fn receive(
        &mut self,
        timeout: Duration,
        others: &[BorrowedFd<'_>],
    ) -> Result<Option<(Request, Option<OwnedFd>)>, ChannelError> {
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        let mut events = PollFlags::POLLIN;
        if !self.waiting.is_empty() {
            events |= PollFlags::POLLOUT;
        }
        let others = others.iter().map(|other| PollFd::new(*other, PollFlags::POLLIN));
        let mut all: Vec<PollFd<'_>> = [PollFd::new(self.socket.as_fd(), events)]
            .into_iter()
            .chain(others)
            .collect();
        match poll(&mut all, timeout) {
            Ok(0) | Err(Errno::EINTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        self.flush()?;
        let (len, descriptor) = match self.receive_packet() {
            Err(ChannelError::Socket(Errno::EAGAIN | Errno::EINTR)) => return Ok(None),
            // It closed the socket with unread messages.
            Err(ChannelError::Socket(Errno::ECONNRESET)) => return Err(ChannelError::Closed),
            packet => packet?,
        };
        let message = self.buffer.get(..len).unwrap_or_default();
        let request = serde_json::from_slice(message).map_err(|error| ChannelError::Malformed(error.to_string()))?;
        Ok(Some((request, descriptor)))
    }

    fn receive_packet(&mut self) -> Result<(usize, Option<OwnedFd>), ChannelError> {
        let packet = packet::receive(self.socket.as_fd(), &mut self.buffer, MsgFlags::MSG_DONTWAIT)?;
        if packet.is_over_limits {
            return Err(ChannelError::Malformed("a message over the limit".to_owned()));
        }
        if packet.len == 0 {
            return Err(ChannelError::Closed);
        }
        Ok((packet.len, packet.descriptor))
    }

    /// Whether the socket has accepted everything sent so far.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether another descriptor may be queued.
    pub fn has_room_for_file(&self) -> bool {
        self.waiting.len() < OPEN_FILES_LIMIT
    }

    /// Sends a reply now, or later if the socket is full.
    pub fn send(&mut self, reply: &Reply, descriptor: Option<OwnedFd>) -> Result<(), ChannelError> {
        let message = serde_json::to_vec(reply).map_err(|error| ChannelError::Malformed(error.to_string()))?;
        self.waiting_bytes += message.len() + OVERHEAD;
        if self.waiting_bytes > WAITING_LIMIT {
            return Err(ChannelError::Stuck);
        }
        self.waiting.push_back((message, descriptor));
        self.flush()
    }

    /// Sends a warning, if there is one.
    pub fn warn(&mut self, warning: Option<String>) -> Result<(), ChannelError> {
        warning.map_or(Ok(()), |warning| self.send(&Reply::Warning(warning), None))
    }

    /// Sends queued replies, as far as the socket accepts them.
    pub fn flush(&mut self) -> Result<(), ChannelError> {
        while let Some((message, descriptor)) = self.waiting.front() {
            let number = [descriptor.as_ref().map_or(-1, AsRawFd::as_raw_fd)];
            let rights = [ControlMessage::ScmRights(&number)];
            let control = if descriptor.is_some() { &rights[..] } else { &[] };
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
            match sendmsg::<()>(self.socket.as_raw_fd(), &[IoSlice::new(message)], control, flags, None) {
                Ok(_) => {
                    self.waiting_bytes -= message.len() + OVERHEAD;
                    self.waiting.pop_front();
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN | Errno::ETOOMANYREFS) => return Ok(()),
                Err(Errno::EPIPE | Errno::ECONNRESET) => return Err(ChannelError::Closed),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Waits until everything is sent, at most this long.
    pub fn finish(&mut self, timeout: Duration) -> Result<(), ChannelError> {
        let end = std::time::Instant::now() + timeout;
        while !self.waiting.is_empty() {
            let left = end.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return Err(ChannelError::Stuck);
            }
            let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            poll(&mut [PollFd::new(self.socket.as_fd(), PollFlags::POLLOUT)], left)?;
            self.flush()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, send, socketpair};

    use super::*;

    fn pair() -> (Channel, OwnedFd) {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).unwrap();
        (Channel::new(ours), theirs)
    }

    #[test]
    fn hostile_messages_are_rejected() {
        let (mut channel, theirs) = pair();
        for message in [
            &b"{}"[..],
            b"\"Halt\"",
            b"{\"Start\":{\"scope\":\"System\"}}",
            &[0xff; 100],
            &vec![b'['; 100_000],
        ] {
            send(theirs.as_raw_fd(), message, MsgFlags::empty()).unwrap();
            let answer = channel.receive(Duration::from_secs(1), &[]);
            assert!(matches!(answer, Err(ChannelError::Malformed(_))), "{answer:?}");
        }
        drop(theirs);
        assert!(matches!(
            channel.receive(Duration::from_secs(1), &[]),
            Err(ChannelError::Closed)
        ));
    }

    #[test]
    fn a_descriptor_travels_with_its_message() {
        let (mut channel, theirs) = pair();
        let file: OwnedFd = tempfile::tempfile().unwrap().into();
        let number = [file.as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&number)];
        sendmsg::<()>(
            theirs.as_raw_fd(),
            &[IoSlice::new(b"\"Stop\"")],
            &rights,
            MsgFlags::empty(),
            None,
        )
        .unwrap();
        let (request, descriptor) = channel.receive(Duration::from_secs(1), &[]).unwrap().unwrap();
        assert_eq!(request, Request::Stop);
        assert!(descriptor.is_some());
    }

    #[test]
    fn a_sleeping_reader_does_not_block_the_sender() {
        let (mut channel, theirs) = pair();
        let warning = Reply::Warning("x".repeat(1000));
        for _ in 0..5000 {
            channel.send(&warning, None).unwrap();
        }
        assert!(!channel.is_idle());
        let mut buffer = vec![0; MESSAGE_LIMIT];
        let mut received = 0;
        while received < 5000 {
            let len = nix::unistd::read(&theirs, &mut buffer).unwrap();
            assert_eq!(serde_json::from_slice::<Reply>(&buffer[..len]).unwrap(), warning);
            received += 1;
            channel.flush().unwrap();
        }
        assert!(channel.is_idle());
        assert_eq!(channel.waiting_bytes, 0);
    }

    #[test]
    fn an_absent_reader_costs_bounded_memory() {
        let (mut channel, _theirs) = pair();
        let warning = Reply::Warning("x".repeat(100_000));
        let sent = (0..10_000).take_while(|_| channel.send(&warning, None).is_ok()).count();
        assert!((100..1000).contains(&sent), "{sent}");
        assert!(matches!(channel.send(&warning, None), Err(ChannelError::Stuck)));
        assert!(channel.waiting.iter().map(|(message, _)| message.len()).sum::<usize>() <= WAITING_LIMIT);
    }
}
