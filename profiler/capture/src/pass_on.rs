//! Has files of recorded programs opened, and passes them on to the recorder.

use crate::drain::cycle::Drain;
use crate::files::open::named;
use crate::files::opener::{Done, Failure, Job, Opener};
use crate::socket::channel::{Channel, ChannelError};
use crate::socket::wire::{Mapped, Reply};

/// Reasons why a file has no descriptor.
const SILENT: &str = "its file system does not answer";
const TOO_MANY: &str = "too many new files at once";

/// Has new files opened.
pub fn open_new(drain: &mut Drain, opener: &mut Opener) {
    for mapping in drain.new_files() {
        opener.open(Job::Mapped(Box::new(mapping)));
    }
    for job in drain.perf_maps.wanted(false) {
        opener.open(job);
    }
}

/// Passes on what was opened; returns whether there was anything.
///
/// # Errors
/// When the recorder is gone or does not read.
pub fn turn(drain: &mut Drain, opener: &mut Opener, channel: &mut Channel) -> Result<bool, ChannelError> {
    let done = opener.turn();
    let any = !done.is_empty();
    for done in done {
        let has_room = channel.has_room_for_file();
        pass(drain, channel, done, has_room)?;
    }
    Ok(any)
}

/// Passes on the remaining files at the end, as far as file systems answer.
///
/// # Errors
/// As [`turn`].
pub fn last(drain: &mut Drain, opener: &mut Opener, channel: &mut Channel) -> Result<(), ChannelError> {
    open_new(drain, opener);
    finish(drain, opener, channel)?;
    drain
        .perf_maps
        .wanted(true)
        .into_iter()
        .for_each(|job| opener.open(job));
    finish(drain, opener, channel)
}

fn finish(drain: &mut Drain, opener: &mut Opener, channel: &mut Channel) -> Result<(), ChannelError> {
    while let Some(all) = opener.finish() {
        for done in all {
            let has_room = channel.has_room_for_file() || !matches!(done.0, Job::Mapped(_));
            pass(drain, channel, done, has_room)?;
        }
    }
    Ok(())
}

fn pass(drain: &mut Drain, channel: &mut Channel, (job, result): Done, has_room: bool) -> Result<(), ChannelError> {
    let is_silent = matches!(result, Err(Failure::Silent));
    let pid = match &job {
        Job::Mapped(mapping) => {
            let (problem, file) = match result {
                Ok((file, _)) if has_room => (None, Some(file)),
                Ok(_) => (Some(TOO_MANY.to_owned()), None),
                Err(Failure::Refused(why)) => (Some(why), None),
                Err(Failure::Silent) => (Some(SILENT.to_owned()), None),
            };
            let mapped = Mapped {
                is_silent,
                ..named(mapping, problem)
            };
            return channel.send(&Reply::Mapped(mapped), file);
        }
        Job::Folder(_, pid) | Job::PerfMap(_, pid, ..) => *pid,
    };
    if is_silent {
        let text = format!("the perf map of process {pid} was left out: {SILENT}");
        channel.send(&Reply::Warning(text), None)?;
    }
    let opened = result.ok().filter(|_| has_room);
    match drain.perf_maps.answered(&job, opened) {
        Some((map, file)) => channel.send(&Reply::PerfMap(map), Some(file)),
        None => Ok(()),
    }
}
