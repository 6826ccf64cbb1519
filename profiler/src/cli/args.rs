//! The command line as parsed: names and help, nothing checked yet.

mod check;
mod convert;
mod diff;
mod events;
mod export;
mod faults;
mod file;
mod internal;
mod io;
mod load;
mod maps;
mod order;
mod path;
mod preload;
mod scope;
mod servers;
mod share;
mod smaps;
mod trim;
mod values;
mod waits;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};

pub use self::check::Check;
pub use self::convert::Convert;
pub use self::diff::Diff;
pub(crate) use self::events::OutputFormat;
pub(crate) use self::events::time_range;
pub use self::events::{EventFilters, EventOutput};
pub use self::export::{Export, ExportFormat};
pub use self::faults::Faults;
pub use self::internal::{CaptureArgs, ExecArgs, Inherited, OpenArgs};
pub use self::io::Io;
pub use self::load::{Load, Serve, Sources};
pub use self::maps::{Maps, Way};
pub use self::order::Order;
pub use self::path::Path;
pub use self::preload::{Preload, PreloadAction, PreloadRun};
pub use self::scope::ScopeArgs;
pub use self::servers::Servers;
pub use self::share::Share;
pub use self::smaps::Smaps;
pub use self::trim::Trim;
use self::values::whole;
pub use self::values::{BlockArg, Cold, FaultSourceArg, FaultsArg, GeckoArg};
pub use self::waits::Waits;

/// Shows where programs wait for disks, memory and locks, as clearly as where they use the CPU.
#[derive(Debug, Parser)]
#[command(name = "ngmi", version, max_term_width = 80, disable_help_subcommand = false)]
pub struct Cli {
    /// Subcommand to run.
    #[command(subcommand)]
    pub subcommand: Action,
}

/// The subcommands of `ngmi`.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Record a program or running processes, and write a profile
    Record(Record),
    /// Convert an event log to a profile
    Convert(Convert),
    /// Open a profile in the Firefox Profiler
    Load(Load),
    /// Upload a profile to the Firefox Profiler and print the link
    Share(Share),
    /// Write a smaller profile, of a time range or of some processes
    Trim(Trim),
    /// Export a recording for other programs: pprof, OTLP, Parquet, flame graphs
    Export(Export),
    /// Summarize page faults by file, function or phase, or list them
    Faults(Faults),
    /// Summarize block I/O by device, file or function, or list requests
    Io(Io),
    /// Show what threads waited for, by reason, function or waker
    Waits(Waits),
    /// Show a thread's critical path: what determined how long it took, across all threads
    Path(Path),
    /// Write a file's functions in execution order for the linker, and predict the savings
    Order(Order),
    /// List what a program's start reads from disk, and read it ahead of the next start
    Preload(Preload),
    /// Compare two recordings, or sets of them, and distinguish changes from noise
    Diff(Diff),
    /// Check a recording against a budget (for CI)
    Check(Check),
    /// Check which hooks this machine supports and how to enable the rest
    Doctor(Doctor),
    /// List the mappings of a process, or resolve its addresses to files and offsets
    Maps(Maps),
    /// Show a process's memory by file and section, and which functions touched it
    Smaps(Smaps),
    /// Check a profile: indices, column lengths, order of times
    #[command(hide = true)]
    Lint(Lint),
    /// Print shell completions
    Completions {
        /// Shell to print the completions for
        shell: clap_complete::Shell,
    },
    /// Print a manual page (roff), or write all of them
    Man(Man),
    /// The privileged helper; started by `record`
    #[command(name = "__capture", hide = true)]
    Capture(CaptureArgs),
    /// Opens files of recorded programs; started by the privileged helper
    #[command(name = "__open", hide = true)]
    Open(OpenArgs),
    /// Waits for the signal to start, then executes the command; started by `record`
    #[command(name = "__exec", hide = true)]
    Exec(ExecArgs),
    /// Writes the profile of a recording; started by `record`
    #[command(name = "__convert", hide = true)]
    Conversion(Inherited),
    /// Drops the caches of the whole machine on request; started by `record`
    #[command(name = "__drop-caches", hide = true)]
    DropCaches,
    /// Measures the unwind tables of files
    #[command(name = "__tables", hide = true)]
    Tables(Tables),
}

