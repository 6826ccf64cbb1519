//! Merging threads changes no total, and the busiest threads keep their rows.

use std::time::Duration;

use super::*;
use crate::FaultAccount;
use crate::fault::Access;
use crate::reduce::budget::{Budget, Collector};
use crate::wait::{Coverage, WakerFact};
use crate::{
    Effect, EffectKind, FactSink as _, FaultFact, HolderRef, Mark, MarkKind, Reason, SampleFact, WaitFact, WaitReason,
    account, fixtures,
};
use base::addr::{Avma, Timestamp, ns};

/// Processes of three threads each, by program name; the higher its number, the more a thread does.
fn recorded(programs: &[&str]) -> (Tables, Collected) {
    let mut tables = Tables::default();
    for (pid, name) in (0u32..).zip(programs) {
        let mut process = Process::born(100 + pid, (*name).to_owned(), Timestamp(u64::from(pid)));
        process.path = format!("/bin/{name}");
        process.parent = (pid > 0).then_some(ProcessId(0));
        process.main_thread = Some(ThreadId(pid * 3));
        process.end = (pid % 2 == 0).then_some(Timestamp(1000 + u64::from(pid)));
        tables.processes.push(process);
        for part in 0..3 {
            let number = pid * 3 + part;
            let name = format!("thread-{number}");
            let mut thread = Thread::born(ProcessId(pid), 1000 + number, name, Timestamp(u64::from(number)));
            thread.is_main = part == 0;
            thread.creator = number.checked_sub(1).map(ThreadId);
            thread.end = (pid % 2 == 0).then_some(Timestamp(500));
            thread.cpu_time_after_last_sample = 1;
            thread.sum_exec_runtime = Some(u64::from(number) * 10 + 1);
            (thread.minor_faults, thread.major_faults) = (Some(7), Some(0));
            thread.faults = Some(FaultAccount {
                seen: 3,
                before: (part > 0).then_some(4),
                ..FaultAccount::default()
            });
            if part == 0 {
                thread.faults = Some(FaultAccount::default());
            }
            tables.threads.push(thread);
        }
    }
    let mut collector = Collector::new(Budget::default());
    for number in 0..number(tables.threads.len()) {
        facts_of(&mut collector, &tables, number);
    }
    let collected = collector.finish(&mut tables);
    (tables, collected)
}

fn facts_of(collector: &mut Collector, tables: &Tables, number: u32) {
    let thread = ThreadId(number);
    let start = Timestamp(100 + u64::from(number));
    let mark = |kind| Mark {
        start,
        end: None,
        thread,
        stack: None,
        kind,
    };
    if number.is_multiple_of(3) {
        collector.mark(tables, &mark(MarkKind::ProcessStart));
    }
    let sample = SampleFact {
        time: start,
        thread,
        stack: None,
        cpu_time: Duration::from_nanos(u64::from(number) * 10),
        in_kernel: false,
        weight: 1,
    };
    collector.sample(tables, &sample);
    let fault = FaultFact {
        start,
        thread,
        latency: Some(Duration::from_nanos(5)),
        address: Avma(u64::from(number) << 12),
        access: Access::Write,
        ..fixtures::fault()
    };
    collector.fault(tables, &fault);
    let wait = WaitFact {
        start,
        end: Timestamp(start.0 + 50),
        thread,
        stack: None,
        off: Duration::from_nanos(50),
        queued: Duration::from_nanos(20),
        longest: Duration::from_nanos(50),
        count: 1,
        reason: WaitReason::Lock,
        call: None,
        waker: Some(WakerFact {
            time: start,
            pid: 100,
            tid: 1001,
            thread: Some(ThreadId(1)),
            stack: None,
            by_interrupt: None,
        }),
        coverage: Coverage::Full,
        in_fault: false,
        cpu: None,
        futex: None,
        lock: None,
        priority: None,
    };
    collector.wait(tables, &wait);
    let effect = |kind, thread| Effect { kind, thread, start };
    for kind in [EffectKind::Wait, EffectKind::Fault] {
        let holder = HolderRef {
            effect: effect(EffectKind::Wait, ThreadId(0)),
            end: start,
        };
        collector.joined(
            tables,
            &crate::Cause {
                effect: effect(kind, thread),
                reason: Reason::Holder(holder),
            },
        );
    }
}

