//! Logs of recordings with hooks attached before the start: no fact is from before, and on-CPU and off-CPU times are
//! those within the recording.

use std::io::Cursor;

use profiler::addr::{Timestamp, ns};
use profiler::event::read::LogReader;
use profiler::event::write::LogWriter;
use profiler::event::{Bio, Device, End, Event, Fault, Header, PagesRead, Request, Sample, TaskExit, TaskNew, Wait};
use profiler::fact::replay::log::LogSource;
use profiler::fact::request::RequestCoverage;
use profiler::fact::wait::Coverage;
use profiler::fact::{
    BioFact, FactSink, FactSource, FaultFact, Mark, PagesReadFact, RequestFact, SampleFact, Tables, WaitFact,
};
use profiler::report::lifetime;
use profiler::unwind::NoBinaries;
use proptest::prelude::*;

use crate::harness::{at, header};

/// Start and end of the recording.
const START: u64 = 1_000_000;
const END: u64 = 3_000_000;

#[derive(Default)]
struct Facts {
    samples: Vec<SampleFact>,
    waits: Vec<WaitFact>,
    faults: Vec<FaultFact>,
    reads: Vec<PagesReadFact>,
    requests: Vec<RequestFact>,
    marks: Vec<Mark>,
    lives: lifetime::Lifetimes,
}

impl FactSink for Facts {
    fn sample(&mut self, tables: &Tables, sample: &SampleFact) {
        self.samples.push(*sample);
        self.lives.sample(tables, sample);
    }

    fn wait(&mut self, tables: &Tables, wait: &WaitFact) {
        self.waits.push(wait.clone());
        self.lives.wait(tables, wait);
    }

    fn fault(&mut self, _: &Tables, fault: &FaultFact) {
        self.faults.push(*fault);
    }

    fn pages_read(&mut self, _: &Tables, read: &PagesReadFact) {
        self.reads.push(*read);
    }

    fn request(&mut self, _: &Tables, request: &RequestFact) {
        self.requests.push(request.clone());
    }

    fn mark(&mut self, _: &Tables, mark: &Mark) {
        self.marks.push(mark.clone());
    }
}

impl Facts {
    /// Start of each fact.
    fn times(&self) -> impl Iterator<Item = Timestamp> {
        let bios = self.requests.iter().flat_map(|request| &request.bios);
        let bios = bios.map(|bio: &BioFact| bio.time);
        (self.samples.iter().map(|sample| sample.time))
            .chain(self.waits.iter().map(|wait| wait.start))
            .chain(self.faults.iter().map(|fault| fault.start))
            .chain(self.reads.iter().map(|read| read.time))
            .chain(self.requests.iter().map(|request| request.start))
            .chain(self.marks.iter().map(|mark| mark.start))
            .chain(bios)
    }
}

fn facts(events: &[Event<'_>]) -> (Tables, Facts) {
    let header = Header {
        start: Timestamp(START),
        scope: "system".into(),
        ..header()
    };
    let mut log = LogWriter::new(Vec::new(), &header).unwrap();
    for event in events {
        log.event(event).unwrap();
    }
    let log = log.finish().unwrap();
    let mut source = LogSource::new(LogReader::new(Cursor::new(log)).unwrap(), &NoBinaries);
    let mut facts = Facts::default();
    let tables = source.replay(&mut facts).unwrap();
    (tables, facts)
}

fn born(time: u64, pid: u32, existed: bool) -> Event<'static> {
    Event::TaskNew(TaskNew {
        at: at(time, pid, pid),
        existed,
        ..TaskNew::default()
    })
}

fn wait(pid: u32, out: u64, end: u64) -> Event<'static> {
    Event::Wait(Wait {
        at: at(end, pid, pid),
        out: Timestamp(out),
        end: Timestamp(end),
        off: end - out,
        queued: (end - out) / 2,
        longest: end - out,
        count: 1,
        ..Wait::default()
    })
}

fn end() -> Event<'static> {
    Event::End(End {
        time: Timestamp(END),
        ..End::default()
    })
}

