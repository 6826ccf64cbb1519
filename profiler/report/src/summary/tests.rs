//! The summary of a recording with known numbers.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

use std::time::Duration;

use super::*;
use crate::text::columns;
use base::addr::{Svma, Timestamp};
use base::event::{Cost, HookStatus, ProcessCost, ProgramCost, ProgramCosts};
use fact::FaultAccount;
use fact::StackEnds;
use fact::fixtures;
use fact::reduce::budget::{Budget, Collector, FaultTotals};
use fact::{
    Frame, FrameName, Location, MappedFile, MappedFileId, Module, ModuleKind, Process, ProcessId, Recording,
    SourceFrame, StackId, StackNode, Thread, TruncationReason,
};

const MS: u64 = 1_000_000;

fn process(pid: u32, name: &str, main: u32) -> Process {
    Process {
        parent: (pid != 100).then_some(ProcessId(0)),
        main_thread: Some(ThreadId(main)),
        ..fixtures::process(pid, name)
    }
}

fn thread(process: u32, tid: u32, end: Option<u64>, after: u64) -> Thread {
    Thread {
        name: "t".into(),
        is_main: true,
        end: end.map(Timestamp),
        cpu_time_after_last_sample: after,
        ..fixtures::thread(process, tid)
    }
}

fn ends(module: &str, reason: Option<TruncationReason>, samples: u64) -> StackEnds {
    StackEnds {
        module: module.into(),
        reason,
        samples,
    }
}

/// 100 ms, two processes; each frame is its own stack: two addresses of `hot`, one of `warm`, one without a name.
fn tables(command: &str) -> Tables {
    let module = Module::named(ModuleKind::File, "lib.so");
    let frame = |svma| Frame {
        location: Location::Module {
            module: ModuleId(0),
            svma: Svma(svma),
        },
        is_return_address: false,
    };
    let name = |function: &str| FrameName {
        symbol: "outer".into(),
        inline_chain: vec![SourceFrame {
            function: function.into(),
            ..SourceFrame::default()
        }],
        ..FrameName::default()
    };
    Tables {
        recording: Recording {
            scope: "command".into(),
            end: Timestamp(100 * MS),
            stack_ends: vec![
                ends("lib.so", None, 970),
                ends("ld.so", Some(TruncationReason::BadChain), 10),
                ends("libxul.so", Some(TruncationReason::NoUnwindInfo), 20),
            ],
            ..Recording::default()
        },
        processes: vec![process(100, command, 0), process(200, "child", 1)],
        threads: vec![
            thread(0, 100, Some(80 * MS), 5 * MS),
            thread(1, 200, None, 0),
            thread(1, 201, None, 0),
        ],
        modules: vec![module],
        frames: (0..4).map(frame).collect(),
        stacks: (0..4)
            .map(|id| StackNode {
                parent: None,
                frame: FrameId(id),
            })
            .collect(),
        names: [
            (FrameId(0), name("hot")),
            (FrameId(1), name("hot")),
            (FrameId(2), name("warm")),
        ]
        .into_iter()
        .collect(),
        ..Tables::default()
    }
}

fn summary(tables: &mut Tables, budget: usize) -> Summary {
    let mut collector = Collector::new(Budget {
        samples: budget,
        marks: 0,
    });
    // 40 samples: 20 of hot at two addresses, 12 of warm, 4 without a name, 4 without a stack.
    for i in 0..40u64 {
        let stack = [0, 1, 0, 1, 0, 2, 2, 2, 3, 9][usize::try_from(i % 10).unwrap()];
        let sample = SampleFact {
            time: Timestamp(i * 2 * MS),
            thread: ThreadId(u32::from(i >= 15)),
            stack: (stack < 9).then_some(StackId::new(stack)),
            cpu_time: Duration::from_nanos(MS),
            in_kernel: false,
            weight: 1,
        };
        collector.sample(tables, &sample);
    }
    let collected = collector.finish(tables);
    Summary::new(tables, &collected)
}

