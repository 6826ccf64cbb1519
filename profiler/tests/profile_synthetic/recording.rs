//! Metadata of the recording as a whole.

use profiler::event::owners::{Container, Pod};
use profiler::event::usage::{CgroupUsage, MemoryEvents, Pressure, UsageHierarchy, UsageSample};
use profiler::event::{Cost, HookStatus, ProcessCost, ProgramCost, ProgramCosts, RingCost, Thinning, ThinningStep};
use profiler::fact::{Recording, StackEnds, TruncationReason, Walks};

use super::{CONTAINER, MS, at};

pub fn recording() -> Recording {
    Recording {
        ngmi_version: "0.1.0".into(),
        command: vec!["demo".into(), "a b".into(), "it's".into()],
        scope: "command".into(),
        start: at(0),
        start_unix_ms: 1_700_000_000_000,
        end: at(100),
        end_reason: Some("command exited".into()),
        command_status: Some(3 << 8),
        kernel: "6.18.0".into(),
        arch: "x86_64".into(),
        page_size: 0,
        cpus: 2,
        sample_hz: 1000,
        sample_event: "cpu-clock".into(),
        stack_copy: 65536,
        hooks: vec![HookStatus {
            noun: "sample".into(),
            hook: "perf cycles".into(),
            refused: Some("no PMU".into()),
            remedy: Some("use real hardware".into()),
        }],
        losses: vec![("sample ring full".into(), u64::MAX)],
        walks: Walks {
            ends: vec![("complete".to_owned(), 90), ("no table".to_owned(), 10)],
            stacks: 12,
            resent: 1,
            checked: Some((90, 0)),
        },
        stack_ends: vec![
            StackEnds {
                module: "libdemo.so".into(),
                reason: None,
                samples: 90,
            },
            StackEnds {
                module: "demo".into(),
                reason: Some(TruncationReason::NoUnwindInfo),
                samples: 10,
            },
        ],
        fault_stack_ends: vec![StackEnds {
            module: "ld.so".into(),
            reason: None,
            samples: 6,
        }],
        wait_stack_ends: vec![StackEnds {
            module: "libdemo.so".into(),
            reason: None,
            samples: 9,
        }],
        cost: Some(cost()),
        sample_thinning: 1,
        samples_seen: 100,
        faults_seen: 0,
        folded_faults: Vec::new(),
        folded_reads: Vec::new(),
        waits_seen: 0,
        folded_waits: Vec::new(),
        requests_seen: 0,
        folded_requests: Vec::new(),
        cpu_time_seen: 99 * MS,
        merged_threads: Vec::new(),
        containers: vec![Container {
            id: CONTAINER.into(),
            name: Some("web".into()),
            pod: Some(Pod {
                namespace: "prod".into(),
                name: "shop-0".into(),
                uid: "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0".into(),
            }),
        }],
        cgroup_usage: cgroup_usage(),
        has_unread_limits: true,
        gecko: None,
        notes: vec!["Kernel names are hidden; run as root.".into()],
    }
}

/// With integers beyond the precision of a double.
fn cost() -> Cost {
    let process_cost = |during_ns| ProcessCost {
        before_ns: 1,
        during_ns,
        after_ns: 3,
        peak_rss_bytes: 4096,
    };
    let program = |name: &str, runs, time_ns| ProgramCost {
        name: name.into(),
        runs,
        time_ns,
    };
    Cost {
        capture: Some(process_cost(u64::MAX)),
        record: Some(process_cost(2)),
        programs: Some(ProgramCosts {
            counted_ns: 10,
            of_ns: 100,
            programs: vec![program("sched_switch", 1000, 2_000_000), program("sample", 0, 0)],
        }),
        programs_refused: None,
        ring: Some(RingCost {
            bytes: 1 << 24,
            peak_bytes: 12_345,
        }),
        log_bytes: Some((1 << 53) + 1),
        thinning: Some(Thinning {
            limit: 500,
            highest: [2, 1, 0],
            steps: vec![ThinningStep {
                time: at(5),
                share: 812,
                levels: [2, 1, 0],
            }],
            earlier_steps: 1,
        }),
    }
}

/// Of version 2, with pressure and reached limits; and of version 1.
fn cgroup_usage() -> Vec<CgroupUsage> {
    let sample = |ms, memory, max, waited| UsageSample {
        time: at(ms),
        memory: Some(memory),
        max: Some(1 << 20),
        events: Some(MemoryEvents {
            max,
            ..MemoryEvents::default()
        }),
        memory_pressure: Some(Pressure { some: waited, full: 0 }),
        ..UsageSample::default()
    };
    let version_1 = UsageSample {
        time: at(10),
        memory: Some((1 << 53) + 1),
        ..UsageSample::default()
    };
    vec![
        CgroupUsage {
            path: format!("/kubepods/{CONTAINER}"),
            hierarchy: UsageHierarchy::Version2,
            samples: vec![
                sample(10, 1 << 18, 7, 100),
                sample(20, 1 << 19, 10, 5100),
                sample(50, 1 << 20, 10, 5100),
            ],
        },
        CgroupUsage {
            path: "/a\"b".into(),
            hierarchy: UsageHierarchy::MemoryVersion1,
            samples: vec![
                version_1,
                UsageSample {
                    time: at(90),
                    ..version_1
                },
            ],
        },
    ]
}
