//! Tables with known numbers, which add up whatever the requests are.

use std::time::Duration;

use profiler::addr::{Avma, FileOffset};
use profiler::fact::fault::{Access, FaultClass, FaultWaits, FilePlace, Mapped, OtherFaults};
use profiler::fact::request::{BioSource, DeviceId, Operation, RequestCoverage, RequestKind};
use profiler::fact::wait::Coverage;
use profiler::fact::{
    BioFact, Cause, Effect, EffectKind, FaultFact, MappedFileId, Reason, RequestFact, RequestRef, StackId, ThreadId,
    WaitFact, WaitReason,
};
use profiler::report::grid::{GroupRow, Measure as _};
use profiler::report::io::export::{COLUMNS, row};
use profiler::report::io::tally::IoTally;
use profiler::report::io::{IoReport, Selection, Selector, View};
use proptest::prelude::*;

use crate::synthetic::{Fact, Made, at, bio, empty, request, written_back};
use crate::{collected, report, text};

fn made(requests: Vec<RequestFact>) -> Made {
    let mut made = empty();
    made.facts = requests.into_iter().map(Fact::Request).collect();
    made
}

fn only(change: impl FnOnce(&mut Selection)) -> Selection {
    let mut selection = Selection::default();
    change(&mut selection);
    selection
}

/// Requests read by two bios, written back by a kworker, flushed by an unknown submitter, sent
/// through the device above, and failed.
fn story() -> Made {
    let ahead = RequestKind {
        read_ahead: true,
        ..RequestKind::default()
    };
    let other = BioFact {
        thread: Some(ThreadId(1)),
        pid: 200,
        tid: 201,
        stack: Some(StackId::new(5)),
        file: None,
        offset: None,
        source: BioSource::Direct,
        ..bio(15, 108, 8192)
    };
    made(vec![
        RequestFact {
            kind: ahead,
            depth: 3,
            ..request(Operation::Read, vec![bio(10, 100, 4096), other])
        },
        request(
            Operation::Write,
            vec![written_back(50, 8, 512), written_back(51, 9, 1536)],
        ),
        RequestFact {
            bytes: 0,
            queued: None,
            ..request(Operation::Flush, Vec::new())
        },
        RequestFact {
            device: DeviceId(1),
            ..request(Operation::Read, vec![bio(9, 5000, 4096)])
        },
        RequestFact {
            error: 10,
            ..request(Operation::Read, vec![bio(90, 300, 512)])
        },
        RequestFact {
            coverage: RequestCoverage::EndMissed,
            ..request(Operation::Read, vec![bio(99, 700, 4096)])
        },
    ])
}

#[test]
fn every_table_has_its_numbers() {
    let report = report(&story(), &Selection::default());
    assert_eq!(
        (report.requests_in_file, report.requests),
        (6, 4),
        "neither the device above nor the unfinished one"
    );
    let totals = &report.totals;
    assert_eq!((totals.ios, totals.read_bytes, totals.written_bytes), (6, 12_800, 2048));
    assert_eq!((totals.read_ahead_bytes, totals.errors), (12_288, 1));
    // 120 µs each, less the time that later bios did not wait; the flush counts from its start.
    assert_eq!(totals.time_ns, (120 + 115 + 120 + 119 + 120 + 120) * 1000);

    let files: Vec<(&str, u64, u64)> = (report.tables.rows("by_file").iter())
        .map(|row| (row.text("file").unwrap(), row.tally.ios, row.tally.bytes()))
        .collect();
    let expected = [
        ("(unknown file)", 1, 8192),
        ("/usr/lib/libdemo.so", 2, 4608),
        ("/data/out, \"1\".bin", 2, 2048),
        ("(unknown submitter)", 1, 0),
    ];
    assert_eq!(files, expected);
    let functions: Vec<(Option<&str>, bool, u64)> = (report.tables.rows("by_function").iter())
        .map(|row| (row.text("function"), row.number("seen") == Some(1), row.tally.bytes()))
        .collect();
    let expected = [
        (None, true, 8192),
        (Some("load_page"), true, 4608),
        (Some("[kworker]"), true, 2048),
        (None, false, 0),
    ];
    assert_eq!(functions, expected, "two kworkers are one");
    let processes: Vec<(Option<u64>, Option<&str>)> = (report.tables.rows("by_process").iter())
        .map(|row| (row.number("pid"), row.text("process")))
        .collect();
    let expected = [
        (Some(200), Some("child")),
        (Some(100), Some("demo")),
        (None, Some("[kworker]")),
        (None, None),
    ];
    assert_eq!(processes, expected);

    let [disk, mapper] = report.by_device.as_slice() else {
        panic!("{:?}", report.by_device)
    };
    assert_eq!(
        (&*disk.device, disk.stacked, disk.requests, disk.unfinished),
        ("vda", false, 4, 1)
    );
    assert_eq!((disk.done.reads, disk.done.writes, disk.done.flushes), (2, 1, Some(1)));
    assert_eq!((disk.depth_tenths(), disk.depth_max, disk.merged), (Some(15), 3, 2));
    assert_eq!((disk.queue.requests, disk.service.mean_ns()), (3, Some(100_000)));
    assert_eq!((&*mapper.device, mapper.stacked, mapper.requests), ("dm-0", true, 1));
    assert_eq!((report.errors[0].meaning, report.errors[0].requests), ("I/O error", 1));
}