#[test]
fn summary_numbers_match_the_samples() {
    let mut tables = tables("demo");
    let summary = summary(&mut tables, 1000);
    let main = summary.main_thread.as_ref().unwrap();
    assert_eq!((main.pid, main.wall_ns, main.cpu_ns), (100, 80 * MS, 20 * MS));
    let hot: Vec<_> = summary
        .hottest
        .iter()
        .map(|hot| (hot.function.as_str(), hot.samples))
        .collect();
    assert_eq!(hot, [("hot", 20), ("warm", 12), ("lib.so + 0x0", 4)]);
    assert_eq!((summary.samples, summary.samples_without_stack), (40, 4));
    assert_eq!((summary.processes, summary.threads), (2, 2));
    assert_eq!(summary.cpu_time_ns, 45 * MS);
    assert_eq!((summary.stacks.complete, summary.stacks.total), (970, 1000));
    assert_eq!(summary.stacks.worst[0].module, "libxul.so");
}

#[test]
fn the_printed_summary_leads_with_the_answer() {
    let mut tables = tables("demo");
    tables.recording.losses = vec![("sample ring full".into(), 1234)];
    let mut summary = summary(&mut tables, 1000);
    summary.output = Some("profile.json.gz".into());
    summary.output_bytes = Some(3_400_000);
    assert_eq!(
        summary.to_string(),
        "demo: main thread 80.0 ms = 20.0 ms on CPU (25.0 %) + 60.0 ms off-CPU\n\
         hottest: 50 ± 15 % hot (lib.so)\n         \
         30 ± 14 % warm (lib.so)\n         \
         10 ± 10 % lib.so + 0x0\n\
         samples: 40 of 2 threads in 2 processes, 45.0 ms of CPU time\n\
         lost:    1,234 samples lost (ring full)\n\
         stacks:  97.0 % complete; cut: 2.0 % libxul.so (no unwind information), 1 more\n\
         profile: profile.json.gz, 3.40 MB\n"
    );
}

#[test]
fn a_profile_too_large_for_a_browser_is_reported() {
    let mut tables = tables("demo");
    let mut summary = summary(&mut tables, 1000);
    summary.output = Some("/tmp/profile.json.gz".into());
    (summary.output_bytes, summary.output_text_bytes) = (Some(63_400_000), Some(536_870_888));
    let last = |summary: &Summary| summary.to_string().lines().last().unwrap().to_owned();
    assert_eq!(last(&summary), "profile: /tmp/profile.json.gz, 63.4 MB");
    summary.output_text_bytes = Some(612_000_000);
    let line = last(&summary);
    assert!(
        line.ends_with("63.4 MB; 612 MB unpacked, too large for Chromium: `ngmi trim`"),
        "{line}"
    );
}

#[test]
fn thinning_keeps_the_totals_and_is_reported() {
    let mut tables = tables("demo");
    let summary = summary(&mut tables, 10);
    assert_eq!((summary.samples, summary.cpu_time_ns), (40, 45 * MS));
    assert!(
        summary.to_string().contains("thinned: each profile sample represents "),
        "{summary}"
    );
}

#[test]
fn the_summary_fits_twelve_lines_of_eighty_columns() {
    for name in [
        "x".repeat(10_000),
        "🦀".repeat(300),
        "\n\n\x1b[2J".repeat(99),
        String::new(),
    ] {
        let mut tables = tables(&name);
        tables.modules[0].name.clone_from(&name);
        for id in 0..3 {
            tables.names.get_mut(&FrameId(id)).unwrap().inline_chain[0].function = format!("{name}{id}").into();
        }
        tables.recording.losses = (0..20).map(|i| (format!("{name}{i}"), u64::MAX)).collect();
        for ends in &mut tables.recording.stack_ends {
            ends.module.clone_from(&name);
        }
        let mut summary = summary(&mut tables, 10);
        summary.output = Some(format!("/tmp/{name}"));
        (summary.output_bytes, summary.output_text_bytes) = (Some(u64::MAX), Some(u64::MAX));
        summary.marks_left_out = u64::MAX;
        let text = summary.to_string();
        assert!(text.lines().count() <= 12, "{text}");
        for line in text.lines() {
            assert!(columns(line) <= 80 && !line.chars().any(char::is_control), "{line:?}");
        }
    }
}

