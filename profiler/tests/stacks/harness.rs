//! From events to a log, and from a log to facts.

use std::io::Cursor;

use profiler::addr::Timestamp;
use profiler::event::read::LogReader;
use profiler::event::write::LogWriter;
use profiler::event::{At, Event, Header};
use profiler::fact::replay::log::LogSource;
use profiler::fact::{FactSink, FactSource, Location, Mark, SampleFact, StackId, Tables};
use profiler::unwind::Binaries;

/// Keeps the facts it receives.
#[derive(Default, Debug, PartialEq)]
pub struct Facts {
    pub samples: Vec<SampleFact>,
    pub marks: Vec<Mark>,
}

impl FactSink for Facts {
    fn sample(&mut self, tables: &Tables, sample: &SampleFact) {
        assert!(sample.thread.index() < tables.threads.len());
        self.samples.push(*sample);
    }

    fn mark(&mut self, tables: &Tables, mark: &Mark) {
        assert!(tables.threads[mark.thread.index()].process.index() < tables.processes.len());
        self.marks.push(mark.clone());
    }
}

pub fn header() -> Header {
    Header {
        ngmi_version: "0.1.0".into(),
        command: vec!["prog".into()],
        start: Timestamp(100),
        start_unix_ms: 5,
        kernel: "6.18".into(),
        arch: "x86_64".into(),
        page_size: 4096,
        boot_id: String::new(),
        cpus: 2,
        sample_hz: 1000,
        sample_event: "cpu-clock".into(),
        stack_copy: 65_536,
        scope: "command".into(),
        hooks: Vec::new(),
    }
}

pub fn at(time: u64, pid: u32, tid: u32) -> At {
    At {
        time: Timestamp(time),
        pid,
        tid,
    }
}

pub fn log(events: &[Event<'_>]) -> Vec<u8> {
    let mut log = LogWriter::new(Vec::new(), &header()).unwrap();
    for event in events {
        log.event(event).unwrap();
    }
    log.finish().unwrap()
}

pub fn replay(log: &[u8], binaries: &dyn Binaries) -> (Tables, Facts, Vec<u8>) {
    let mut source = LogSource::new(LogReader::new(Cursor::new(log)).unwrap(), binaries);
    let mut facts = Facts::default();
    let tables = source.replay(&mut facts).unwrap();
    let resolved = source.collect_resolved(&tables);
    (tables, facts, resolved)
}

/// The locations of a stack, leaf first.
pub fn locations(tables: &Tables, stack: Option<StackId>) -> Vec<&Location> {
    let mut next = stack;
    std::iter::from_fn(|| {
        let node = tables.stacks[next?.index()];
        next = node.parent;
        Some(&tables.frames[node.frame.index()].location)
    })
    .collect()
}
