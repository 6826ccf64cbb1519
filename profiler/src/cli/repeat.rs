//! `ngmi record --runs N`: records N runs in sequence, each by a separate `ngmi record` process,
//! and summarizes them.
//!
//! A run is a process: it may switch to the user's identity permanently (as root and under sudo),
//! and the kernel releases everything before the next one.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::SockType;
use nix::unistd::Pid;

use super::args::Record;
use super::output::{print_json, to_stdout};
use super::runs::{self, MOST, Wanted};
use crate::capture::socket::link::inherited;
use crate::record::Outcome;
use crate::record::command::exit_code;
use crate::record::privilege::joint;
use crate::record::watch::{Happening, Watch};
use crate::report::repeat::{Repeated, Run};
use crate::terminal::print_note;

/// Maximum size of the result of a run in bytes.
const MAX_RESULT_BYTES: u64 = 1 << 20;

/// Records `runs` times.
pub fn run(args: &Record, runs: u32) -> Result<ExitCode> {
    if runs == 0 || runs as usize > MOST {
        bail!("--runs is {runs}; give a number from 1 to {MOST}");
    }
    if args.command.is_empty() || args.all || !args.pid.is_empty() {
        bail!("--runs repeats a command: name one after `--`, and leave out -a and -p");
    }
    warn_of_others(&args.output, runs);
    let watch = Watch::new(|_, _| {})?;
    let (mut done, mut code) = (Vec::new(), 0);
    for number in 1..=runs {
        let (result, status, signal) = once(&watch, number)?;
        let Some(result) = result else {
            // The run has printed the reason.
            code = status;
            let rest = if done.is_empty() {
                ""
            } else {
                "; the summary covers the runs before it"
            };
            print_note(format_args!("run {number} of {runs} failed{rest}"));
            break;
        };
        print_note(result.line(runs));
        let failed = result.status != 0;
        let interrupted = result.interrupted || signal.is_some();
        done.push(result);
        if interrupted {
            print_note(format_args!(
                "run {number} was interrupted: its profile is kept, but it is not in the statistics"
            ));
            code = signal.map_or(status, |signal| u8::try_from(128 + signal).unwrap_or(u8::MAX));
            break;
        }
        if status != 0 && (!failed || !args.ignore_failure) {
            code = status;
            if failed {
                print_note(format_args!(
                    "the command failed in run {number} (exit status {status}); use --ignore-failure to continue after a failed run"
                ));
            }
            break;
        }
    }
    conclude(args, runs, done)?;
    Ok(ExitCode::from(code))
}

fn conclude(args: &Record, asked: u32, done: Vec<Run>) -> Result<()> {
    let command = args
        .command
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let repeated = Repeated::new(command, asked, done);
    if args.result.json {
        return print_json(&repeated).map(drop);
    }
    if repeated.runs.is_empty() {
        return Ok(());
    }
    to_stdout(&mut anstream::stderr(), |out| {
        writeln!(out)?;
        repeated.write(out)?;
        let (Some(first), Some(last)) = (repeated.runs.first(), repeated.runs.last()) else {
            return Ok(());
        };
        if repeated.runs.len() == 1 {
            return writeln!(out, "profile: {}", first.profile);
        }
        writeln!(out, "profiles: {} … {}", first.profile, last.profile)
    })
    .map(drop)
}

