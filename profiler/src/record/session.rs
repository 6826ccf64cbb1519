//! One recording, from the first message to the last: starts the command and decides when the recording ends.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::anchors::Anchors;
use super::binaries::Vdso;
use super::cache::{Prepared, PreparedFiles};
use super::command::Waiting;
use super::keeper::{Keeper, Kept};
use super::spool::Spool;
use super::table_maker::TableMaker;
use super::tables::TableCache;
use super::watch::{Happening, Watch};
use crate::capture::hooks::meter::Phases;
use crate::capture::privilege::terms::{Scope, Terms};
use crate::capture::proc::memory;
use crate::capture::proc::open_files::{self, Raised};
use crate::capture::socket::link::Link;
use crate::capture::socket::wire::{Ended, Mapped, PerfMap, Progress, Reply, Request, Start};
use crate::event::Header;
use crate::plural::counted;
use crate::record::options::{RecordOptions, Target};
use crate::terminal::print_note;

/// How long the privileged helper may take to drain after `Stop`.
const DRAIN_LIMIT: Duration = Duration::from_mins(1);

/// How long files may still be read for tables before a cold start begins.
const SETTLE_LIMIT: Duration = Duration::from_secs(10);

/// The results of a recording, in addition to the log.
#[derive(Debug)]
pub struct Captured {
    /// The log's header.
    pub header: Header,
    /// The last counts.
    pub ended: Ended,
    /// Why the recording ended, in words.
    pub reason: &'static str,
    /// The command's status, if it ended.
    pub status: Option<ExitStatus>,
    /// The command's process, if it outlived the recording.
    pub still_running: Option<u32>,
    /// The signal that ended the recording.
    pub signal: Option<i32>,
    /// How long the command or the recording ran.
    pub wall: Duration,
    /// CPU time of the recorder.
    pub phases: Phases,
    /// Keeps the limit of open files raised for the descriptors below.
    pub open_files: Raised,
    /// Executable files that were mapped, with their descriptors.
    pub mapped: Vec<(Mapped, Option<File>)>,
    /// Perf maps of recorded processes.
    pub perf_maps: Vec<(PerfMap, File)>,
    /// Notes for the profile about files that could not be kept.
    pub notes: Vec<String>,
    /// The files that were evicted or read in beforehand.
    pub cached: Option<PreparedFiles>,
    /// Why the log is cut, if it is.
    pub log_failed: Option<String>,
    /// Still builds unwind tables, for the next recording.
    pub tables: TableMaker,
}

/// What unwind tables are built from.
#[derive(Debug)]
pub struct Unwinding {
    /// The kernel's own code in every process.
    pub vdso: Vdso,
    /// The cache of tables, which builds missing ones.
    pub tables: TableCache,
    /// Files that the command will map.
    pub expected: Vec<PathBuf>,
    /// Folder for copies of files that can't be kept open.
    pub copies: Option<PathBuf>,
}

/// A recording under way.
struct Session<'a> {
    watch: &'a Watch,
    link: Arc<Link>,
    tables: TableMaker,
    keeper: Keeper,
    /// Files of both kinds that arrived without a descriptor, because the limit was reached.
    not_held: u64,
    progress: Progress,
    log_failed: Option<String>,
    status: Option<ExitStatus>,
    signal: Option<i32>,
    pass_on: Option<i32>,
}