#[test]
fn earlier_events_are_dropped_and_ongoing_ones_start_with_the_recording() {
    let disk = Device { major: 254, minor: 0 };
    let bio = |time, sector| {
        Event::Bio(Bio {
            at: at(time, 7, 7),
            device: disk,
            sector,
            bytes: 4096,
            ..Bio::default()
        })
    };
    let request = |issued, end, sector| {
        Event::Request(Request {
            at: at(end, 7, 7),
            device: disk,
            sector,
            bytes: 4096,
            queued: Some(Timestamp(issued - 10)),
            issued: Some(Timestamp(issued)),
            ..Request::default()
        })
    };
    let fault = |start, end| {
        Event::Fault(Fault {
            at: at(end, 7, 7),
            start: Some(Timestamp(start)),
            flags: profiler_common::fault::FAULT_STARTED,
            ..Fault::default()
        })
    };
    let read = |since, time| {
        Event::PagesRead(PagesRead {
            at: at(time, 7, 7),
            since: Timestamp(since),
            count: 1,
            ..PagesRead::default()
        })
    };
    let exit = |time, pid| {
        Event::TaskExit(TaskExit {
            at: at(time, pid, pid),
            ..TaskExit::default()
        })
    };
    let (before, after) = (START - 500, START + 500);
    let events = [
        born(START - 9000, 7, true),
        born(START - 800, 8, false),
        exit(START - 700, 8),
        bio(START - 600, 0),
        request(START - 600, before, 0),
        bio(before, 8),
        fault(START - 600, before),
        read(START - 600, before),
        wait(7, START - 600, before),
        wait(7, before, after),
        fault(before, after),
        read(before, after),
        request(before, after, 8),
        bio(after, 16),
        request(after + 10, after + 20, 16),
        end(),
    ];
    let (tables, facts) = facts(&events);
    assert!(
        facts.times().all(|time| time.0 >= START),
        "{:?}",
        facts.times().collect::<Vec<_>>()
    );
    let [wait] = &facts.waits[..] else {
        panic!("{:?}", facts.waits)
    };
    assert_eq!(
        (wait.start.0, ns(wait.off), wait.coverage),
        (START, 500, Coverage::StartMissed)
    );
    let [fault] = &facts.faults[..] else {
        panic!("{:?}", facts.faults)
    };
    assert_eq!((fault.start.0, fault.latency), (after, None));
    assert_eq!(facts.reads.iter().map(|read| read.time.0).collect::<Vec<_>>(), [START]);
    let [under_way, whole] = &facts.requests[..] else {
        panic!("{:?}", facts.requests)
    };
    assert_eq!(
        (
            under_way.start.0,
            under_way.coverage,
            under_way.service,
            under_way.queued
        ),
        (START, RequestCoverage::StartMissed, None, None)
    );
    assert_eq!((whole.start.0, whole.coverage), (after, RequestCoverage::Full));
    assert_eq!(facts.marks, Vec::new());
    assert!(tables.threads.iter().all(|thread| thread.start.0 >= START));
    assert_eq!(tables.recording.end.0, END);
}

proptest! {
    /// A thread alternates between running and waiting, starting before the recording; samples carry the CPU time
    /// since the previous one.
    #[test]
    fn times_on_and_off_cpus_are_limited_to_the_recording(
        steps in prop::collection::vec((1..400_000u64, any::<bool>(), 0..4u64), 1..24),
        ends in any::<bool>(),
    ) {
        let (mut now, mut pending, mut on, mut off) = (START - 700_000, 0, 0, 0);
        let mut events = vec![born(START - 800_000, 7, true)];
        for (took, waits, samples) in steps {
            let to = (now + took).min(END);
            let within = to.max(START) - now.max(START);
            if waits {
                events.push(wait(7, now, to));
                off += within;
            } else {
                on += within;
                let mut last = now;
                for part in 1..=samples {
                    let time = now + (to - now) * part / 4;
                    if time >= START && time > last {
                        events.push(Event::Sample(Sample { at: at(time, 7, 7), cpu_time: pending + time - last, ..Sample::default() }));
                        (pending, last) = (0, time);
                    }
                }
                pending += to - last;
            }
            now = to;
        }
        let last = at(now.max(START), 7, 7);
        events.push(if ends {
            Event::TaskExit(TaskExit { at: last, cpu_time: pending, ..TaskExit::default() })
        } else {
            Event::TaskAlive { at: last, cpu_time: pending }
        });
        let (tables, facts) = facts(&events);
        prop_assert!(facts.times().all(|time| time.0 >= START));
        let lives = facts.lives.check(&tables);
        prop_assert_eq!((lives.on_ns, lives.off_ns), (on, off));
        prop_assert_eq!(lives.excess_ns, 0);
    }
}
