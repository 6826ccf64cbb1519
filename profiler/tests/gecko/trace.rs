//! Traces of Chrome: markers on the same threads and clock, also those of sandboxed processes, whose thread ids are those
//! of their own namespace.

use profiler::addr::Timestamp;
use profiler::fact::reduce::budget::{Budget, Collector};
use profiler::fact::{FactSource as _, Tables};
use profiler::profile::{GeckoError, ProfileSource, lint, merge_gecko};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::made::{browser, expect_survival, gecko, merge, merge_json, shown, written};
use crate::profile_synthetic::MS;

/// An event at this many ms since the recording's start.
fn event(ph: &str, name: &str, pid: u32, tid: u32, ms: f64) -> Value {
    json!({"ph": ph, "name": name, "cat": "blink,other", "pid": pid, "tid": tid, "ts": 5_000_000.0 + ms * 1000.0})
}

fn with(mut event: Value, more: &Value) -> Value {
    let fields = more.as_object().unwrap().clone();
    event.as_object_mut().unwrap().extend(fields);
    event
}

fn example() -> Value {
    let user = json!({"cat": "blink.user_timing", "args": {"data": {"startTime": 3.5, "type": "x"}, "startTime": 1}});
    json!([
        {"ph": "M", "name": "process_name", "pid": 7, "tid": 0, "ts": 0, "cat": "__metadata", "args": {"name": "Browser"}},
        {"ph": "M", "name": "thread_name", "pid": 7, "tid": 7, "ts": 0, "cat": "__metadata", "args": {"name": "CrBrowserMain"}},
        {"ph": "M", "name": "thread_name", "pid": 8, "tid": 8, "ts": 0, "cat": "__metadata", "args": {"name": "Isolated Web Content"}},
        // Not in the order of their times.
        event("E", "", 7, 7, 40.0),
        event("B", "Outer", 7, 7, 10.0),
        with(event("E", "", 7, 7, 30.0), &json!({"args": {"at_end": 2}})),
        with(event("B", "Inner", 7, 7, 20.0), &json!({"args": {"url": "file:///home/alice/a", "list": [1, {"a": 2}]}})),
        with(event("X", "Task", 8, 8, 5.5), &json!({"dur": 1500, "args": {"src": {"file": "a.cc"}}})),
        with(event("I", "mark 1", 8, 8, 6.0), &user),
        with(event("b", "Load", 8, 9, 1.0), &json!({"id2": {"local": "0x1"}})),
        with(event("b", "Load", 7, 7, 2.0), &json!({"id2": {"local": "0x1"}})),
        with(event("e", "Load", 8, 8, 3.0), &json!({"id2": {"local": "0x1"}})),
        with(event("S", "Old", 7, 7, 50.0), &json!({"id": 3})),
        with(event("F", "Old", 7, 7, 51.0), &json!({"id": 3})),
        event("s", "flow", 7, 7, 1.0),
        event("C", "counter", 7, 7, 1.0),
        event("R", "outside", 7, 7, -5.0),
        event("I", "unrecorded", 99, 99, 5.0),
    ])
}

#[test]
fn markers_are_on_the_recorded_threads_at_their_times() {
    let (merged, tables, collected) =
        merge_json(&json!({"traceEvents": example(), "metadata": {"clock-domain": "LINUX_CLOCK_MONOTONIC"}}));
    assert_eq!(
        shown(&collected, 0),
        [
            ("Load", 2, Some(51)),
            ("Outer", 10, Some(40)),
            ("Inner", 20, Some(30)),
            ("Old", 50, Some(51))
        ]
    );
    assert_eq!(shown(&collected, 1), [("Task", 5, Some(7)), ("mark 1", 6, None)]);
    assert_eq!(shown(&collected, 2), [("Load", 1, Some(3))]);
    assert_eq!(collected.threads[1].marks[0].start, Timestamp(5_005 * MS + MS / 2));
    let text = "Chrome's trace: 7 markers of 6 kinds on 3 threads; left out: 1 before or after the recording, \
                1 of threads that were not recorded, 1 link between events, 1 event of other kinds";
    assert_eq!(merged.to_string(), text);
    assert_eq!(tables.threads[1].name, "Isolated Web Content");
    assert_eq!(tables.threads[0].name, "Browser");
    let payload = |thread: usize, mark: usize| -> Value {
        let mark = gecko(&collected.threads[thread].marks[mark]);
        serde_json::from_str(mark.data.as_deref().unwrap()).unwrap()
    };
    let inner =
        json!({"type": "Inner (Chrome)", "args.url": "file:///home/alice/a", "list": "[1,{\"a\":2}]", "at_end": 2});
    assert_eq!(payload(0, 2), inner);
    assert_eq!(payload(1, 0), json!({"type": "Task (Chrome)", "src.file": "a.cc"}));
    let timing = json!({"type": "user timing (Chrome)", "data.startTime": 3.5, "data.type": "x", "args.startTime": 1});
    assert_eq!(payload(1, 1), timing);
}

