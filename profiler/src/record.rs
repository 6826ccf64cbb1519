//! The recorder, which runs as the user: starts the command, supervises the recording, and finishes it.

pub mod advice;
mod anchors;
pub mod attachments;
pub mod binaries;
pub mod cache;
mod children;
pub mod command;
pub mod conversion;
pub mod finish;
mod firefox;
pub mod folders;
pub mod gecko;
mod handover;
pub mod identity;
mod keeper;
mod loader_cache;
pub mod names;
pub mod needed;
pub mod options;
pub mod path_track;
pub mod places;
pub mod preload;
pub mod privilege;
pub mod reach;
pub mod sandbox;
pub mod servers;
pub mod session;
pub mod signals;
pub mod sources;
pub mod spool;
pub mod stamp;
pub mod table_maker;
pub mod tables;
pub mod watch;

use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use anyhow::{Result, anyhow, bail};
use nix::unistd::Uid;

use crate::capture::privilege::terms::Terms;
use crate::capture::socket::wire::Mapped;
use crate::event::write::LogWriter;
use crate::event::{AttachmentKind, Cost, End, Event};
use crate::record::options::{RecordOptions, Target, Wanted};
use crate::report::repeat::CacheState;
use crate::report::summary::Summary;
use crate::terminal::print_note;
use attachments::Passed;
use binaries::Vdso;
use cache::Subject;
use cache::remembered::Remembered;
use cache::system::Dropper;
use command::Waiting;
use conversion::{Failure, Starting};
use finish::Plan;
use folders::Folders;
use gecko::Collected;
use identity::{Environment, Identity};
use privilege::Capture;
use session::{Captured, Unwinding};
use signals::Signals;
use sources::SourcePlaces;
use spool::{Output, Spool};
use table_maker::TableMaker;
use tables::TableCache;
use watch::Watch;

/// The outcome of a recording.
#[derive(Debug)]
pub struct Outcome {
    /// The summary to print at the end.
    pub summary: Summary,
    /// The command's status; `None`: there was no command, or it still runs.
    pub status: Option<ExitStatus>,
    /// The signal that ended the recording.
    pub signal: Option<i32>,
    /// State of the page cache when the command started, if requested.
    pub cached: Option<CacheState>,
    /// The event log, if it is kept.
    pub log: Option<PathBuf>,
    /// Whether the disk was full before the command ended: the profile is cut.
    pub is_cut: bool,
    /// Still builds unwind tables, for the next recording.
    pub tables: TableMaker,
    /// The user's environment.
    pub environment: Environment,
    /// The signal handling.
    pub signals: Signals,
}

/// Records, and writes the profile.
///
/// # Errors
/// When nothing could be recorded or written; anything recorded stays in the event log, which the error names.
pub fn run(options: &RecordOptions) -> Result<Outcome> {
    let began = SystemTime::now();
    let mut identity = Identity::find(options.user.as_deref())?;
    check_running(&options.target)?;
    let signals = Signals::default();
    let watch = Watch::new(signals.judge())?;
    let vdso = Vdso::of_this_kernel();
    let dropper = start_dropper(options)?;
    // Root starts the privileged helper first and then drops root; another user opens the files before sudo asks for a password.
    let terms = session::terms(options, identity.user());
    let is_root = Uid::effective().is_root();
    let early = is_root.then(|| Capture::start(&terms)).transpose()?;
    identity.assume()?;
    let command = options.target.command();
    let program = command.map(|command| identity.resolve(&command[0])).transpose()?;
    let mut running = firefox::find(options, &signals)?;
    let folders = firefox::folders(options, program.as_deref(), running.as_ref(), &mut identity.environment)?;
    signals.set_folders(folders.own());
    // Last: what is refused leaves no file behind.
    let output = Output::create(&options.output)?;
    let mut spool = Spool::create(&options.output, options.keep_events.as_deref())?;
    signals.set_log(spool.shared_place());
    let setting = Setting {
        environment: identity.environment.clone(),
        began,
        vdso,
        folders,
    };
    let ready = Ready {
        options,
        watch: &watch,
        spool: &spool,
        setting: &setting,
        program: program.as_deref(),
        environment: &identity.environment,
        interrupted: signals.interrupted(),
    };
    let capture = early.map_or_else(|| start_capture(&terms, &watch), Ok);
    let recorded = capture.and_then(|capture| {
        firefox::start(running.as_mut())?;
        ready.record(capture, dropper)
    });
    let mut captured = match recorded {
        Ok(captured) => captured,
        Err(error) => return Err(keep_if_worth(&spool, error)),
    };
    signals.finishing();
    if captured.signal.is_some() {
        print_note("finishing; press Ctrl-C again to skip the profile (the event log is kept)");
    }
    let collected = firefox::collect(captured.still_running, running, &setting.folders);
    let concluded = conclude(options, &mut captured, &mut spool, output, (&setting, collected));
    let summary = concluded.map_err(|error| keep_if_worth(&spool, error))?;
    let log = spool.is_kept().then(|| spool.path());
    signals.written();
    spool.discard();
    let status = status_of(&captured, &watch);
    Ok(Outcome {
        summary,
        status,
        signal: captured.signal,
        cached: captured.cached.as_ref().map(cache::PreparedFiles::state),
        log,
        is_cut: captured.log_failed.is_some(),
        tables: captured.tables,
        environment: identity.environment,
        signals,
    })
}

