//! Creates the profile of a recording in a separate, sandboxed process: it reads files that the recorded program may have chosen, so it can write only
//! to what it receives, the log and the profile that has no name yet. docs/decisions/0002-sandbox.md.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, bail};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::socket::SockType;
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use symbols::patience::{leave_out, sharing_a_thread};

use super::binaries::{OpenBinaries, Vdso};
use super::finish::{self, Empty, OpenLog, Plan};
use super::identity::Environment;
use super::privilege::joint;
use super::reach::Reach;
use super::sandbox;
use super::servers::NameServers;
use super::spool::{Output, Spool};
use crate::capture::proc::open_files;
use crate::capture::socket::link::Link;
use crate::capture::socket::wire::Mapped;
use crate::report::Summary;

/// Maximum bytes of its answer: a hostile file may have taken over the process.
const ANSWER_LIMIT: u64 = 64 << 20;

/// A message to that process, before it begins. Paths are for messages.
#[derive(Debug, Serialize, Deserialize)]
enum Message {
    /// Path of the event log. Carries its descriptor.
    Log(String),
    /// Path of the future profile. Carries its descriptor.
    Output(String),
    /// A file that was mapped. Carries its descriptor, if there is one.
    Mapped(Mapped),
    /// Everything is sent; begin.
    Begin(Plan),
}

/// Its message on standard output when it is done: the summary, or why there is none.
type Answer = Result<Summary, Failure>;

/// Why there is no profile.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[error("{text}")]
pub struct Failure {
    /// Nothing was recorded that could be shown.
    pub is_empty: bool,
    text: String,
}

/// The process before it receives any message.
pub struct Maker {
    child: Child,
    link: Link,
}

/// The process of a recording, which starts while the recorder completes the log.
pub struct Starting {
    order: Sender<Order>,
    thread: JoinHandle<Result<(Summary, Output)>>,
}

/// What it creates a profile of.
struct Order {
    log: (File, PathBuf),
    output: Output,
    mapped: Vec<(Mapped, Option<File>)>,
    plan: Plan,
}

impl Starting {
    /// Starts the process with the user's environment: ours may be root's, and the user's other processes can read that of the new
    /// process. Temporary files go to `scratch`.
    pub fn new(environment: &Environment, scratch: Option<&Path>, servers: &NameServers) -> Self {
        let (environment, scratch, servers) = (environment.clone(), scratch.map(Path::to_owned), servers.clone());
        let (order, orders) = channel::<Order>();
        // A separate thread, because it gives up new privileges for itself and for what it starts: a browser that is started later may need them.
        let thread = thread::spawn(move || {
            let maker = Maker::start(Some(&environment), scratch.as_deref(), &servers)?;
            let Order {
                log: (file, path),
                mut output,
                mapped,
                plan,
            } = orders.recv()?;
            let summary = maker.make((&file, &path), &mut output, mapped, plan)?;
            Ok((summary, output))
        });
        Self { order, thread }
    }

