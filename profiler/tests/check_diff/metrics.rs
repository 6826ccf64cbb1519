//! Every metric of a recording with known sums, and why some are unknown.

use crate::made::{Made, recording};
use profiler::event::HookStatus;
use profiler::fact::fault::FaultClass;
use profiler::fact::{FoldedFaults, FoldedRequests, FoldedWaits, ThreadId, WaitReason};
use profiler::report::metrics::{By, Metric, Metrics};
use profiler_common::Loss;

const MS: u64 = 1_000_000;

/// The known part of a metric, and whether it is complete.
fn value_of(metrics: &Metrics, by: By, pattern: &str, key: &str) -> (u64, bool) {
    let (_, value) = metrics.sum(by, pattern, Metric::of_key(key).unwrap());
    (value.at_least, value.unknown.is_none())
}

#[track_caller]
fn expect(metrics: &Metrics, by: By, pattern: &str, values: &[(&str, u64)]) {
    for (key, value) in values {
        assert_eq!(
            value_of(metrics, by, pattern, key),
            (*value, true),
            "{} {pattern}: {key}",
            by.name()
        );
    }
}

#[test]
fn totals_count_successful_events_of_recorded_threads() {
    let metrics = recording().metrics();
    let total = [
        ("wall_ms", 900 * MS),
        ("cpu_ms", 10 * MS),
        ("faults", 6),
        ("major_faults", 1),
        ("fault_wait_ms", 6_050_000),
        ("cow_pages", 3),
        ("relocated_pages", 1),
        ("bytes_read", 16384),
        // Pages 1 and 3; pages 0 and 2 were touched.
        ("wasted_readahead_bytes", 8192),
        ("disk_wait_ms", 7 * MS),
        ("poll_wait_ms", 100 * MS),
        ("lock_wait_ms", 0),
    ];
    expect(&metrics, By::Total, "", &total);
    assert!(metrics.warnings.is_empty());
}

#[test]
fn parts_are_listed_by_name() {
    let metrics = recording().metrics();
    let of_file = [
        ("faults", 4),
        ("major_faults", 1),
        ("cow_pages", 2),
        ("relocated_pages", 1),
        ("bytes_read", 16384),
        ("wasted_readahead_bytes", 8192),
        // The wait that occurs within the fault, on the page of that fault.
        ("disk_wait_ms", 5 * MS),
    ];
    expect(&metrics, By::File, "libdemo.so", &of_file);
    expect(
        &metrics,
        By::File,
        "/etc/*.conf",
        &[("disk_wait_ms", 2 * MS), ("faults", 0)],
    );
    expect(&metrics, By::File, "demo", &[("cpu_ms", 7 * MS)]);
    expect(
        &metrics,
        By::Section,
        "libdemo.so:.data",
        &[
            ("faults", 2),
            ("cow_pages", 2),
            ("relocated_pages", 1),
            ("bytes_read", 0),
        ],
    );
    expect(
        &metrics,
        By::Section,
        ".text",
        &[
            ("faults", 2),
            ("fault_wait_ms", 6_010_000),
            ("bytes_read", 16384),
            ("wasted_readahead_bytes", 8192),
            ("relocated_pages", 0),
        ],
    );
    expect(
        &metrics,
        By::Function,
        "load",
        &[
            ("cpu_ms", 4 * MS),
            ("faults", 2),
            ("disk_wait_ms", 7 * MS),
            ("bytes_read", 16384),
            // They were read by its fault.
            ("wasted_readahead_bytes", 8192),
        ],
    );
    expect(
        &metrics,
        By::Function,
        "_dl_relocate_object",
        &[("relocated_pages", 1), ("wasted_readahead_bytes", 0)],
    );
    expect(&metrics, By::Function, "main", &[("cpu_ms", 3 * MS), ("cow_pages", 2)]);
    expect(
        &metrics,
        By::Thread,
        "worker",
        &[("faults", 1), ("cow_pages", 1), ("cpu_ms", 0)],
    );
    expect(
        &metrics,
        By::Thread,
        "demo/demo",
        &[
            ("faults", 5),
            ("cpu_ms", 10 * MS),
            ("relocated_pages", 1),
            ("wasted_readahead_bytes", 8192),
        ],
    );
    expect(
        &metrics,
        By::Phase,
        "ld.so",
        &[("cow_pages", 1), ("relocated_pages", 1)],
    );
    assert_eq!(metrics.sum(By::File, "nothing", Metric::Faults).0, 0);
}