/// Starts what drops the page cache as root, if that was requested.
fn start_dropper(options: &RecordOptions) -> Result<Option<Dropper>> {
    let asked = options.page_cache.as_ref();
    let wants_system = asked.is_some_and(|asked| asked.wanted == Wanted::ColdSystem);
    wants_system.then(Dropper::start).transpose()
}

/// Checks that the processes to record exist, and warns if they have children that are not to be recorded.
fn check_running(target: &Target) -> Result<()> {
    let Target::Pids(pids) = target else { return Ok(()) };
    if let Some(pid) = pids.iter().find(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
        bail!("process {pid} does not exist; `pgrep -a NAME` lists running processes");
    }
    if let Some(warning) = children::unrecorded(pids) {
        print_note(warning);
    }
    Ok(())
}

/// Starts the privileged helper as a user, after sudo asked for a password.
fn start_capture(terms: &Terms, watch: &Watch) -> Result<Capture> {
    Capture::start(terms).map_err(|error| {
        if watch.is_interrupted() {
            anyhow!("interrupted before the recording began; nothing was recorded")
        } else {
            error
        }
    })
}

/// The command's status, if it ended or does so at once.
fn status_of(captured: &Captured, watch: &Watch) -> Option<ExitStatus> {
    captured.status.or_else(|| {
        let pid = captured.still_running?;
        let status = watch.exit_within(Duration::from_millis(if captured.signal.is_some() { 500 } else { 0 }));
        if status.is_none() {
            session::report_left_running(pid);
        }
        status
    })
}

/// Everything that a recording needs, except the privileged helper.
struct Ready<'a> {
    options: &'a RecordOptions,
    watch: &'a Watch,
    spool: &'a Spool,
    setting: &'a Setting,
    program: Option<&'a Path>,
    environment: &'a Environment,
    interrupted: &'a AtomicBool,
}

impl Ready<'_> {
    fn record(&self, capture: Capture, dropper: Option<Dropper>) -> Result<Captured> {
        let (program, environment) = (self.program, self.environment);
        let command = self.options.target.command().unwrap_or_default();
        let page_cache = self.options.page_cache.as_ref();
        let remembered = program.filter(|_| page_cache.is_some());
        let remembered = remembered.and_then(|program| Remembered::of(program, environment));
        let mut expected = expected(program, environment);
        expected.extend(remembered.iter().flat_map(|list| list.files.clone()));
        let unwinding = Unwinding {
            vdso: self.setting.vdso.clone(),
            tables: TableCache::new(TableCache::default_folder(environment)),
            expected,
            copies: self.setting.folders.scratch().map(Path::to_owned),
        };
        let subject = program.map(|program| Subject {
            program,
            command,
            mapped: &unwinding.expected,
            environment,
            remembered: remembered.as_ref(),
        });
        let prepare = |(asked, subject)| cache::prepare(asked, subject, &unwinding.tables, dropper, self.interrupted);
        let prepared = page_cache.zip(subject).map(prepare).transpose()?;
        let waiting = program
            .map(|program| Waiting::spawn(program.to_owned(), command, environment))
            .transpose()?;
        let start = (waiting, prepared);
        let link = capture.link.clone();
        let captured = session::run(self.options, self.watch, link, self.spool, unwinding, start);
        capture.wait();
        captured
    }
}

