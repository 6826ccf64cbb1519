//! The command line as it is typed: names and help, nothing checked yet.

mod check;
mod diff;
mod export;
mod faults;
mod file;
mod halves;
mod io;
mod load;
mod maps;
mod order;
mod preload;
mod share;
mod smaps;
mod trim;
mod waits;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use self::check::Check;
pub use self::diff::Diff;
pub use self::export::{Export, ExportFormat};
pub use self::faults::Faults;
pub use self::halves::{CaptureHalf, ExecHalf, Inherited};
pub use self::io::Io;
pub use self::load::{Load, Serve, Sources};
pub use self::maps::{Maps, Way};
pub use self::order::Order;
pub use self::preload::{Preload, PreloadAction, PreloadRun};
pub use self::share::Share;
pub use self::smaps::Smaps;
pub use self::trim::Trim;
pub use self::waits::Waits;

/// Makes the time that a program loses to waiting as visible as its CPU time.
#[derive(Debug, Parser)]
#[command(name = "ngmi", version, max_term_width = 80, disable_help_subcommand = false)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What `ngmi` can do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run a program, or watch running ones, and write a profile
    Record(Record),
    /// Make a profile from an event log
    Convert(Convert),
    /// Open a profile in the Firefox Profiler
    Load(Load),
    /// Upload a profile to the Firefox Profiler, and print its link
    Share(Share),
    /// Make a smaller profile: of a stretch of time, of some processes
    Trim(Trim),
    /// Write a recording for other programs: pprof, OTLP, Parquet, flame graphs
    Export(Export),
    /// Tell where a recording's page faults are: by file, function, phase; or list each
    Faults(Faults),
    /// Tell what was asked of disks: by device, file, function; or list each request
    Io(Io),
    /// Tell what a recording's threads waited for: by reason, function, who ended it; or list each
    Waits(Waits),
    /// Order a file's functions for the linker, as they ran, and tell what that would save
    Order(Order),
    /// Make a list of what a start reads from disk, and read it ahead of the next start
    Preload(Preload),
    /// Tell what changed between two recordings or sets of them, and what is noise
    Diff(Diff),
    /// Hold a recording against a budget: for CI
    Check(Check),
    /// Show what this machine allows, hook by hook, with the remedy of each refusal
    Doctor(Doctor),
    /// List the mappings of a process, or say which byte of which file its addresses show
    Maps(Maps),
    /// Tell what a process takes of memory, by file and section, and who touched it
    Smaps(Smaps),
    /// Check a profile: indices, column lengths, order of times
    #[command(hide = true)]
    Lint(Lint),
    /// Print the completions for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print a manual page, in roff, or write all of them
    Man(Man),
    /// The privileged half; started by `record`
    #[command(name = "__capture", hide = true)]
    Capture(CaptureHalf),
    /// Waits until it may become the command; started by `record`
    #[command(name = "__exec", hide = true)]
    Exec(ExecHalf),
    /// Makes the profile of a recording; started by `record`
    #[command(name = "__convert", hide = true)]
    Conversion(Inherited),
    /// Drops the caches of the whole machine when it is told to; started by `record`
    #[command(name = "__drop-caches", hide = true)]
    DropCaches,
    /// Measures the unwind tables of files
    #[command(name = "__tables", hide = true)]
    Tables(Tables),
}

/// Headings of `record --help`; the groups of options that other verbs have too name their own.
const RECORDED: &str = "What is recorded";
const STARTS: &str = "Cold and warm starts";
const RUNS: &str = "Several runs";

