//! A part of a profile is a valid profile, and the parts add up to the whole; sanitizing removes all personal data.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

#[path = "profile_synthetic/any_fault.rs"]
mod any_fault;
#[path = "profile_synthetic/any_recording.rs"]
mod any_recording;
#[path = "profile_synthetic/any_wait.rs"]
mod any_wait;
#[path = "profile_trim/person.rs"]
mod person;
mod profile_synthetic;

use std::sync::Arc;
use std::time::Duration;

use profile_synthetic::{START, Synthetic, at, everything};
use profiler::addr::Timestamp;
use profiler::fact::reduce::budget::{Budget, Collected, Collector};
use profiler::fact::reduce::trim::{Cut, trim};
use profiler::fact::{FactSource, MarkKind, Tables};
use profiler::profile::{ProfileSource, lint};
use proptest::prelude::*;

fn sorted(mut facts: Synthetic) -> Synthetic {
    facts.samples.sort_by_key(|sample| (sample.thread, sample.time));
    facts.marks.sort_by_key(|mark| (mark.thread, mark.start));
    facts.faults.sort_by_key(|fault| fault.start);
    facts.reads.sort_by_key(|read| read.time);
    facts.waits.sort_by_key(|wait| wait.end);
    facts.requests.sort_by_key(|request| request.end);
    facts
}

fn cut(facts: &Synthetic, cut: &Cut) -> (Tables, Collected) {
    trim(&mut ProfileSource::new(&facts.json()[..]).unwrap(), cut).unwrap()
}

fn json(tables: &Tables, collected: &Collected) -> Vec<u8> {
    let mut json = Vec::new();
    profile::write(tables, collected, &mut json).unwrap();
    json
}

fn read(json: &[u8]) -> (Tables, Collected) {
    let mut collector = Collector::new(Budget::default());
    let mut tables = ProfileSource::new(json).unwrap().replay(&mut collector).unwrap();
    let collected = collector.finish(&mut tables);
    (tables, collected)
}

/// The lint accepts it, and reading returns what was written.
fn check(tables: &Tables, collected: &Collected) -> Result<(), TestCaseError> {
    if tables.threads.is_empty() {
        return Ok(());
    }
    let json = json(tables, collected);
    prop_assert_eq!(lint(&json[..]), Vec::<String>::new());
    let (again, facts) = read(&json);
    prop_assert_eq!(&again.recording, &tables.recording);
    prop_assert_eq!(&again.threads, &tables.threads);
    prop_assert_eq!(&again.modules, &tables.modules);
    prop_assert_eq!(&again.files, &tables.files);
    prop_assert_eq!(&again.frames, &tables.frames);
    prop_assert_eq!(&again.stacks, &tables.stacks);
    prop_assert_eq!(&again.names, &tables.names);
    prop_assert_eq!(&again, tables);
    prop_assert_eq!(&facts.threads, &collected.threads);
    prop_assert_eq!(&facts.requests, &collected.requests);
    Ok(())
}

/// CPU time including the time after the last sample; samples; waits' off-CPU and queued time; reads; instants.
fn sums(tables: &Tables, collected: &Collected) -> [u128; 6] {
    let mut sums = [0; 6];
    for thread in &collected.threads {
        for sample in &thread.samples {
            sums[0] += u128::from(sample.cpu_time);
            sums[1] += u128::from(sample.weight);
        }
        for wait in &thread.waits {
            sums[2] += wait.off.as_nanos();
            sums[3] += wait.queued.as_nanos();
        }
        sums[4] += thread.reads.len() as u128;
        sums[5] += thread.marks.iter().filter(|mark| mark.end.is_none()).count() as u128;
    }
    let after = tables.threads.iter().map(|thread| thread.cpu_time_after_last_sample);
    sums[0] += u128::from(after.sum::<u64>());
    sums
}