/// The files that a command will map.
fn expected(program: Option<&Path>, environment: &Environment) -> Vec<PathBuf> {
    program.map_or_else(Vec::new, |program| needed::closure(program, environment))
}

/// The conditions of the start, which finishing needs again.
struct Setting {
    environment: Environment,
    began: SystemTime,
    vdso: Vdso,
    folders: Folders,
}

fn conclude(
    options: &RecordOptions,
    captured: &mut Captured,
    spool: &mut Spool,
    output: Output,
    (setting, firefox): (&Setting, Option<Collected>),
) -> Result<Summary> {
    if let Some(why) = &captured.log_failed {
        print_note(format_args!(
            "cannot write more to the event log {}: {why}; the profile ends there; free disk space, or choose another path \
             with --keep-events",
            spool.path().display()
        ));
    }
    let servers = options
        .servers
        .for_files(captured.mapped.iter().map(|(mapped, _)| Path::new(&mapped.path)));
    let conversion = Starting::new(&setting.environment, setting.folders.scratch(), &servers);
    let completed = complete(spool, captured, setting);
    if let Err(error) = &completed {
        print_note(format_args!("cannot complete the event log: {error}"));
    }
    firefox::settle(firefox.as_ref(), completed.unwrap_or(false));
    if let Some(cached) = &captured.cached {
        cached.report_missed(captured.mapped.iter().map(|(mapped, _)| mapped));
    }
    let plan = Plan {
        sources: (options.result.include_source)
            .then(|| SourcePlaces::new(&options.source_roots, &setting.environment)),
        servers,
        max_samples: options.result.max_samples,
        complete_log: spool.is_kept() && captured.log_failed.is_none(),
        this_boot: false,
        reads_only_mapped: true,
        left_out: left_out(&captured.mapped),
        notes: std::mem::take(&mut captured.notes),
    };
    let mapped = std::mem::take(&mut captured.mapped);
    let (mut summary, output) = conversion.make(spool, output, mapped, plan)?;
    finish::place(output, &mut summary)?;
    handover::warn(options, captured, &summary.left);
    Ok(summary)
}

/// Files whose file systems answered neither the recorder nor the privileged helper.
fn left_out(mapped: &[(Mapped, Option<File>)]) -> Vec<PathBuf> {
    let silent = mapped.iter().filter(|(mapped, _)| mapped.is_silent);
    let silent = silent.map(|(mapped, _)| PathBuf::from(&mapped.path));
    silent.chain(symbols::patience::left_out()).collect()
}

/// Appends to the log what only the recorder knows; whether a file of Firefox's profiler is in it.
fn complete(spool: &mut Spool, captured: &mut Captured, setting: &Setting) -> io::Result<bool> {
    let mut log = LogWriter::append(spool.file_mut())?;
    let passed = Passed {
        mapped: &mut captured.mapped,
        perf_maps: &captured.perf_maps,
    };
    let mut has_gecko = false;
    let collected = attachments::collect(passed, &setting.folders, setting.began, |file| {
        has_gecko |= file.kind == AttachmentKind::Gecko;
        log.event(&Event::Attachment(file))
    });
    collected.problems.iter().for_each(print_note);
    collected.kept?;
    let cost = Cost {
        record: Some(captured.phases.cost()),
        ..Cost::default()
    };
    log.event(&Event::Cost(Box::new(cost)))?;
    log.event(&Event::End(End {
        time: captured.ended.time,
        reason: captured.reason.to_owned(),
        status: captured.status.map(ExitStatusExt::into_raw),
    }))?;
    log.finish().map(|_| has_gecko)
}

/// Keeps the log of a failed recording only if something is in it.
fn keep_if_worth(spool: &Spool, error: anyhow::Error) -> anyhow::Error {
    if error.downcast_ref().is_some_and(|failure: &Failure| failure.is_empty) {
        spool.discard();
        return anyhow!("no thread was recorded, so there is nothing to show; see `ngmi doctor`");
    }
    let Some(log) = spool.keep_or_remove() else {
        return error;
    };
    let log = log.display();
    error.context(format!("the event log is kept; run `ngmi convert {log}` to try again"))
}