#[test]
fn matching_device_statistics_are_noted() {
    let mut made = story();
    made.tables.devices[0].counted = vec![2, 1, 25, 0, 1, 1, 4, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    let same = report(&made, &Selection::default());
    assert_eq!(same.by_device[0].agrees(), Some(true));
    let shown = text(&same, 10);
    assert!(shown.contains("account:  vda matches its own counters"), "{shown}");
    made.tables.devices[0].counted[2] = 26;
    let other = text(&report(&made, &Selection::default()), 10);
    let other = other.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        other.contains("vda counted 2 reads 13.3 kB, 1 write 2.05 kB; recorded 2 reads 12.8 kB")
            && other.contains("the counts of vda differ from the device's own counters"),
        "{other}"
    );
    // For a selection there is nothing to compare.
    let part = text(
        &report(&made, &only(|some| some.operations = vec![Operation::Read])),
        10,
    );
    assert!(!part.contains("account:") && !part.contains("counted"), "{part}");
}

#[test]
fn a_selection_matches_parts_of_requests() {
    let ios = |change: fn(&mut Selection)| {
        let report = report(&story(), &only(change));
        (report.requests, report.totals.ios, report.totals.bytes())
    };
    assert_eq!(ios(|some| some.files = vec!["libdemo*".into()]), (2, 2, 4608));
    assert_eq!(ios(|some| some.processes = vec!["kworker*".into()]), (1, 2, 2048));
    assert_eq!(ios(|some| some.processes = vec!["200".into()]), (1, 1, 8192));
    assert_eq!(ios(|some| some.threads = vec!["demo".into()]), (2, 2, 4608));
    assert_eq!(ios(|some| some.functions = vec!["load_page".into()]), (2, 2, 4608));
    assert_eq!(ios(|some| some.under = vec!["main".into()]), (2, 2, 4608));
    assert_eq!(
        ios(|some| some.operations = vec![Operation::Write, Operation::Flush]),
        (2, 3, 2048)
    );
    assert_eq!(ios(|some| some.from = Some(Duration::from_micros(50))), (2, 3, 2560));
    assert_eq!(ios(|some| some.to = Some(Duration::from_micros(50))), (2, 3, 12_288));
    // The device above is included on request.
    assert_eq!(ios(|some| some.devices = vec!["dm-0".into()]), (1, 1, 4096));

    let (tables, facts) = collected(&story());
    let view = View::new(&tables, &facts);
    for (change, word) in [
        (
            Box::new(|some: &mut Selection| some.devices = vec!["sdz".into()]) as Box<dyn FnOnce(&mut Selection)>,
            "--device",
        ),
        (
            Box::new(|some: &mut Selection| some.functions = vec!["no".into()]),
            "--function",
        ),
        (
            Box::new(|some: &mut Selection| some.processes = vec!["no".into()]),
            "--process",
        ),
    ] {
        let error = Selector::new(&view, &only(change)).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains("ngmi io"), "{error}");
    }
}

