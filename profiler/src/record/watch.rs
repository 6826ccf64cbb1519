//! What happens while a recording runs, from three threads in one queue: replies, signals, the command's end.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;

use crate::capture::socket::link::Link;
use crate::capture::socket::wire::Reply;

/// An event of the recording.
#[derive(Debug)]
pub enum Happening {
    /// The privileged helper sent a reply, perhaps with a descriptor.
    Reply(Box<Reply>, Option<File>),
    /// The privileged helper is gone, or sent an invalid reply.
    CaptureGone(Option<anyhow::Error>),
    /// Ctrl-C or another request to end; `by_terminal`: the command received it too.
    Interrupted {
        /// The signal number.
        signal: i32,
        /// It was sent by the keyboard.
        by_terminal: bool,
    },
    /// The command ended.
    Exited(ExitStatus),
}

/// The queue of these events.
#[derive(Debug)]
pub struct Watch {
    sender: Sender<Happening>,
    receiver: Receiver<Happening>,
}

impl Watch {
    /// Starts to listen for signals. `on_signal` gets each one, with the time at which it arrived; it may decide not
    /// to return.
    ///
    /// # Errors
    /// When the signal handlers can't be installed.
    pub fn new(mut on_signal: impl FnMut(i32, Instant) + Send + 'static) -> Result<Self> {
        let (sender, receiver) = mpsc::channel();
        let mut signals = SignalsInfo::<WithOrigin>::new([SIGINT, SIGTERM, SIGHUP]).context("listening for signals")?;
        let queue = sender.clone();
        thread::spawn(move || {
            for origin in &mut signals {
                on_signal(origin.signal, Instant::now());
                let by_terminal = origin.process.is_none();
                let _ = queue.send(Happening::Interrupted {
                    signal: origin.signal,
                    by_terminal,
                });
            }
        });
        Ok(Self { sender, receiver })
    }

    /// Whether there was a request to end, before anything else is listened to.
    pub fn is_interrupted(&self) -> bool {
        // The signal that ended sudo at its prompt may still be on its way to us.
        let soon = Instant::now() + Duration::from_millis(50);
        matches!(self.next(Some(soon)), Some(Happening::Interrupted { .. }))
    }

    /// Listens to the privileged helper.
    pub fn replies(&self, link: Arc<Link>) {
        let queue = self.sender.clone();
        thread::spawn(move || {
            loop {
                let happening = match link.receive::<Reply>() {
                    Ok(Some((reply, fd))) => Happening::Reply(Box::new(reply), fd.map(|fd: OwnedFd| File::from(fd))),
                    Ok(None) => Happening::CaptureGone(None),
                    Err(error) => Happening::CaptureGone(Some(error)),
                };
                let last = matches!(happening, Happening::CaptureGone(_));
                if queue.send(happening).is_err() || last {
                    return;
                }
            }
        });
    }

    /// Waits for the command's end on a separate thread.
    pub fn child(&self, mut child: Child) {
        let queue = self.sender.clone();
        thread::spawn(move || {
            if let Ok(status) = child.wait() {
                let _ = queue.send(Happening::Exited(status));
            }
        });
    }

    /// The next event; `None` when `deadline` passed first.
    pub fn next(&self, deadline: Option<Instant>) -> Option<Happening> {
        let Some(deadline) = deadline else {
            return self.receiver.recv().ok();
        };
        let patience = deadline.saturating_duration_since(Instant::now());
        self.receiver.recv_timeout(patience).ok()
    }

    /// The command's status, if it ends within `limit`; other events are dropped.
    pub fn exit_within(&self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            match self.next(Some(deadline))? {
                Happening::Exited(status) => return Some(status),
                Happening::CaptureGone(_) | Happening::Reply(..) | Happening::Interrupted { .. } => {}
            }
        }
    }
}
