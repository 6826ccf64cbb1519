//! Whether a thread woke another one to deliver a signal, also because its process ends: whatever that one waited for
//! was not released then.

use super::kernel::{fits, plain};
use crate::{Location, StackId, Tables, upwards};

/// Functions of the kernel (`kernel/signal.c`, `kernel/exit.c`, `fs/coredump.c`), separated by spaces; a trailing `*`
/// matches any suffix.
const KERNEL: &str = "signal_wake_up* complete_signal __send_signal* send_signal* do_send_sig_info \
     do_send_specific send_sigqueue zap_other_threads zap_process* zap_threads recalc_sigpending_and_wake \
     ptrace_signal_wake_up set_notify_signal";

/// Functions of C libraries that send signals and nothing else: they decide where the kernel's have no names.
const SENDERS: &str = "kill __GI_kill __kill killpg tgkill __GI_tgkill tkill raise __GI_raise gsignal pthread_kill* \
     __pthread_kill* sigqueue __GI_sigqueue";

/// Whether the stack of a waker shows that it sent a signal.
pub fn is_signal(tables: &Tables, waker: StackId) -> bool {
    let is = |patterns: &str, name: &str| patterns.split(' ').any(|pattern| fits(pattern, plain(name)));
    let mut has_names = false;
    for frame in upwards(tables, waker) {
        let Some(location) = tables.frames.get(frame.index()).map(|frame| &frame.location) else {
            return false;
        };
        let name = tables.names.get(&frame).map_or("", |name| &*name.symbol);
        if !matches!(location, Location::Kernel { .. }) {
            return !has_names && is(SENDERS, name);
        }
        if is(KERNEL, name) {
            return true;
        }
        has_names |= !name.is_empty();
    }
    false
}
