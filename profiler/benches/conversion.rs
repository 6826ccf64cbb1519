//! The hot paths of conversion, measured separately: `cargo bench -p ngmi --bench conversion [-- PART_OF_NAME]`.
//!
//! The log is synthetic (profiler/fixtures): as many threads, libraries and stacks as a browser has, and always the same.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../tests/profile_synthetic/mod.rs"]
mod profile_synthetic;

use std::fs::File;
use std::hint::black_box;
use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fixtures::synthetic_log;
use profiler::addr::{Avma, Svma, Timestamp};
use profiler::event::format::ChunkKind;
use profiler::event::order::Order;
use profiler::event::read::LogReader;
use profiler::event::write::LogWriter;
use profiler::event::{At, Event, FileId, Mapping, Sample, Stacks, TaskNew};
use profiler::fact::reduce::budget::{Budget, Collector};
use profiler::fact::replay::intern::Interner;
use profiler::fact::replay::log::LogSource;
use profiler::fact::{FactSink, FactSource, Frame, Location, Mark, ModuleId, SampleFact, Tables};
use profiler::unwind::{Binaries, NoBinaries};
use profiler_common::stack::{FLAG_USER_REGS, UserRegs};
use symbols::elf::ElfFile;

/// Number of events in the log.
const EVENTS: u64 = 50_000;
/// Number of distinct stacks in it.
const STACKS: u64 = 4_000;
/// Number of frames in an unwound stack.
const DEPTH: u64 = 64;

fn log() -> (Vec<u8>, u64) {
    let mut bytes = Vec::new();
    let events = synthetic_log::write(&mut bytes, synthetic_log::Size::Events(EVENTS), STACKS).unwrap();
    (bytes, events)
}

/// A sink that ignores all facts.
struct Nothing;

impl FactSink for Nothing {
    fn sample(&mut self, _: &Tables, _: &SampleFact) {}
    fn mark(&mut self, _: &Tables, _: &Mark) {}
}

fn replay(bytes: &[u8], sink: &mut dyn FactSink) -> Tables {
    let mut source = LogSource::new(LogReader::new(Cursor::new(bytes)).unwrap(), &NoBinaries);
    source.forget_stacks();
    source.replay(sink).unwrap()
}

/// From bytes to events, and from events to ordered events.
fn decode(criterion: &mut Criterion) {
    let (bytes, events) = log();
    let mut group = criterion.benchmark_group("decode");
    group.throughput(Throughput::Elements(events));
    let read = |each: &mut dyn FnMut(Event<'static>)| {
        let mut reader = LogReader::new(Cursor::new(&bytes)).unwrap();
        let mut run = reader.events(&[ChunkKind::Events]);
        while let Some(event) = run.next_event().unwrap() {
            each(event);
        }
    };
    group.bench_function("events", |bencher| {
        bencher.iter(|| read(&mut |event| drop(black_box(event))));
    });
    group.bench_function("events in order", |bencher| {
        bencher.iter(|| {
            let mut order = Order::default();
            read(&mut |event| {
                order.push(event);
                while let Some(event) = order.pop() {
                    black_box(event);
                }
            });
        });
    });
    group.finish();
}

/// From events to facts: tasks, stacks, files and the join; then also within the budget.
fn facts(criterion: &mut Criterion) {
    let (bytes, events) = log();
    let mut group = criterion.benchmark_group("replay");
    group.throughput(Throughput::Elements(events));
    group.bench_function("facts", |bencher| bencher.iter(|| replay(&bytes, &mut Nothing)));
    group.bench_function("facts within a budget", |bencher| {
        bencher.iter(|| {
            let mut collector = Collector::new(Budget::default());
            let mut tables = replay(&bytes, &mut collector);
            collector.finish(&mut tables)
        });
    });
    group.finish();
}

/// From frames and stacks to their numbers, all of which are known already.
fn interning(criterion: &mut Criterion) {
    let frame = |number: u64| Frame {
        location: Location::Module {
            module: ModuleId(u32::try_from(number % 100).unwrap()),
            svma: Svma(number * 64),
        },
        is_return_address: true,
    };
    let (mut tables, mut interner) = (Tables::default(), Interner::default());
    let mut stack = |tables: &mut Tables, first: u64| {
        let mut stack = None;
        for number in first..first + DEPTH {
            let frame = interner.frame(tables, frame(number));
            stack = Some(interner.stack(tables, stack, frame));
        }
        stack
    };
    for first in 0..10_000 {
        stack(&mut tables, first);
    }
    let mut group = criterion.benchmark_group("intern");
    group.throughput(Throughput::Elements(DEPTH));
    let mut first = 0;
    group.bench_function("frames and stacks", |bencher| {
        bencher.iter(|| {
            first = (first + 7_919) % 10_000;
            stack(&mut tables, first)
        });
    });
    group.finish();
}

