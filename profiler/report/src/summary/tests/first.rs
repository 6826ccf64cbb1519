//! A summary shows findings first, and labels the recorder's own functions.

use super::*;
use crate::findings::Cause;

#[test]
fn the_recorders_own_programs_are_labeled() {
    let mut tables = tables("demo");
    tables.modules[0].kind = ModuleKind::Kernel;
    for frame in &mut tables.frames {
        frame.location = Location::Kernel {
            module: ModuleId(0),
            offset: base::addr::KernelOffset(1),
        };
    }
    for (frame, name) in [(0, "perf_swevent_event"), (1, "bpf_trace_run4")] {
        let symbol = name.to_owned();
        tables.names.insert(
            FrameId(frame),
            FrameName {
                symbol: symbol.into(),
                ..FrameName::default()
            },
        );
    }
    let hottest = summary(&mut tables, 1000).hottest;
    assert_eq!((hottest[0].function.as_str(), hottest[0].samples), (OWN, 20));
    assert_eq!(hottest[1].function, "warm");
}

#[test]
fn findings_precede_waits_within_twelve_lines() {
    let mut tables = tables("demo");
    let mut summary = summary(&mut tables, 1000);
    let finding = |cause, words: &str| Finding {
        cause,
        file: None,
        function: None,
        process: None,
        bytes: 0,
        time_ns: 0,
        words: words.into(),
        remedy: "see `ngmi order`".to_owned(),
    };
    summary.findings = vec![
        finding(Cause::CopiedAfterFork, "first"),
        finding(Cause::WastedReadAhead, "second"),
        finding(Cause::ScatteredCode, "third"),
        finding(Cause::ColdReads, "fourth"),
    ];
    summary.waits = Some(WaitSummary {
        disk_ns: 50 * MS,
        functions: vec![("f".into(), MS)],
        files: vec![("x".into(), MS)],
        ..WaitSummary::default()
    });
    summary.path = Some(PathSummary {
        total_ns: 60 * MS,
        parts: vec![("CPU".into(), 40 * MS), ("disk".into(), 20 * MS)],
    });
    summary.output = Some("profile.json.gz".into());
    let text = summary.to_string();
    let heads: Vec<&str> = text.lines().filter_map(|line| line.split(':').next()).collect();
    let expected = [
        "demo", "waited", "copied", "wasted", "scatter", "path", "held up", "hottest", "samples", "lost", "stacks",
        "profile",
    ];
    assert_eq!(heads, expected, "{text}");
    assert_eq!(summary.findings[0].line(), "copied:  first; see `ngmi order`");
}

#[test]
fn shares_of_few_samples_are_counts() {
    let mut tables = tables("demo");
    tables.recording.stack_ends = vec![
        ends("lib.so", None, 1),
        ends("ld.so", Some(TruncationReason::BadChain), 1),
    ];
    let mut summary = summary(&mut tables, 1000);
    (summary.samples, summary.hottest[0].samples) = (2, 1);
    let text = summary.to_string();
    for line in [
        "hottest:  1 of 2 hot",
        "stacks:  1 of 2 complete; cut: 1 of 2 ld.so (broken frame chain)",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn memory_without_a_file_is_named_once() {
    let mut tables = tables("demo");
    let mut summary = summary(&mut tables, 1000);
    summary.hottest[0].function = "0x7f00 [anonymous]".into();
    summary.hottest[0].module = Some("[anonymous]".into());
    let text = summary.to_string();
    assert!(text.contains(" 0x7f00 [anonymous]\n"), "{text}");
}

#[test]
fn reasons_and_words_are_not_truncated() {
    let mut tables = tables("demo");
    tables.recording.walks.ends = vec![(profiler_common::unwind::WalkEnd::Complete.name().into(), 960)];
    for ends in &mut tables.recording.stack_ends {
        ends.module = format!("lib{}.so.6", "x".repeat(40));
    }
    let text = summary(&mut tables, 1000).to_string();
    assert!(
        text.contains("(no unwind information), 1 more\n") && text.contains("…"),
        "{text}"
    );
    assert!(
        text.contains("cut:     2.0 % libxxx") && text.contains("xx.so.6 ("),
        "{text}"
    );
    assert!(text.lines().all(|line| columns(line) <= 80), "{text}");
}

#[test]
fn processes_that_outlive_the_command_are_known() {
    let mut tables = tables("demo");
    assert!(summary(&mut tables, 10).left.is_empty(), "the command runs");
    tables.processes[0].end = Some(Timestamp(80 * MS));
    assert_eq!(summary(&mut tables, 10).left, [(200, "child".to_owned())]);
    tables.recording.scope = "pids".into();
    assert!(summary(&mut tables, 10).left.is_empty());
}

/// As the process that creates a recording's profile sends it.
#[test]
fn the_summary_round_trips_through_json() {
    let mut tables = tables("demo");
    tables.recording.cost = Some(cost());
    let mut summary = summary(&mut tables, 10);
    summary.faults = FaultSummary::new(&tables, &FaultTotals::default());
    summary.findings = vec![Finding {
        cause: Cause::WastedReadAhead,
        file: Some("/a\n\u{202e}b".to_owned()),
        function: None,
        process: None,
        bytes: u64::MAX,
        time_ns: 1,
        words: "\"".to_owned(),
        remedy: "see `ngmi order`".to_owned(),
    }];
    summary.waits = Some(WaitSummary {
        functions: vec![("f".into(), MS)],
        ..WaitSummary::default()
    });
    summary.losses = vec![("sample ring full".into(), 1)];
    let json = serde_json::to_string(&summary).unwrap();
    let back: Summary = serde_json::from_str(&json).unwrap();
    // IDs in the tables are not serialized.
    summary.main_thread.as_mut().unwrap().id = None;
    assert_eq!(back, summary);
    assert!(!back.stacks.worst.is_empty() && back.cost.is_some());
}

#[test]
fn a_refused_tier_explains_the_missing_faults() {
    let mut tables = tables("demo");
    let nothing = FaultTotals::default();
    tables.recording.hooks.clear();
    assert_eq!(faults::why_none(&tables, &nothing), None, "they were not requested");
    tables.recording.hooks.push(HookStatus {
        noun: "fault".into(),
        hook: "fentry/fexit handle_mm_fault".into(),
        refused: Some("EPERM".into()),
        remedy: None,
    });
    let why = faults::why_none(&tables, &nothing).unwrap();
    assert!(
        why.contains("handle_mm_fault (EPERM); record without --fault-source"),
        "{why}"
    );
}
