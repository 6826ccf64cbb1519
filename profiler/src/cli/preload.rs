//! `ngmi preload`: lists what a start reads from disk, and runs a command while the list is read
//! ahead.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Result, bail};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::fstatat;

use super::args::{Preload, PreloadAction, PreloadRun};
use super::missing::About;
use super::output::{file_of, must_differ, to_file_or_stdout};
use super::source;
use super::span::moment;
use crate::addr::PAGE;
use crate::capture::proc::daemon::{Side, daemonize};
use crate::fact::Recording;
use crate::plural::counted;
use crate::record::preload::ahead::{Ahead, read};
use crate::record::preload::identify::{Identified, identify};
use crate::record::preload::read_list;
use crate::report::preload::{FileNeed, List, Model, Needs, Range, plan};
use crate::report::text::{bytes, count, duration, fit, fit_end};
use crate::terminal::{fail, out, print_note};

/// Maximum number of files named in a message; those with most to read come first.
const NAMED: usize = 3;

const READS: About = About {
    name: "page faults",
    noun: "fault",
    hook: "",
    watched: Some(" of a file: tracing was on, but none occurred"),
    not_asked_for: ": they were not traced; record again with `--faults all`",
};

pub fn run(args: Preload) -> Result<ExitCode> {
    match args.action {
        Some(PreloadAction::Run(run)) if run.dry_run => dry_run(&run.list),
        Some(PreloadAction::Run(run)) => Ok(ahead(&run)),
        None => {
            let within = args.within.map(|text| moment(&text, "--within")).transpose()?;
            make(&args.input, file_of(args.output.as_deref()), args.gap, within)
        }
    }
}

/// Builds the list of a recording.
fn make(input: &Path, output: Option<&Path>, gap: Option<u64>, within: Option<Duration>) -> Result<ExitCode> {
    output.map_or(Ok(()), |output| must_differ(output, input))?;
    let mut needs = Needs::default();
    let (tables, _) = source::read(input, &mut needs)?;
    let recording = &tables.recording;
    if needs.is_empty() {
        let why = READS.why_none(recording, recording.faults_seen);
        bail!("{} contains no file reads and no page faults{why}", input.display());
    }
    let files = needs.finish(&tables);
    let mut model = needs.model();
    model.horizon = within.unwrap_or(model.horizon);
    if let Some(gap) = gap {
        (model.gap, model.learned) = (gap, None);
    }
    let ranges = plan(&files, &model);
    let made = identify(&files, &ranges, recording.start_unix_ms);
    if made.list.reads.is_empty() {
        left_out(&made);
        bail!(
            "no file of the recording can be read ahead on this machine; create the list on the machine of the recording"
        );
    }
    let comments = [
        format!("Read ahead by `ngmi preload run`. Of: {}", shown(&recording.command)),
        words(&model),
    ];
    let code = to_file_or_stdout(output, |mut out| made.list.write(&mut out, &comments))?;
    print_totals(&needs, recording, &files, &ranges, &made, &model);
    Ok(code)
}

fn shown(command: &[String]) -> String {
    if command.is_empty() {
        "running processes".to_owned()
    } else {
        fit(&command.join(" "), 200)
    }
}

