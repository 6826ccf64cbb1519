//! A program that only handed over to an instance that was running already: said, with the way around it.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::session::Captured;
use crate::cli::options::RecordOptions;
use crate::cli::terminal::tell;

/// A command that ran shorter than this may have handed over.
const SHORT: Duration = Duration::from_secs(1);
/// ... if it gave fewer samples than this.
const FEW: u64 = 500;

/// Tells the person when the command was over at once and another process of the same name runs on.
pub fn warn(options: &RecordOptions, captured: &Captured) {
    let Some(name) = options
        .target
        .command()
        .and_then(|command| Path::new(&command[0]).file_name())
    else {
        return;
    };
    let short = captured.status.is_some_and(|status| status.success()) && captured.wall < SHORT;
    if !short || captured.ended.progress.samples >= FEW || !runs(name) {
        return;
    }
    tell(format_args!(
        "`{name}` ended within a second while another one runs: it probably handed over to that one. To record one of its \
         own: `ngmi record -- {name} --no-remote --profile \"$(mktemp -d)\"`",
        name = name.display()
    ));
}

/// A process of this name runs (names are cut to 15 bytes by the kernel).
fn runs(name: &OsStr) -> bool {
    let wanted = name.as_encoded_bytes();
    let wanted = &wanted[..wanted.len().min(15)];
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| fs::read(entry.path().join("comm")).ok())
        .any(|comm| comm.strip_suffix(b"\n") == Some(wanted))
}
