//! Totals are conserved, however far samples are thinned.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

use std::cmp::Reverse;

use proptest::prelude::*;

use super::*;
use crate::fault::{FaultClass, FilePlace, PageRange, PagesBy};
use crate::fixtures;
use crate::{Frame, FrameId, Location, MappedFileId, MarkKind, Process, StackNode, Thread, TruncationReason};
use base::addr::{Avma, FileOffset};

pub(super) fn tables(threads: u32) -> Tables {
    let thread = |tid| Thread {
        name: format!("t{tid}"),
        is_main: tid == 1,
        ..fixtures::thread(0, tid)
    };
    Tables {
        processes: vec![Process {
            main_thread: Some(ThreadId(0)),
            ..fixtures::process(1, "p")
        }],
        threads: (1..=threads).map(thread).collect(),
        ..Tables::default()
    }
}

pub(super) fn sample(thread: u32, time: u64, cpu: u64, stack: Option<u32>) -> SampleFact {
    SampleFact {
        time: Timestamp(time),
        thread: ThreadId(thread),
        stack: stack.map(StackId::new),
        cpu_time: Duration::from_nanos(cpu),
        in_kernel: false,
        weight: 1,
    }
}

fn program(start: u64, end: Option<u64>) -> Mark {
    Mark {
        start: Timestamp(start),
        end: end.map(Timestamp),
        thread: ThreadId(0),
        stack: None,
        kind: MarkKind::Program {
            text: format!("m{start}"),
        },
    }
}

#[test]
fn within_the_budget_every_sample_is_kept() {
    let mut tables = tables(1);
    let mut collector = Collector::new(Budget { samples: 5, marks: 5 });
    let facts: Vec<_> = (0..5).map(|i| sample(0, i * 10, i, None)).collect();
    for fact in &facts {
        collector.sample(&tables, fact);
    }
    let collected = collector.finish(&mut tables);
    assert_eq!(
        collected.threads[0].samples,
        facts.iter().map(KeptSample::from).collect::<Vec<_>>()
    );
    assert_eq!((collected.thinning, tables.recording.sample_thinning), (1, 1));
}

#[test]
fn the_last_sample_of_a_group_has_its_weight() {
    let mut tables = tables(1);
    let mut collector = Collector::new(Budget { samples: 2, marks: 0 });
    for i in 1..=5 {
        collector.sample(&tables, &sample(0, i * 10, i, None));
    }
    // Third sample: (1,2) merge and 3 waits; fifth: 5 waits alone.
    let kept = collector.finish(&mut tables).threads.remove(0).samples;
    let seen: Vec<_> = kept.iter().map(|s| (s.time.0, s.cpu_time, s.weight)).collect();
    assert_eq!(seen, [(20, 1 + 2, 2), (40, 3 + 4, 2), (50, 5, 1)]);
    assert_eq!(tables.recording.sample_thinning, 2);
}

#[test]
fn thinning_of_a_thinned_source_multiplies() {
    let mut tables = tables(1);
    tables.recording.sample_thinning = 4;
    let mut collector = Collector::new(Budget { samples: 1, marks: 0 });
    for i in 0..2 {
        collector.sample(
            &tables,
            &SampleFact {
                weight: 4,
                ..sample(0, i, 1, None)
            },
        );
    }
    let collected = collector.finish(&mut tables);
    assert_eq!(tables.recording.sample_thinning, 8);
    assert_eq!(collected.threads[0].samples.iter().map(|s| s.weight).sum::<u64>(), 8);
}

#[test]
fn stacks_that_no_kept_sample_uses_are_removed_and_the_rest_keep_their_frames() {
    let mut tables = tables(1);
    let reasons = [
        TruncationReason::NoMapping,
        TruncationReason::Limit,
        TruncationReason::BadChain,
    ];
    tables.frames = reasons
        .map(|reason| Frame {
            location: Location::Truncated(reason),
            is_return_address: false,
        })
        .to_vec();
    tables.stacks = vec![
        StackNode {
            parent: None,
            frame: FrameId(0),
        },
        StackNode {
            parent: None,
            frame: FrameId(1),
        },
        StackNode {
            parent: Some(StackId::new(1)),
            frame: FrameId(2),
        },
    ];
    tables.names.insert(FrameId(0), crate::FrameName::default());
    tables.names.insert(
        FrameId(2),
        crate::FrameName {
            symbol: "leaf".into(),
            ..Default::default()
        },
    );
    let mut collector = Collector::new(Budget { samples: 1, marks: 0 });
    collector.sample(&tables, &sample(0, 1, 1, Some(0)));
    collector.sample(&tables, &sample(0, 2, 1, Some(2)));
    let collected = collector.finish(&mut tables);

    let leaf = collected.threads[0].samples[0].stack.unwrap();
    let node = tables.stacks[leaf.index()];
    let reason = |frame: FrameId| tables.frames[frame.index()].location.clone();
    assert_eq!(reason(node.frame), Location::Truncated(TruncationReason::BadChain));
    assert_eq!(&*tables.names[&node.frame].symbol, "leaf");
    let root = tables.stacks[node.parent.unwrap().index()];
    assert_eq!(reason(root.frame), Location::Truncated(TruncationReason::Limit));
    assert_eq!(
        (tables.stacks.len(), tables.frames.len(), tables.names.len()),
        (2, 2, 1)
    );
}