/// Threads exist as long as the recording, run no longer than time passes, and have one wait at a time.
fn plausible(mut facts: Synthetic) -> Synthetic {
    let last = facts.samples.iter().map(|sample| sample.time);
    let last = last.chain(facts.waits.iter().map(|wait| wait.end)).max();
    let recording = &mut facts.tables.recording;
    recording.end = recording.end.max(last.unwrap_or(Timestamp(START)));
    recording.folded_faults.clear();
    recording.folded_waits.clear();
    for thread in &mut facts.tables.threads {
        (thread.start, thread.end) = (Timestamp(START - 1000), None);
        thread.cpu_time_after_last_sample = 0;
    }
    for process in &mut facts.tables.processes {
        (process.start, process.end) = (Timestamp(START - 1000), None);
    }
    for sample in 0..facts.samples.len() {
        let before = sample.checked_sub(1).map(|before| facts.samples[before]);
        let sample = &mut facts.samples[sample];
        let before = before.filter(|before| before.thread == sample.thread);
        let room = sample
            .time
            .since(before.map_or(Timestamp(START - 1000), |before| before.time));
        sample.cpu_time = sample.cpu_time.min(room);
    }
    for wait in &mut facts.waits {
        wait.end = wait.end.max(wait.start);
        wait.count = 1;
        wait.off = wait.end.since(wait.start);
        wait.queued = wait.queued.min(wait.off);
        wait.longest = wait.off;
    }
    facts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_part_of_any_recording_is_a_valid_profile(
        facts in any_recording::recordings(),
        from in prop::option::of(0..1u64 << 45),
        to in prop::option::of(0..1u64 << 45),
        processes in prop::option::of(prop::collection::vec(any::<bool>(), 3)),
    ) {
        let moment = |time: u64| Timestamp(START - 1000 + time);
        let wanted = Cut { from: from.map(moment), to: to.map(moment), processes };
        let (tables, collected) = cut(&facts, &wanted);
        check(&tables, &collected)?;
        let whole = facts.collect(Budget::default());
        prop_assert!(tables.threads.len() <= whole.0.threads.len());
        let (from, to) = (wanted.from.unwrap_or(Timestamp(0)), wanted.to.unwrap_or(Timestamp(u64::MAX)));
        for thread in &collected.threads {
            prop_assert!(thread.samples.iter().all(|sample| from <= sample.time && sample.time < to));
            prop_assert!(thread.waits.iter().all(|wait| from <= wait.start && wait.end <= to));
            prop_assert!(thread.marks.iter().all(|mark| from <= mark.start && mark.end.is_none_or(|end| end <= to)));
        }
    }

    #[test]
    fn the_parts_add_up_to_the_whole(
        facts in any_recording::recordings(),
        times in (0..1u64 << 45, 0..1u64 << 45),
    ) {
        let facts = plausible(sorted(facts));
        let (tables, collected) = facts.collect(Budget::default());
        let whole = sums(&tables, &collected);
        let (first, second) = (times.0.min(times.1), times.0.max(times.1));
        let (first, second) = (Timestamp(START + first), Timestamp(START + second));
        let mut parts = [0; 6];
        for (from, to) in [(None, Some(first)), (Some(first), Some(second)), (Some(second), None)] {
            let (tables, collected) = cut(&facts, &Cut { from, to, processes: None });
            let part = sums(&tables, &collected);
            prop_assert_eq!(u128::from(tables.recording.cpu_time_seen), part[0]);
            prop_assert_eq!(u128::from(tables.recording.samples_seen), part[1]);
            for (sum, part) in parts.iter_mut().zip(part) {
                *sum += part;
            }
        }
        prop_assert_eq!(parts, whole);
    }
}

#[test]
fn trimming_to_everything_changes_nothing() {
    let facts = everything();
    let everything = Cut {
        from: None,
        to: None,
        processes: None,
    };
    let (tables, collected) = cut(&facts, &everything);
    let (whole, all) = read(&facts.json());
    assert_eq!(collected.threads, all.threads);
    assert_eq!(collected.requests, all.requests);
    assert_eq!(collected.causes, all.causes);
    assert_eq!(tables.processes, whole.processes);
    assert_eq!(tables.threads, whole.threads);
    assert!(tables.recording.notes == whole.recording.notes, "nothing was cut");
}

#[test]
fn one_process_reveals_nothing_of_the_others() {
    let mut facts = everything();
    for (process, name) in facts.tables.processes.iter_mut().zip(["first", "second", "third"]) {
        process.name = format!("{name}-program");
        process.path = format!("/opt/{name}-folder/program");
        process.command_line = vec![format!("{name}-argument")].into();
    }
    for mark in &mut facts.marks {
        if let MarkKind::Exec { path, command_line } = &mut mark.kind {
            *path = String::new();
            *command_line = Arc::default();
        }
    }
    let only = Cut {
        from: None,
        to: None,
        processes: Some(vec![true, false, false]),
    };
    let (tables, collected) = cut(&facts, &only);
    assert_eq!(tables.processes.len(), 1);
    let json = String::from_utf8(json(&tables, &collected)).unwrap();
    assert!(json.contains("first-program") && json.contains("first-argument"));
    for other in ["second-", "third-"] {
        assert!(!json.contains(other), "{other}");
    }
    assert_eq!(lint(json.as_bytes()), Vec::<String>::new());
}

#[test]
fn an_empty_time_range_is_a_valid_profile() {
    // Of the last, the end is before the start.
    for (from, to) in [(1_000_000, 1_000_001), (30, 30), (60, 30)] {
        let none = Cut {
            from: Some(at(from)),
            to: Some(at(to)),
            processes: None,
        };
        let mut facts = everything();
        let wait = facts.waits.first_mut().unwrap();
        (wait.start, wait.end) = (at(0), at(100));
        let (tables, collected) = cut(&facts, &none);
        let mut threads = collected.threads.iter();
        assert!(threads.all(|thread| thread.samples.is_empty() && thread.waits.is_empty()));
        check(&tables, &collected).unwrap();
    }
}

#[test]
fn a_cut_wait_ends_with_the_time_range() {
    let mut facts = everything();
    let wait = facts.waits.first_mut().unwrap();
    (wait.start, wait.end, wait.count) = (at(0), at(100), 1);
    (wait.off, wait.queued) = (Duration::from_millis(100), Duration::from_millis(30));
    let thread = wait.thread;
    let cut = |from, to| {
        let facts = cut(
            &facts,
            &Cut {
                from: Some(at(from)),
                to: Some(at(to)),
                processes: None,
            },
        );
        let kept = facts.1.threads.iter().flat_map(|thread| &thread.waits);
        let mut kept = kept.filter(|wait| wait.start == at(from) && wait.end == at(to));
        kept.next()
            .map(|wait| (wait.off.as_millis(), wait.queued.as_millis()))
            .unwrap()
    };
    assert_eq!(thread, facts.waits[0].thread);
    assert_eq!(cut(10, 60), (50, 0));
    assert_eq!(cut(10, 80), (70, 10));
    assert_eq!(cut(85, 95), (10, 10));
}
