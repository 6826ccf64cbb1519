//! The header of the log: when, where and how something is recorded.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::hooks::attach::Hooks;
use crate::privilege::terms::{Scope, Terms};
use crate::proc::machine;
use crate::proc::page_cache::page_size;
use base::addr::Timestamp;
use base::event::Header;

/// The header of a log that began at `beginning`, a moment ago.
pub fn of(terms: &Terms, command: Vec<String>, beginning: Timestamp, cpus: &[u32], hooks: &Hooks) -> Header {
    let (kernel, arch) = machine::kernel();
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
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
