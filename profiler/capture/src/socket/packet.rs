//! One packet of the socket between recorder and privileged helper, with the descriptors attached to it. The peer is
//! treated as hostile.

use std::io::IoSliceMut;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use nix::sys::socket::{MsgFlags, recvmsg};
use zerocopy::{FromBytes, Immutable, KnownLayout};

/// `SCM_MAX_FD` of the kernel: no message has more. The buffer holds all of them: none is left open unnoticed.
const DESCRIPTORS: usize = 253;

/// `struct cmsghdr`: followed by its data, and then the next one.
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct ControlHeader {
    /// Length in bytes, including the header.
    len: usize,
    level: i32,
    kind: i32,
}

/// A packet that arrived.
#[derive(Debug)]
pub struct Packet {
    /// Length in bytes; 0: the peer closed the socket.
    pub len: usize,
    /// The attached descriptor. One that exceeds this process's limit does not arrive; its message does.
    pub descriptor: Option<OwnedFd>,
    /// The packet was longer than the buffer, or had more than one descriptor.
    pub is_over_limits: bool,
}

/// Receives one packet into `buffer`. Excess descriptors are closed.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8], flags: MsgFlags) -> nix::Result<Packet> {
    let mut control = nix::cmsg_space!([RawFd; DESCRIPTORS]);
    let mut parts = [IoSliceMut::new(buffer)];
    let flags = flags | MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags)?;
    let (len, flags) = (message.bytes, message.flags);
    let mut descriptors = installed(&control);
    // The kernel stops at the first descriptor that exceeds the limit: if one has arrived, the packet had more.
    let are_many = descriptors.len() > 1 || flags.contains(MsgFlags::MSG_CTRUNC) && !descriptors.is_empty();
    Ok(Packet {
        len,
        is_over_limits: flags.contains(MsgFlags::MSG_TRUNC) || are_many,
        descriptor: descriptors.pop(),
    })
}

/// The descriptors that the kernel has created. nix returns none for a truncated message, and they would stay open.
/// Zeros follow the last control message.
fn installed(mut control: &[u8]) -> Vec<OwnedFd> {
    let mut descriptors = Vec::new();
    while let Ok((header, rest)) = ControlHeader::read_from_prefix(control) {
        let len = header.len.saturating_sub(size_of::<ControlHeader>());
        let Some(bytes) = rest.get(..len).filter(|bytes| !bytes.is_empty()) else {
            break;
        };
        if (header.level, header.kind) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            let numbers = bytes.as_chunks().0.iter().map(|number| RawFd::from_ne_bytes(*number));
            // SAFETY: the kernel has just created these descriptors for this process; nothing else owns them.
            descriptors.extend(numbers.map(|number| unsafe { OwnedFd::from_raw_fd(number) }));
        }
        control = rest.get(len.next_multiple_of(size_of::<usize>())..).unwrap_or_default();
    }
    descriptors
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::os::fd::AsFd as _;

    use nix::sys::socket::{AddressFamily, ControlMessage, SockFlag, SockType, sendmsg, socketpair};

    use super::*;
    use crate::proc::open_files::{is_limited, take_all};

    #[test]
    fn packets_over_the_limits_are_reported_and_closed() {
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

    #[test]
    fn a_message_arrives_without_a_descriptor_over_the_limit() {
        if !is_limited(
            "socket::packet::tests::a_message_arrives_without_a_descriptor_over_the_limit",
            64,
        ) {
            return;
        }
        let (a, b) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap();
        let mut all = take_all();
        let mut buffer = [0; 8];
        let mut next = |count: usize| {
            let numbers = vec![a.as_raw_fd(); count];
            let rights = [ControlMessage::ScmRights(&numbers)];
            sendmsg::<()>(
                a.as_raw_fd(),
                &[IoSlice::new(b"whole")],
                &rights,
                MsgFlags::empty(),
                None,
            )
            .unwrap();
            receive(b.as_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT).unwrap()
        };
        let packet = next(1);
        assert!(
            packet.len == 5 && packet.descriptor.is_none() && !packet.is_over_limits,
            "{packet:?}"
        );
        // Of many descriptors, those that fit are closed.
        drop(all.split_off(all.len() - 3));
        assert!(next(2).is_over_limits);
        assert!(next(20).is_over_limits);
        assert_eq!(take_all().len(), 3);
        assert!(next(1).descriptor.is_some());
    }
}
