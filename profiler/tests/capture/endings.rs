//! Recordings that end without Stop, and those that never begin.

use std::fs::File;
use std::io::{Seek as _, SeekFrom};

use profiler::capture::privilege::terms::Terms;
use profiler::capture::socket::wire::{Reply, Request};
use profiler::event::Event;
use profiler_common::Loss;

use crate::harness::{Asked, CaptureProcess, Waiting, command, compile, events, running, skipped, system};

const SPIN: &str = r"
#include <time.h>
int main(void) { struct timespec t; do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); while (t.tv_nsec < 400000000 && !t.tv_sec); return 0; }
";

fn spinner() -> (tempfile::TempDir, Waiting) {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "spin", SPIN, &["-O1"]);
    let waiting = Waiting::new(&program, &[]);
    (folder, waiting)
}

#[test]
fn the_recorder_is_killed() {
    if skipped() {
        return;
    }
    let (_folder, waiting) = spinner();
    let asked = command(waiting.pid());
    let mut capture = CaptureProcess::new(asked.terms);
    let log = tempfile::tempfile().unwrap();
    capture.begin(asked.start, &log);
    assert_eq!(waiting.run(), Some(0));
    capture.hang_up().unwrap();
    let events = events(log);
    let samples = events.iter().filter(|event| matches!(event, Event::Sample(_))).count();
    assert!(samples > 50, "{samples}");
    assert!(events.iter().any(|event| matches!(event, Event::TaskExit(_))));
}

/// A file system of 64 KiB, unmounted at the end.
struct Small(tempfile::TempDir);

impl Small {
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let none = None::<&str>;
        nix::mount::mount(
            none,
            folder.path(),
            Some("tmpfs"),
            nix::mount::MsFlags::empty(),
            Some("size=64k"),
        )
        .ok()?;
        Some(Self(folder))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        nix::mount::umount(self.0.path()).unwrap();
    }
}

#[test]
fn the_disk_is_full() {
    if skipped() {
        return;
    }
    let Some(small) = Small::new() else {
        println!("skipped: no file system can be mounted here");
        return;
    };
    let (_folder, waiting) = spinner();
    let asked = command(waiting.pid()).with(|terms| terms.stack_copy = 65536);
    let mut capture = CaptureProcess::new(asked.terms);
    let mut log = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(small.0.path().join("log"))
        .unwrap();
    // Space for the header and little more.
    std::fs::write(small.0.path().join("filler"), vec![0x33; 40 << 10]).unwrap();
    capture.begin(asked.start, &log);
    assert_eq!(waiting.run(), Some(0));
    match capture.next() {
        Reply::LogFailed(reason) => assert!(reason.contains("No space left"), "{reason}"),
        other => panic!("{other:?}"),
    }
    capture.send(&Request::Stop, None);
    assert!(matches!(capture.next(), Reply::Ended(ended) if ended.progress.lost > 0));
    capture.hang_up().unwrap();
    log.seek(SeekFrom::Start(0)).unwrap();
    assert!(
        events(log)
            .iter()
            .any(|event| matches!(event, Event::TaskNew(_) | Event::Mapping(_)))
    );
}

fn refused(terms: Terms, request: &Request, log: Option<&File>) -> String {
    let mut capture = CaptureProcess::new(terms);
    capture.send(request, log);
    let reply = capture.next();
    capture.hang_up().unwrap();
    match reply {
        Reply::Refused(reason) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn invalid_requests_are_rejected_with_a_reason() {
    let log = tempfile::tempfile().unwrap();
    let start = |asked: Asked, log| refused(asked.terms, &Request::Start(asked.start), log);
    let us = || running(&[std::process::id()]);
    assert!(start(running(&[u32::MAX - 1]), Some(&log)).contains("no process 4294967294"));
    let fast = system().with(|terms| terms.sample_hz = 10_000_000);
    assert!(start(fast, Some(&log)).contains("1 to 100000"));
    assert!(start(us(), None).contains("event log"));
    let stop = refused(us().terms, &Request::Stop, Some(&log));
    assert!(stop.contains("Start"), "{stop}");
    if skipped() {
        return;
    }
    let device = File::options().write(true).open("/dev/full").unwrap();
    assert!(start(us(), Some(&device)).contains("not a regular file"));
}

/// A process with the socket that is not the recorder with which the terms were agreed.
#[test]
fn no_message_widens_the_terms() {
    if skipped() {
        return;
    }
    let log = tempfile::tempfile().unwrap();
    let own = std::process::id();
    let of_nobody = |asked: Asked| asked.with(|terms| terms.user = Some(65534));
    for (asked, why) in [
        (of_nobody(command(1)), "does not belong to user 65534"),
        (of_nobody(command(own)), "does not belong to user 65534"),
        (with_pid(of_nobody(running(&[own])), 1), "do not allow"),
        (with_pid(of_nobody(system()), own), "do not allow"),
    ] {
        let reason = refused(asked.terms, &Request::Start(asked.start), Some(&log));
        assert!(reason.contains(why), "{reason}");
    }
    assert_eq!(log.metadata().unwrap().len(), 0);
}

fn with_pid(mut asked: Asked, pid: u32) -> Asked {
    asked.start.pid = Some(pid);
    asked
}

#[test]
fn losses_have_numbers() {
    assert!(
        Loss::ALL
            .iter()
            .enumerate()
            .all(|(index, loss)| *loss as usize == index)
    );
}