#[test]
fn an_end_finds_its_start_among_the_nearest() {
    for (others, expected) in [(63, ("b", 1, Some(9))), (64, ("a", 2, Some(9)))] {
        let id = json!({"id": 1});
        let mut events = vec![with(event("b", "b", 7, 7, 1.0), &id)];
        events.extend((0..others).map(|_| with(event("b", "a", 7, 7, 2.0), &id)));
        events.push(with(event("e", "b", 7, 7, 9.0), &id));
        // Others last until the latest time in the trace, or the end of the recording.
        events.push(event("C", "counter", 7, 7, 20.5));
        let (merged, _, collected) = merge_json(&events.into());
        assert_eq!(merged.markers, others + 1);
        let shown = shown(&collected, 0);
        assert!(shown.contains(&expected), "{shown:?}");
        let rest = shown.iter().filter(|(.., end)| *end == Some(20)).count();
        assert_eq!(rest as u64, others);
    }
    let (_, _, collected) = merge_json(&json!([event("B", "a", 7, 7, 1.0), event("C", "c", 7, 7, 900.0)]));
    assert_eq!(shown(&collected, 0), [("a", 1, Some(100))]);
}

#[test]
fn arguments_that_others_replace_are_counted() {
    let long = |last: &str| format!("{}{last}", "k".repeat(128));
    let events = json!([
        with(
            event("I", "cut", 7, 7, 1.0),
            &json!({"args": {long("a"): 1, long("b"): 2, "c": 3}})
        ),
        with(
            event("B", "joined", 7, 7, 2.0),
            &json!({"args": {"same": 1, "other": 1}})
        ),
        with(
            event("E", "joined", 7, 7, 3.0),
            &json!({"args": {"same": 1, "other": 2}})
        ),
    ]);
    let (merged, ..) = merge_json(&events);
    assert_eq!(merged.left.arguments, 2);
    let said = merged.to_string();
    assert!(
        said.ends_with("left out: 2 arguments beyond 64 or replaced by another of the same key"),
        "{said}"
    );
}

#[test]
fn a_merged_trace_is_valid_and_reads_back() {
    let (_, tables, collected) = merge_json(&example());
    let json = written(&tables, &collected);
    assert_eq!(lint(&json[..]), Vec::<String>::new());
    let whole: Value = serde_json::from_slice(&json).unwrap();
    let schemas = whole["meta"]["markerSchema"].as_array().unwrap();
    let task = schemas.iter().find(|schema| schema["name"] == "Task (Chrome)").unwrap();
    assert_eq!(task["fields"][0]["key"], "src.file");
    let categories = whole["meta"]["categories"].as_array().unwrap();
    assert!(
        ["Other (Chrome)", "blink"]
            .iter()
            .all(|name| categories.iter().any(|category| category["name"] == *name))
    );
    let mut collector = Collector::new(Budget::default());
    let mut again = ProfileSource::new(&json[..]).unwrap().replay(&mut collector).unwrap();
    let facts = collector.finish(&mut again);
    assert_eq!(again, tables);
    for (thread, other) in facts.threads.iter().zip(&collected.threads) {
        assert_eq!(thread.marks, other.marks);
    }
}

/// A process 8 that was recorded from its start, with threads 8, 11 and 9.
fn sandboxed() -> Tables {
    let mut tables = browser();
    tables.processes[1].existed = false;
    tables.threads[1].start = Timestamp(4_991 * MS);
    tables.threads[2].start = Timestamp(4_993 * MS);
    let mut other = tables.threads[2].clone();
    (other.tid, other.start) = (11, Timestamp(4_992 * MS));
    "ThreadPoolForeg".clone_into(&mut other.name);
    tables.threads.push(other);
    tables
}

#[test]
fn threads_of_sandboxed_processes_are_found_by_the_order_of_their_starts() {
    let name =
        |tid: u32, name: &str| json!({"ph": "M", "name": "thread_name", "pid": 8, "tid": tid, "args": {"name": name}});
    let events = json!([
        name(1, "CrRendererMain"),
        name(2, "ThreadPoolForegroundWorker"),
        name(3, "Something else"),
        event("I", "main", 8, 1, 1.0),
        event("I", "second", 8, 2, 2.0),
        event("I", "third", 8, 3, 3.0),
        event("I", "fourth", 8, 4, 4.0),
    ]);
    let merged = |mut tables: Tables| {
        let mut collector = Collector::new(Budget::default());
        let merged = merge_gecko(&mut events.to_string().as_bytes(), &mut tables, &mut collector);
        (merged, collector.finish(&mut tables), tables)
    };
    let (said, collected, tables) = merged(sandboxed());
    let names = |thread: usize| {
        shown(&collected, thread)
            .iter()
            .map(|(name, ..)| *name)
            .collect::<Vec<_>>()
    };
    // The third has another name, and there is no fourth: neither is guessed.
    assert_eq!((names(1), names(3), names(2)), (vec!["main"], vec!["second"], vec![]));
    assert_eq!(said.unwrap().left.unrecorded, 2);
    assert_eq!(tables.threads[3].name, "ThreadPoolForegroundWorker");
    let mut earlier = sandboxed();
    earlier.processes[1].existed = true;
    assert!(matches!(merged(earlier).0, Err(GeckoError::Other(_, 4))));
}

