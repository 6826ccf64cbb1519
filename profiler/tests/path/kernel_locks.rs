//! Locks of the kernel: which one, which thread had it, and for how long threads waited, as the programs know it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::harness::skip::{self, needs_capture};
use crate::harness::{Ngmi, Outcome};
use crate::run::{Run, TOLERANCE, record};

/// A system call that may wait for the lock, by `CLOCK_MONOTONIC` in ns.
#[derive(Debug, Deserialize)]
struct Call {
    start: u64,
    end: u64,
    tid: u32,
    /// The thread that had the lock meanwhile, if one had.
    holder: u32,
}

/// A row of `ngmi waits --ndjson`.
#[derive(Debug, Deserialize)]
struct Wait {
    time_ns: u64,
    end_ns: u64,
    tid: u32,
    off_ns: u64,
    queued_ns: u64,
    count: u32,
    function: Option<String>,
    kernel_lock: Option<String>,
    kernel_lock_kind: Option<String>,
    holder_tid: Option<u32>,
    priority: Option<u64>,
}

/// Whether the kernel reports contention; counts the test as skipped if not.
fn reports_locks() -> bool {
    let folders = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    let has = folders.iter().any(|folder| {
        std::path::Path::new(folder)
            .join("events/lock/contention_begin")
            .exists()
    });
    if !has {
        skip::skip("this kernel has no lock:contention_begin (Linux 5.19), or tracefs is not mounted");
    }
    has
}

#[track_caller]
fn waits(outcome: &Outcome, input: &str) -> Vec<Wait> {
    let ngmi = Ngmi::subcommand("waits").arg(outcome.file(input)).arg("--ndjson");
    let rows = ngmi.run().expect_code(0).stdout.clone();
    rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect()
}

#[track_caller]
fn locks(outcome: &Outcome, input: &str) -> Vec<Value> {
    let ngmi = Ngmi::subcommand("waits").arg(outcome.file(input));
    let report = ngmi.args(["--locks", "--json"]).run().expect_code(0).stdout.clone();
    let report: Value = serde_json::from_str(&report).unwrap();
    report["locks"].as_array().unwrap().clone()
}

fn calls(run: &Run) -> Vec<Call> {
    let calls = run.others.iter().cloned().map(serde_json::from_value);
    calls.collect::<Result<_, _>>().unwrap()
}

/// The waits of the call, whatever for: the clock is read before and after it.
fn during<'w>(run: &Run, waits: &'w [Wait], call: &Call) -> impl Iterator<Item = &'w Wait> {
    let (tid, start, end) = (call.tid, call.start - run.start, call.end - run.start);
    waits
        .iter()
        .filter(move |wait| wait.tid == tid && wait.time_ns >= start && wait.end_ns <= end)
}

/// Those for a lock of this kind.
fn within<'w>(run: &Run, waits: &'w [Wait], call: &Call, kind: &str) -> Vec<&'w Wait> {
    let is = |wait: &&Wait| wait.kernel_lock_kind.as_deref() == Some(kind);
    during(run, waits, call).filter(is).collect()
}

#[test]
fn the_lock_of_an_address_space_has_its_name_and_holder() {
    needs_capture!();
    if !reports_locks() {
        return;
    }
    // Each call's time is that of its wait, which includes the time until the thread had a CPU again.
    let difference = |run: &Run| {
        let waits = waits(&run.outcome, "log");
        calls(run).iter().find_map(|call| {
            let off: u64 = during(run, &waits, call).map(|wait| wait.off_ns).sum();
            let differ = off.abs_diff(call.end - call.start);
            (differ > TOLERANCE).then(|| format!("{call:?}: waited for {off} ns"))
        })
    };
    let Some(run) = record("mmaplock", difference) else {
        return;
    };
    for input in ["log", "out.json.gz"] {
        let waits = waits(&run.outcome, input);
        for call in calls(&run) {
            for wait in within(&run, &waits, &call, "rwsem read") {
                assert_eq!(wait.kernel_lock.as_deref(), Some("mmap_lock"), "{input}: {wait:?}");
                if wait.off_ns > TOLERANCE {
                    assert_eq!(wait.holder_tid, Some(call.holder), "{input}: {wait:?}");
                }
            }
        }
        let locks = locks(&run.outcome, input);
        let lock = locks
            .iter()
            .find(|lock| lock["lock"] == "mmap_lock of mmaplock")
            .unwrap();
        assert_eq!(lock["kind"], "rwsem", "{lock}");
        assert_eq!(lock["process"], "mmaplock", "{lock}");
        let holder = &lock["by_holder"][0];
        assert_eq!(holder["thread"], "holder", "{lock}");
        let blocked: u64 = calls(&run).iter().map(|call| call.end - call.start).sum();
        let queued: u64 = waits.iter().map(|wait| wait.queued_ns).sum();
        let seen = holder["blocked_ns"].as_u64().unwrap();
        assert!(
            seen <= blocked + TOLERANCE && seen + queued + 5 * TOLERANCE >= blocked,
            "{lock}"
        );
    }
}

