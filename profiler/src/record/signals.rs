//! What signals ask of a recording: to end it, or to give up its profile.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT};

use super::spool::Place;
use crate::cli::terminal::tell;

/// A signal that comes so soon after the first request is the same one: `timeout` sends its signal to its child and then to the child's group.
const SAME_REQUEST: Duration = Duration::from_secs(1);
/// The same of Ctrl-C, which a person presses again when nothing seems to happen.
const SAME_KEY: Duration = Duration::from_millis(500);

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// The recording ends, if it has not, and the profile is written.
    End,
    /// The event log stays, and there is no profile.
    GiveUp,
}

/// The requests to end so far.
#[derive(Debug, Default)]
struct Requests {
    first: Option<Instant>,
}

impl Requests {
    /// What this signal asks for; `finishing`: the recording is over.
    fn take(&mut self, signal: i32, at: Instant, finishing: bool) -> Action {
        let since = self.first.map(|first| at.saturating_duration_since(first));
        self.first.get_or_insert(at);
        let is_second = match signal {
            // Nobody asks twice with it: a shell whose window is closed sends it to its jobs, and then the kernel to the foreground.
            SIGHUP => false,
            SIGINT => since.map_or(finishing, |since| since >= SAME_KEY),
            _ => since.map_or(finishing, |since| since >= SAME_REQUEST),
        };
        if is_second { Action::GiveUp } else { Action::End }
    }
}

/// Who acts on signals, while there is a recording and after it.
#[derive(Debug, Clone, Default)]
pub struct Signals(Arc<State>);

/// What whoever gives up has to know.
#[derive(Debug, Default)]
struct State {
    log: OnceLock<Arc<Mutex<Place>>>,
    folders: OnceLock<Vec<PathBuf>>,
    interrupted: AtomicBool,
    hung_up: AtomicBool,
    finishing: AtomicBool,
    written: AtomicBool,
    /// What the program ends with, once nothing can change it any more.
    status: OnceLock<u8>,
    left_alone: AtomicBool,
}

impl Signals {
    /// Takes each signal, with the time at which it came; may end the program.
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

    /// What giving up keeps, if there is something in it.
    pub fn know_log(&self, place: Arc<Mutex<Place>>) {
        let _ = self.0.log.set(place); // there is one
    }

    /// What giving up removes.
    pub fn know_folders(&self, folders: Vec<PathBuf>) {
        let _ = self.0.folders.set(folders); // prepared once
    }

    /// There was a signal.
    pub fn interrupted(&self) -> &AtomicBool {
        &self.0.interrupted
    }

    /// The terminal is gone, and with it whoever would look at something.
    pub fn hung_up(&self) -> bool {
        self.0.hung_up.load(Ordering::SeqCst)
    }

    /// The recording is over: there is a profile to give up.
    pub fn finishing(&self) {
        self.0.finishing.store(true, Ordering::SeqCst);
    }

    /// The profile is written: there is nothing to give up any more.
    pub fn written(&self) {
        self.0.written.store(true, Ordering::SeqCst);
    }

    /// From now on a signal ends the program with this status: all that was asked for is done.
    pub fn end_with(&self, status: u8) {
        let _ = self.0.status.set(status); // it is asked for once
    }

    /// Leaves them to `work`, which has its own way to end; afterwards they end the program again.
    pub fn left_to<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.left_alone.store(true, Ordering::SeqCst);
        let done = work();
        self.0.left_alone.store(false, Ordering::SeqCst);
        done
    }
}

impl State {
    /// Only the next recording's tables are given up. The signal may be the one that ended the server, seen by us a moment later.
    fn end(&self, signal: i32) -> ! {
        let status = self.status.get().map_or(128 + signal, |status| i32::from(*status));
        std::process::exit(status)
    }

    fn give_up(&self, signal: i32) -> ! {
        // Held to the end: the log stays where it is said to be.
        let place = self
            .log
            .get()
            .map(|place| place.lock().unwrap_or_else(PoisonError::into_inner));
        match place.as_ref().and_then(|place| place.keep_or_remove()) {
            Some(log) => tell(format_args!(
                "gave up; the event log is kept: `ngmi convert {}` makes the profile",
                log.display()
            )),
            None => tell("gave up; nothing was recorded"),
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
    fn a_terminal_that_goes_away_gives_up_nothing() {
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
