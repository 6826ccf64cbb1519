//! One row per fault: CSV, NDJSON and the list.

use std::time::Instant;

use profiler::fact::FactSink as _;
use profiler::fact::fault::Access;
use profiler::report::export;
use profiler::report::faults::export::{COLUMNS, Exporter};
use profiler::report::faults::{Facts, Selection, Selector, View, list};

use super::synthetic::{Made, empty, many, numbered};
use super::{collected, plain, report, text};

fn csv(made: &Made) -> String {
    let (tables, facts) = collected(made);
    let view = View::new(&tables, &facts);
    let mut exporter = Exporter::new(&view);
    let mut out = Vec::new();
    export::csv_head(&mut out, &COLUMNS).unwrap();
    for fault in view.faults() {
        export::csv_row(&mut out, &exporter.row(&fault)).unwrap();
    }
    String::from_utf8(out).unwrap()
}

fn ndjson(made: &Made) -> Vec<serde_json::Map<String, serde_json::Value>> {
    let (tables, facts) = collected(made);
    let view = View::new(&tables, &facts);
    let mut exporter = Exporter::new(&view);
    let mut out = Vec::new();
    for fault in view.faults() {
        export::json_row(&mut out, &COLUMNS, &exporter.row(&fault)).unwrap();
    }
    let text = String::from_utf8(out).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A line of RFC 4180.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let (mut quoted, mut chars) = (false, line.chars().peekable());
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                fields.last_mut().unwrap().push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => fields.last_mut().unwrap().push(c),
        }
    }
    assert!(!quoted, "{line}");
    fields
}

/// Other programs rely on these columns.
#[test]
fn the_columns_are_fixed() {
    let csv = csv(&many(50));
    let mut lines = csv.lines();
    assert_eq!(
        lines.next().unwrap(),
        "time_ns,pid,tid,file,offset,section,symbol,class,access,major,waited,latency_ns,address,function,process,thread,\
         in_kernel,failed,lock_ns,disk_ns,other_read_ns,reclaim_ns,blocked_ns,preempted_ns,retries,pages_around,pages_read,device,\
         inode,build_id,stack_complete,phase,represents,represented_ns,cgroup,cgroup_inherited,unit,container,container_id,pod"
    );
    // Fault 0 is on page 0 of the library, before its first section.
    assert_eq!(
        lines.next().unwrap(),
        "0,100,100,/usr/lib/libdemo.so,0,,,file-read,read,true,false,0,0x7f0000000000,inlined,demo,demo,false,,0,0,0,,0,0,0,15,0,8:1,\
         7,abcd,true,main,1,0,,,,,,"
    );
    // Fault 16 is in .data, below a symbol; fault 11 waited; fault 49 has no latency and no file.
    let row = |i: usize| csv.lines().nth(i + 1).unwrap();
    assert!(
        row(16).starts_with("48000,100,101,/usr/lib/libdemo.so,65536,.data,table,anonymous,read,false,"),
        "{}",
        row(16)
    );
    assert_eq!(fields(row(11))[9..12], ["false", "true", "11000"]);
    let untimed = fields(row(49));
    assert_eq!([&untimed[3], &untimed[4], &untimed[11]], ["", "", ""]);
    assert_eq!(fields(row(2))[13], "other.so + 0x0");
    assert_eq!(fields(row(2))[30], "false", "truncated");
    assert_eq!(fields(row(3))[13], "");
}

#[test]
fn csv_and_json_say_the_same_in_the_order_of_the_start() {
    let made = many(5000);
    let (csv, json) = (csv(&made), ndjson(&made));
    assert_eq!(csv.lines().count(), json.len() + 1);
    for (line, object) in csv.lines().skip(1).zip(&json) {
        let values: Vec<String> = COLUMNS
            .iter()
            .map(|column| match &object[*column] {
                serde_json::Value::Null => String::new(),
                serde_json::Value::String(text) => text.clone(),
                value => value.to_string(),
            })
            .collect();
        assert_eq!(fields(line), values);
        assert_eq!(object.len(), COLUMNS.len());
    }
    let times: Vec<u64> = json.iter().map(|object| object["time_ns"].as_u64().unwrap()).collect();
    assert_eq!(times, (0..5000).map(|i| i * 3000).collect::<Vec<_>>());
    let total: u64 = json.iter().filter_map(|object| object["latency_ns"].as_u64()).sum();
    assert_eq!(total, report(&made, &Selection::default()).totals.time_ns);
}

/// Names that a careless writer would let through.
fn hostile() -> Made {
    let mut made = many(500);
    let evil = [
        "line\nend\r\u{2028}",
        "\u{1b}]0;title\u{7}\u{9b}31m",
        "quote\",comma,\\",
        "bad \u{fffd} bytes\0",
        "\u{202e}turned",
        "",
    ];
    let name = |i: usize| evil[i % evil.len()].to_owned();
    let tables = &mut made.tables;
    tables.recording.command = vec![name(1), "x".repeat(10_000)];
    (0..)
        .zip(&mut tables.processes)
        .for_each(|(i, process)| process.name = name(i));
    (1..)
        .zip(&mut tables.threads)
        .for_each(|(i, thread)| thread.name = name(i));
    for (i, file) in (2..).zip(&mut tables.files) {
        file.path = format!("/a/{}/{}", name(i), name(i + 1)).into();
        file.sections[0].name = name(i + 2);
        file.symbols[0].name = name(i);
    }
    for (i, chain) in tables.names.values_mut().enumerate() {
        chain
            .inline_chain
            .iter_mut()
            .for_each(|frame| frame.function = name(i).into());
    }
    made
}