#[test]
fn the_lock_of_an_inode_is_held_by_the_other_writer() {
    needs_capture!();
    if !reports_locks() {
        return;
    }
    let Some(run) = record("inodelock", |_| None) else {
        return;
    };
    let (waits, calls) = (waits(&run.outcome, "log"), calls(&run));
    let mut seen = 0;
    let of_calls = calls.iter().flat_map(|call| within(&run, &waits, call, "rwsem write"));
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for wait in of_calls {
        *times
            .entry(wait.kernel_lock.as_deref().unwrap_or_default())
            .or_default() += 1;
    }
    // Writers also wait for other locks of the inode, which other threads hold.
    let most = times.into_iter().max_by_key(|(_, times)| *times).map(|(lock, _)| lock);
    for call in &calls {
        let of_call = within(&run, &waits, call, "rwsem write");
        for wait in of_call.into_iter().filter(|wait| wait.kernel_lock.as_deref() == most) {
            // Whoever has the lock at that moment: the other one, or none while it is passed on.
            assert!(
                wait.holder_tid.is_none_or(|holder| holder == call.holder),
                "{call:?} {wait:?}"
            );
            assert!(
                wait.count > 1 || wait.off_ns <= call.end - call.start,
                "{call:?} {wait:?}"
            );
            assert!(wait.function.is_some() && wait.priority.is_some(), "{wait:?}");
            seen += u32::from(wait.holder_tid.is_some());
        }
    }
    let locks = locks(&run.outcome, "log");
    let of_inode = locks
        .iter()
        .filter(|lock| lock["kind"] == "rwsem" && lock["waiters"] == 2);
    let Some(lock) = of_inode.max_by_key(|lock| lock["waits"].as_u64()) else {
        return skip::skip("the writers did not meet");
    };
    assert!(seen > 0, "{lock}");
    assert!(lock["number"].is_number() && lock["address"].is_null(), "{lock}");
    assert!(lock["function"].as_str().unwrap().contains("ext4"), "{lock}");
    let holders = lock["by_holder"].as_array().unwrap().iter();
    let tids: Vec<u64> = holders.filter_map(|holder| holder["tid"].as_u64()).collect();
    for call in &calls {
        assert!(tids.contains(&u64::from(call.holder)), "{lock}");
    }
}

/// Whether the kernel lists this variable; counts the test as skipped if not.
fn lists(variable: &str) -> bool {
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap();
    let mut lines = symbols.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let is_listed = lines.any(|words| matches!(words[..], [_, "b" | "B" | "d" | "D", name] if name == variable));
    if !is_listed {
        skip::skip(&format!(
            "this kernel lists no variable {variable} (CONFIG_KALLSYMS_ALL)"
        ));
    }
    is_listed
}

#[test]
fn a_lock_that_is_a_variable_has_its_name() {
    needs_capture!();
    if !reports_locks() || !lists("namespace_sem") {
        return;
    }
    let Some(run) = record("mountlock", |_| None) else {
        return;
    };
    for input in ["log", "out.json.gz"] {
        let locks = locks(&run.outcome, input);
        let found = locks.iter().find(|lock| lock["lock"] == "namespace_sem");
        let lock = found.unwrap_or_else(|| panic!("{input}: {locks:?}"));
        assert_eq!(
            (&lock["kind"], &lock["number"]),
            (&"rwsem".into(), &Value::Null),
            "{lock}"
        );
        assert!((2..=4).contains(&lock["waiters"].as_u64().unwrap()), "{lock}");
    }
}

/// The threads of `inversion.c`, by tid, and times in ns.
#[derive(Debug, Deserialize)]
struct Inverted {
    low: u64,
    middle: u64,
    high: u64,
    start: u64,
    end: u64,
    /// For how long the one with the middle priority ran.
    taken: u64,
}

#[test]
fn a_priority_inversion_is_named_with_its_threads() {
    needs_capture!();
    let known = |run: &Run| -> Inverted { serde_json::from_value(run.others[0].clone()).unwrap() };
    let of = |run: &Run| {
        let locks = locks(&run.outcome, "log");
        let waits = |lock: &Value| lock["by_waiter"][0]["tid"].as_u64() == Some(known(run).high);
        locks.into_iter().find(waits).unwrap()
    };
    // A hypervisor may stop the CPU meanwhile.
    let difference = |run: &Run| {
        let (known, lock) = (known(run), of(run));
        let blocked = lock["blocked_ns"].as_u64().unwrap();
        let differ = blocked.abs_diff(known.end - known.start);
        (differ > TOLERANCE).then(|| format!("{known:?}: blocked for {blocked} ns"))
    };
    let Some(run) = record("inversion", difference) else {
        return;
    };
    let (known, lock) = (known(&run), of(&run));
    let patterns = lock["patterns"].as_array().unwrap();
    assert!(patterns.contains(&"priority inversion".into()), "{lock}");
    let worst = &lock["inversions"][0];
    // `MAX_RT_PRIO` - 1 - the program's own numbers (include/linux/sched/prio.h).
    for (role, tid, priority) in [
        ("waiter", known.high, 69),
        ("ran", known.middle, 79),
        ("holder", known.low, 89),
    ] {
        assert_eq!(worst[role]["tid"], tid, "{lock}");
        assert_eq!(worst[role]["priority"], priority, "{lock}");
    }
    let time = worst["time_ns"].as_u64().unwrap();
    assert!(
        time <= known.taken + TOLERANCE && time + TOLERANCE >= 50_000_000,
        "{time} of {known:?}"
    );
    let text = Ngmi::subcommand("waits")
        .arg(run.outcome.file("log"))
        .arg("--locks")
        .run();
    let text = text.expect_code(0).stdout.clone();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("priority inversion: "), "{text}");
    assert!(text.contains("high (real-time 30) waited "), "{text}");
    assert!(
        text.contains("low (real-time 10), while middle (real-time 20) ran"),
        "{text}"
    );
}