/// Totals that must not change.
fn totals(tables: &Tables, collected: &Collected) -> Vec<u64> {
    let facts = || collected.threads.iter();
    let after = tables.threads.iter().map(|thread| thread.cpu_time_after_last_sample);
    let runtime = tables.threads.iter().filter_map(|thread| thread.sum_exec_runtime);
    let waits = collected.waits.values();
    let kept = facts().flat_map(|facts| &facts.waits);
    let folded = &tables.recording.folded_waits;
    let stacks = &collected.folded_wait_stacks;
    let account = account::check(tables);
    let rates = collected.faults.rates.all().flat_map(|rate| rate.steps.values());
    vec![
        facts()
            .flat_map(|facts| &facts.samples)
            .map(|sample| sample.cpu_time)
            .sum(),
        facts()
            .flat_map(|facts| &facts.samples)
            .map(|sample| sample.weight)
            .sum(),
        after.sum(),
        runtime.sum(),
        facts().map(|facts| facts.faults.len() as u64).sum(),
        facts()
            .flat_map(|facts| facts.faults.iter())
            .map(|fault| ns(fault.time()))
            .sum(),
        facts().map(|facts| facts.marks.len() as u64).sum(),
        waits.clone().map(|sum| sum.off).sum(),
        waits.map(|sum| sum.waits).sum(),
        kept.clone().map(|wait| ns(wait.off)).sum::<u64>() + folded.iter().map(|sum| sum.off).sum::<u64>(),
        kept.map(|wait| ns(wait.off)).sum::<u64>() + stacks.iter().map(|sum| sum.blocked + sum.queued).sum::<u64>(),
        account.seen,
        account.not_visible,
        rates.map(|step| step.0).sum(),
    ]
}

#[test]
fn few_threads_stay_as_they_are() {
    let (mut tables, mut collected) = recorded(&["sh", "cc"]);
    let before = (tables.clone(), collected.clone());
    gather(6, &mut tables, &mut collected);
    assert_eq!((tables, collected), before);
}

#[test]
fn sums_are_independent_of_merged_threads() {
    let programs = ["make", "sh", "cc", "sh", "cc", "ld", "sh"];
    for most in 0..21 {
        let (mut tables, mut collected) = recorded(&programs);
        let before = totals(&tables, &collected);
        gather(most, &mut tables, &mut collected);
        assert_eq!(totals(&tables, &collected), before, "{most}");
        assert_eq!(collected.threads.len(), tables.threads.len());
        let merged_threads = &tables.recording.merged_threads;
        let alone = tables.threads.len() - merged_threads.len();
        assert!(alone <= most, "{alone} of {most}");
        let all = alone as u64 + merged_threads.iter().map(|merged| merged.threads).sum::<u64>();
        assert_eq!(all, 21);
        for (facts, thread) in collected.threads.iter().zip((0..).map(ThreadId)) {
            assert!(facts.samples.is_sorted_by_key(|sample| sample.time));
            assert!(facts.faults.iter().is_sorted_by_key(|fault| fault.start));
            assert!(facts.faults.iter().all(|fault| fault.thread == thread));
            assert!(facts.waits.iter().all(|wait| wait.thread == thread));
            assert!(facts.marks.iter().all(|mark| mark.thread == thread));
        }
        let tid = |id: ThreadId| tables.threads[id.index()].tid;
        let creators = tables
            .threads
            .iter()
            .filter_map(|thread| Some((thread.tid, tid(thread.creator?))));
        assert!(creators.clone().all(|(tid, creator)| creator + 1 == tid));
        assert_eq!(
            creators.count(),
            alone.saturating_sub(1),
            "the busiest threads are the last ones"
        );
        for (process, id) in tables.processes.iter().zip((0..).map(ProcessId)) {
            let main = process.main_thread.unwrap();
            assert_eq!(tables.threads[main.index()].process, id);
            assert!(tables.threads[main.index()].is_main);
            assert!(
                process
                    .parent
                    .is_none_or(|parent| parent.index() < tables.processes.len())
            );
        }
        assert!(account::check(&tables).open.is_empty());
    }
}

#[test]
fn busiest_threads_stay_separate_and_others_merge_by_program() {
    let (mut tables, mut collected) = recorded(&["make", "sh", "cc", "sh", "cc"]);
    gather(2, &mut tables, &mut collected);
    let rows: Vec<(&str, &str)> = (tables.threads.iter())
        .map(|thread| (&*tables.processes[thread.process.index()].name, &*thread.name))
        .collect();
    let expected = [
        ("cc", "thread-13"),
        ("cc", "thread-14"),
        ("make", "3 threads of 1 process"),
        ("sh", "6 threads of 2 processes"),
        ("cc", "3 threads of 1 process"),
        ("cc", "1 other thread"),
    ];
    assert_eq!(rows, expected);
    let sh = tables.processes.iter().find(|process| process.name == "sh").unwrap();
    assert_eq!(
        (sh.pid, &*sh.path, sh.start, sh.end),
        (101, "/bin/sh", Timestamp(1), None)
    );
    assert_eq!(tables.recording.notes.len(), 1);
    // A merged wait has no cause; faults keep theirs, and the others' wakers have new numbers.
    let of_waits = collected
        .causes
        .iter()
        .filter(|cause| cause.effect.kind == EffectKind::Wait);
    assert_eq!((of_waits.count(), collected.causes.len()), (2, 2 + 15));
    let woken = collected.threads.iter().flat_map(|facts| &facts.waits);
    assert!(
        woken
            .map(|wait| wait.waker.as_ref().unwrap().thread)
            .all(|by| by == Some(ThreadId(2)))
    );
}
