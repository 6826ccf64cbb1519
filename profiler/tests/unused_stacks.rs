//! Stacks that no kept fact needs are dropped while a log is read, or never built; kept stacks do not change.

#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasher as _;
use std::io::Cursor;
use std::rc::Rc;

use fixtures::synthetic_log::{self, Size};
use profiler::addr::Timestamp;
use profiler::event::format::ChunkKind;
use profiler::event::read::LogReader;
use profiler::event::write::LogWriter;
use profiler::event::{Event, FileId};
use profiler::fact::reduce::budget::{Budget, Collected, Collector};
use profiler::fact::replay::log::LogSource;
use profiler::fact::{
    Cause, EventKind, FactSink, FactSource, FaultFact, Location, Mark, PagesReadFact, RequestFact, SampleFact, StackId,
    Tables, Visit, WaitFact,
};
use profiler::unwind::NoBinaries;
use rustc_hash::FxBuildHasher;

const BUDGET: Budget = Budget {
    samples: 600,
    marks: 6_000,
};

/// The key of a fact, and the locations of its stack, frame by frame: modules are numbered in order of use.
type Stacks = BTreeMap<(&'static str, u32, Timestamp, Timestamp), Vec<Rc<str>>>;

/// The names of frames, each made once: the stacks of a log have millions.
#[derive(Default)]
struct Names(HashMap<(Location, bool), Rc<str>>);

impl Names {
    fn frames(&mut self, tables: &Tables, stack: Option<StackId>) -> Vec<Rc<str>> {
        let mut next = stack;
        let up = std::iter::from_fn(|| {
            let node = tables.stacks[next?.index()];
            next = node.parent;
            let frame = &tables.frames[node.frame.index()];
            let name_of = || format!("{} {}", tables.address_name(&frame.location), frame.is_return_address).into();
            let entry = self.0.entry((frame.location.clone(), frame.is_return_address));
            Some(entry.or_insert_with(name_of).clone())
        });
        up.collect()
    }
}

/// Notes the stack of each fact when it arrives.
#[derive(Default)]
struct Noted(Stacks, Names);

impl Noted {
    fn note(&mut self, tables: &Tables, what: &'static str, of: u32, times: [Timestamp; 2], stack: Option<StackId>) {
        let frames = self.1.frames(tables, stack);
        self.0.insert((what, of, times[0], times[1]), frames);
    }
}

impl FactSink for Noted {
    fn sample(&mut self, tables: &Tables, sample: &SampleFact) {
        self.note(tables, "sample", sample.thread.0, [sample.time; 2], sample.stack);
    }

    fn mark(&mut self, _: &Tables, _: &Mark) {}

    fn fault(&mut self, tables: &Tables, fault: &FaultFact) {
        let times = [fault.start, Timestamp(fault.address.0)];
        self.note(tables, "fault", fault.thread.0, times, fault.stack);
    }

    fn wait(&mut self, tables: &Tables, wait: &WaitFact) {
        self.note(tables, "wait", wait.thread.0, [wait.start, wait.end], wait.stack);
        let waker = wait.waker.as_ref().and_then(|waker| waker.stack);
        self.note(tables, "waker", wait.thread.0, [wait.start, wait.end], waker);
    }

    fn request(&mut self, tables: &Tables, request: &RequestFact) {
        for (bio, number) in request.bios.iter().zip(0..) {
            self.note(tables, "bio", number, [request.start, bio.time], bio.stack);
        }
    }
}

/// Collects facts within a profile's budget, and also notes each stack.
struct Both {
    noted: Noted,
    kept: Collector,
    /// Whether it visits what it keeps, which lets the rest be dropped.
    shows: bool,
}

impl Both {
    fn new(shows: bool) -> Self {
        Self {
            noted: Noted::default(),
            kept: Collector::new(BUDGET),
            shows,
        }
    }
}

impl FactSink for Both {
    fn sample(&mut self, tables: &Tables, sample: &SampleFact) {
        self.noted.sample(tables, sample);
        self.kept.sample(tables, sample);
    }

    fn mark(&mut self, tables: &Tables, mark: &Mark) {
        self.kept.mark(tables, mark);
    }

    fn fault(&mut self, tables: &Tables, fault: &FaultFact) {
        self.noted.fault(tables, fault);
        self.kept.fault(tables, fault);
    }

    fn pages_read(&mut self, tables: &Tables, read: &PagesReadFact) {
        self.kept.pages_read(tables, read);
    }

    fn wait(&mut self, tables: &Tables, wait: &WaitFact) {
        self.noted.wait(tables, wait);
        self.kept.wait(tables, wait);
    }

    fn request(&mut self, tables: &Tables, request: &RequestFact) {
        self.noted.request(tables, request);
        self.kept.request(tables, request);
    }

    fn joined(&mut self, tables: &Tables, cause: &Cause) {
        self.kept.joined(tables, cause);
    }

    fn shows_stacks(&self) -> bool {
        self.shows
    }

    fn visit(&mut self, visit: &mut dyn Visit) {
        self.kept.visit(visit);
    }
}

fn replay(log: &[u8], sink: &mut dyn FactSink) -> Tables {
    let mut source = LogSource::new(LogReader::new(Cursor::new(log)).unwrap(), &NoBinaries);
    source.forget_stacks();
    source.replay(sink).unwrap()
}

fn of_kept(tables: &Tables, collected: &Collected) -> Stacks {
    let mut noted = Noted::default();
    collected.replay(tables, &mut noted);
    noted.0
}

/// Sums by stack, and input for findings, each as a comparable line.
fn sums(tables: &Tables, collected: &Collected) -> Vec<String> {
    let mut names = Names::default();
    let mut line = |what: &str, stack: Option<StackId>, numbers: &[u64]| {
        let stack = FxBuildHasher.hash_one(names.frames(tables, stack));
        format!("{what} {stack:016x} {numbers:?}")
    };
    let mut lines = Vec::new();
    for sum in &collected.folded_stacks {
        let numbers = [sum.thread.0.into(), sum.time.0, sum.faults, sum.latency, sum.bytes];
        lines.push(line("faults", sum.stack, &numbers));
    }
    for sum in &collected.folded_wait_stacks {
        let numbers = [
            sum.thread.0.into(),
            sum.reason as u64,
            sum.time.0,
            sum.blocked,
            sum.queued,
        ];
        lines.push(line("waits", sum.stack, &numbers));
    }
    for sum in &collected.inputs.copies {
        let place = sum
            .frame
            .map(|frame| tables.address_name(&tables.frames[frame.index()].location));
        lines.push(format!("copies {place:?} {} {}", sum.process.0, sum.pages));
    }
    for sum in &collected.inputs.wasted {
        lines.push(line("wasted", sum.stack, &[sum.file.0.into(), sum.pages, sum.of]));
    }
    lines.sort();
    lines
}

#[test]
fn kept_facts_do_not_depend_on_pruning() {
    let mut log = Vec::new();
    synthetic_log::write(&mut log, Size::Events(30_000), 6_000).unwrap();
    let [mut all, mut few] = [false, true].map(Both::new);
    let mut all_tables = replay(&log, &mut all);
    let mut tables = replay(&log, &mut few);
    assert_eq!(few.noted.0, all.noted.0, "the stacks of all facts");
    // Debug builds look for them long before there are millions.
    if cfg!(debug_assertions) {
        let (few, all) = (tables.stacks.len(), all_tables.stacks.len());
        assert!(2 * few < all, "{few} of {all} are left");
    }
    let (noted, all) = (all.noted.0, all.kept.finish(&mut all_tables));
    let few = few.kept.finish(&mut tables);

    let kept = of_kept(&tables, &few);
    for what in ["sample", "fault", "wait", "waker", "bio"] {
        let of_kind = kept.iter().filter(|(key, frames)| key.0 == what && !frames.is_empty());
        let count = of_kind.count();
        assert!(count > 20, "{count} of {what}");
    }
    for (key, frames) in &kept {
        assert_eq!(noted.get(key), Some(frames), "{key:?}");
    }
    let (all, few) = (sums(&all_tables, &all), sums(&tables, &few));
    for what in ["faults", "waits", "wasted"] {
        assert!(all.iter().any(|sum| sum.starts_with(what)), "{what}");
    }
    assert_eq!(few, all);
}

#[test]
fn a_kept_log_has_the_stacks_of_its_first_events() {
    let mut log = Vec::new();
    synthetic_log::write(&mut log, Size::Events(12_000), 3_000).unwrap();
    let mut all = Both::new(false);
    let all_tables = replay(&log, &mut all);

    let mut source = LogSource::new(LogReader::new(Cursor::new(&log)).unwrap(), &NoBinaries);
    source.note_stacks(1_000);
    let mut first = Both::new(true);
    let tables = source.replay(&mut first).unwrap();
    assert_eq!(
        first.noted.0, all.noted.0,
        "the stacks of all facts while they are noted"
    );
    let resolved = source.collect_resolved(&tables);
    // The profile may drop facts: the log has them.
    first.kept.finish(&mut tables.clone());

    let mut kept = Cursor::new(log);
    let mut writer = LogWriter::append(&mut kept).unwrap();
    writer.event(&Event::Resolved(resolved)).unwrap();
    writer.finish().unwrap();
    let mut again = Both::new(true);
    let again_tables = replay(&kept.into_inner(), &mut again);
    assert_eq!(again.noted.0, all.noted.0, "the stacks in the kept log");
    if cfg!(debug_assertions) {
        let (few, all) = (again_tables.stacks.len(), all_tables.stacks.len());
        assert!(2 * few < all, "{few} of {all} are left");
    }
}

/// The kept stacks and sums, as [`of_kept`] and [`sums`] return them, with nameless code merged from `apart` stacks
/// on; `None`: from the first.
fn kept(log: &[u8], separate: Option<usize>) -> (Stacks, Vec<String>, Tables) {
    let mut source = LogSource::new(LogReader::new(Cursor::new(log)).unwrap(), &NoBinaries);
    source.forget_stacks();
    match separate {
        Some(most) => source.merge_nameless_above(most),
        None => source.merge_anonymous(),
    }
    let mut few = Both::new(true);
    let mut tables = source.replay(&mut few).unwrap();
    let few = few.kept.finish(&mut tables);
    (of_kept(&tables, &few), sums(&tables, &few), tables)
}

/// The log with every second library's code moved to anonymous memory.
fn with_anonymous_code(log: &[u8]) -> Vec<u8> {
    let mut reader = LogReader::new(Cursor::new(log)).unwrap();
    let mut out = Vec::new();
    let header = reader.header().cloned().unwrap();
    let mut writer = LogWriter::new(&mut out, &header).unwrap();
    let mut run = reader.events(&[ChunkKind::Events]);
    while let Some(mut event) = run.next_event().unwrap() {
        if let Event::Mapping(mapping) = &mut event
            && mapping.file.inode % 2 == 1
        {
            mapping.file = FileId::default();
            mapping.path = b"//anon".to_vec();
            mapping.build_id = Vec::new();
        }
        writer.event(&event).unwrap();
    }
    writer.finish().unwrap();
    out
}

#[test]
fn unnamed_code_is_merged_in_earlier_facts() {
    let mut log = Vec::new();
    synthetic_log::write(&mut log, Size::Events(30_000), 6_000).unwrap();
    let log = with_anonymous_code(&log);
    let (stacks, _, separate) = kept(&log, Some(usize::MAX));
    let places: BTreeSet<&Rc<str>> = stacks
        .values()
        .flatten()
        .filter(|frame| frame.contains("[anonymous]"))
        .collect();
    assert!(places.len() > 10, "{places:?}");
    let (expected, expected_sums, _) = kept(&log, None);
    // Debug builds look for unused stacks early.
    for most in [0, 500] {
        let (stacks, sums, tables) = kept(&log, Some(most));
        if cfg!(debug_assertions) {
            assert!(tables.recording.notes.iter().any(|note| note.contains("nameless code")));
            assert_eq!(stacks, expected, "{most}");
            assert_eq!(sums, expected_sums, "{most}");
        }
    }
    assert!(
        separate
            .recording
            .notes
            .iter()
            .all(|note| !note.contains("nameless code"))
    );
}

/// Notes the stacks of waits, and requests no others.
#[derive(Default)]
struct OfWaits(Noted);

impl FactSink for OfWaits {
    fn wants_stacks(&self, kind: EventKind) -> bool {
        kind == EventKind::Wait
    }

    fn sample(&mut self, _: &Tables, sample: &SampleFact) {
        assert_eq!(sample.stack, None);
    }

    fn mark(&mut self, _: &Tables, _: &Mark) {}

    fn fault(&mut self, _: &Tables, fault: &FaultFact) {
        assert_eq!(fault.stack, None);
    }

    fn wait(&mut self, tables: &Tables, wait: &WaitFact) {
        self.0.wait(tables, wait);
    }

    fn request(&mut self, tables: &Tables, request: &RequestFact) {
        self.0.request(tables, request);
    }
}

#[test]
fn unused_stacks_are_not_built() {
    let mut log = Vec::new();
    synthetic_log::write(&mut log, Size::Events(30_000), 6_000).unwrap();
    let (mut all, mut some) = (Noted::default(), OfWaits::default());
    let all_tables = replay(&log, &mut all);
    let tables = replay(&log, &mut some);
    let wanted = all
        .0
        .into_iter()
        .filter(|(key, _)| ["wait", "waker", "bio"].contains(&key.0));
    assert_eq!(some.0.0, wanted.collect());
    let seen = |tables: &Tables| {
        (
            tables.recording.samples_seen,
            tables.recording.faults_seen,
            tables.recording.waits_seen,
        )
    };
    assert_eq!(seen(&tables), seen(&all_tables));
    assert_eq!(
        tables.recording.walks, all_tables.recording.walks,
        "how walks ended is still counted"
    );
    let (some, all) = (tables.stacks.len(), all_tables.stacks.len());
    assert!(some < all, "{some} of {all}");
}
