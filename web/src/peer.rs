//! The user at the other end of a connection, which the kernel knows for each socket of this machine.
//!
//! It is queried through `sock_diag(7)` for the socket that the connection comes from. A socket that no process holds any more has
//! inode 0 there and is reported as root's, which proves nothing.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket};
use nix::unistd::Uid;

/// From `linux/sock_diag.h`, `linux/netlink.h`, `net/tcp_states.h`.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const TCP_LISTEN: u8 = 10;
/// Size of the request: `struct nlmsghdr` and `struct inet_diag_req_v2`.
const QUESTION: usize = 16 + 56;
/// Offset of `struct inet_diag_msg` in the response, after `struct nlmsghdr`.
const MESSAGE: usize = 16;

/// Initiator of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A process of the server's own user, or of root.
    Ours,
    /// A process of another user of this machine.
    Another,
    /// Another machine, or the kernel does not report it.
    Unknown,
}

/// Owner of a socket of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Holder {
    uid: u32,
    /// 0: no process holds the socket any more.
    inode: u32,
}

impl Peer {
    /// The peer that connected from `from` to `to`, our address.
    pub fn of(from: SocketAddr, to: SocketAddr) -> Self {
        let (from, to) = (canonical(from), canonical(to));
        // Both sockets of a local connection are on this machine.
        let is_here = from.ip().is_loopback() || from.ip() == to.ip();
        match holder(from, to) {
            Ok(Some(Holder { uid, inode })) if inode != 0 && (uid == 0 || uid == Uid::effective().as_raw()) => {
                Self::Ours
            }
            Ok(Some(_)) => Self::Another,
            Ok(None) if is_here => Self::Another,
            Ok(None) | Err(_) => Self::Unknown,
        }
    }

    /// Whether the kernel reports which user connects; some containers hide it from their processes.
    pub fn can_be_known() -> bool {
        let try_it = || -> io::Result<Self> {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let to = listener.local_addr()?;
            let stream = TcpStream::connect(to)?;
            Ok(Self::of(stream.local_addr()?, to))
        };
        try_it().is_ok_and(|peer| peer == Self::Ours)
    }
}

/// Converts IPv4 in IPv6 to IPv4, as the kernel treats it.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

/// Owner of the socket with the local address `from`; `None` if there is none on this machine.
fn holder(from: SocketAddr, to: SocketAddr) -> io::Result<Option<Holder>> {
    let netlink = socket(
        AddressFamily::Netlink,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkSockDiag,
    )?;
    sendto(
        netlink.as_raw_fd(),
        &question(from, to),
        &NetlinkAddr::new(0, 0),
        MsgFlags::empty(),
    )?;
    read(&netlink, from, to)
}

fn question(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(QUESTION);
    let family = if from.is_ipv4() {
        libc_family::INET
    } else {
        libc_family::INET6
    };
    bytes.extend(72u32.to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST.to_ne_bytes());
    bytes.extend([0; 8]); // sequence, port
    bytes.extend([family, libc_family::TCP, 0, 0]);
    bytes.extend(u32::MAX.to_ne_bytes()); // all states
    bytes.extend(from.port().to_be_bytes());
    bytes.extend(to.port().to_be_bytes());
    for address in [from, to] {
        match address.ip() {
            IpAddr::V4(ip) => bytes.extend(ip.octets().iter().chain(&[0; 12])),
            IpAddr::V6(ip) => bytes.extend(ip.octets()),
        }
    }
    let scope = match to {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(to) => to.scope_id(),
    };
    bytes.extend(scope.to_ne_bytes());
    bytes.extend([0xff; 8]); // any cookie
    bytes
}

/// Constants from `linux/socket.h` and `linux/in.h`, as bytes.
mod libc_family {
    pub(super) const INET: u8 = 2;
    pub(super) const INET6: u8 = 10;
    pub(super) const TCP: u8 = 6;
}

fn read(netlink: &OwnedFd, from: SocketAddr, to: SocketAddr) -> io::Result<Option<Holder>> {
    let mut bytes = [0; 512];
    // The kernel responds before `sendto` returns.
    let len = recv(netlink.as_raw_fd(), &mut bytes, MsgFlags::MSG_DONTWAIT)?;
    parse(bytes.get(..len).unwrap_or_default(), from, to)
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
        .flatten()
}

/// Parses a response; `None` if it is invalid.
fn parse(bytes: &[u8], from: SocketAddr, to: SocketAddr) -> Option<io::Result<Option<Holder>>> {
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let message = bytes.get(MESSAGE..)?;
    let word = |at: usize| message.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
    if kind == NLMSG_ERROR {
        let errno = Errno::from_raw(word(0)?.cast_signed().wrapping_neg());
        return Some(if errno == Errno::ENOENT {
            Ok(None)
        } else {
            Err(errno.into())
        });
    }
    let port = |at: usize| message.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes));
    // If no connection matches, the kernel returns a listener on the port.
    let is_it = message.get(1)? != &TCP_LISTEN && port(4)? == from.port() && port(6)? == to.port();
    let holder = Holder {
        uid: word(64)?,
        inode: word(68)?,
    };
    (kind == SOCK_DIAG_BY_FAMILY).then_some(Ok(is_it.then_some(holder)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both_ends(address: &str) -> Option<(TcpStream, TcpStream)> {
        let listener = TcpListener::bind(address).ok()?;
        let mut to = listener.local_addr().unwrap();
        if to.ip().is_unspecified() {
            to.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
        }
        let client = TcpStream::connect(to).unwrap();
        Some((client, listener.accept().unwrap().0))
    }

    fn peer(server: &TcpStream) -> Peer {
        Peer::of(server.peer_addr().unwrap(), server.local_addr().unwrap())
    }

    #[test]
    fn own_connections_are_recognized() {
        assert!(Peer::can_be_known());
        for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
            if let Some((_client, server)) = both_ends(address) {
                assert_eq!(peer(&server), Peer::Ours, "{address}");
            }
        }
    }

    #[test]
    fn a_closed_socket_is_not_taken_for_root() {
        let (client, server) = both_ends("127.0.0.1:0").unwrap();
        drop(client);
        assert_eq!(peer(&server), Peer::Another);
    }

    #[test]
    fn a_listener_on_the_port_is_not_the_peer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (_client, server) = both_ends("127.0.0.1:0").unwrap();
        let here = server.local_addr().unwrap();
        assert_eq!(Peer::of(listener.local_addr().unwrap(), here), Peer::Another);
    }

    #[test]
    fn another_machine_is_unknown() {
        let from = "192.0.2.1:4000".parse().unwrap();
        assert_eq!(Peer::of(from, "192.0.2.2:80".parse().unwrap()), Peer::Unknown);
    }

    #[test]
    fn hostile_answers_never_panic() {
        let address = "127.0.0.1:1".parse().unwrap();
        for len in 0..100 {
            for fill in [0, 2, 20, 255] {
                parse(&vec![fill; len], address, address);
            }
        }
    }
}