#[test]
fn without_a_command_the_busiest_thread_is_shown() {
    let mut tables = tables("demo");
    tables.recording.scope = "system".into();
    tables.threads[1].name = "a long name".into();
    let busiest = summary(&mut tables, 1000);
    assert_eq!(busiest.main_thread.as_ref().unwrap().tid, 200);
    // The process's main thread may be a different thread, which slept.
    assert!(!busiest.to_string().contains("main thread"));
    let line = "busiest thread: child, a long name (200), 25.0 ms on CPU (25.0 %) of 100 ms\n";
    assert!(busiest.to_string().starts_with(line), "{busiest}");
    let mut asleep = tables.clone();
    asleep.threads[0].cpu_time_after_last_sample = 0;
    let asleep = Accumulator::default().finish(&asleep).to_string();
    assert!(
        asleep.starts_with("no thread ran in 80.0 ms: 3 threads in 2 processes\n"),
        "{asleep}"
    );
    let nothing = Accumulator::default().finish(&Tables::default());
    assert_eq!(
        nothing.to_string(),
        "samples: 0, 0 ns of CPU time\nlost:    nothing\nstacks:  no user stacks\n"
    );
    assert!(serde_json::to_string(&nothing).is_ok());
}

/// Faults in `libxul.so`, some of them major, and a thread whose fault counts do not match the kernel's.
fn with_faults(tables: &mut Tables) -> FaultTotals {
    tables.files = vec![
        MappedFile {
            path: "/usr/lib/libxul.so".into(),
            ..MappedFile::default()
        },
        MappedFile::default(),
    ];
    tables.recording.hooks = vec![HookStatus {
        noun: "fault".into(),
        hook: "fentry/fexit handle_mm_fault".into(),
        refused: None,
        remedy: None,
    }];
    let thread = &mut tables.threads[0];
    (thread.minor_faults, thread.major_faults) = (Some(20), Some(1));
    thread.faults = Some(FaultAccount {
        seen: 10,
        before: Some(0),
        ..FaultAccount::default()
    });
    FaultTotals {
        faults: 12_345,
        major: 312,
        waited: 298,
        waited_time: 1_930 * MS,
        waits_known: 12_345,
        failed: 1,
        time: 2_000 * MS,
        by_file: [(MappedFileId(0), 8_201), (MappedFileId(1), 3)].into_iter().collect(),
        ..FaultTotals::default()
    }
}

#[test]
fn page_faults_show_files_and_unbalanced_accounts() {
    let mut tables = tables("demo");
    let totals = with_faults(&mut tables);
    let mut summary = summary(&mut tables, 1000);
    summary.faults = FaultSummary::new(&tables, &totals);
    let text = summary.to_string();
    let faults: Vec<&str> = text.lines().filter(|line| line.starts_with("faults:")).collect();
    let expected = [
        "faults:  12,345 (312 major, 298 waited 1.93 s for disk), 1 failed",
        "faults:  fault counts do not reconcile: 11 faults missing in thread 100",
    ];
    assert_eq!(faults, expected);
    summary.faults.as_mut().unwrap().failed = 0;
    let line = "faults:  12,345 (312 major, 298 waited 1.93 s for disk), libxul.so 8,201\n";
    assert!(summary.to_string().contains(line), "{summary}");
    let json: serde_json::Value = serde_json::to_value(&summary).unwrap();
    assert_eq!(json["faults"]["tier"], "fentry");
    assert_eq!(json["faults"]["files"][0], serde_json::json!(["libxul.so", 8201]));
    assert_eq!(json["faults"]["account"]["open"][0]["difference"], 11);

    let nothing = FaultTotals::default();
    tables.recording.hooks.clear();
    assert_eq!(FaultSummary::new(&tables, &nothing), None, "faults were not traced");
}