#[test]
fn hostile_names_are_escaped_in_rows() {
    let made = hostile();
    let csv = csv(&made);
    assert_eq!(csv.lines().count(), 501);
    assert!(csv.lines().all(|line| fields(line).len() == COLUMNS.len()));
    let harmful = |text: &str| text.chars().any(|c| c != '\n' && report::text::is_unsafe(c));
    assert!(!harmful(&csv));
    let json = ndjson(&made);
    assert_eq!(json[0]["process"], "line\nend\r\u{2028}", "JSON keeps it exactly");
    let report = report(&made, &Selection::default());
    let text = text(&report, 100);
    assert!(!harmful(&text), "{text:?}");
    let long: Vec<&str> = text.lines().filter(|line| report::text::columns(line) > 80).collect();
    assert!(long.is_empty(), "{long:#?}");
    let mut out = Vec::new();
    export::json(&mut out, &report).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert!(!harmful(&out));
    let again: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(again["totals"]["faults"], 500);
    for key in [
        "recording",
        "by_file",
        "by_section",
        "by_function",
        "by_class",
        "by_process",
        "by_thread",
        "accounts",
    ] {
        assert!(again.get(key).is_some(), "{key}");
    }
}

#[test]
fn the_list_has_the_files_faults_by_time() {
    let made = many(1000);
    let (tables, facts) = collected(&made);
    let view = View::new(&tables, &facts);
    let listed = |selection: &Selection| {
        let mut out = Vec::new();
        list::write(&mut out, &view, &Selector::new(&view, selection).unwrap()).unwrap();
        plain(out)
    };
    let of_file = Selection {
        files: vec!["libdemo.so".into()],
        ..Selection::default()
    };
    let text = listed(&of_file);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 401);
    assert_eq!(
        lines[0],
        "    time [s]     offset section        class         latency function"
    );
    assert_eq!(
        lines[2],
        "    0.000003       1000 .text          file-cow      1.00 µs recurse"
    );
    assert!(lines[1..].is_sorted(), "times ascend");
    // With two files, each line shows which one it refers to.
    let both = listed(&Selection::default());
    assert_eq!(both.lines().count(), 601);
    assert!(both.lines().nth(3).unwrap().contains("data, \"1\".bin"), "{both}");
    let none = Selection {
        from: Some(std::time::Duration::from_millis(1999)),
        ..Selection::default()
    };
    assert_eq!(listed(&none), "no selected fault is on a page of a file\n");
}

#[test]
fn a_pipe_that_is_closed_ends_the_rows_with_its_error() {
    struct Closed(usize);
    impl std::io::Write for Closed {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or(std::io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (tables, facts) = collected(&many(10));
    let view = View::new(&tables, &facts);
    let mut exporter = Exporter::new(&view);
    let fault = view.faults().next().unwrap();
    for writes in 0..40 {
        let kinds = [
            export::csv_row(&mut Closed(writes), &exporter.row(&fault)).map_err(|error| error.kind()),
            export::json_row(&mut Closed(writes), &COLUMNS, &exporter.row(&fault)).map_err(|error| error.kind()),
            list::write(&mut Closed(0), &view, &Selector::default()).map_err(|error| error.kind()),
        ];
        assert_eq!(kinds, [Err(std::io::ErrorKind::BrokenPipe); 3]);
    }
}

#[test]
fn a_million_faults_take_a_tenth_of_a_gigabyte() {
    let made = empty();
    let mut facts = Facts::default();
    let start = Instant::now();
    for i in 0..1_000_000 {
        facts.fault(&made.tables, &numbered(i));
    }
    let view = View::new(&made.tables, &facts);
    let mut exporter = Exporter::new(&view);
    let mut out = std::io::sink();
    for fault in view.faults() {
        export::csv_row(&mut out, &exporter.row(&fault)).unwrap();
    }
    assert_eq!(view.len(), 1_000_000);
    assert!(facts.rows.bytes() < 100_000_000, "{}", facts.rows.bytes());
    println!("a million rows: {} bytes, {:?}", facts.rows.bytes(), start.elapsed());
}

#[test]
fn values_unknown_to_a_tier_are_null() {
    let mut made = empty();
    made.faults = vec![fact::FaultFact {
        latency: None,
        waits: fact::fault::FaultWaits::default(),
        retries: None,
        access: Access::Unknown,
        ..numbered(3)
    }];
    let row = &ndjson(&made)[0];
    for column in [
        "latency_ns",
        "waited",
        "access",
        "retries",
        "lock_ns",
        "disk_ns",
        "file",
        "offset",
        "function",
        "stack_complete",
    ] {
        assert!(row[column].is_null(), "{column}");
    }
    assert_eq!(row["address"], "0x7f0000000009");
}
