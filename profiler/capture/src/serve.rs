//! The main routine of the privileged helper: it waits for the recorder's start message, and records once.

use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::Context as _;
use nix::sys::signal::{SigHandler, Signal, signal};

use crate::files::opener::{Opener, Start};
use crate::judged::Judged;
use crate::privilege::terms::Terms;
use crate::session::{self, FAREWELL, Session};
use crate::socket::channel::{Channel, ChannelError};
use crate::socket::protocol::{Action, Protocol};
use crate::socket::wire::Reply;

/// Serves one recording with these terms on a connected `SOCK_SEQPACKET` socket, and returns when it has ended. `start` starts the process that opens files.
///
/// SIGINT, SIGTERM, SIGHUP and SIGQUIT are ignored from here on: the recorder decides when to stop. If it is killed, the end of its
/// socket ends us, with everything drained into a readable log.
pub fn run(socket: OwnedFd, terms: Terms, start: Start) -> anyhow::Result<()> {
    for number in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        // SAFETY: no handler is installed; the default action is only disabled.
        unsafe { signal(number, SigHandler::SigIgn)? };
    }
    let mut channel = Channel::new(socket);
    let mut protocol = Protocol::new(&terms);
    let started = Judged::named(&terms).and_then(|judged| wait(&mut channel, &mut protocol, (terms, start), judged));
    match started {
        Ok(session) => session.map_or(Ok(()), |session| session.record(&mut channel, &mut protocol)),
        Err(error) => {
            channel.send(&Reply::Refused(format!("{error:#}")), None)?;
            channel.finish(FAREWELL)?;
            Ok(())
        }
    }
}

/// Begins when the recorder says so. `None`: it is gone.
fn wait(
    channel: &mut Channel,
    protocol: &mut Protocol,
    (terms, start): (Terms, Start),
    judged: Judged,
) -> anyhow::Result<Option<Session>> {
    let (request, descriptor) = loop {
        match channel.receive(Duration::from_mins(1), &[]) {
            Ok(None) => {}
            Ok(Some(message)) => break message,
            Err(ChannelError::Closed) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    };
    let action = protocol.accept(request, descriptor).map_err(ChannelError::refused)?;
    let Action::Begin { pids, command, log } = action else {
        return Ok(None);
    };
    let opener = Opener::new(start, terms.user).context("starting the process that opens files")?;
    let judged = judged.and_command(&terms, &pids)?;
    session::begin(terms, pids, &judged, (command, log), (channel, opener)).map(Some)
}