#[test]
fn hottest_functions_are_omitted_beyond_twelve_lines() {
    let mut tables = tables("demo");
    tables.recording.walks.checked = Some((1, 1));
    let totals = with_faults(&mut tables);
    let mut summary = summary(&mut tables, 10);
    summary.faults = FaultSummary::new(&tables, &totals);
    summary.output = Some("profile.json.gz".into());
    let text = summary.to_string();
    assert_eq!(text.lines().count(), 12, "{text}");
    assert!(
        text.contains("hottest:") && text.contains("profile:") && text.contains("do not reconcile"),
        "{text}"
    );
}

fn cost() -> Cost {
    let process_cost = ProcessCost {
        before_ns: 90 * MS,
        during_ns: 4 * MS,
        after_ns: 10 * MS,
        peak_rss_bytes: 30_000_000,
    };
    let program = |name: &str, time_ns| ProgramCost {
        name: name.into(),
        runs: 1,
        time_ns,
    };
    Cost {
        capture: Some(process_cost),
        record: Some(process_cost),
        programs: Some(ProgramCosts {
            counted_ns: 10,
            of_ns: 100,
            programs: vec![program("sample", MS / 2), program("sched_switch", MS)],
        }),
        log_bytes: Some(2_500_000),
        ..Cost::default()
    }
}

#[test]
fn the_cost_is_shown_if_it_fits() {
    let mut tables = tables("demo");
    tables.recording.cost = Some(cost());
    tables.recording.cpu_time_seen = 45 * MS;
    let mut of = summary(&mut tables, 1000);
    of.cost.as_mut().unwrap().conversion_ns = Some(20 * MS);
    let expected = "lost:    nothing; cost ~3.3 % CPU, recorder 48.0 ms, 60.0 MB, log 2.50 MB\n";
    assert!(of.to_string().contains(expected), "{of}");
    let json = serde_json::to_value(&of).unwrap();
    assert_eq!(json["cost"]["programs_ns"], 3 * MS / 2);
    assert_eq!(json["cost"]["programs"]["programs"][0]["name"], "sched_switch");
    assert_eq!(json["cost"]["capture"]["peak_rss_bytes"], 30_000_000);

    of.losses = vec![("sample ring full".into(), 1)];
    let expected = "\ncost:    ~3.3 % CPU, recorder 48.0 ms, 60.0 MB, log 2.50 MB\n";
    assert!(of.to_string().contains(expected), "{of}");
    of.cost.as_mut().unwrap().programs_exact = true;
    of.cost.as_mut().unwrap().recorded_cpu_ns = MS;
    assert!(of.to_string().contains("\ncost:    1.50 ms eBPF, recorder"), "{of}");
    of.cost.as_mut().unwrap().recorded_cpu_ns = 0;
    let nothing_to_compare_with = "\ncost:    recorder 48.0 ms, ";
    assert!(of.to_string().contains(nothing_to_compare_with), "{of}");
}

mod first;

#[test]
fn modules_without_symbols_are_named() {
    let mut tables = tables("work");
    assert_eq!(
        summary(&mut tables, 100).nameless,
        [],
        "one nameless function in nine is usual"
    );
    // The name of a function without a symbol, as naming leaves it.
    for frame in [0, 1] {
        let name = tables.names.get_mut(&FrameId(frame)).unwrap();
        name.symbol = "lib.so + 0x10".into();
    }
    let all = summary(&mut tables, 100);
    let expected = NamelessModule {
        module: "lib.so".into(),
        path: tables.modules[0].path.clone(),
        samples: 24,
        remedies: Vec::new(),
    };
    assert_eq!(all.nameless, [expected]);
    let text = all.to_string();
    assert!(text.contains("\nunnamed: 60 ± 15 % in lib.so\n"), "{text}");
}
