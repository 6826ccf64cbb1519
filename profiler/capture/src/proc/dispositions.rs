//! The signals that this process was started to ignore. The command must ignore the same ones, although the runtime, a handler and
//! `posix_spawn` each change some of them before it is executed.

use std::sync::atomic::{AtomicU64, Ordering};

/// The highest signal number (`_NSIG` of the kernel).
const LAST: i32 = 64;
/// Size of a set of signals in bytes.
const SET: usize = 8;
/// `SIG_IGN`
const IGNORE: usize = 1;

/// The signals that were ignored at the start, signal 1 in the lowest bit.
static IGNORED: AtomicU64 = AtomicU64::new(0);

/// `struct sigaction` of the kernel; the C library's call refuses signals of its own.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Action {
    handler: usize,
    flags: usize,
    restorer: usize,
    mask: u64,
}

/// The C library calls this before `main`, and thus before the runtime ignores `SIGPIPE`.
#[used]
// SAFETY: the function touches an atomic and makes system calls; it needs nothing that does not exist yet.
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

extern "C" fn note() {
    let is_ignored = |signal: &i32| action(*signal, None) == Some(IGNORE);
    let ignored = (1..=LAST).filter(is_ignored).fold(0, |set, signal| set | bit(signal));
    IGNORED.store(ignored, Ordering::Relaxed);
}

/// The signals that this process was started to ignore.
pub fn ignored() -> u64 {
    IGNORED.load(Ordering::Relaxed)
}

/// Makes a write beyond the limit of `ulimit -f` fail, as on a full disk, instead of ending this process.
pub fn outlive_file_limit() {
    action(libc::SIGXFSZ, Some(IGNORE));
}

/// Makes this process ignore exactly these signals, and handle none.
pub fn ignore_only(signals: u64) {
    for signal in 1..=LAST {
        let handler = if signals & bit(signal) == 0 { 0 } else { IGNORE };
        action(signal, Some(handler)); // two signals can't be changed
    }
}

fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Returns the handler of a signal, and replaces it with `handler` if there is one.
fn action(signal: i32, handler: Option<usize>) -> Option<usize> {
    let mut before = Action::default();
    let next = Action {
        handler: handler.unwrap_or(0),
        ..Action::default()
    };
    let next = handler.map_or(std::ptr::null(), |_| &raw const next);
    // SAFETY: the kernel reads the one struct if there is one, and writes the other; no handler is installed.
    let done = unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, next, &raw mut before, SET) };
    (done == 0).then_some(before.handler)
}
