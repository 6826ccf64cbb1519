//! The header of the log: when, where and how something is recorded.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::hooks::attach::Hooks;
use crate::privilege::terms::{Scope, Terms};
use crate::proc::page_cache::page_size;
use crate::proc::{machine, procfs};
use base::addr::Timestamp;
use base::event::Header;

/// The header of a log that began at `beginning`, a moment ago.
pub fn of(terms: &Terms, command: Vec<String>, beginning: Timestamp, cpus: &[u32], hooks: &Hooks) -> Header {
    let (kernel, arch) = machine::kernel();
    let unix = wall_clock(beginning);
    Header {
        ngmi_version: env!("CARGO_PKG_VERSION").to_owned(),
        command,
        start: beginning,
        start_unix_ms: u64::try_from(unix.as_millis()).unwrap_or(u64::MAX),
        kernel,
        arch,
        page_size: page_size(),
        boot_id: machine::boot_id(),
        cpus: u32::try_from(cpus.len()).unwrap_or(u32::MAX),
        sample_hz: terms.sample_hz,
        sample_event: hooks.clock.name().to_owned(),
        stack_copy: terms.stack_copy,
        scope: match terms.scope {
            Scope::Command => "command",
            Scope::Pids(_) => "pids",
            Scope::System => "system",
            Scope::Selected(_) => "selected",
        }
        .to_owned(),
        hooks: hooks.status.clone(),
    }
}

/// The wall clock at a moment, since 1970.
fn wall_clock(moment: Timestamp) -> Duration {
    // Both clocks are read one after the other, and this thread may lose the CPU in between.
    let readings = (0..5).map(|_| {
        let before = procfs::now();
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (procfs::now().0.saturating_sub(before.0), before, unix)
    });
    let nearest = readings.min_by_key(|(between, ..)| *between);
    nearest.map_or(Duration::ZERO, |(_, at, unix)| {
        unix.saturating_sub(Duration::from_nanos(at.0.saturating_sub(moment.0)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_clock_is_that_of_the_moment() {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let before = now();
        let moment = procfs::now();
        let after = now();
        std::thread::sleep(Duration::from_millis(30));
        let found = wall_clock(moment);
        // Clocks may be adjusted slightly.
        let slack = Duration::from_millis(1);
        assert!(
            before <= found + slack && found <= after + slack,
            "{before:?} to {after:?}: {found:?}"
        );
    }
}
