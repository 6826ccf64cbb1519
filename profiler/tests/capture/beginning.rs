//! A recording has one beginning and one end: all of its facts are between them, and no CPU time from outside is
//! counted.

use std::collections::HashMap;
use std::fs::File;
use std::io::Cursor;
use std::process::{Child, Command};
use std::time::Duration;

use profiler::event::read::LogReader;
use profiler::event::write::LogWriter;
use profiler::event::{End, Event};
use profiler::fact::FactSource as _;
use profiler::fact::replay::log::LogSource;
use profiler::report::lifetime::Lifetimes;
use profiler::unwind::NoBinaries;
use profiler_common::Loss;

use crate::harness::{Recording, compile, record, running, skipped, system};

/// A program that is busy in every way; killed at the end of the test.
struct Busy {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Busy {
    fn start() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, vec![1; 1 << 20]).unwrap();
        File::open(&file).unwrap().sync_all().unwrap();
        let headers = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/tests/oracles");
        let source = include_str!("../oracles/busy.c");
        let program = compile(folder.path(), "busy", source, &["-O2", headers]);
        let child = Command::new(program).arg(&file).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        Self { child, _folder: folder }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Start and end of the fact behind an event; `None` if the event is not a fact.
fn span(event: &Event<'_>) -> Option<(u64, u64)> {
    let (start, end) = match event {
        Event::Sample(sample) => (sample.at.time, sample.at.time),
        Event::Fault(fault) => (fault.start.unwrap_or(fault.at.time), fault.at.time),
        Event::PagesRead(pages) => (pages.since, pages.at.time),
        Event::Wait(wait) => (wait.out, wait.end),
        Event::StackAhead(stack) => (stack.at.time, stack.at.time),
        Event::CallPath(path) => (path.at.time, path.at.time),
        Event::Bio(bio) => (bio.at.time, bio.at.time),
        Event::Request(request) => {
            let times = [request.queued, request.inserted, request.issued];
            (
                times.into_iter().flatten().min().unwrap_or(request.at.time),
                request.at.time,
            )
        }
        _ => return None,
    };
    Some((start.0, end.0))
}

/// Compares the recorded facts with the recording's beginning and end.
fn check(recording: &Recording) {
    let (start, end) = (recording.header.start.0, recording.ended.time.0);
    let mut on: HashMap<u32, u64> = HashMap::new();
    let mut facts = 0;
    for event in &recording.events {
        if let Some((from, to)) = span(event) {
            facts += 1;
            assert!(start <= from && from <= to && to <= end, "{start} to {end}: {event:?}");
        }
        match event {
            Event::Sample(sample) => *on.entry(sample.at.tid).or_default() += sample.cpu_time,
            Event::TaskExit(exit) => *on.entry(exit.at.tid).or_default() += exit.cpu_time,
            Event::TaskAlive { at, cpu_time } => *on.entry(at.tid).or_default() += cpu_time,
            _ => {}
        }
    }
    assert!(facts > 1000, "{facts} facts");
    let wall = end - start;
    let all: u64 = on.values().sum();
    let cpus = u64::from(recording.header.cpus);
    assert!(all <= wall * cpus, "{all} ns on {cpus} CPUs in {wall} ns");
    let (thread, most) = on.iter().max_by_key(|(_, time)| **time).unwrap();
    assert!(*most <= wall, "thread {thread} ran {most} ns in {wall} ns");
    check_lives(recording);
}

/// Compares each thread's lifetime with what it did in it.
fn check_lives(recording: &Recording) {
    let mut log = LogWriter::new(Vec::new(), &recording.header).unwrap();
    for event in &recording.events {
        log.event(event).unwrap();
    }
    // As the recorder does: mappings created after the end are not part of the recording.
    let end = End {
        time: recording.ended.time,
        ..End::default()
    };
    log.event(&Event::End(end)).unwrap();
    let log = LogReader::new(Cursor::new(log.finish().unwrap())).unwrap();
    let mut lives = Lifetimes::default();
    let tables = LogSource::new(log, &NoBinaries).replay(&mut lives).unwrap();
    let check = lives.check(&tables);
    assert!(check.threads > 5, "{} threads", check.threads);
    for life in &check.each {
        // A switch that the kernel did not show leaves a gap, and never an excess.
        let known = life.on_ns + life.off_ns;
        assert!(known <= life.life_ns + life.life_ns / 1000 + 100_000, "{life:?}");
    }
    // The kernel shows all but a few, or the recording counts them: next to other recorders it drops more.
    let gaps = check.open.len() as u64;
    let missed = missed(recording);
    assert!(
        gaps <= check.threads / 10 + missed,
        "times of {gaps} of {} threads do not add up, {missed} switches or programs were missed",
        check.threads
    );
}

/// Switches that the recording counts as missed, and program runs that the kernel skipped.
fn missed(recording: &Recording) -> u64 {
    let mut counts = HashMap::new();
    for event in &recording.events {
        if let Event::Loss { loss, count } = event {
            counts.insert(*loss, *count);
        }
    }
    let of = [Loss::SwitchMissed, Loss::ProgramMissed].map(|loss| counts.get(&(loss as u32)).copied().unwrap_or(0));
    of.into_iter().sum()
}

#[test]
fn a_busy_whole_system() {
    if skipped() {
        return;
    }
    let _busy = Busy::start();
    check(&record(system(), || std::thread::sleep(Duration::from_secs(1))));
}

#[test]
fn an_already_running_process() {
    if skipped() {
        return;
    }
    let busy = Busy::start();
    check(&record(running(&[busy.child.id()]), || {
        std::thread::sleep(Duration::from_secs(1));
    }));
}
