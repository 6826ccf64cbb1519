//! Records a program of our own from start to end through the socket, as the record half does, and checks the log
//! against what the program did and what the kernel counted.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use profiler::capture::link::Link;
use profiler::capture::wire::{Ended, Mapped, Reply, Request, Scope, Start};
use profiler::event::format::ChunkKind;
use profiler::event::read::LogReader;
use profiler::event::{At, Event, FileId, Header, PROT_EXEC, Sample, TaskExit};
use profiler_common::sample::{FLAG_IN_KERNEL, FLAG_STACK_CUT, FLAG_STACK_UNREADABLE, FLAG_USER_REGS};

/// A program that a test compiles, waiting for a line on its standard input before it becomes the program.
struct Waiting(Child);

impl Waiting {
    fn new(program: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "read x; exec \"$0\" \"$@\""]).arg(program).args(arguments);
        Self(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Lets it run to its end, and returns its exit status.
    fn run(mut self) -> Option<i32> {
        self.0.stdin.take().unwrap().write_all(b"\n").unwrap();
        self.0.wait().unwrap().code()
    }
}

/// Everything that a recording left behind.
struct Recording {
    header: Header,
    ended: Ended,
    mapped: Vec<(Mapped, Option<OwnedFd>)>,
    events: Vec<Event<'static>>,
}

fn compile(folder: &Path, name: &str, source: &str, flags: &[&str]) -> std::path::PathBuf {
    let (code, program) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&code, source).unwrap();
    let status = Command::new("cc").args(flags).arg("-o").arg(&program).arg(&code).arg("-pthread").status().unwrap();
    assert!(status.success());
    program
}

fn skipped() -> bool {
    let skipped = !nix::unistd::geteuid().is_root();
    if skipped {
        println!("skipped: needs root");
    }
    skipped
}

/// Records `scope` while `action` runs.
fn record(scope: Scope, hz: u32, stack_copy: u32, action: impl FnOnce()) -> Recording {
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap();
    let capture = std::thread::spawn(move || profiler::capture::run(theirs));
    let link = Link::from(ours);
    let log = tempfile::tempfile().unwrap();
    let start = Start { scope, sample_hz: hz, stack_copy, exclude_pids: Vec::new(), command: vec!["test".to_owned()] };
    link.send(&Request::Start(start), Some(log.as_fd())).unwrap();
    let mut mapped = Vec::new();
    let mut next = || loop {
        match link.receive::<Reply>().unwrap().expect("capture hung up") {
            (Reply::Mapped(file), descriptor) => mapped.push((file, descriptor)),
            (Reply::Progress(_), _) => {}
            (reply, _) => return reply,
        }
    };
    let header = match next() {
        Reply::Ready(header) => *header,
        other => panic!("{other:?}"),
    };
    action();
    link.send(&Request::Stop, None).unwrap();
    let ended = match next() {
        Reply::Ended(ended) => ended,
        other => panic!("{other:?}"),
    };
    capture.join().unwrap().unwrap();
    Recording { header, ended, mapped, events: events(log) }
}

fn events(log: File) -> Vec<Event<'static>> {
    let mut reader = LogReader::new(log).unwrap();
    let mut events = Vec::new();
    let mut stream = reader.events(&[ChunkKind::Events, ChunkKind::KernelSymbols]);
    while let Some(event) = stream.next_event().unwrap() {
        events.push(event);
    }
    events
}

impl Recording {
    fn samples(&self) -> impl Iterator<Item = &Sample<'static>> {
        self.events.iter().filter_map(|event| if let Event::Sample(sample) = event { Some(sample) } else { None })
    }

    fn exits(&self) -> impl Iterator<Item = &TaskExit> {
        self.events.iter().filter_map(|event| if let Event::TaskExit(exit) = event { Some(exit) } else { None })
    }

    /// On-CPU time of a thread: its samples and what was left at its end, in ns.
    fn cpu_time(&self, tid: u32) -> u64 {
        let samples = self.samples().filter(|sample| sample.at.tid == tid).map(|sample| sample.cpu_time);
        samples.chain(self.exits().filter(|exit| exit.at.tid == tid).map(|exit| exit.cpu_time)).sum()
    }

    fn losses(&self) -> Vec<&Event<'static>> {
        self.events.iter().filter(|event| matches!(event, Event::Loss { .. })).collect()
    }
}

const BUSY: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static void spin(double seconds) {
    struct timespec t; do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    while (t.tv_sec + t.tv_nsec / 1e9 < seconds);
}
static void *worker(void *unused) { prctl(PR_SET_NAME, "worker \n x"); spin(0.3); return unused; }
int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "child")) { spin(0.2); return 3; }
    pthread_t thread; pthread_create(&thread, 0, worker, 0);
    pid_t child = fork();
    if (!child) { execl(argv[0], "renamed child", "child", "", "two words", (char *)0); _exit(1); }
    spin(0.5); pthread_join(thread, 0); int status; waitpid(child, &status, 0);
    return 40 + WEXITSTATUS(status);
}
"#;

#[test]
fn a_program_with_a_thread_and_a_child() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "busy", BUSY, &["-O1"]);
    let waiting = Waiting::new(&program, &[]);
    let pid = waiting.pid();
    let recording = record(Scope::Command { pid }, 1000, 16384, || assert_eq!(waiting.run(), Some(43)));
    assert_eq!(recording.losses(), Vec::<&Event<'_>>::new());
    check_births(&recording, pid, &program);
    check_times(&recording);
    check_stacks(&recording, pid);
    check_mappings(&recording, pid, &program);
    assert_eq!(recording.ended.progress.processes, 2);
    assert_eq!(recording.ended.progress.threads, 0);
    assert_eq!(recording.ended.progress.samples, recording.samples().count() as u64);
    assert_eq!(recording.header.sample_hz, 1000);
}

