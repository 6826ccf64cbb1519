//! One packet of the socket between the two halves, with the descriptors that come along. The other side is hostile.

use std::io::IoSliceMut;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};

/// `SCM_MAX_FD` of the kernel: no message brings more. With room for all of them none is left open unseen: nix hands out no
/// descriptors of a message that was cut.
const DESCRIPTORS: usize = 253;

/// What arrived.
#[derive(Debug)]
pub struct Packet {
    /// Bytes; 0: the other side hung up.
    pub len: usize,
    /// The descriptor that came along.
    pub descriptor: Option<OwnedFd>,
    /// It was longer than the buffer, or brought more than one descriptor.
    pub is_over_limits: bool,
}

/// Receives one packet into `buffer`. Descriptors that are too many are closed.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8], flags: MsgFlags) -> nix::Result<Packet> {
    let mut control = nix::cmsg_space!([RawFd; DESCRIPTORS]);
    let mut parts = [IoSliceMut::new(buffer)];
    let flags = flags | MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags)?;
    let mut descriptors = Vec::new();
    for part in message.cmsgs().into_iter().flatten() {
        if let ControlMessageOwned::ScmRights(numbers) = part {
            // SAFETY: the kernel has just made these descriptors for this process; nobody else owns them.
            descriptors.extend(
                numbers
                    .into_iter()
                    .map(|number| unsafe { OwnedFd::from_raw_fd(number) }),
            );
        }
    }
    let is_cut = message.flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC);
    Ok(Packet {
        len: message.bytes,
        is_over_limits: is_cut || descriptors.len() > 1,
        descriptor: descriptors.pop(),
    })
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::os::fd::AsFd as _;

    use nix::sys::socket::{AddressFamily, ControlMessage, SockFlag, SockType, sendmsg, socketpair};

    use super::*;

    #[test]
    fn what_is_over_the_limits_is_told_and_closed() {
        let (a, b) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap();
        let send = |bytes: &[u8], count: usize| {
            let numbers = vec![a.as_raw_fd(); count];
            let rights = [ControlMessage::ScmRights(&numbers)];
            let rights = if count == 0 { &[] } else { &rights[..] };
            sendmsg::<()>(a.as_raw_fd(), &[IoSlice::new(bytes)], rights, MsgFlags::empty(), None).unwrap();
        };
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let mut buffer = [0; 8];
        let mut next = || receive(b.as_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT).unwrap();
        send(b"whole", 1);
        let packet = next();
        assert!(packet.len == 5 && packet.descriptor.is_some() && !packet.is_over_limits);
        drop(packet);
        let before = open();
        for (bytes, descriptors) in [(&b"too long for it"[..], 0), (b"many", 2), (b"more", DESCRIPTORS)] {
            send(bytes, descriptors);
            assert!(next().is_over_limits);
        }
        // Other tests of this process open files too, but not two hundred.
        assert!(open() < before + 90, "{before}, then {}", open());
        drop(a);
        assert_eq!(next().len, 0);
    }
}
