//! What signals do to a recording: end it, or skip its profile.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT};

use super::gecko::Handle;
use super::spool::LogPlace;
use crate::terminal::print_note;

/// A signal this soon after the first request counts as the same: `timeout` sends its signal to its child and then to
/// the child's group.
const SAME_REQUEST: Duration = Duration::from_secs(1);
/// The same for Ctrl-C, which users press again when nothing seems to happen.
const SAME_KEY: Duration = Duration::from_millis(500);

/// The effect of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// End the recording, if it has not ended, and write the profile.
    End,
    /// Keep the event log, and skip the profile.
    GiveUp,
}

/// The requests to end so far.
#[derive(Debug, Default)]
struct Requests {
    first: Option<Instant>,
}

impl Requests {
    /// The effect of this signal; `finishing`: the recording has ended.
    fn take(&mut self, signal: i32, at: Instant, finishing: bool) -> Action {
        let since = self.first.map(|first| at.saturating_duration_since(first));
        self.first.get_or_insert(at);
        let is_second = match signal {
            // Never a second request: a shell with a closed window sends it to its jobs, and then the kernel sends it
            // to the foreground.
            SIGHUP => false,
            SIGINT => since.map_or(finishing, |since| since >= SAME_KEY),
            _ => since.map_or(finishing, |since| since >= SAME_REQUEST),
        };
        if is_second { Action::GiveUp } else { Action::End }
    }
}

/// The handler of signals, during a recording and after it.
#[derive(Debug, Clone, Default)]
pub struct Signals(Arc<State>);

/// The state needed to skip the profile.
#[derive(Debug, Default)]
struct State {
    log: OnceLock<Arc<Mutex<LogPlace>>>,
    folders: OnceLock<Vec<PathBuf>>,
    firefox: OnceLock<Arc<Handle>>,
    interrupted: AtomicBool,
    hung_up: AtomicBool,
    finishing: AtomicBool,
    written: AtomicBool,
    /// The exit status of the program, once it is final.
    status: OnceLock<u8>,
    left_alone: AtomicBool,
}

impl Signals {
    /// Handles each signal, with the time at which it arrived; may end the program.
    pub fn judge(&self) -> impl FnMut(i32, Instant) + Send + use<> {
        let state = self.0.clone();
        let mut requests = Requests::default();
        move |signal, at| {
            if state.left_alone.load(Ordering::SeqCst) {
                return;
            }
            state.interrupted.store(true, Ordering::SeqCst);
            if signal == SIGHUP {
                state.hung_up.store(true, Ordering::SeqCst);
            }
            let action = requests.take(signal, at, state.finishing.load(Ordering::SeqCst));
            if state.written.load(Ordering::SeqCst) {
                state.end(signal);
            }
            if action == Action::GiveUp {
                state.give_up(signal);
            }
        }
    }

    /// Sets the log to keep when the profile is skipped, if the log contains events.
    pub fn set_log(&self, place: Arc<Mutex<LogPlace>>) {
        let _ = self.0.log.set(place); // there is only one
    }

    /// Sets the folders to remove when the profile is skipped.
    pub fn set_folders(&self, folders: Vec<PathBuf>) {
        let _ = self.0.folders.set(folders); // set only once
    }

    /// Sets the Firefox whose profiler is to be stopped when the profile is skipped.
    pub fn set_firefox(&self, firefox: Arc<Handle>) {
        let _ = self.0.firefox.set(firefox); // there is only one
    }

    /// Whether there was a signal.
    pub fn interrupted(&self) -> &AtomicBool {
        &self.0.interrupted
    }

    /// Whether the terminal is gone, and with it the user who could see a result.
    pub fn hung_up(&self) -> bool {
        self.0.hung_up.load(Ordering::SeqCst)
    }

    /// Notes that the recording has ended: from now on its profile can be skipped.
    pub fn finishing(&self) {
        self.0.finishing.store(true, Ordering::SeqCst);
    }

    /// Notes that the profile is written: it can no longer be skipped.
    pub fn written(&self) {
        self.0.written.store(true, Ordering::SeqCst);
    }

    /// From now on a signal ends the program with this status: everything requested is done.
    pub fn end_with(&self, status: u8) {
        let _ = self.0.status.set(status); // set only once
    }

