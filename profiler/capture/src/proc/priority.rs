//! The privileged helper's CPU priority: behind hundreds of busy threads its start would take minutes, and rings would overflow.

/// While programs are loaded and attached: a second of CPU time, before anything recorded needs the CPU.
const STARTING: i32 = -20;
/// While it drains: it needs little, but soon.
const DRAINING: i32 = -10;

/// Raises the priority until the recording begins, for this thread and what it starts. Without `CAP_SYS_NICE` nothing changes.
pub fn start() {
    set(STARTING);
}

/// Lowers the priority for the recording itself, if it was raised.
pub fn drain() {
    if get() == STARTING {
        set(DRAINING);
    }
}

fn set(nice: i32) {
    // SAFETY: only changes the nice value of this thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
}

fn get() -> i32 {
    // SAFETY: only reads the nice value of this thread.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}