#[test]
fn long_and_early_marks_and_process_lifetimes_are_kept() {
    let mut tables = tables(1);
    let mut collector = Collector::new(Budget { samples: 1, marks: 2 });
    for mark in [
        program(5, Some(6)),
        program(1, None),
        program(2, Some(90)),
        program(9, Some(10)),
    ] {
        collector.mark(&tables, &mark);
    }
    collector.mark(
        &tables,
        &Mark {
            kind: MarkKind::ProcessStart,
            ..program(0, None)
        },
    );
    let collected = collector.finish(&mut tables);
    let starts: Vec<_> = collected.threads[0].marks.iter().map(|mark| mark.start.0).collect();
    assert_eq!(starts, [0, 2, 5]);
    assert_eq!(collected.marks_dropped, 2);
    assert!(tables.recording.notes[0].starts_with("markers dropped (the shortest and latest first): 2;"));
}

pub(super) fn fault(start: u64, latency: u64, major: bool) -> FaultFact {
    FaultFact {
        start: Timestamp(start),
        latency: Some(Duration::from_nanos(latency)),
        thread: ThreadId(u32::from(start.is_multiple_of(3))),
        address: Avma(start),
        class: if start.is_multiple_of(2) {
            FaultClass::FileRead
        } else {
            FaultClass::Anonymous
        },
        place: Some(FilePlace {
            file: MappedFileId(0),
            offset: FileOffset(0),
            byte: FileOffset(0),
        }),
        major,
        pages_read: u32::from(major) * 32,
        ..fixtures::fault()
    }
}

fn read(time: u64, pages: u32) -> PagesReadFact {
    PagesReadFact {
        time: Timestamp(time),
        thread: ThreadId(0),
        file: MappedFileId(0),
        pages: PageRange {
            first: time,
            count: pages,
        },
        by: [PagesBy::Fault, PagesBy::Call][usize::from(!time.is_multiple_of(2))],
        order: Some(0),
    }
}

#[test]
fn the_shortest_minor_faults_are_folded_first_then_reads_then_major_faults() {
    let mut tables = tables(2);
    let kept = |marks: usize| {
        let mut tables = tables.clone();
        let mut collector = Collector::new(Budget { samples: 1, marks });
        for fact in [
            fault(2, 10, true),
            fault(4, 500, false),
            fault(5, 400, false),
            fault(8, 90, true),
        ] {
            collector.fault(&tables, &fact);
        }
        collector.pages_read(&tables, &read(1, 7));
        collector.mark(&tables, &program(3, None));
        let collected = collector.finish(&mut tables);
        let of = |facts: &ThreadFacts| {
            let faults = facts.faults.iter().map(|fault| fault.start.0);
            faults
                .chain(facts.reads.iter().map(|read| read.time.0))
                .chain(facts.marks.iter().map(|mark| mark.start.0))
                .collect::<Vec<_>>()
        };
        (
            collected.threads.iter().flat_map(of).collect::<Vec<_>>(),
            tables.recording,
        )
    };
    assert_eq!(kept(6).0, [2, 4, 5, 8, 1, 3]);
    assert_eq!(kept(5).0, [2, 4, 8, 1, 3]);
    assert_eq!(kept(3).0, [2, 8, 3], "the read goes after the minor faults");
    assert_eq!(kept(2).0, [8, 3]);
    let (rest, recording) = kept(0);
    assert_eq!(rest, [0u64; 0]);
    let folded: Vec<_> = recording
        .folded_faults
        .iter()
        .map(|f| (f.class, f.major, f.faults, f.time, f.pages_read))
        .collect();
    let expected = [
        (FaultClass::FileRead, false, 1, 500, 0),
        (FaultClass::FileRead, true, 2, 100, 64),
        (FaultClass::Anonymous, false, 1, 400, 0),
    ];
    assert_eq!(folded, expected);
    assert_eq!(recording.folded_reads[0].pages, 7);
    assert_eq!(recording.notes.len(), 3, "{:?}", recording.notes);
    tables.recording = recording;

    // A folded fact stays folded.
    let mut collector = Collector::new(Budget { samples: 1, marks: 0 });
    collector.fault(&tables, &fault(10, 1, false));
    collector.finish(&mut tables);
    let sum = tables
        .recording
        .folded_faults
        .iter()
        .map(|folded| folded.faults)
        .sum::<u64>();
    assert_eq!(sum, 5);
}