/// Parser of a value that has a name.
fn named<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [T; N],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let of = move |text: String| all.into_iter().find(|one| name(*one) == text);
    PossibleValuesParser::new(all.map(name)).try_map(move |text| of(text).ok_or("unknown name"))
}

/// Headings of `record --help`; the option groups that other subcommands share name their own.
const RECORDED: &str = "Events to record";
const STARTS: &str = "Cold and warm starts";
const RUNS: &str = "Multiple runs";

/// `ngmi record`
#[allow(clippy::struct_excessive_bools)] // Each is a command-line flag.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ngmi record -- firefox\n  ngmi record -d 10 -p 1234\n  ngmi record -a -d 5 -o system.json.gz\n  ngmi record --cgroup system.slice/nginx.service -d 30\n  ngmi record --runs 5 --cold -- firefox --headless --screenshot x.png\n\n\
                  The exit status is the command's (128 + N if signal N ended it), or 125 if ngmi itself failed.\n\
                  Ctrl-C ends the recording and writes the profile; a second Ctrl-C skips the profile and keeps the event log."
)]
pub struct Record {
    /// Output file (standard output, `-`, is not supported)
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
    /// Stop recording after this time
    #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub duration: Option<String>,
    /// Record these processes (separated by commas), with their threads and the children that they start from now on
    #[arg(short, long = "pid", value_name = "PID", value_delimiter = ',', value_parser = whole::<u32>, conflicts_with_all = ["all", "command"])]
    pub pid: Vec<u32>,
    /// Record the whole system (until the command ends, if one is given)
    #[arg(short, long)]
    pub all: bool,
    /// Record the processes of this user; with a command: run the command as this user (as root or
    /// under sudo)
    #[arg(long, value_name = "NAME|UID")]
    pub user: Option<String>,
    /// Keep the event log in this file; it is exact and complete, even without the recorded binaries
    #[arg(long, value_name = "FILE", value_parser = file::file())]
    pub keep_events: Option<PathBuf>,
    /// Write the profile without opening it (implied by --json)
    #[arg(long)]
    pub save_only: bool,
    #[command(flatten)]
    /// Which threads are recorded by what they are.
    pub scope: Box<ScopeArgs>,
    /// Which page faults to record
    #[arg(
        long,
        value_name = "WHICH",
        value_enum,
        default_value_t,
        help_heading = RECORDED
    )]
    pub faults: FaultsArg,
    /// Which hooks to use for page faults; `auto` picks the best available
    #[arg(
        long,
        value_name = "TIER",
        value_enum,
        default_value_t,
        help_heading = RECORDED
    )]
    pub fault_source: FaultSourceArg,
    /// Record off-CPU time: `all`, `off`, or a minimum such as `1ms` (shorter waits are aggregated)
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
    /// Maximum bytes of stack to copy where the walk in the kernel ends early; 0 to copy none
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "65536",
        help_heading = RECORDED
    )]
    pub stack_copy: String,
    /// Make the first touch of each page a fault: turns off fault-around on the whole machine until
    /// the recording ends (root only)
    #[arg(long, help_heading = RECORDED)]
    pub exact_touch: bool,
    /// Measure the time in ngmi's own eBPF programs throughout, not only for a tenth of the
    /// recording; each program run then takes about 55 ns longer
    #[arg(long, help_heading = RECORDED)]
    pub self_account: bool,
    /// Limit the CPU time of ngmi's eBPF programs to this share of the recorded CPU time: above it,
    /// omit callers of short page faults, then reuse stacks of frequent waits, then take fewer
    /// samples; `off` for no limit [default: 5% with `--faults auto` and without `--runs`]
    #[arg(long, value_name = "PERCENT", help_heading = RECORDED)]
    pub max_overhead: Option<String>,
    /// Copy each stack even if it was walked, and compare both results
    #[arg(long, hide = true)]
    pub check_walks: bool,
    /// Let Firefox name its JIT code; turns off the sandbox of its content processes. Needs a build
    /// with jitdump, such as Nightly
    #[arg(long, help_heading = RECORDED)]
    pub firefox_jit: bool,
    /// Have Firefox's own profiler collect markers: `auto` if the command is Firefox, `on` if the
    /// command starts it, or in the Firefox named with -p; `ipc` as `on`, with messages between
    /// processes; `off` for none
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        default_value_t,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "on",
        hide_possible_values = true,
        help_heading = RECORDED
    )]
    pub gecko: GeckoArg,
    /// First evict from the page cache the files that the command will use; `system` (as root)
    /// drops everything that the machine has cached
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
    /// First read into the page cache the files that the command will use
    #[arg(long, conflicts_with_all = ["all", "pid"], help_heading = STARTS)]
    pub warm: bool,
    /// With --cold or --warm: also this file or folder (repeatable)
    #[arg(
        long,
        visible_alias = "warm-file",
        value_name = "PATH",
        help_heading = STARTS
    )]
    pub cold_file: Vec<PathBuf>,
    /// Record N runs in sequence (`profile.1.json.gz` ...) and summarize them
    #[arg(long, value_name = "N", help_heading = RUNS, value_parser = whole::<u32>)]
    pub runs: Option<u32>,
    /// With --runs: continue after a failed run
    #[arg(long, requires = "runs", help_heading = RUNS)]
    pub ignore_failure: bool,
    /// Number of this run
    #[arg(long, hide = true, requires = "run_fd")]
    pub run: Option<u32>,
    /// Inherited socket for the result of the run
    #[arg(long, hide = true)]
    pub run_fd: Option<i32>,
    #[command(flatten)]
    /// How the result is reported.
    pub result: ResultArgs,
    #[command(flatten)]
    /// How the profile is opened.
    pub serve: Serve,
    #[command(flatten)]
    /// Where sources may be read.
    pub sources: Sources,
    #[command(flatten)]
    /// Which servers may be asked.
    pub servers: Servers,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND", help_heading = None)]
    pub command: Vec<OsString>,
}