#[test]
fn a_cut_array_is_merged_up_to_its_end() {
    let text = example().to_string();
    let open = &text[..text.len() - 1];
    for text in [open.to_owned(), format!("\n{open},\n")] {
        let (merged, ..) = merge(text.as_bytes()).unwrap();
        assert_eq!((merged.markers, merged.is_cut), (7, true));
    }
    let object = format!("{{\"displayTimeUnit\":\"ms\",\"traceEvents\":{open}");
    assert_eq!(merge(object.as_bytes()).unwrap().0.markers, 7);
    for len in 0..text.len() {
        let _ = merge(&text.as_bytes()[..len]); // returns, whatever is missing
    }
}

#[test]
fn another_clock_and_another_chrome_are_refused() {
    let bad = |value: &Value| merge(value.to_string().as_bytes()).unwrap_err().to_string();
    let clock = json!({"traceEvents": example(), "metadata": {"clock-domain": "WIN_QPC"}});
    assert!(bad(&clock).contains("WIN_QPC"));
    let other = bad(&json!([event("I", "a", 99, 99, 5.0)]));
    assert!(other.contains("none of Chrome's 1 marker belongs"), "{other}");
    // What Chrome writes without --trace-startup-format=json.
    let binary = merge(b"\x0a\x1f\x00").unwrap_err().to_string();
    assert!(binary.contains("--trace-startup-format=json"), "{binary}");
}

#[test]
fn wrong_types_and_sizes_damage_only_their_event() {
    let long = "x".repeat(70 << 10);
    let deep = serde_json::from_str::<Value>(&format!("{}{}", "[".repeat(100), "]".repeat(100))).unwrap();
    let wide: serde_json::Map<String, Value> = (0..500).map(|key| (key.to_string(), json!(1))).collect();
    let mut events = vec![
        json!(5),
        json!({}),
        json!({"ph": "X", "pid": -1, "tid": 7}),
        with(event("X", "a", 7, 7, 5.0), &json!({"dur": -1})),
        with(event("X", "a", 7, 7, 5.0), &json!({"ts": 1e300})),
        event("E", "a", 7, 7, 5.0),
        event("I", "", 7, 7, 5.0),
        event("I", "CompositorScreenshot", 7, 7, 5.0),
        with(event("I", "large", 7, 7, 6.0), &json!({"args": {"text": long}})),
        with(
            event("I", "deep", 7, 7, 7.0),
            &json!({"args": {"a": {"a": {"a": {"a": {"a": {"a": 1}}}}}, "l": deep}}),
        ),
        with(event("I", "wide", 7, 7, 8.0), &json!({"args": wide})),
        with(event("I", "args", 7, 7, 9.0), &json!({"args": [1]})),
        with(
            event("I", "big", 7, 7, 9.0),
            &json!({"args": {"a": "y".repeat(2 << 20)}}),
        ),
    ];
    events.extend((0..2000).map(|number| {
        with(
            event("I", &format!("n{number}"), 7, 7, 20.0),
            &json!({"args": {"a": 1}}),
        )
    }));
    let (merged, tables, collected) = merge_json(&events.into());
    assert_eq!((merged.left.damaged, merged.left.unopened), (8, 1));
    assert_eq!((merged.markers, merged.left.payloads), (2004, 1 + 2000 - 1021));
    assert_eq!(merged.left.arguments, 500 - 64);
    let said = merged.problems().unwrap();
    assert!(said.contains("1 that began before the trace, 8 malformed, "), "{said}");
    assert!(said.contains("436 arguments beyond 64"), "{said}");
    let gecko = tables.recording.gecko.as_ref().unwrap();
    assert_eq!(gecko.schemas.len(), 1024);
    assert_eq!(lint(&written(&tables, &collected)[..]), Vec::<String>::new());
}

proptest! {
    #[test]
    fn any_change_of_a_byte_is_survived(place in 0..3000_usize, byte: u8) {
        expect_survival(&example(), place, byte);
    }
}