proptest! {
    #[test]
    fn sums_of_faults_and_reads_are_conserved(
        faults in prop::collection::vec((0u64..1000, 0u64..500, any::<bool>()), 0..200),
        reads in prop::collection::vec((0u64..1000, 1u32..99), 0..50),
        budget in 0usize..60,
    ) {
        let mut tables = tables(2);
        let mut collector = Collector::new(Budget { samples: 1, marks: budget });
        for (start, latency, major) in &faults {
            collector.fault(&tables, &fault(*start, *latency, *major));
        }
        for (time, pages) in &reads {
            collector.pages_read(&tables, &read(*time, *pages));
        }
        let collected = collector.finish(&mut tables);
        let kept: Vec<FaultFact> = collected.threads.iter().flat_map(|thread| thread.faults.iter()).collect();
        let kept_reads: Vec<_> = collected.threads.iter().flat_map(|thread| thread.reads.clone()).collect();
        prop_assert_eq!(kept.len() + kept_reads.len(), (faults.len() + reads.len()).min(budget));
        let recording = &tables.recording;
        let time: u64 = faults.iter().map(|(_, latency, _)| latency).sum();
        let kept_time: u64 = kept.iter().map(|fault| ns(fault.time())).sum();
        prop_assert_eq!(kept_time + recording.folded_faults.iter().map(|f| f.time).sum::<u64>(), time);
        prop_assert_eq!(kept_time + collected.folded_stacks.iter().map(|f| f.latency).sum::<u64>(), time);
        let count = kept.len() as u64 + recording.folded_faults.iter().map(|f| f.faults).sum::<u64>();
        prop_assert_eq!(count, faults.len() as u64);
        let pages: u64 = reads.iter().map(|(_, pages)| u64::from(*pages)).sum();
        let kept_pages: u64 = kept_reads.iter().map(|read| u64::from(read.pages.count)).sum();
        prop_assert_eq!(kept_pages + recording.folded_reads.iter().map(|f| f.pages).sum::<u64>(), pages);
        prop_assert_eq!((collected.faults.faults, collected.faults.time), (faults.len() as u64, time));
        let rates = collected.faults.rates.all().flat_map(|rate| rate.steps.values());
        prop_assert_eq!(rates.map(|(faults, _)| faults).sum::<u64>(), faults.len() as u64);
        // A kept minor fault is at least as long as a folded one, and no major fault is folded before it.
        let minor = kept.iter().any(|fault| !fault.major);
        prop_assert!(!minor || !recording.folded_faults.iter().any(|folded| folded.major));
    }

    #[test]
    fn totals_of_every_thread_are_conserved(
        facts in prop::collection::vec((0u32..5, 0u64..1000, 1u32..4), 0..400),
        budget in 0usize..40,
    ) {
        let mut tables = tables(5);
        let mut collector = Collector::new(Budget { samples: budget, marks: 0 });
        let mut expected = [(0u64, 0u64, 0u64); 5];
        for (time, (thread, cpu, weight)) in facts.iter().enumerate() {
            let time = time as u64;
            collector.sample(&tables, &SampleFact { weight: *weight, ..sample(*thread, time, *cpu, None) });
            let total = &mut expected[*thread as usize];
            *total = (total.0 + cpu, total.1 + u64::from(*weight), time);
        }
        let collected = collector.finish(&mut tables);
        let kept: usize = collected.threads.iter().map(|t| t.samples.len()).sum();
        prop_assert!(kept <= budget.max(1) + 5);
        for (thread, (cpu, weight, last)) in collected.threads.iter().zip(expected) {
            prop_assert_eq!(thread.samples.iter().map(|s| s.cpu_time).sum::<u64>(), cpu);
            prop_assert_eq!(thread.samples.iter().map(|s| s.weight).sum::<u64>(), weight);
            prop_assert!(thread.samples.is_sorted_by_key(|s| s.time));
            if weight > 0 {
                prop_assert_eq!(thread.samples.last().map(|s| s.time), Some(Timestamp(last)));
            }
        }
    }

    #[test]
    fn every_mark_is_kept_or_counted(starts in prop::collection::vec((0u64..100, 0u64..50), 0..200), budget in 0usize..30) {
        let mut tables = tables(1);
        let mut collector = Collector::new(Budget { samples: 1, marks: budget });
        for (start, len) in &starts {
            collector.mark(&tables, &program(*start, Some(start + len)));
        }
        let collected = collector.finish(&mut tables);
        let marks = &collected.threads[0].marks;
        prop_assert_eq!(marks.len(), starts.len().min(budget));
        prop_assert_eq!(marks.len() as u64 + collected.marks_dropped, starts.len() as u64);
        let mut lengths: Vec<u64> = starts.iter().map(|(_, len)| *len).collect();
        lengths.sort_unstable_by_key(|len| Reverse(*len));
        lengths.truncate(budget);
        let mut kept: Vec<u64> = marks.iter().map(|mark| mark.end.unwrap().0 - mark.start.0).collect();
        kept.sort_unstable_by_key(|len| Reverse(*len));
        prop_assert_eq!(kept, lengths);
    }
}