fn words(model: &Model) -> String {
    let joined = format!(
        "ranges are joined across gaps of up to {} if they are needed within {}",
        bytes(model.gap),
        duration(crate::addr::ns(model.horizon))
    );
    match model.learned {
        Some(learned) => format!(
            "{joined}: a read takes {} plus one second per {}",
            duration(crate::addr::ns(learned.seek)),
            bytes(rate(learned.rate))
        ),
        None => joined,
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // For display; the cast saturates.
fn rate(bytes_a_second: f64) -> u64 {
    bytes_a_second as u64
}

fn print_totals(
    needs: &Needs,
    recording: &Recording,
    files: &[FileNeed],
    ranges: &[Range],
    made: &Identified,
    model: &Model,
) {
    let needed: u64 = ranges.iter().map(|range| range.needed).sum();
    let wasted: u64 = files.iter().map(|file| file.wasted).sum();
    print_note(format_args!("{} to read ahead", totals(&made.list)));
    print_note(format_args!(
        "needed in total: {}; read by faults unnecessarily, and not listed: {}",
        bytes(needed),
        bytes(wasted * PAGE)
    ));
    print_note(words(model));
    left_out(made);
    if !needs.was_cold() {
        print_note(
            "nothing was read from disk in this recording: the list contains what faults touched, but no other reads; record with --cold",
        );
    }
    if !recording.folded_faults.is_empty() || needs.left_out() > 0 {
        print_note("the profile does not contain all faults: use the event log instead (`ngmi record --keep-events`)");
    }
}

fn totals(list: &List) -> String {
    format!(
        "{} in {} of {}",
        bytes(list.bytes()),
        counted(list.reads.len() as u64, "range"),
        counted(list.files.len() as u64, "file")
    )
}

fn left_out(made: &Identified) {
    for (reason, files) in &made.left_out {
        let mut files = files.clone();
        files.sort_by_key(|(path, needed)| (std::cmp::Reverse(*needed), path.clone()));
        let needed: u64 = files.iter().map(|(_, needed)| *needed).sum();
        let names: Vec<String> = files.iter().map(|(path, _)| path.clone()).collect();
        print_note(format_args!(
            "skipped, {reason}: {} of {}{}",
            bytes(needed),
            counted(files.len() as u64, "file"),
            named(&names)
        ));
    }
}

/// The first few names, in parentheses.
fn named(names: &[String]) -> String {
    let mut shown: Vec<String> = (names.iter())
        .filter(|name| !name.is_empty())
        .take(NAMED)
        .map(|name| fit_end(&fit(name, 4096), 50))
        .collect();
    if shown.is_empty() {
        return String::new();
    }
    if names.len() > shown.len() {
        shown.push("…".to_owned());
    }
    format!(" ({})", shown.join(", "))
}

/// Prints what would be read.
fn dry_run(path: &Path) -> Result<ExitCode> {
    let list = read_list(path)?;
    let looked = read(&list, true, &|| true);
    out(totals(&list))?;
    out(format_args!("{} would be read", bytes(looked.asked)))?;
    out(format_args!(
        "in memory: {}, as far as the kernel shows this user",
        bytes(looked.in_memory)
    ))?;
    for line in trouble(&list, &looked) {
        out(line)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One message per reason for files that were not read.
fn trouble(list: &List, ahead: &Ahead) -> Vec<String> {
    let mut by_reason = std::collections::BTreeMap::<String, Vec<String>>::new();
    for (index, skip) in &ahead.skipped {
        let path = list
            .files
            .get(*index)
            .map(|file| String::from_utf8_lossy(&file.path).into_owned());
        by_reason
            .entry(skip.to_string())
            .or_default()
            .push(path.unwrap_or_default());
    }
    let mut lines: Vec<String> = (by_reason.iter())
        .map(|(reason, names)| {
            format!(
                "skipped, {reason}: {} of {}{}; create the list again",
                count(names.len() as u64),
                counted(list.files.len() as u64, "file"),
                named(names)
            )
        })
        .collect();
    if ahead.no_room > 0 {
        lines.push(format!(
            "skipped: {}; the limit is half of the free memory",
            bytes(ahead.no_room)
        ));
    }
    lines
}

/// Executes the command in this process while another process reads the list. Returns only if the
/// command can't be run.
fn ahead(run: &PreloadRun) -> ExitCode {
    match read_list(&run.list) {
        Ok(list) => {
            if let Err(error) = start_reader(&run.list, &list) {
                print_note(format_args!("not reading ahead: {error}"));
            }
        }
        Err(error) => print_note(format_args!("not reading ahead: {error:#}")),
    }
    let Some((program, arguments)) = run.command.split_first() else {
        return ExitCode::FAILURE;
    };
    let error = Command::new(program).args(arguments).exec();
    let code = if error.kind() == ErrorKind::NotFound { 127 } else { 126 };
    fail(&anyhow::Error::new(error).context(format!("cannot run {}", Path::new(program).display())));
    ExitCode::from(code)
}

/// Starts a process that reads the list while this process, or the command that it executes, is
/// alive.
fn start_reader(path: &Path, list: &List) -> io::Result<()> {
    // Identified by the process's /proc folder: another process with the same id has a different
    // one.
    let here = File::open(format!("/proc/{}", std::process::id()))?;
    if daemonize(here.as_fd())? == Side::Here {
        return Ok(());
    }
    // All files of the list are open at once, in this process only.
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
    let lives = || fstatat(&here, "stat", nix::fcntl::AtFlags::empty()).is_ok();
    let read = read(list, false, &lives);
    for line in trouble(list, &read) {
        print_note(format_args!("preload: {}: {line}", path.display()));
    }
    std::process::exit(0);
}