    /// Leaves signals to `work`, which handles them itself; afterwards they end the program again.
    pub fn left_to<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.left_alone.store(true, Ordering::SeqCst);
        let done = work();
        self.0.left_alone.store(false, Ordering::SeqCst);
        done
    }
}

impl State {
    /// Ends the program. Only the next recording's tables are lost. The signal may be the one that ended the server,
    /// arriving a moment later.
    fn end(&self, signal: i32) -> ! {
        let status = self.status.get().map_or(128 + signal, |status| i32::from(*status));
        std::process::exit(status)
    }

    fn give_up(&self, signal: i32) -> ! {
        // Locked until the exit: the log stays where the message says it is.
        let place = self
            .log
            .get()
            .map(|place| place.lock().unwrap_or_else(PoisonError::into_inner));
        match place.as_ref().and_then(|place| place.keep_or_remove()) {
            Some(log) => print_note(format_args!(
                "gave up; the event log is kept: create the profile with `ngmi convert {}`",
                log.display()
            )),
            None => print_note("gave up; nothing was recorded"),
        }
        // The exit drops nothing: without this, Firefox would go on sampling.
        if let Some(note) = self.firefox.get().and_then(|firefox| firefox.abandon()) {
            print_note(note);
        }
        for folder in self.folders.get().into_iter().flatten() {
            let _ = std::fs::remove_dir_all(folder);
        }
        std::process::exit(128 + signal)
    }
}

#[cfg(test)]
mod tests {
    use signal_hook::consts::SIGTERM;

    use super::Action::{End, GiveUp};
    use super::*;

    /// The action for each of these signals, given with the milliseconds at which it arrives; the
    /// recording has finished at `finishing`.
    fn actions(finishing: u64, signals: &[(i32, u64)]) -> Vec<Action> {
        let (mut requests, begin) = (Requests::default(), Instant::now());
        let take =
            |(signal, ms): &(i32, u64)| requests.take(*signal, begin + Duration::from_millis(*ms), *ms >= finishing);
        signals.iter().map(take).collect()
    }

    #[test]
    fn a_second_ctrl_c_gives_up() {
        assert_eq!(actions(1000, &[(SIGINT, 0), (SIGINT, 500)]), [End, GiveUp]);
        assert_eq!(actions(0, &[(SIGINT, 0)]), [GiveUp]);
        assert_eq!(actions(0, &[(SIGHUP, 0), (SIGINT, 500)]), [End, GiveUp]);
        assert_eq!(actions(1000, &[(SIGTERM, 0), (SIGINT, 500)]), [End, GiveUp]);
    }

    #[test]
    fn ctrl_c_that_is_repeated_at_once_counts_once() {
        let presses = [(SIGINT, 0), (SIGINT, 1), (SIGINT, 499), (SIGINT, 500)];
        // As with `timeout -s INT`: the second one may arrive after the recording has finished.
        assert_eq!(actions(1, &presses), [End, End, End, GiveUp]);
        assert_eq!(actions(9000, &presses), [End, End, End, GiveUp]);
        assert_eq!(actions(1, &[(SIGTERM, 0), (SIGINT, 1)]), [End; 2]);
    }

    #[test]
    fn a_closed_terminal_does_not_abort() {
        assert_eq!(actions(1, &[(SIGHUP, 0), (SIGHUP, 1), (SIGHUP, 5000)]), [End; 3]);
        assert_eq!(actions(0, &[(SIGHUP, 0)]), [End]);
        assert_eq!(actions(1, &[(SIGINT, 0), (SIGHUP, 1)]), [End; 2]);
    }

    #[test]
    fn sigterm_that_is_repeated_at_once_counts_once() {
        let terms = [(SIGTERM, 0), (SIGTERM, 0), (SIGTERM, 999), (SIGTERM, 1000)];
        assert_eq!(actions(1, &terms), [End, End, End, GiveUp]);
        assert_eq!(actions(9000, &terms), [End, End, End, GiveUp]);
        // When a session ends, it sends both.
        assert_eq!(actions(1, &[(SIGHUP, 0), (SIGTERM, 5)]), [End; 2]);
        assert_eq!(actions(1, &[(SIGTERM, 0), (SIGHUP, 5)]), [End; 2]);
        assert_eq!(actions(0, &[(SIGTERM, 0)]), [GiveUp]);
    }
}