fn check_births(recording: &Recording, pid: u32, program: &Path) {
    let mut born = Vec::new();
    let mut executed = Vec::new();
    let mut names = Vec::new();
    for event in &recording.events {
        match event {
            Event::TaskNew(new) => born.push((new.at.pid == pid, new.at.pid == new.at.tid, new.existed, new.parent.0 == pid)),
            Event::TaskExec(exec) => executed.push(exec),
            Event::TaskRename { at, name } if at.pid == pid && at.tid != pid => names.push(name.clone()),
            _ => {}
        }
    }
    // The shell that waited, the thread, the child.
    assert_eq!(born, [(true, true, true, false), (true, false, false, true), (false, true, false, true)]);
    let [first, second] = executed[..] else { panic!("{executed:?}") };
    assert_eq!((first.at.pid, first.old_tid, first.name.as_slice()), (pid, pid, &b"busy"[..]));
    assert_eq!(first.path, program.as_os_str().as_encoded_bytes());
    assert_ne!(second.at.pid, pid);
    assert_eq!(second.command_line, b"renamed child\0child\0\0two words\0");
    assert_eq!(names, [b"worker \n x".to_vec()]);
    let codes: Vec<u32> = recording.exits().filter(|exit| exit.at.pid == exit.at.tid).map(|exit| exit.exit_code >> 8).collect();
    assert_eq!(codes, [3, 43]);
}

fn check_times(recording: &Recording) {
    let exits: Vec<&TaskExit> = recording.exits().collect();
    assert_eq!(exits.len(), 3);
    for exit in exits {
        let (ours, kernels) = (recording.cpu_time(exit.at.tid) as f64, exit.sum_exec_runtime as f64);
        // The kernel leaves out what interrupts and the hypervisor took, and what the shell did before we began is only
        // in its figure.
        assert!((ours - kernels).abs() < 0.01 * kernels + 3e6, "{ours} ns, the kernel says {kernels} ns");
        let samples = recording.samples().filter(|sample| sample.at.tid == exit.at.tid).count() as f64;
        assert!((samples * 1e6 - kernels).abs() < 0.2 * kernels, "{samples} samples in {kernels} ns");
        assert!(exit.minor_faults > 0);
    }
}

fn check_stacks(recording: &Recording, pid: u32) {
    let samples: Vec<_> = recording.samples().collect();
    let main: Vec<_> = samples.iter().filter(|sample| sample.at.tid == pid).collect();
    // After exec's last step, the registers are there and the whole stack is in the copy: main is a few hundred bytes deep.
    let whole = |sample: &Sample<'_>| {
        sample.flags & (FLAG_USER_REGS | FLAG_STACK_CUT | FLAG_STACK_UNREADABLE) == FLAG_USER_REGS && !sample.stack.is_empty()
    };
    let share = main.iter().filter(|sample| whole(sample)).count() as f64 / main.len() as f64;
    assert!(share > 0.98, "{share}");
    assert!(samples.iter().all(|sample| sample.kernel.is_empty() || sample.flags & FLAG_IN_KERNEL != 0));
    let names: Vec<_> = recording.events.iter().filter(|event| matches!(event, Event::KernelSymbol { .. })).collect();
    let frames: std::collections::BTreeSet<_> = samples.iter().flat_map(|sample| sample.kernel.iter()).collect();
    assert!(names.len() * 10 >= frames.len() * 9, "{} of {} kernel addresses named", names.len(), frames.len());
}

fn check_mappings(recording: &Recording, pid: u32, program: &Path) {
    let path = program.as_os_str().as_encoded_bytes();
    let mut code = Vec::new();
    for event in &recording.events {
        if let Event::Mapping(mapping) = event
            && mapping.protection & PROT_EXEC != 0
            && mapping.path == path
        {
            code.push(mapping);
        }
    }
    let at = |pid: u32, exec: &At| code.iter().any(|mapping| mapping.at.pid == pid && mapping.at.time <= exec.time);
    let executed: Vec<_> = recording.events.iter().filter_map(|event| match event {
        Event::TaskExec(exec) => Some(exec.at),
        _ => None,
    }).collect();
    assert!(executed.iter().all(|exec| at(exec.pid, exec)), "{code:?}");
    // Samples in user mode of the program lie in a mapping that was recorded.
    let inside = |sample: &&Sample<'_>| {
        recording.events.iter().any(|event| {
            matches!(event, Event::Mapping(mapping) if mapping.at.pid == sample.at.pid
                && (mapping.start.0..mapping.start.0 + mapping.len).contains(&sample.regs.ip))
        })
    };
    let user: Vec<_> = recording.samples().filter(|sample| sample.at.pid == pid && sample.flags & FLAG_IN_KERNEL == 0).collect();
    assert!(user.iter().filter(|sample| inside(sample)).count() * 100 >= user.len() * 99);
    // The file itself came along, once, and it is the program.
    let files: Vec<_> = recording.mapped.iter().filter(|(mapped, _)| mapped.path.as_bytes() == path).collect();
    let [(mapped, Some(descriptor))] = &files[..] else { panic!("{files:?}") };
    assert_ne!(mapped.file, FileId::default());
    let (mut theirs, ours) = (Vec::new(), std::fs::read(program).unwrap());
    File::from(descriptor.try_clone().unwrap()).read_to_end(&mut theirs).unwrap();
    assert!(theirs == ours);
}
