//! A recording of a browser, and profiles that its own profiler could have written of it.

use profiler::addr::Timestamp;
use profiler::fact::reduce::budget::{Budget, Collected, Collector};
use profiler::fact::{GeckoMark, Mark, MarkKind, Recording, Tables, Thread};
use profiler::profile::{GeckoError, Merged, ReadAhead, lint, merge_gecko};
use serde_json::{Value, json};

use crate::profile_synthetic::{MS, process, recording, thread};

/// Time 0 of Firefox's processes, before the recording, in ms.
pub const EARLIER: u64 = 20;

pub fn browser() -> Tables {
    Tables {
        recording: Recording {
            start: Timestamp(5_000 * MS),
            end: Timestamp(5_100 * MS),
            ..recording()
        },
        processes: vec![process(7, "firefox", None, 0), process(8, "firefox", Some(0), 1)],
        threads: vec![
            thread(0, 7, "firefox", true),
            thread(1, 8, "Isolated Web Co", true),
            thread(1, 9, "DOM Worker", false),
        ]
        .into_iter()
        .map(|thread| Thread {
            start: Timestamp(4_990 * MS),
            ..thread
        })
        .collect(),
        ..Tables::default()
    }
}

pub fn meta(version: u64) -> Value {
    json!({
        "version": version,
        "startTime": 1_700_000_000_000.0 - EARLIER as f64,
        "startTimeAsClockMonotonicNanosecondsSinceBoot": (5_000 - EARLIER) * MS,
        "categories": [{"name": "Idle", "color": "transparent"}, {"name": "DOM", "color": "blue"}],
        "markerSchema": [
            {"name": "Text", "tableLabel": "{marker.data.name}", "display": ["marker-chart", "nowhere"],
             "data": [{"key": "name", "label": "Details", "format": "unique-string"}, {"label": "Note", "value": "A text."}]},
            {"name": "Flow", "display": [], "data": [{"key": "from", "format": "flow-id"}, {"key": "to", "format": "terminating-flow-id"}]},
            {"name": "FileIO", "display": ["marker-table"], "data": [{"key": "size", "format": "bytes"}]},
        ],
    })
}

pub fn rows(pid: u64, tid: u64, rows: &Value) -> Value {
    json!({
        "name": "GeckoMain", "processName": "Isolated Web Content", "pid": pid, "tid": tid, "registerTime": 1.0,
        "markers": {"schema": {"name": 0, "startTime": 1, "endTime": 2, "phase": 3, "category": 4, "data": 5}, "data": rows},
        "stringTable": ["Reflow", "CC", "/home/alice/a.html", "Load", "47bc6cf89ab665e20", "ngmi-00000001"],
    })
}

pub fn whole(version: u64, threads: &[Value], children: &[Value]) -> Value {
    json!({"libs": [], "meta": meta(version), "pages": [
        {"tabID": 1, "innerWindowID": 4, "url": "https://a.test/", "embedderInnerWindowID": 5},
        {"tabID": 1, "innerWindowID": 5, "url": "https://b.test/", "embedderInnerWindowID": 4},
    ], "threads": threads, "processes": children})
}

pub fn child(threads: &[Value]) -> Value {
    json!({"meta": meta(34), "threads": threads, "processes": []})
}

pub fn merge(text: &[u8]) -> Result<(Merged, Tables, Collected), GeckoError> {
    let mut tables = browser();
    let mut collector = Collector::new(Budget::default());
    let merged = merge_gecko(&mut &text[..], &mut tables, &mut collector);
    let collected = collector.finish(&mut tables);
    // Read ahead, it is the same, unless it has to be read again.
    match (merge_ahead(text), &merged) {
        (None, _) => {}
        (Some(Ok(ahead)), Ok(merged)) => assert!(ahead == (merged.clone(), tables.clone(), collected.clone())),
        (Some(Err(ahead)), Err(error)) => assert_eq!(ahead.to_string(), error.to_string()),
        (Some(ahead), merged) => panic!("{ahead:?} instead of {merged:?}"),
    }
    Ok((merged?, tables, collected))
}

/// The same with a profile that is read before the threads and the end of the recording are known; `None`: it can't be.
pub fn merge_ahead(text: &[u8]) -> Option<Result<(Merged, Tables, Collected), GeckoError>> {
    let mut tables = browser();
    let begun = Recording {
        end: tables.recording.start,
        ..tables.recording.clone()
    };
    let mut collector = Collector::new(Budget::default());
    let merged = ReadAhead::new(text, &begun)?.merge(&mut tables, &mut collector)?;
    let collected = collector.finish(&mut tables);
    Some(merged.map(|merged| (merged, tables, collected)))
}

pub fn merge_json(value: &Value) -> (Merged, Tables, Collected) {
    merge(value.to_string().as_bytes()).unwrap()
}

pub fn written(tables: &Tables, collected: &Collected) -> Vec<u8> {
    let mut json = Vec::new();
    profile::write(tables, collected, &mut json).unwrap();
    json
}

pub fn gecko(mark: &Mark) -> &GeckoMark {
    match &mark.kind {
        MarkKind::Gecko(gecko) => gecko,
        other => panic!("{other:?}"),
    }
}

/// Name, start and end in ms since the recording's start.
pub fn shown(collected: &Collected, thread: usize) -> Vec<(&str, u64, Option<u64>)> {
    let ms = |time: Timestamp| (time.0 - 5_000 * MS) / MS;
    let marks = collected.threads[thread].marks.iter();
    marks
        .map(|mark| (&*gecko(mark).name, ms(mark.start), mark.end.map(ms)))
        .collect()
}

pub fn example() -> Value {
    let parent = rows(
        7,
        7,
        &json!([
            [0, 30.0, 32.0, 1, 1, {"type": "Text", "name": 2, "innerWindowID": 4}],
            [3, 5.0, 0, 0, 0],
            [1, 45, 0, 2, 1, {"type": "CC", "why": "full"}],
            [1, 0, 60, 3, 1, {"type": "CC", "idle": true, "stack": {"samples": []}}],
            [3, 50.0, 0, 2, 1],
        ]),
    );
    let worker = rows(
        8,
        9,
        &json!([
            [0, 0, 25.0, 3, 0],
            [1, 40.0, 0, 0, 9, {"type": "IPC", "messageType": "PContent::Msg", "startTime": 40.0, "endTime": 41.25}],
            [0, 42.0, 43.0, 1, 1, {"type": "FileIO", "size": -5, "other": [1, {"a": null}]}],
        ]),
    );
    let main = rows(8, 8, &json!([[0, 21.5, 0, 0, 1]]));
    whole(
        34,
        &[parent],
        &[child(&[main, worker, rows(99, 99, &json!([[0, 30.0, 0, 0, 1]]))])],
    )
}

/// Asserts that a file with one other byte is refused, or merged into a profile without a problem.
pub fn expect_survival(file: &Value, place: usize, byte: u8) {
    let mut text = file.to_string().into_bytes();
    let place = place % text.len();
    text[place] = byte;
    if let Ok((_, tables, collected)) = merge(&text) {
        assert_eq!(lint(&written(&tables, &collected)[..]), Vec::<String>::new());
    }
}