/// Records until something ends it.
///
/// # Errors
/// When nothing could be recorded, or the command could not be executed.
pub fn run(
    options: &RecordOptions,
    watch: &Watch,
    link: Arc<Link>,
    spool: &Spool,
    unwinding: Unwinding,
    (waiting, page_cache): (Option<Waiting>, Option<Prepared>),
) -> Result<Captured> {
    // The command has already been started, and keeps its own limit.
    let open_files = open_files::raise();
    memory::keep_no_large_pieces(); // unwind tables, one after the other
    watch.replies(link.clone());
    let Unwinding {
        vdso,
        tables,
        expected,
        copies,
    } = unwinding;
    let maker = TableMaker::default();
    let mut session = Session {
        watch,
        keeper: Keeper::start(Anchors::new(&[spool.file()]), copies, maker.feed()),
        tables: maker,
        link,
        not_held: 0,
        progress: Progress::default(),
        log_failed: None,
        status: None,
        signal: None,
        pass_on: None,
    };
    let pid = waiting.as_ref().map(Waiting::pid);
    let header = match session.start(options, pid, spool) {
        Ok(header) => header,
        Err(error) => {
            waiting.into_iter().for_each(Waiting::abandon);
            return Err(error);
        }
    };
    session.tables.start(session.link.clone(), vdso, tables, expected);
    let cached = page_cache.map(|page_cache| {
        session.tables.settle_or_warn(SETTLE_LIMIT);
        page_cache.finish()
    });
    let (began, mut phases) = (Instant::now(), Phases::begin());
    if let Some(waiting) = waiting {
        watch.child(waiting.release()?);
    }
    spool.begin();
    let reason = session.watch_over(options, began);
    let reason = reason.inspect_err(|_| session.report_left_running(pid))?;
    let wall = began.elapsed();
    phases.stop();
    session.pass_on_signal(pid);
    let ended = session.stop();
    let ended = ended.inspect_err(|_| session.report_left_running(pid))?;
    // Without a process at the beginning it had no events then.
    spool.begin();
    session.report_not_held();
    let status = session.status;
    let Kept {
        mapped,
        perf_maps,
        notes,
    } = session.keeper.finish();
    Ok(Captured {
        header,
        ended,
        reason,
        status,
        still_running: pid.filter(|_| status.is_none()),
        signal: session.signal,
        wall,
        phases,
        open_files,
        mapped,
        perf_maps,
        notes,
        cached,
        log_failed: session.log_failed,
        tables: session.tables,
    })
}

/// The terms of the options, for this user if a user other than root reads the log.
pub fn terms(options: &RecordOptions, user: Option<u32>) -> Terms {
    Terms {
        scope: match &options.target {
            Target::Command(_) => Scope::Command,
            Target::Pids(pids) => Scope::Pids(pids.clone()),
            Target::System(_) => Scope::System,
            Target::Selected(selection, _) => Scope::Selected(selection.clone()),
        },
        user,
        sample_hz: options.rate,
        stack_copy: options.stack_copy,
        faults: options.faults,
        off_cpu: options.off_cpu,
        block: options.block,
        exact_touch: options.exact_touch,
        check_walks: options.check_walks,
        self_account: options.self_account,
        max_overhead: options.max_overhead,
        exclude_pids: vec![std::process::id()],
    }
}