#[test]
fn rows_show_the_largest_part_and_blocked_time() {
    let mut made = story();
    let Fact::Request(first) = &made.facts[0] else { panic!() };
    let (end, sector) = (first.end, first.sector);
    let wait = WaitFact {
        start: at(20),
        end: at(140),
        thread: ThreadId(0),
        stack: None,
        off: Duration::from_micros(77),
        queued: Duration::ZERO,
        longest: Duration::ZERO,
        count: 1,
        reason: WaitReason::Disk,
        call: None,
        waker: None,
        coverage: Coverage::Full,
        in_fault: false,
        cpu: None,
        futex: None,
        lock: None,
        priority: None,
    };
    let cause = Cause {
        effect: Effect {
            kind: EffectKind::Wait,
            thread: ThreadId(0),
            start: at(20),
        },
        reason: Reason::Request(RequestRef {
            own: true,
            by: None,
            device: DeviceId(0),
            sector,
            start: at(10),
            end,
            operation: Operation::Read,
            kind: RequestKind::default(),
            bytes: 0,
            file: None,
            offset: None,
        }),
    };
    made.facts.extend([Fact::Wait(wait), Fact::Cause(cause)]);
    let (tables, facts) = collected(&made);
    let view = View::new(&tables, &facts);
    let mut csv = Vec::new();
    report::export::csv_head(&mut csv, &COLUMNS).unwrap();
    for asked in view.requests() {
        report::export::csv_row(&mut csv, &row(&view, &asked)).unwrap();
    }
    let csv = String::from_utf8(csv).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 7);
    assert!(
        lines[0].starts_with("time_ns,pid,tid,device,sector,operation,bytes,file,offset,queue_ns,service_ns,function,")
    );
    assert_eq!(
        lines[3],
        "10000,200,201,vda,100,read,12288,,,20000,100000,,child,worker,130000,77000,direct,true,,true,false,false,false,false,3,0,,2,whole,\
         false,false,,,true,,,,,,"
    );
    assert_eq!(
        lines[4],
        "50000,9,9,vda,8,write,2048,\"/data/out, \"\"1\"\".bin\",4608,20000,100000,[kworker],kworker/u4:51,kworker/u4:51,170000,,cache,false,,\
         false,false,false,false,false,1,0,,2,whole,false,false,254:1,8,,,,,,,"
    );
    assert_eq!(report(&made, &Selection::default()).waited_ns, 77_000);
}

#[test]
fn pages_read_for_faults_and_never_touched() {
    let fault = |page: u64| FaultFact {
        start: at(page),
        latency: None,
        thread: ThreadId(0),
        stack: None,
        address: Avma(page),
        access: Access::Read,
        class: FaultClass::FileRead,
        place: Some(FilePlace {
            file: MappedFileId(0),
            offset: FileOffset(page * 4096),
            byte: FileOffset(page * 4096),
        }),
        major: true,
        in_kernel: false,
        remote: false,
        failed: None,
        waits: FaultWaits::default(),
        retries: None,
        mapped: Some(Mapped::own()),
        pages_read: 0,
        read_around_off: false,
        others: OtherFaults::default(),
    };
    let mut made = made(vec![request(Operation::Read, vec![bio(1, 0, 8 * 4096)])]);
    let without = report(&made, &Selection::default());
    assert!(
        without.waste.is_empty(),
        "no faults were recorded, so the touched pages are unknown"
    );
    made.facts.extend([2, 5, 100].map(|page| Fact::Fault(fault(page))));
    let report = report(&made, &Selection::default());
    let [row] = report.waste.as_slice() else {
        panic!("{:?}", report.waste)
    };
    assert_eq!((row.read_for_faults_bytes, row.wasted_bytes), (8 * 4096, 6 * 4096));
    assert!(text(&report, 10).contains("read for faults and never mapped"));
}

