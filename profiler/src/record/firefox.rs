//! What a recording does with Firefox's own profiler, in the order of its steps.

use std::path::Path;

use anyhow::Result;

use super::folders::Folders;
use super::gecko::{self, Collected, RunningFirefox};
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
            let gecko = gecko::collects(options.gecko, program, environment);
            Ok(Folders::prepare(environment, options.firefox_jit, gecko))
        }
        None if firefox.is_some() => Folders::for_running_firefox(),
        None => Ok(Folders::without_program()),
    }
}

/// Lets a Firefox that still runs, as the command (`pid`) or as the one that was found, write its file to its folder.
pub fn collect(pid: Option<u32>, firefox: Option<RunningFirefox>, folders: &Folders) -> Option<Collected> {
    let folder = folders.gecko()?;
    if let Some(pid) = pid {
        gecko::dump(pid, folder);
    }
    let collected = firefox?.collect(folder);
    collected.inspect_err(|problem| print_note(problem)).ok()
}

/// Removes the file of the Firefox that was found, if the event log contains it: otherwise it is the only one.
pub fn settle(collected: Option<&Collected>, is_in_log: bool) {
    match collected {
        Some(collected) if is_in_log => collected.remove(),
        Some(collected) => {
            let place = collected.place().display();
            print_note(format_args!(
                "the profile of Firefox's own profiler is kept: run `ngmi load --merge {place}`"
            ));
        }
        None => {}
    }
}