fn without(noun: &str, refused: Option<&str>) -> Made {
    let mut made = recording();
    let recording = &mut made.tables.recording;
    recording.hooks.retain(|hook| hook.noun != noun);
    if let Some(why) = refused {
        recording.hooks.push(HookStatus {
            noun: noun.into(),
            hook: "tp_btf/some_hook".into(),
            refused: Some(why.into()),
            remedy: None,
        });
    }
    match noun {
        "fault" => {
            made.faults.clear();
            made.reads.clear();
        }
        "block" => {
            recording.requests_seen = 0;
            made.requests.clear();
        }
        _ => {
            recording.waits_seen = 0;
            made.waits.clear();
        }
    }
    made
}

/// Why a total is unknown.
fn why(made: &Made, by: By, key: &str) -> Option<String> {
    made.metrics().unknown(by, Metric::of_key(key).unwrap())
}

#[test]
fn unrecorded_metrics_are_unknown_with_a_reason() {
    let made = without("fault", Some("EPERM"));
    for key in [
        "faults",
        "major_faults",
        "cow_pages",
        "relocated_pages",
        "wasted_readahead_bytes",
        "fault_wait_ms",
    ] {
        let why = why(&made, By::Total, key).unwrap();
        assert!(why.contains("refused tp_btf/some_hook (EPERM)"), "{why}");
    }
    assert_eq!(why(&made, By::Total, "disk_wait_ms"), None);
    assert!(why(&made, By::Phase, "cpu_ms").unwrap().contains("phases"));
    assert!(
        why(&without("fault", None), By::File, "faults")
            .unwrap()
            .contains("`--faults off`")
    );
    assert!(
        why(&without("block", None), By::Total, "bytes_read")
            .unwrap()
            .contains("`--block off`")
    );
    let made = without("switch", None);
    assert!(
        why(&made, By::Total, "lock_wait_ms")
            .unwrap()
            .contains("`--off-cpu off`")
    );
    assert_eq!(why(&made, By::Total, "faults"), None);
}

#[test]
fn nothing_is_known_of_a_damaged_log() {
    let mut made = recording();
    made.tables.recording.losses = vec![(Loss::LogDamaged.name().into(), 1)];
    for (by, key) in [
        (By::Total, "faults"),
        (By::Thread, "cpu_ms"),
        (By::File, "disk_wait_ms"),
    ] {
        let why = why(&made, by, key).unwrap();
        assert!(why.contains("1 log chunk damaged"), "{why}");
    }
}

#[test]
fn folded_events_are_in_totals_but_unknown_by_file() {
    let mut made = recording();
    let recording = &mut made.tables.recording;
    recording.folded_faults = vec![FoldedFaults {
        thread: ThreadId(1),
        class: FaultClass::Cow,
        major: true,
        faults: 100,
        time: 5000,
        pages_read: 0,
    }];
    recording.folded_waits = vec![FoldedWaits {
        thread: ThreadId(1),
        reason: WaitReason::Lock,
        waits: 9,
        off: MS,
        queued: 0,
        longest: 5,
    }];
    recording.folded_requests = vec![FoldedRequests {
        device: fact::DeviceId(0),
        operation: fact::request::Operation::Read,
        requests: 3,
        bytes: 4096,
        time: 1,
    }];
    let metrics = made.metrics();
    let total = [
        ("faults", 106),
        ("major_faults", 101),
        ("cow_pages", 103),
        ("lock_wait_ms", MS),
    ];
    expect(&metrics, By::Total, "", &total);
    expect(&metrics, By::Thread, "worker", &[("faults", 101), ("lock_wait_ms", MS)]);
    for (by, key, at_least) in [
        (By::File, "faults", 4),
        (By::Function, "disk_wait_ms", 7 * MS),
        (By::Total, "bytes_read", 16384),
        (By::Total, "relocated_pages", 1),
    ] {
        assert_eq!(value_of(&metrics, by, "*", key), (at_least, false), "{key}");
        assert!(why(&made, by, key).unwrap().contains("--keep-events"));
    }
}

#[test]
fn omitted_faults_leave_only_major_ones_known() {
    let mut made = recording();
    let thread = &mut made.tables.threads[0];
    (thread.minor_faults, thread.major_faults) = (Some(40), Some(1));
    thread.faults = Some(fact::FaultAccount {
        seen: 5,
        filtered: 36,
        before: Some(0),
        ..Default::default()
    });
    assert!(
        why(&made, By::Total, "faults")
            .unwrap()
            .contains("faults excluded by `--faults`: 36;")
    );
    assert_eq!(why(&made, By::Total, "major_faults"), None);
}

#[test]
fn losses_are_reported_with_the_metrics() {
    let mut made = recording();
    made.tables.recording.losses = vec![("ring full: faults".into(), 12)];
    assert!(made.metrics().warnings[0].contains("events lost (12 ring full: faults)"));
}