impl Session<'_> {
    fn start(&mut self, options: &RecordOptions, pid: Option<u32>, spool: &Spool) -> Result<Header> {
        let command = options.target.command().unwrap_or_default();
        let start = Start {
            pid: pid.filter(|_| matches!(options.target, Target::Command(_))),
            command: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        };
        self.link.send(&Request::Start(start), Some(spool.file().as_fd()))?;
        loop {
            match self.watch.next(None).context("the privileged helper is gone")? {
                Happening::Reply(reply, file) => match *reply {
                    Reply::Ready(header) => return Ok(*header),
                    Reply::Refused(reason) => bail!(reason),
                    other => self.take(other, file),
                },
                Happening::Interrupted { .. } => bail!("interrupted before the recording began"),
                Happening::CaptureGone(error) => return Err(gone(error)),
                Happening::Exited(_) => {}
            }
        }
    }

    /// Supervises the recording until it ends; returns why, in words.
    fn watch_over(&mut self, options: &RecordOptions, began: Instant) -> Result<&'static str> {
        let mut waits = matches!(&options.target, Target::Selected(selection, _) if selection.waits);
        let mut deadline = options.duration.map(|duration| began + duration).filter(|_| !waits);
        loop {
            let Some(happening) = self.watch.next(deadline) else {
                return Ok("duration reached");
            };
            match happening {
                Happening::Exited(status) => {
                    self.status = Some(status);
                    return Ok("command ended");
                }
                Happening::Interrupted { signal, by_terminal } => {
                    self.signal = Some(signal);
                    // The terminal signals the command itself; a signal for us alone must be passed on.
                    self.pass_on = (!by_terminal).then_some(signal);
                    return Ok("interrupted");
                }
                Happening::CaptureGone(error) => {
                    return Err(gone(error)).context("the recording was cut short");
                }
                Happening::Reply(reply, file) => self.take(*reply, file),
            }
            if waits && self.progress.processes > 0 {
                waits = false;
                deadline = options.duration.map(|duration| Instant::now() + duration);
            }
            if self.log_failed.is_some() {
                return Ok("the event log could not be written");
            }
            if matches!(options.target, Target::Pids(_)) && self.progress.processes > 0 && self.progress.threads == 0 {
                return Ok("the recorded processes ended");
            }
        }
    }

    /// Reports that the command continues although the recording failed.
    fn report_left_running(&self, pid: Option<u32>) {
        pid.filter(|_| self.status.is_none())
            .into_iter()
            .for_each(report_left_running);
    }

    /// Reports files whose descriptors could not be held: they are read by their paths.
    fn report_not_held(&self) {
        if self.not_held > 0 {
            print_note(format_args!(
                "{} could not be held open and will be read by path, if still there: {}",
                counted(self.not_held, "mapped file"),
                open_files::remedy()
            ));
        }
    }

    fn pass_on_signal(&self, pid: Option<u32>) {
        let Some(signal) = self.pass_on else { return };
        let target = pid.and_then(|pid| i32::try_from(pid).ok());
        if let (Some(pid), Ok(signal)) = (target, Signal::try_from(signal)) {
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }

    fn stop(&mut self) -> Result<Ended> {
        self.tables.stop();
        self.link.send(&Request::Stop, None)?;
        let deadline = Instant::now() + DRAIN_LIMIT;
        loop {
            match self.watch.next(Some(deadline)) {
                Some(Happening::Reply(reply, file)) => match *reply {
                    Reply::Ended(ended) => return Ok(ended),
                    other => self.take(other, file),
                },
                Some(Happening::Exited(status)) => self.status = Some(status),
                Some(Happening::Interrupted { .. }) => {}
                Some(Happening::CaptureGone(error)) => return Err(gone(error)),
                None => bail!("the privileged helper did not answer for {} s", DRAIN_LIMIT.as_secs()),
            }
        }
    }

    fn take(&mut self, reply: Reply, file: Option<File>) {
        match reply {
            Reply::Mapped(mut mapped) => {
                if file.is_none() && mapped.problem.is_none() {
                    self.not_held += 1;
                    mapped.problem = Some(open_files::remedy());
                }
                self.keeper.mapped(mapped, file);
            }
            Reply::PerfMap(map) => {
                self.not_held += u64::from(file.is_none());
                if let Some(file) = file {
                    self.keeper.perf_map(map, file);
                }
            }
            Reply::Progress(progress) => self.progress = progress,
            Reply::Warning(text) => print_note(text),
            Reply::LogFailed(text) => self.log_failed = Some(text),
            Reply::Ready(_) | Reply::Refused(_) | Reply::Ended(_) => {}
        }
    }
}

/// Reports that the command, process `pid`, outlives the recording.
pub fn report_left_running(pid: u32) {
    print_note(format_args!(
        "the command is still running (process {pid}); it was not stopped"
    ));
}

fn gone(error: Option<anyhow::Error>) -> anyhow::Error {
    match error {
        Some(error) => error.context("the privileged helper is gone"),
        None => anyhow!("the privileged helper is gone; `ngmi doctor` shows what this machine supports"),
    }
}