/// `ngmi record`
#[allow(clippy::struct_excessive_bools)] // Each is a flag that a person types.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ngmi record -- firefox\n  ngmi record -d 10 -p 1234\n  ngmi record -a -d 5 -o system.json.gz\n  ngmi record --runs 5 --cold -- firefox --headless --screenshot x.png\n\n\
                  The exit status is the command's (128 + N if signal N ended it), or 125 if ngmi itself failed.\n\
                  Ctrl-C ends the recording and writes the profile; a second Ctrl-C gives up the profile and keeps the event log."
)]
pub struct Record {
    /// Where the profile goes: a file, as standard output (`-`) is not supported
    #[arg(short, long, value_name = "FILE", default_value = "profile.json.gz", value_parser = file::file())]
    pub output: PathBuf,
    /// Samples per second and CPU
    #[arg(
        short = 'F',
        long = "rate",
        value_name = "HZ",
        default_value = "1000",
        allow_negative_numbers = true
    )]
    pub rate: String,
    /// End the recording after this time
    #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub duration: Option<String>,
    /// Record these processes: their threads, and the children that they start from now on (repeatable)
    #[arg(short, long = "pid", value_name = "PID", conflicts_with_all = ["all", "command"])]
    pub pid: Vec<u32>,
    /// Record the whole system (until the command ends, if one is given)
    #[arg(short, long)]
    pub all: bool,
    /// Run the command as this user (as root or under sudo)
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Keep the event log: exact, and complete without the binaries
    #[arg(long, value_name = "FILE", value_parser = file::file())]
    pub keep_events: Option<PathBuf>,
    /// Write the profile, and do not open it (as with --json)
    #[arg(long)]
    pub save_only: bool,
    /// Which page faults to record
    #[arg(
        long,
        value_name = "WHICH",
        value_enum,
        default_value_t,
        help_heading = RECORDED
    )]
    pub faults: FaultsArg,
    /// By which hooks page faults are watched: `auto` takes the best that the kernel allows
    #[arg(
        long,
        value_name = "TIER",
        value_enum,
        default_value_t,
        help_heading = RECORDED
    )]
    pub fault_source: FaultSourceArg,
    /// Which times off the CPU to record: `all`, `off`, or those of a length (`1ms`); shorter ones are summed up
    #[arg(long, value_name = "WHICH", default_value = "all", help_heading = RECORDED)]
    pub off_cpu: String,
    /// Which block requests to record
    #[arg(
        long,
        value_name = "WHICH",
        value_enum,
        default_value_t,
        help_heading = RECORDED
    )]
    pub block: BlockArg,
    /// Bytes of stack copied at most where the walk in the kernel ends early; 0: none
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "65536",
        help_heading = RECORDED
    )]
    pub stack_copy: String,
    /// Make each first touch of a page a fault: meanwhile the kernel maps no pages around one, on the whole machine (root; put back at the end)
    #[arg(long, help_heading = RECORDED)]
    pub exact_touch: bool,
    /// Count the time in ngmi's own eBPF programs exactly, instead of for a tenth of the time: each run then takes some 55 ns longer
    #[arg(long, help_heading = RECORDED)]
    pub self_account: bool,
    /// Copy each stack although it was walked, and compare both ways
    #[arg(long, hide = true)]
    pub check_walks: bool,
    /// Have Firefox name its JIT code; turns off the sandbox of its content processes. Needs a build with jitdump, as Nightly is
    #[arg(long, help_heading = RECORDED)]
    pub firefox_jit: bool,
    /// First drop the files that the command will use from the page cache; `system` (as root): everything that the machine has cached
    #[arg(
        long,
        value_name = "SCOPE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "files",
        hide_possible_values = true,
        conflicts_with_all = ["warm", "all", "pid"],
        help_heading = STARTS
    )]
    pub cold: Option<Cold>,
    /// First read the files that the command will use into the page cache
    #[arg(long, conflicts_with_all = ["all", "pid"], help_heading = STARTS)]
    pub warm: bool,
    /// With --cold or --warm, also this file or folder (repeatable)
    #[arg(
        long,
        visible_alias = "warm-file",
        value_name = "PATH",
        help_heading = STARTS
    )]
    pub cold_file: Vec<PathBuf>,
    /// Record so many runs, one after the other (`profile.1.json.gz` ...), and sum them up
    #[arg(long, value_name = "N", help_heading = RUNS)]
    pub runs: Option<u32>,
    /// With --runs, go on after a run that failed
    #[arg(long, requires = "runs", help_heading = RUNS)]
    pub ignore_failure: bool,
    /// This is the run of that number
    #[arg(long, hide = true, requires = "run_fd")]
    pub run: Option<u32>,
    /// An inherited socket, to tell what the run came to
    #[arg(long, hide = true)]
    pub run_fd: Option<i32>,
    #[command(flatten)]
    /// How the result is told.
    pub result: ResultArgs,
    #[command(flatten)]
    /// How the profile is opened.
    pub serve: Serve,
    #[command(flatten)]
    /// Where sources are.
    pub sources: Sources,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND", help_heading = None)]
    pub command: Vec<OsString>,
}

