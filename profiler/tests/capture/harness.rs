//! Shared by the tests: programs that wait, and the recorder's part of a recording.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use profiler::capture::hooks::disks::BlockMode;
use profiler::capture::hooks::faults::Faults;
use profiler::capture::hooks::waits::OffCpu;
use profiler::capture::privilege::terms::{Scope, Terms};
use profiler::capture::proc::selection::Selection;
use profiler::capture::socket::link::Link;
use profiler::capture::socket::wire::{Ended, Mapped, Reply, Request, Start};
use profiler::event::format::ChunkKind;
use profiler::event::read::LogReader;
use profiler::event::{Event, Header, Sample, TaskExit};
use profiler_common::Loss;

use crate::emulated::is_emulated;
use crate::page::page_size;
use crate::taken::taken;

/// A program compiled by a test, which waits for a line on its standard input before it becomes the program.
pub struct Waiting(pub Child);

impl Waiting {
    pub fn new(program: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", "read x; exec \"$0\" \"$@\""])
            .arg(program)
            .args(arguments);
        let waiting = Self(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap());
        waiting.settle();
        waiting
    }

    /// Returns when the shell waits in read(0): the way there should not be recorded, and is long on an emulated
    /// machine.
    fn settle(&self) {
        let at_read = |call: String| call.starts_with("0 0x0 ") || call.starts_with("63 0x0 ");
        for _ in 0..500 {
            if std::fs::read_to_string(format!("/proc/{}/syscall", self.pid())).is_ok_and(at_read) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Lets it run to its end, and returns its exit status.
    pub fn run(mut self) -> Option<i32> {
        self.0.stdin.take().unwrap().write_all(b"\n").unwrap();
        self.0.wait().unwrap().code()
    }
}

/// What opens files is a thread here: this program is not ngmi.
#[allow(clippy::unnecessary_wraps, reason = "as the type says")]
fn opens_files(socket: OwnedFd, user: Option<u32>) -> std::io::Result<Option<Child>> {
    std::thread::spawn(move || capture::files::opener::helper::serve(socket, user).unwrap());
    Ok(None)
}

/// Everything that a recording left behind.
pub struct Recording {
    pub header: Header,
    pub ended: Ended,
    pub mapped: Vec<(Mapped, Option<OwnedFd>)>,
    pub events: Vec<Event<'static>>,
    /// Warnings from capture.
    pub warnings: Vec<String>,
    /// CPU time that the hypervisor and interrupts took meanwhile.
    taken: Duration,
}

/// The kernel's count of a thread's on-CPU time so far, in ns.
pub fn time_before(tid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{tid}/schedstat")).unwrap();
    stat.split(' ').next().unwrap().parse().unwrap()
}

/// Compiles a C program, with the size of a page as `PAGE`.
pub fn compile(folder: &Path, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let (code, program) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&code, source).unwrap();
    let status = Command::new("cc")
        .args(flags)
        .arg(format!("-DPAGE={}", page_size()))
        .arg("-o")
        .arg(&program)
        .arg(&code)
        .arg("-pthread")
        .status()
        .unwrap();
    assert!(status.success());
    program
}

/// Whether this test can't run here, with a message.
pub fn skipped() -> bool {
    let skipped = !nix::unistd::geteuid().is_root();
    if skipped {
        println!("skipped: needs root");
    }
    skipped
}

/// The recorder of a recording in progress.
pub struct CaptureProcess {
    link: Option<Link>,
    capture: JoinHandle<anyhow::Result<()>>,
    mapped: Vec<(Mapped, Option<OwnedFd>)>,
}

/// Terms, and the content of `Start`.
pub struct Asked {
    pub terms: Terms,
    pub start: Start,
}

/// Records a process that waits to become the command.
pub fn command(pid: u32) -> Asked {
    asked(Scope::Command, Some(pid))
}

/// Records running processes.
pub fn running(pids: &[u32]) -> Asked {
    asked(Scope::Pids(pids.to_vec()), None)
}

/// Records the whole system.
pub fn system() -> Asked {
    asked(Scope::System, None)
}

/// Records threads by what they are.
pub fn selected(selection: Selection) -> Asked {
    asked(Scope::Selected(Box::new(selection)), None)
}

fn asked(scope: Scope, pid: Option<u32>) -> Asked {
    let terms = Terms {
        scope,
        user: None,
        sample_hz: 1000,
        stack_copy: 16384,
        check_walks: false,
        self_account: false,
        max_overhead: None,
        exact_touch: false,
        faults: Faults::default(),
        off_cpu: OffCpu::default(),
        block: BlockMode::default(),
        exclude_pids: Vec::new(),
    };
    let command = vec!["test".to_owned()];
    Asked {
        terms,
        start: Start { pid, command },
    }
}

impl Asked {
    pub fn with(mut self, change: impl FnOnce(&mut Terms)) -> Self {
        change(&mut self.terms);
        self
    }
}

impl CaptureProcess {
    /// Starts the privileged helper in a thread.
    pub fn new(terms: Terms) -> Self {
        let (ours, theirs) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap();
        let capture = std::thread::spawn(move || capture::run(theirs, terms, opens_files));
        Self {
            link: Some(Link::from(ours)),
            capture,
            mapped: Vec::new(),
        }
    }

