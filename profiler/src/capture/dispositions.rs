//! Which signals this process was started to ignore. The command is to ignore the same ones, whatever became of them here: the runtime, a handler and
//! `posix_spawn` each change some before it is executed.

use std::sync::atomic::{AtomicU64, Ordering};

/// Signal numbers end here (`_NSIG` of the kernel).
const LAST: i32 = 64;
/// What a signal's number is in a set, in bytes.
const SET: usize = 8;
/// `SIG_IGN`
const IGNORE: usize = 1;

/// Those that were ignored at the start, signal 1 in the lowest bit.
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

/// The C library calls it before `main`, and so before the runtime ignores `SIGPIPE`.
#[used]
// SAFETY: what is called here touches an atomic and makes system calls, which needs nothing that is not there yet.
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

/// Has this process ignore exactly these signals, and handle none.
pub fn ignore_only(signals: u64) {
    for signal in 1..=LAST {
        let handler = if signals & bit(signal) == 0 { 0 } else { IGNORE };
        action(signal, Some(handler)); // two can't be changed
    }
}

fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// The handler of a signal, which `handler` replaces.
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
