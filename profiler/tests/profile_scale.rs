//! Time and memory of a profile as large as the budget, printed. Run with `--release --ignored --nocapture`.
#![allow(clippy::unwrap_used)]

mod profile_synthetic;

use std::io::Write;
use std::time::Instant;

use profile_synthetic::large;
use profiler::fact::budget::{Budget, Collector};
use profiler::fact::{FactSink, FactSource};
use profiler::profile::ProfileSource;

/// A figure of /proc/self/status in MB.
fn memory(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1000
}

#[test]
#[ignore = "a measurement"]
fn two_million_samples() {
    let facts = large(2_000_000, 200);
    println!(
        "facts: {} stacks, {} frames, {} MB",
        facts.tables.stacks.len(),
        facts.tables.frames.len(),
        memory("VmRSS")
    );

    let start = Instant::now();
    let mut tables = facts.tables.clone();
    let mut collector = Collector::new(Budget::default());
    facts
        .samples
        .iter()
        .for_each(|sample| collector.sample(&tables, sample));
    let collected = collector.finish(&mut tables);
    let kept: usize = collected.threads.iter().map(|thread| thread.samples.len()).sum();
    println!(
        "collect: {:?}, {kept} samples kept, {} MB",
        start.elapsed(),
        memory("VmRSS")
    );

    let start = Instant::now();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let stats = profiler::profile::write(&tables, &collected, &mut packed).unwrap();
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
    assert_eq!(profiler::profile::lint(&packed[..]), Vec::<String>::new());
    println!("lint: {:?}, peak {} MB", start.elapsed(), memory("VmHWM"));
}