/// `--faults`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum FaultsArg {
    /// Every one
    #[default]
    All,
    /// Those that the kernel counts as major, or that waited for a disk
    Major,
    /// Those in mappings of files
    File,
    /// None
    Off,
}

/// `--block`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum BlockArg {
    /// Those of all devices, whoever asked for them
    #[default]
    All,
    /// None
    Off,
}

/// `--fault-source`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum FaultSourceArg {
    /// The best that the kernel allows
    #[default]
    Auto,
    /// fentry and fexit of `handle_mm_fault`
    Fentry,
    /// The exceptions' tracepoints, and perf's software events at the end
    Tracepoint,
    /// perf's software events alone: no latency
    Perf,
}

/// What `--cold` makes cold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Cold {
    /// The pages of the files that the command will use
    Files,
    /// Also everything else that the machine has cached
    System,
}

/// How `record` and `convert` tell their result.
#[derive(Debug, Args)]
#[command(next_help_heading = "Result")]
pub struct ResultArgs {
    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,
    /// Fail if anything was lost: `record` with status 125, `convert` with 1
    #[arg(long)]
    pub fail_on_loss: bool,
    /// Samples in the profile at most; beyond it they are thinned, totals stay exact
    #[arg(long, value_name = "N", default_value = "1000000")]
    pub max_samples: u32,
    /// Put the sources of the hot functions into the profile
    #[arg(long)]
    pub include_source: bool,
}

/// `ngmi convert`
#[derive(Debug, Args)]
pub struct Convert {
    /// The event log
    pub log: PathBuf,
    /// Where the profile goes: a file, as standard output (`-`) is not supported
    #[arg(short, long, value_name = "FILE", default_value = "profile.json.gz", value_parser = file::file())]
    pub output: PathBuf,
    #[command(flatten)]
    /// Where sources are.
    pub sources: Sources,
    #[command(flatten)]
    /// How the result is told.
    pub result: ResultArgs,
}

/// `ngmi man`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  ngmi man record | man -l -\n  sudo ngmi man --to /usr/local/share/man/man1")]
pub struct Man {
    /// The verb that the page is about; else ngmi as a whole
    #[arg(conflicts_with = "to")]
    pub verb: Option<String>,
    /// Write the pages of all verbs into this folder
    #[arg(long, value_name = "FOLDER")]
    pub to: Option<PathBuf>,
}

/// `ngmi doctor`
#[derive(Debug, Args)]
pub struct Doctor {
    /// Print it as JSON
    #[arg(long)]
    pub json: bool,
}

/// `ngmi lint`
#[derive(Debug, Args)]
pub struct Lint {
    /// The profile, plain or gzip
    pub profile: PathBuf,
}

/// `ngmi __tables`
#[derive(Debug, Args)]
pub struct Tables {
    /// ELF files
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Also what each maps when it starts
    #[arg(long)]
    pub closure: bool,
    /// Cache the tables here
    #[arg(long, value_name = "FOLDER")]
    pub cache: Option<PathBuf>,
}
