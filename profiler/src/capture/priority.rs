//! The privileged half's place among those that want a CPU: behind hundreds of busy threads its start would take minutes, and rings would overflow.

/// While programs are loaded and attached: a second of a CPU, which nothing that is recorded needs yet.
const STARTING: i32 = -20;
/// While it drains: it needs little, but soon.
const DRAINING: i32 = -10;

/// Asks for a good place until the recording begins; of this thread and of what it starts. Without the right to (`CAP_SYS_NICE`) nothing changes.
pub fn start() {
    set(STARTING);
}

/// Steps back for the recording itself, if that place was given.
pub fn drain() {
    if get() == STARTING {
        set(DRAINING);
    }
}

fn set(nice: i32) {
    // SAFETY: changes a number of this thread's.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
}

fn get() -> i32 {
    // SAFETY: reads a number of this thread's.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}
