//! What a recording does with Firefox's own profiler, in the order of its steps.

use std::path::Path;

use anyhow::Result;

use super::folders::Folders;
use super::gecko::{self, RunningFirefox};
use super::identity::Environment;
use super::options::{Gecko, RecordOptions, Target};
use super::signals::Signals;
use crate::terminal::print_note;

/// The running Firefox whose profiler is to be started, if that was requested; a signal that skips the profile stops it.
///
/// # Errors
/// It can't be started and collected safely.
pub fn find(options: &RecordOptions, signals: &Signals) -> Result<Option<RunningFirefox>> {
    let Target::Pids(pids) = &options.target else {
        return Ok(None);
    };
    let is_wanted = options.gecko == Gecko::On;
    let firefox = is_wanted.then(|| RunningFirefox::find(pids)).transpose()?;
    if let Some(firefox) = &firefox {
        signals.set_firefox(firefox.handle());
    }
    Ok(firefox)
}

/// Starts its profiler.
///
/// # Errors
/// Something changed since it was found.
pub fn start(firefox: Option<&mut RunningFirefox>) -> Result<()> {
    let Some(firefox) = firefox else { return Ok(()) };
    print_note(format_args!(
        "starting the profiler of Firefox (process {}), which also samples its own stacks and so costs CPU time; \
         if ngmi is killed, `kill -USR2` stops it",
        firefox.pid()
    ));
    firefox.start()
}

/// The folders for what the programs write; sets the variables of the one to start.
///
/// # Errors
/// There is no folder for the file of the running Firefox.
pub fn folders(
    options: &RecordOptions,
    program: Option<&Path>,
    firefox: Option<&RunningFirefox>,
    environment: &mut Environment,
) -> Result<Folders> {
    match program {
        Some(program) => {
            let gecko = gecko::features(options.gecko, program, environment);
            Ok(Folders::prepare(environment, options.firefox_jit, gecko))
        }
        None if firefox.is_some() => Folders::for_running_firefox(),
        None => Ok(Folders::without_program()),
    }
}

/// Lets a Firefox that still runs, as the command (`pid`) or as the one that was found, write its file to its folder.
pub fn collect(pid: Option<u32>, firefox: Option<RunningFirefox>, folders: &Folders) {
    if let Some((pid, folder)) = pid.zip(folders.gecko()) {
        gecko::dump(pid, folder);
    }
    if let Some((firefox, folder)) = firefox.zip(folders.gecko())
        && let Err(problem) = firefox.collect(folder)
    {
        print_note(problem);
    }
}
