//! Wake-ups as the payloads of markers on the threads that made them: the other end of a wait's flow. They are for display
//! only: the reader takes wakers from the waits in the `ngmi` section.

use serde::Serialize;

use super::wait::LONG;
use super::words;
use crate::units::milliseconds;
use fact::wait::WakerFact;
use fact::{Tables, ThreadId, WaitFact};

/// Payload type of a wake-up.
pub const WAKEUP: &str = "Wakeup";

/// The recorded thread that ended a long wait; `None`: it was an interrupt, an unrecorded thread, or one of several
/// waits.
pub fn waker(wait: &WaitFact) -> Option<(ThreadId, &WakerFact)> {
    let waker = wait.waker.as_ref().filter(|waker| waker.by_interrupt == Some(false))?;
    let thread = waker.thread.filter(|thread| *thread != wait.thread)?;
    let is_long = wait.count == 1 && wait.longest.as_nanos() >= LONG;
    is_long.then_some((thread, waker))
}

/// Payload of a wake-up.
#[derive(Debug, Serialize)]
pub struct WakeupPayload {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    flow: Option<u32>,
    /// Index of the thread's name.
    woken: u32,
    reason: &'static str,
    off: f64,
}

impl WakeupPayload {
    /// Converts the end of a wait; the name of the woken thread is in the string array.
    pub fn new(wait: &WaitFact, woken: u32, flow: Option<u32>) -> Self {
        Self {
            r#type: WAKEUP,
            flow,
            woken,
            reason: words::reason(wait.reason),
            off: milliseconds(wait.off),
        }
    }
}

/// The name of the woken thread.
pub fn woken(tables: &Tables, wait: &WaitFact) -> String {
    words::thread_words(tables, wait.thread)
}
