//! Arbitrary packets on both ends of the socket between the recorder and the privileged helper.
#![no_main]

use std::os::fd::AsRawFd as _;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, send, socketpair};
use profiler::capture::socket::channel::Channel;
use profiler::capture::socket::link::Link;
use profiler::capture::socket::wire::{Reply, Request};

fuzz_target!(|data: &[u8]| {
    let pair = || socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap();
    // A packet of no bytes is the end.
    for packet in data.split(|byte| *byte == b'\n').filter(|packet| !packet.is_empty()) {
        let (ours, theirs) = pair();
        if send(ours.as_raw_fd(), packet, MsgFlags::MSG_DONTWAIT).is_err() {
            return;
        }
        let mut channel = Channel::new(theirs);
        if let Ok(Some((request, descriptor))) = channel.receive(Duration::ZERO, &[]) {
            assert!(descriptor.is_none());
            let again = serde_json::to_vec(&request).unwrap();
            assert_eq!(serde_json::from_slice::<Request>(&again).unwrap(), request);
        }
        let (ours, theirs) = pair();
        send(ours.as_raw_fd(), packet, MsgFlags::MSG_DONTWAIT).unwrap();
        let _ = Link::from(theirs).receive::<Reply>();
    }
});