#[test]
fn many_small_reads_from_one_place() {
    let small = |n: u64, bytes| request(Operation::Read, vec![bio(n, n * 100, bytes)]);
    let few: Vec<_> = (0..15).map(|n| small(n, 4096)).collect();
    assert!(report(&made(few.clone()), &Selection::default()).tiny_reads.is_empty());
    let large = (0..20).map(|n| small(n, 16 << 10));
    let many = few.into_iter().chain([small(15, 512)]).chain(large).collect();
    let report = report(&made(many), &Selection::default());
    let [row] = report.tiny_reads.as_slice() else {
        panic!("{:?}", report.tiny_reads)
    };
    assert_eq!(
        (row.function.as_deref(), row.file.as_deref()),
        (Some("load_page"), Some("/usr/lib/libdemo.so"))
    );
    assert_eq!((row.reads, row.bytes, row.time_ns), (16, 15 * 4096 + 512, 16 * 120_000));
}

prop_compose! {
    fn any_request()(
        (start, length, device) in (0..900_000_u64, 0..1_000_000_000_000_u64, 0..4_u32),
        (operation, error, depth) in (0..6_usize, any::<i32>(), 0..2000_u32),
        (bytes, coverage) in (any::<u32>(), 0..3_u8),
        parts in prop::collection::vec((any::<u32>(), 0..4_u32, 0..4_u32, 0..8_u32, any::<bool>()), 0..5),
    ) -> RequestFact {
        let bios = parts.into_iter().map(|(bytes, thread, file, stack, in_fault)| BioFact {
            thread: (thread < 3).then_some(ThreadId(thread)),
            file: (file < 3).then_some(MappedFileId(file)),
            stack: (stack < 7).then_some(StackId::new(stack)),
            name: format!("\u{1b}[31m{thread}🦀"),
            in_fault,
            ..bio(start, u64::from(bytes), bytes)
        });
        RequestFact {
            end: profiler::addr::Timestamp(at(start).0 + length),
            queued: Some(Duration::from_nanos(length)),
            service: Some(Duration::from_nanos(length / 2)),
            device: DeviceId(device),
            coverage: [RequestCoverage::Full, RequestCoverage::StartMissed, RequestCoverage::EndMissed][usize::from(coverage)],
            error, depth, bytes,
            ..request(Operation::ALL[operation], bios.collect())
        }
    }
}

fn sum(rows: &[GroupRow<IoTally>]) -> IoTally {
    let mut sum = IoTally::default();
    for row in rows {
        sum.merge(&row.tally);
    }
    sum
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Hostile names and numbers: tables add up and fit into 80 columns, and each row is one line.
    #[test]
    fn tables_add_up_and_fit(requests in prop::collection::vec(any_request(), 1..30), top in 0..5_usize) {
        let made = made(requests);
        let report: IoReport = report(&made, &Selection::default());
        prop_assert_eq!(sum(report.tables.rows("by_file")), report.totals);
        prop_assert_eq!(sum(report.tables.rows("by_function")), report.totals);
        prop_assert_eq!(sum(report.tables.rows("by_process")), report.totals);
        let devices: u64 = report.by_device.iter().filter(|row| !row.stacked).map(|row| row.requests).sum();
        prop_assert!(devices <= report.requests || report.by_device.iter().all(|row| row.stacked));
        for line in text(&report, top).lines() {
            prop_assert!(report::text::columns(line) <= 80, "{:?}", line);
            prop_assert!(!line.chars().any(report::text::is_unsafe), "{:?}", line);
        }
        let (tables, facts) = collected(&made);
        let view = View::new(&tables, &facts);
        for asked in view.requests() {
            let mut line = Vec::new();
            report::export::csv_row(&mut line, &row(&view, &asked)).unwrap();
            prop_assert_eq!(String::from_utf8(line).unwrap().lines().count(), 1);
        }
    }
}