    /// Creates the profile of the log in `output`, from the files that were `mapped`.
    ///
    /// # Errors
    /// When the log can't be read, the profile can't be written, or the process does not start or ends early.
    pub fn make(
        self,
        log: &Spool,
        output: Output,
        mapped: Vec<(Mapped, Option<File>)>,
        plan: Plan,
    ) -> Result<(Summary, Output)> {
        let order = Order {
            log: (log.file().try_clone()?, log.path()),
            output,
            mapped,
            plan,
        };
        let _ = self.order.send(order); // fails if the process did not start: the thread returns why
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Maker {
    /// Starts the process, which ends with this thread at the latest. The thread gives up new privileges.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn start(environment: Option<&Environment>, scratch: Option<&Path>, servers: &NameServers) -> Result<Self> {
        prctl::set_no_new_privs().context("no_new_privs")?;
        let (ours, theirs) = joint(SockType::SeqPacket)?;
        let mut command = Command::new("/proc/self/exe");
        command.args(["__convert", &theirs.as_raw_fd().to_string()]);
        let may_ask = match environment {
            Some(environment) => {
                command.env_clear().envs(environment);
                servers.may_ask(|name| environment.get(OsStr::new(name)).cloned())
            }
            None => servers.may_ask(|name| std::env::var_os(name)),
        };
        if may_ask {
            command.arg("--network");
        }
        if let Some(scratch) = scratch {
            command.env("TMPDIR", scratch);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the process that creates the profile")?;
        Ok(Self {
            child,
            link: ours.into(),
        })
    }

    /// Creates the profile of the log at a path in `output`, from the files that were `mapped`.
    ///
    /// # Errors
    /// When the log can't be read, the profile can't be written, or the process ends early.
    pub fn make(
        self,
        log: (&File, &Path),
        output: &mut Output,
        mapped: Vec<(Mapped, Option<File>)>,
        plan: Plan,
    ) -> Result<Summary> {
        let sent = send(&self.link, log, output, mapped, plan);
        drop(self.link);
        answer(self.child, sent)
    }
}

fn send(
    link: &Link,
    (log, path): (&File, &Path),
    output: &mut Output,
    mapped: Vec<(Mapped, Option<File>)>,
    plan: Plan,
) -> Result<()> {
    let shown = |path: &Path| path.display().to_string();
    link.send(&Message::Log(shown(path)), Some(log.as_fd()))?;
    let path = shown(output.path());
    link.send(&Message::Output(path), Some(output.file().as_fd()))?;
    for (mapping, file) in mapped {
        link.send(&Message::Mapped(mapping), file.as_ref().map(AsFd::as_fd))?;
    }
    link.send(&Message::Begin(plan), None)
}

fn answer(mut child: Child, sent: Result<()>) -> Result<Summary> {
    let mut line = Vec::new();
    let stdout = child
        .stdout
        .take()
        .context("cannot read from the process that creates the profile")?;
    let read = BufReader::new(stdout.take(ANSWER_LIMIT + 1)).read_until(b'\n', &mut line);
    read.context("waiting for the profile")?;
    if line.len() as u64 > ANSWER_LIMIT {
        child.kill()?;
    }
    if let Ok(answer) = serde_json::from_slice::<Answer>(&line) {
        // The process may be unable to end: a thread that waits for a file system can't be killed (`request_wait_answer` in fs/fuse/dev.c).
        thread::spawn(move || child.wait());
        return answer.map_err(Into::into);
    }
    let ended = child.wait().context("waiting for the profile")?;
    // A killed process read no further message: its status gives the reason.
    if ended.success() {
        sent?;
    }
    bail!("the process that creates the profile ended with {ended}")
}

/// Runs `ngmi __convert FD`, which may ask servers with `network`.
///
/// # Errors
/// When the system refuses what the conversion needs.
pub fn serve(socket: OwnedFd, network: bool) -> Result<()> {
    // The recorder decides about signals that end a group of processes; without a recorder the profile is of no use.
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    // This process also holds each mapped file open.
    let _raised = open_files::raise();
    let caches = if network {
        NameServers::any().caches()
    } else {
        Vec::new()
    };
    sandbox::around_conversion(&caches);
    let answer: Answer = convert(&Link::from(socket)).map_err(|error| Failure {
        is_empty: error.is::<Empty>(),
        text: format!("{error:#}"),
    });
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    let _ = std::io::stdout().write_all(&line); // the recorder may be gone
    Ok(())
}

fn convert(link: &Link) -> Result<Summary> {
    let (mut log, mut output, mut mapped) = (None, None, Vec::new());
    let plan = loop {
        let (message, descriptor) = link.receive()?.context("the recorder is gone")?;
        let file = descriptor.map(File::from);
        match message {
            Message::Log(path) => log = file.map(|file| (file, PathBuf::from(path))),
            Message::Output(path) => output = file.map(|file| Output::of(file, path.into())),
            Message::Mapped(mut mapping) => {
                if file.is_none() {
                    mapping.problem.get_or_insert_with(open_files::remedy);
                }
                mapped.push((mapping, file));
            }
            Message::Begin(plan) => break plan,
        }
    };
    let ((log, path), mut output) = log
        .zip(output)
        .context("__convert is an internal subcommand; use `ngmi record`")?;
    let vdso = Vdso::of_this_kernel();
    plan.left_out.iter().for_each(|path| leave_out(path));
    // Now it is known whether a server will be asked.
    sandbox::around_conversion(&plan.servers.caches());
    if plan.reads_only_mapped {
        sandbox::around_reads(&Reach::of(&mapped, &plan));
    }
    let binaries = OpenBinaries::new(mapped, vdso);
    let log = OpenLog::new(log, path)?;
    sharing_a_thread(|| finish::finish(log, &mut output, &binaries, &plan))
}