    pub fn send(&self, request: &Request, descriptor: Option<&File>) {
        self.link
            .as_ref()
            .unwrap()
            .send(request, descriptor.map(|file| file.as_fd()))
            .unwrap();
    }

    /// The next message that is neither a file nor a count.
    pub fn next(&mut self) -> Reply {
        loop {
            match self
                .link
                .as_ref()
                .unwrap()
                .receive::<Reply>()
                .unwrap()
                .expect("capture closed its socket")
            {
                (Reply::Mapped(file), descriptor) => self.mapped.push((file, descriptor)),
                (Reply::Progress(_), _) => {}
                (reply, _) => return reply,
            }
        }
    }

    pub fn begin(&mut self, start: Start, log: &File) -> Header {
        self.send(&Request::Start(start), Some(log));
        match self.next() {
            Reply::Ready(header) => *header,
            other => panic!("{other:?}"),
        }
    }

    /// Closes the socket, and waits until the privileged helper ends.
    pub fn hang_up(mut self) -> anyhow::Result<()> {
        self.link = None;
        self.capture.join().unwrap()
    }
}

/// Records while `action` runs.
pub fn record(asked: Asked, action: impl FnOnce()) -> Recording {
    record_with(asked, |_| action())
}

/// Records while `action` runs, which may send requests.
pub fn record_with(asked: Asked, action: impl FnOnce(&CaptureProcess)) -> Recording {
    let taken_before = taken();
    let mut process = CaptureProcess::new(asked.terms);
    let log = tempfile::tempfile().unwrap();
    let header = process.begin(asked.start, &log);
    action(&process);
    process.send(&Request::Stop, None);
    let mut warnings = Vec::new();
    let ended = loop {
        match process.next() {
            Reply::Ended(ended) => break ended,
            Reply::Warning(warning) => warnings.push(warning),
            other => panic!("{other:?}"),
        }
    };
    let mapped = std::mem::take(&mut process.mapped);
    process.hang_up().unwrap();
    Recording {
        header,
        ended,
        mapped,
        events: events(log),
        warnings,
        taken: taken().saturating_sub(taken_before),
    }
}

/// Every event of a log, which must be undamaged.
pub fn events(log: File) -> Vec<Event<'static>> {
    let mut reader = LogReader::new(log).unwrap();
    let mut events = Vec::new();
    let mut stream = reader.events(&[
        ChunkKind::Events,
        ChunkKind::KernelSymbols,
        ChunkKind::Cost,
        ChunkKind::Owners,
        ChunkKind::Usage,
    ]);
    while let Some(event) = stream.next_event().unwrap() {
        events.push(event);
    }
    drop(stream);
    assert_eq!(reader.damaged_chunks(), 0);
    events
}

impl Recording {
    pub fn samples(&self) -> impl Iterator<Item = &Sample<'static>> {
        self.events.iter().filter_map(|event| {
            if let Event::Sample(sample) = event {
                Some(sample)
            } else {
                None
            }
        })
    }

    pub fn exits(&self) -> impl Iterator<Item = &TaskExit> {
        self.events.iter().filter_map(|event| {
            if let Event::TaskExit(exit) = event {
                Some(exit)
            } else {
                None
            }
        })
    }

    /// On-CPU time of a thread: its samples and the rest at its end, in ns.
    pub fn cpu_time(&self, tid: u32) -> u64 {
        let samples = self
            .samples()
            .filter(|sample| sample.at.tid == tid)
            .map(|sample| sample.cpu_time);
        samples
            .chain(self.exits().filter(|exit| exit.at.tid == tid).map(|exit| exit.cpu_time))
            .sum()
    }

    /// Compares our on-CPU time with the kernel's, which is from `low` to `high`, with a tolerance of `slack`, all
    /// in ns.
    #[track_caller]
    pub fn check_near(&self, ours: u64, low: u64, high: u64, slack: u64) {
        let taken = self.taken;
        assert!(
            self.is_near(ours, low, high, slack),
            "{ours} ns, the kernel reports {low} to {high} ns, and {taken:?} stolen"
        );
    }

    /// As above. The kernel omits time taken by interrupts and the hypervisor: ours is never less, and at most that
    /// much more. Clocks of an emulated machine differ by 3 %.
    pub fn is_near(&self, ours: u64, low: u64, high: u64, slack: u64) -> bool {
        let taken = u64::try_from(self.taken.as_nanos()).unwrap();
        let less = low / if is_emulated() { 33 } else { 100 };
        ours + slack > low - less && ours < high + high / 10 + taken + slack
    }

    /// Compares our on-CPU time of a thread with the kernel's, of which `before` was used before the recording, in ns.
    #[track_caller]
    pub fn check_time(&self, exit: &TaskExit, before: u64) {
        let kernels = exit.sum_exec_runtime - before;
        self.check_near(self.cpu_time(exit.at.tid), kernels, kernels, 2_000_000);
    }

    /// All losses except those of the whole machine, since other tests use its disks and switches.
    pub fn losses(&self) -> Vec<&Event<'static>> {
        let of_machine = [Loss::RequestEndMissed, Loss::SwitchMissed].map(|loss| loss as u32);
        self.events
            .iter()
            .filter(|event| matches!(event, Event::Loss { loss, .. } if !of_machine.contains(loss)))
            .collect()
    }
}
