//! Sums of waits and requests are conserved, however few the budget keeps.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

use proptest::prelude::*;

use super::*;
use crate::fixtures;
use crate::request::{BioFact, BioSource, Operation, RequestCoverage, RequestKind};
use crate::wait::{Coverage, WaitReason};
use crate::{DeviceId, Effect, EffectKind, HolderRef, Process, Reason, Thread};

fn tables() -> Tables {
    let process = Process {
        main_thread: Some(ThreadId(0)),
        ..fixtures::process(1, "p")
    };
    let thread = |tid| Thread {
        is_main: tid == 1,
        ..fixtures::thread(0, tid)
    };
    Tables {
        processes: vec![process],
        threads: (1..=3).map(thread).collect(),
        ..Tables::default()
    }
}

pub(super) fn wait(start: u64, off: u64, kind: usize) -> WaitFact {
    WaitFact {
        start: Timestamp(start),
        end: Timestamp(start + off),
        thread: ThreadId(u32::try_from(kind % 3).unwrap()),
        stack: None,
        off: Duration::from_nanos(off),
        queued: Duration::from_nanos(off / 3),
        longest: Duration::from_nanos(off),
        count: u32::try_from(1 + kind % 5).unwrap(),
        reason: WaitReason::ALL[kind % 7],
        call: None,
        waker: None,
        coverage: Coverage::Full,
        in_fault: kind.is_multiple_of(2),
        cpu: None,
        futex: None,
        lock: None,
        priority: None,
    }
}

fn request(start: u64, length: u64, bytes: u32) -> RequestFact {
    let bio = BioFact {
        time: Timestamp(start),
        pid: 1,
        tid: 1,
        name: String::new(),
        thread: None,
        stack: None,
        sector: 0,
        bytes,
        file: None,
        offset: None,
        source: BioSource::Unknown,
        in_fault: false,
        call: None,
    };
    RequestFact {
        start: Timestamp(start),
        end: Timestamp(start + length),
        device: DeviceId(bytes % 2),
        sector: 0,
        bytes,
        operation: if bytes.is_multiple_of(3) {
            Operation::Write
        } else {
            Operation::Read
        },
        kind: RequestKind::default(),
        queued: None,
        service: Some(Duration::from_nanos(length)),
        scheduled: false,
        depth: 0,
        error: 0,
        requeues: 0,
        coverage: if bytes.is_multiple_of(7) {
            RequestCoverage::EndMissed
        } else {
            RequestCoverage::Full
        },
        bio_only: false,
        bios: vec![bio; usize::try_from(bytes % 4).unwrap()],
    }
}

proptest! {
    #[test]
    fn sums_of_waits_and_requests_are_conserved(
        waits in prop::collection::vec((0u64..1000, 0u64..500, 0usize..50), 0..200),
        requests in prop::collection::vec((0u64..1000, 0u64..500, 0u32..5000), 0..100),
        samples in 0usize..300,
        marks in 0usize..400,
    ) {
        let mut tables = tables();
        let budget = Budget { samples, marks };
        let mut collector = Collector::new(budget);
        for (start, off, kind) in &waits {
            let wait = wait(*start, *off, *kind);
            collector.wait(&tables, &wait);
            let effect = Effect { kind: EffectKind::Wait, thread: wait.thread, start: wait.start };
            let reason = Reason::Holder(HolderRef { effect, end: wait.end });
            collector.joined(&tables, &Cause { effect, reason });
        }
        for (start, length, bytes) in &requests {
            collector.request(&tables, &request(*start, *length, *bytes));
        }
        let collected = collector.finish(&mut tables);
        let recording = &tables.recording;
        let kept: Vec<&WaitFact> = collected.threads.iter().flat_map(|thread| &thread.waits).collect();
        prop_assert!(kept.len() <= samples.max(1) / 6 && kept.len() <= marks / 4 || waits.is_empty() || kept.is_empty());

        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap();
        let off: u64 = waits.iter().map(|(_, off, _)| off).sum();
        let kept_off: u64 = kept.iter().map(|wait| ns(wait.off)).sum();
        prop_assert_eq!(kept_off + recording.folded_waits.iter().map(|f| f.off).sum::<u64>(), off);
        let in_tree: u64 = collected.folded_wait_stacks.iter().map(|f| f.blocked + f.queued).sum();
        prop_assert_eq!(kept_off + in_tree, off);
        prop_assert_eq!(collected.waits.values().map(|sum| sum.off).sum::<u64>(), off);
        let count: u64 = waits.iter().map(|(start, off, kind)| u64::from(wait(*start, *off, *kind).count)).sum();
        let kept_count: u64 = kept.iter().map(|wait| u64::from(wait.count)).sum();
        prop_assert_eq!(kept_count + recording.folded_waits.iter().map(|f| f.waits).sum::<u64>(), count);
        prop_assert_eq!(recording.waits_seen, count);
        // No folded wait is longer than a kept one.
        let shortest = kept.iter().map(|wait| wait.off).min();
        let longest = recording.folded_waits.iter().map(|folded| folded.longest).max();
        prop_assert!(shortest.zip(longest).is_none_or(|(kept, folded)| ns(kept) >= folded));
        let of_kept = |cause: &Cause| kept.iter().any(|wait| (wait.thread, wait.start) == (cause.effect.thread, cause.effect.start));
        prop_assert!(collected.causes.iter().all(of_kept));
        prop_assert!(collected.causes.len() >= kept.len());

        let bytes: u64 = requests.iter().map(|(_, _, bytes)| u64::from(*bytes)).sum();
        let kept_bytes: u64 = collected.requests.iter().map(|request| u64::from(request.bytes)).sum();
        prop_assert_eq!(kept_bytes + recording.folded_requests.iter().map(|f| f.bytes).sum::<u64>(), bytes);
        let totals = || collected.request_totals.values();
        let (finished, unfinished): (Vec<u32>, Vec<u32>) = requests.iter().map(|(_, _, bytes)| *bytes).partition(|bytes| bytes % 7 != 0);
        prop_assert_eq!(totals().map(|of| of.read + of.written).sum::<u64>(), finished.iter().map(|bytes| u64::from(*bytes)).sum::<u64>());
        prop_assert_eq!(totals().map(|of| of.requests).sum::<u64>(), finished.len() as u64);
        prop_assert_eq!(totals().map(|of| of.unfinished).sum::<u64>(), unfinished.len() as u64);
        let times = requests.iter().filter(|(_, _, bytes)| bytes % 7 != 0).map(|(_, length, _)| length);
        prop_assert_eq!(totals().map(|of| of.time).sum::<u64>(), times.sum::<u64>());
        let steps: Vec<LoadStep> = totals().flat_map(|of| of.load.steps()).collect();
        prop_assert_eq!(steps.iter().map(|step| step.complete).sum::<u64>(), finished.len() as u64);
        let under_way: u64 = requests.iter().map(|(_, length, _)| length).sum();
        prop_assert_eq!(steps.iter().map(|step| step.requests_ns).sum::<u128>(), u128::from(under_way));
        prop_assert_eq!(recording.requests_seen, requests.len() as u64);
        let folded: u64 = recording.folded_requests.iter().map(|f| f.requests).sum();
        prop_assert_eq!(collected.requests.len() as u64 + folded, requests.len() as u64);
        let markers: usize = collected.requests.iter().map(|request| 1 + request.bios.len()).sum();
        prop_assert!(markers <= marks / 4);
    }
}