/// This program's file, for every mapping.
struct Own(Arc<ElfFile>);

impl Binaries for Own {
    fn elf(&self, _: FileId, path: &str, _: &[u8]) -> Result<Arc<ElfFile>, String> {
        if path == "own" {
            Ok(Arc::clone(&self.0))
        } else {
            Err("another".into())
        }
    }
}

/// Unwinds copied stacks, all different, along frame pointers through code generated at run time; and builds the tables of a file.
fn unwinding(criterion: &mut Criterion) {
    let own = std::env::current_exe().unwrap();
    let elf = ElfFile::open(File::open(own).unwrap()).unwrap();
    let mut group = criterion.benchmark_group("unwind");
    group.sample_size(10);
    group.bench_function("tables of this program", |bencher| {
        bencher.iter(|| unwind::table::compile(&elf).unwrap());
    });
    let (bytes, binaries) = (copied_stacks(), Own(Arc::new(elf)));
    group.throughput(Throughput::Elements(DEPTH * 1_000));
    group.bench_function("frames of copied stacks", |bencher| {
        bencher.iter(|| {
            let mut source = LogSource::new(LogReader::new(Cursor::new(&bytes)).unwrap(), &binaries);
            source.replay(&mut Nothing).unwrap()
        });
    });
    group.finish();
}

fn copied_stacks() -> Vec<u8> {
    const CODE: u64 = 0x1000_0000;
    const STACK: u64 = 0x7fff_0000_0000;
    let at = |time| At {
        time: Timestamp(synthetic_log::START + time),
        pid: 7,
        tid: 7,
    };
    let mut log = LogWriter::new(Vec::new(), &synthetic_log::header()).unwrap();
    log.event(&Event::TaskNew(TaskNew {
        at: at(1),
        ..TaskNew::default()
    }))
    .unwrap();
    for (start, protection) in [(CODE, 7), (STACK, 3)] {
        log.event(&Event::Mapping(Mapping {
            at: at(1),
            start: Avma(start),
            len: 1 << 20,
            protection,
            path: b"//anon".to_vec(),
            ..Mapping::default()
        }))
        .unwrap();
    }
    for number in 0..1_000 {
        // Pairs of the caller's frame pointer and the return address.
        let pair = |depth: u64| [STACK + (depth + 1) * 16, CODE + 16 + (number * 7 + depth) % 1_000 * 16];
        let copy: Vec<u8> = (0..DEPTH).flat_map(pair).flat_map(u64::to_le_bytes).collect();
        let stacks = Stacks {
            flags: FLAG_USER_REGS,
            regs: UserRegs {
                ip: CODE + 8,
                sp: STACK,
                fp: STACK,
                ..UserRegs::default()
            },
            copy: copy.into(),
            ..Stacks::default()
        };
        log.event(&Event::Sample(Sample {
            at: at(10 + number),
            cpu_time: 1,
            stacks,
            ..Sample::default()
        }))
        .unwrap();
    }
    log.finish().unwrap()
}

/// Matches requests to the faults that they held up.
fn join(criterion: &mut Criterion) {
    use profile_synthetic::{fault, request};
    use profiler::fact::replay::join::Join;
    let facts = profile_synthetic::large(1, 8);
    let mut group = criterion.benchmark_group("join");
    group.throughput(Throughput::Elements(2_000));
    group.bench_function("requests and faults", |bencher| {
        bencher.iter(|| {
            let mut join = Join::default();
            let mut found = 0;
            for number in 0..1_000 {
                join.request(&facts.tables, &request(number, number + 1));
                join.fault(
                    &facts.tables,
                    &fault(number, u32::try_from(number % 8).unwrap(), 50_000),
                );
                found += std::iter::from_fn(|| join.take()).count();
            }
            found
        });
    });
    group.finish();
}

/// Serializes a profile of the kept facts.
fn profile(criterion: &mut Criterion) {
    let (bytes, _) = log();
    let mut collector = Collector::new(Budget::default());
    let mut tables = replay(&bytes, &mut collector);
    let collected = collector.finish(&mut tables);
    let mut group = criterion.benchmark_group("profile");
    group.sample_size(20).measurement_time(Duration::from_secs(10));
    group.bench_function("JSON", |bencher| {
        bencher.iter(|| profile::write(&tables, &collected, &mut std::io::sink()).unwrap());
    });
    group.bench_function("JSON, packed", |bencher| {
        bencher.iter(|| {
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(3));
            profile::write(&tables, &collected, &mut packed).unwrap();
            packed.finish().unwrap().len()
        });
    });
    group.finish();
}

criterion_group!(conversion, decode, facts, interning, unwinding, join, profile);
criterion_main!(conversion);
