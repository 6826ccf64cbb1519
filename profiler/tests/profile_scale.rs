//! Prints time and memory for a profile as large as the budget. Run with `--release --ignored --nocapture`.
#![allow(clippy::unwrap_used)]

mod profile_synthetic;

use std::io::Write;
use std::time::{Duration, Instant};

use profile_synthetic::{START, Synthetic, fault, large};
use profiler::addr::{Avma, FileOffset, Timestamp};
use profiler::fact::fault::{FilePlace, FileSection, FileSymbol};
use profiler::fact::reduce::budget::{Budget, Collector};
use profiler::fact::{FactSink, FactSource, FaultFact, MappedFile, MappedFileId, StackId};
use profiler::profile::ProfileSource;

/// A value of /proc/self/status in MB.
fn memory(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1000
}

#[test]
#[ignore = "a measurement"]
fn two_million_samples() {
    measure(&large(2_000_000, 200));
}

/// As many facts as the budget allows: every marker has all fields of a cold start's.
#[test]
#[ignore = "a measurement"]
fn a_million_samples_and_two_million_faults() {
    let mut facts = large(1_000_000, 200);
    facts.tables.files = (0..50).map(file).collect();
    facts.faults = (0..2_000_000).map(any_fault).collect();
    measure(&facts);
}

fn file(id: u64) -> MappedFile {
    let section = |index: u64| FileSection {
        name: format!(".section{index}"),
        offset: index << 20,
        size: 1 << 20,
        svma: index << 20,
    };
    let symbol = |index: u64| FileSymbol {
        name: format!("browser::component{id}::Class<{index}>::method(int, char const*)"),
        offset: index << 12,
        size: 1 << 12,
    };
    MappedFile {
        path: format!("/usr/lib/browser/lib{id}.so").into(),
        sections: (0..30).map(section).collect(),
        symbols: (0..7_680).map(symbol).collect(),
        ..MappedFile::default()
    }
}

fn any_fault(i: u64) -> FaultFact {
    let offset = (i * 7919 % 7_680) << 12;
    let mut fault = FaultFact {
        start: Timestamp(START + i * 40_000),
        stack: Some(StackId::new(u32::try_from(i * 104_729 % 400_000).unwrap())),
        address: Avma(0x7f00_0000_0000 + offset + 0xabc),
        place: Some(FilePlace {
            file: MappedFileId(u32::try_from(i % 50).unwrap()),
            offset: FileOffset(offset),
            byte: FileOffset(offset + 0xabc),
        }),
        ..fault(0, u32::try_from(i % 200).unwrap(), 900 + i % 4_000)
    };
    fault.waits.lock = Some(Duration::from_nanos(100 + i % 100));
    if i.is_multiple_of(20) {
        fault.major = true;
        fault.waits.disk = Some(Duration::from_nanos(50_000 + i % 1_000));
        fault.latency = Some(Duration::from_nanos(60_000 + i % 1_000));
        fault.pages_read = 32;
    }
    fault
}

fn measure(facts: &Synthetic) {
    println!(
        "facts: {} stacks, {} frames, {} faults, {} MB",
        facts.tables.stacks.len(),
        facts.tables.frames.len(),
        facts.faults.len(),
        memory("VmRSS")
    );

    let start = Instant::now();
    let mut tables = facts.tables.clone();
    let mut collector = Collector::new(Budget::default());
    facts
        .samples
        .iter()
        .for_each(|sample| collector.sample(&tables, sample));
    facts.faults.iter().for_each(|fault| collector.fault(&tables, fault));
    let collected = collector.finish(&mut tables);
    let kept: usize = collected.threads.iter().map(|thread| thread.samples.len()).sum();
    println!(
        "collect: {:?}, {kept} samples kept, {} MB",
        start.elapsed(),
        memory("VmRSS")
    );

    let start = Instant::now();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let stats = profile::write(&tables, &collected, &mut packed).unwrap();
    let packed = packed.finish().unwrap();
    println!(
        "write: {:?}, {stats:?}, {} bytes packed, peak {} MB",
        start.elapsed(),
        packed.len(),
        memory("VmHWM")
    );
    if let Ok(path) = std::env::var("NGMI_SCALE_PROFILE") {
        std::fs::File::create(path).unwrap().write_all(&packed).unwrap();
    }

    let start = Instant::now();
    let mut again = Collector::new(Budget::default());
    ProfileSource::new(&packed[..]).unwrap().replay(&mut again).unwrap();
    println!("read: {:?}, peak {} MB", start.elapsed(), memory("VmHWM"));
    let start = Instant::now();
    assert_eq!(profile::lint(&packed[..]), Vec::<String>::new());
    println!("lint: {:?}, peak {} MB", start.elapsed(), memory("VmHWM"));
}