/// How `record` and `convert` report their result.
#[derive(Debug, Args)]
#[command(next_help_heading = "Result")]
pub struct ResultArgs {
    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,
    /// Fail if any event was lost: `record` with status 125, `convert` with 1
    #[arg(long)]
    pub fail_on_loss: bool,
    /// Maximum number of samples in the profile; more are thinned, totals stay exact
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = whole::<u32>)]
    pub max_samples: u32,
    /// Include the sources of hot functions in the profile
    #[arg(long)]
    pub include_source: bool,
}

/// `ngmi man`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  ngmi man record | man -l -\n  sudo ngmi man --to /usr/local/share/man/man1")]
pub struct Man {
    /// Subcommand to print the page of; default: ngmi as a whole
    #[arg(value_name = "SUBCOMMAND", conflicts_with = "to")]
    pub subcommand: Option<String>,
    /// Write the pages of all subcommands to this folder
    #[arg(long, value_name = "FOLDER")]
    pub to: Option<PathBuf>,
}

/// `ngmi doctor`
#[derive(Debug, Args)]
pub struct Doctor {
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// `ngmi lint`
#[derive(Debug, Args)]
pub struct Lint {
    /// The profile, plain or gzip-compressed
    pub profile: PathBuf,
}

/// `ngmi __tables`
#[derive(Debug, Args)]
pub struct Tables {
    /// ELF files
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Include the files that each one maps when it starts
    #[arg(long)]
    pub closure: bool,
    /// Folder to cache the tables in
    #[arg(long, value_name = "FOLDER")]
    pub cache: Option<PathBuf>,
}
