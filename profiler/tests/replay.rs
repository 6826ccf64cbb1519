//! A small committed recording: it replays without root, kernel or binaries, always to the same profile.

#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

use std::io::Cursor;

use profiler::event::format::{FILE_HEADER_LEN, FRAME_LEN, Frame};
use profiler::event::read::LogReader;
use profiler::fact::reduce::budget::{Budget, Collected, Collector};
use profiler::fact::replay::log::LogSource;
use profiler::fact::{FactSource, MarkKind, StackId, Tables};
use profiler::unwind::NoBinaries;
use proptest::prelude::*;
use proptest::sample::Index;

/// See data/small.c.
const LOG: &[u8] = include_bytes!("data/small.log");

fn replay() -> (Tables, Collected) {
    let mut source = LogSource::new(LogReader::new(Cursor::new(LOG)).unwrap(), &NoBinaries);
    let mut collector = Collector::new(Budget::default());
    let mut tables = source.replay(&mut collector).unwrap();
    assert!(source.is_complete());
    let collected = collector.finish(&mut tables);
    (tables, collected)
}

/// Function names, leaf first.
fn names(tables: &Tables, stack: Option<StackId>) -> Vec<String> {
    let mut next = stack;
    let up = std::iter::from_fn(|| {
        let node = tables.stacks[next?.index()];
        next = node.parent;
        Some(tables.function_name(node.frame).into_owned())
    });
    up.collect()
}

#[test]
fn the_facts_match_the_program() {
    let (tables, collected) = replay();
    let programs: Vec<(&str, &[String])> = tables
        .processes
        .iter()
        .map(|process| (process.name.as_str(), &**process.command_line))
        .collect();
    let line = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        programs,
        [
            ("work", &*line(&["/tmp/demo/work", "twice"])),
            ("work", &*line(&["again"]))
        ]
    );
    assert!(
        tables
            .processes
            .iter()
            .all(|process| process.exit_code == Some(3 << 8) && process.end.is_some())
    );
    assert_eq!(
        tables.threads.iter().filter(|thread| thread.name == "one part").count(),
        2
    );
    let execs = collected.threads.iter().flat_map(|thread| &thread.marks);
    assert_eq!(
        execs.filter(|mark| matches!(mark.kind, MarkKind::Exec { .. })).count(),
        2
    );
    assert!(tables.recording.losses.is_empty());
    assert!(tables.recording.stack_ends.iter().all(|end| end.reason.is_none()));

    // Each process spends three parts of its time below one function and one part below the other.
    let (mut three, mut one) = (0, 0);
    for sample in collected.threads.iter().flat_map(|thread| &thread.samples) {
        let names = names(&tables, sample.stack);
        let Some(place) = names.iter().position(|name| name == "inner") else {
            continue;
        };
        match names[place + 1].as_str() {
            "three_parts" => {
                assert_eq!(names[place + 2], "main");
                three += sample.cpu_time;
            }
            "one_part" => {
                assert_eq!(names[place + 2], "worker");
                one += sample.cpu_time;
            }
            other => panic!("inner was called by {other}"),
        }
    }
    let share = three as f64 / (three + one) as f64;
    assert!((0.69..0.81).contains(&share), "{share}");
}

#[test]
fn the_profile_is_the_same_every_time() {
    let profile = || {
        let (tables, collected) = replay();
        let mut out = Vec::new();
        profile::write(&tables, &collected, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let first = profile();
    assert_eq!(first, profile());
    // After an intended change: INSTA_UPDATE=always cargo test.
    insta::assert_snapshot!("small", first);
}

/// The log's chunks with some bytes changed, and correct checksums.
fn forged(changes: &[(Index, u8)]) -> Vec<u8> {
    let mut log = LOG.to_vec();
    for (place, value) in changes {
        let place = FILE_HEADER_LEN + place.index(LOG.len() - FILE_HEADER_LEN);
        log[place] = *value;
    }
    let mut at = FILE_HEADER_LEN;
    while let Some(frame) = Frame::decode(&LOG[at..]) {
        let (start, end) = (at + FRAME_LEN, at + FRAME_LEN + frame.len as usize);
        let payload_crc = crc32fast::hash(&log[start..end]);
        log[at..start].copy_from_slice(&Frame { payload_crc, ..frame }.encode());
        at = end;
    }
    log
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A log changed by a hostile writer: facts with valid references, and no panic.
    #[test]
    fn forged_logs_never_panic(changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..30)) {
        let log = forged(&changes);
        let Ok(reader) = LogReader::new(Cursor::new(log)) else { return Ok(()) };
        let mut source = LogSource::new(reader, &NoBinaries);
        let mut collector = Collector::new(Budget::default());
        let Ok(mut tables) = source.replay(&mut collector) else { return Ok(()) };
        source.collect_resolved(&tables);
        let collected = collector.finish(&mut tables);
        for sample in collected.threads.iter().flat_map(|thread| &thread.samples) {
            names(&tables, sample.stack);
        }
        let _ = profile::write(&tables, &collected, &mut std::io::sink());
    }
}