/// Records once: returns the run's result, its exit status, and the signal that arrived meanwhile.
fn once(watch: &Watch, number: u32) -> Result<(Option<Run>, u8, Option<i32>)> {
    let (ours, theirs) = joint(SockType::Stream)?;
    let mut words = std::env::args_os().skip(1);
    let subcommand = words.next().unwrap_or_else(|| "record".into());
    let own: [OsString; 4] = [
        "--run".into(),
        number.to_string().into(),
        "--run-fd".into(),
        theirs.as_raw_fd().to_string().into(),
    ];
    let child = Command::new("/proc/self/exe")
        .arg(subcommand)
        .args(own)
        .args(words)
        .spawn();
    let child = child.context("starting a run")?;
    drop(theirs);
    let pid = i32::try_from(child.id())
        .map(Pid::from_raw)
        .context("no such process")?;
    watch.child(child);
    let mut interrupted = None;
    let status = loop {
        match watch.next(None) {
            Some(Happening::Exited(status)) => break exit_code(status),
            Some(Happening::Interrupted { signal, by_terminal }) => {
                interrupted = Some(signal);
                // A signal from the keyboard went to the whole process group.
                if let (false, Ok(signal)) = (by_terminal, Signal::try_from(signal)) {
                    let _ = kill(pid, signal);
                }
            }
            Some(_) => {}
            None => bail!("the thread that waits for the run has ended"),
        }
    };
    Ok((serde_json::from_slice(&said(ours)?).ok(), status, interrupted))
}

/// The result that a run has written by its end. The run's end of the socket may still be open in
/// another process of the user that it became.
fn said(socket: OwnedFd) -> Result<Vec<u8>> {
    fcntl(&socket, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    let mut said = Vec::new();
    match File::from(socket).take(MAX_RESULT_BYTES).read_to_end(&mut said) {
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error).context("reading the result of the run"),
        _ => Ok(said),
    }
}

/// Socket to which a run reports its result.
pub struct RunReporter(File);

impl RunReporter {
    /// Takes the descriptor before other code can.
    pub fn new(fd: i32) -> Result<Self> {
        let socket: OwnedFd = inherited(fd)?;
        Ok(Self(socket.into()))
    }

    /// Sends the result.
    pub fn report(mut self, outcome: &Outcome, number: u32, profile: &Path) -> Result<()> {
        let source = outcome.log.as_deref().unwrap_or(profile);
        let run = Run {
            number,
            profile: profile.display().to_string(),
            status: outcome.status.map_or(0, exit_code),
            interrupted: outcome.signal.is_some(),
            values: std::collections::BTreeMap::new(),
            unknown: std::collections::BTreeMap::new(),
            cache: outcome.cached,
            warnings: Vec::new(),
        };
        let run = run.with(&runs::quietly(source, &Wanted::whole())?);
        self.0
            .write_all(&serde_json::to_vec(&run)?)
            .context("the process that started this run has ended")
    }
}

/// Numbered path: run 3 of `profile.json.gz` is `profile.3.json.gz`.
pub fn numbered(path: &Path, number: u32) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let end = [".json.gz", ".json"].into_iter().find(|end| name.ends_with(end));
    let end = end.map_or_else(
        || name.rfind('.').filter(|at| *at > 0).map_or(name.len(), |at| at),
        |end| name.len() - end.len(),
    );
    let (stem, end) = name.split_at(end);
    path.with_file_name(format!("{stem}.{number}{end}"))
}

/// Warns about a profile of an earlier, longer set, which would be mistaken for one of this set.
fn warn_of_others(output: &Path, runs: u32) {
    let next = numbered(output, runs + 1);
    if next.exists() {
        print_note(format_args!(
            "{} belongs to another set, and `ngmi diff` of the folder would include it in this one; remove it first",
            next.display()
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_result_socket_does_not_block() {
        let (ours, theirs) = joint(SockType::Stream).unwrap();
        let mut held = File::from(theirs);
        held.write_all(b"{}").unwrap();
        assert_eq!(said(ours).unwrap(), b"{}");
        drop(held);
        let (ours, theirs) = joint(SockType::Stream).unwrap();
        drop(theirs);
        assert!(said(ours).unwrap().is_empty());
    }

    #[test]
    fn the_run_number_precedes_the_extension() {
        for (path, expected) in [
            ("profile.json.gz", "profile.3.json.gz"),
            ("a/b.json", "a/b.3.json"),
            ("log", "log.3"),
            ("x.events", "x.3.events"),
            (".hidden", ".hidden.3"),
        ] {
            assert_eq!(numbered(Path::new(path), 3), Path::new(expected));
        }
    }
}
