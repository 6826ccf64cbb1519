//! What the explorer receives of a critical path: the pieces and tables of `ngmi path`, whatever the names and numbers.

use std::time::Duration;

use profiler::fact::{FactSink as _, Tables, ThreadId, WaitFact, WaitReason};
use profiler::report::explorer::path::{PathRequest, PathSource};
use profiler::report::export::Cell;
use profiler::report::path::export::{COLUMNS, Exporter};
use profiler::report::path::{PathFacts, PathReport, PathView, choose};
use profiler::report::select::Selection;
use serde_json::Value;

use crate::made::{EVIL, at, numbered, tables};

/// Waits that do not overlap within a thread, most of which another thread ends.
fn recording(n: u64) -> (Tables, PathFacts) {
    let (tables, stacks) = tables();
    let mut facts = PathFacts::default();
    for i in 0..n {
        let numbered = numbered(i, &stacks);
        let (start, off) = (100 * i, 40 + 7 * (i % 30));
        let waker = numbered.waker.map(|mut waker| {
            waker.time = at(start + off);
            waker.thread = Some(ThreadId(u32::try_from((i + 1) % 3).unwrap()));
            waker.by_interrupt = Some(i.is_multiple_of(5));
            waker
        });
        let wait = WaitFact {
            start: at(start),
            end: at(start + off + 3),
            off: Duration::from_micros(off + 3),
            queued: Duration::from_micros(3),
            count: 1,
            waker,
            ..numbered
        };
        facts.wait(&tables, &wait);
    }
    (tables, facts)
}

fn answer(n: u64, request: &PathRequest) -> Value {
    let (tables, facts) = recording(n);
    let source = PathSource::new(tables, facts).unwrap();
    serde_json::from_slice(&source.answer(request).unwrap()).unwrap()
}

fn column(answer: &Value, name: &str) -> Vec<Value> {
    answer["columns"][name].as_array().unwrap().clone()
}

fn string<'a>(answer: &'a Value, id: &Value) -> Option<&'a str> {
    answer["strings"][usize::try_from(id.as_u64()?).unwrap()].as_str()
}

#[test]
fn every_piece_is_a_row_of_ngmi_path() {
    let request = PathRequest {
        from_ns: Some(1_000_000),
        to_ns: Some(20_000_000),
        ..PathRequest::default()
    };
    let answer = answer(300, &request);
    let (tables, facts) = recording(300);
    let selection = Selection {
        from: Some(Duration::from_millis(1)),
        to: Some(Duration::from_millis(20)),
        ..Selection::default()
    };
    let chosen = choose(&tables, &facts, &selection).unwrap();
    let view = PathView::new(&tables, facts, chosen);
    let exporter = Exporter::new(&view);
    assert!(view.pieces.iter().any(|piece| piece.lane != chosen.thread));
    assert_eq!(column(&answer, "piece_duration").len(), view.pieces.len());
    let mut at = answer["start_ns"].as_u64().unwrap();
    for (row, piece) in view.pieces.iter().enumerate() {
        let cells = exporter.row(piece);
        let cell = |name: &str| &cells[COLUMNS.iter().position(|column| *column == name).unwrap()];
        let text = |name: &str| match cell(name) {
            Cell::Text(text) => Some(text.to_string()),
            _ => None,
        };
        let number = |name: &str| match cell(name) {
            Cell::Number(number) => Some(*number),
            _ => None,
        };
        let of = |name: &str| answer["columns"][format!("piece_{name}")][row].clone();
        let named = |name: &str| string(&answer, &of(name)).map(str::to_owned);
        let reason = |name: &str| {
            let place = usize::try_from(of(name).as_u64()?).unwrap();
            Some(answer["reasons"][place].as_str()?.to_owned())
        };
        let thread = |name: &str| answer["threads"][usize::try_from(of(name).as_u64().unwrap()).unwrap()].clone();
        assert_eq!(Some(at), number("time_ns"));
        at += of("duration").as_u64().unwrap();
        assert_eq!(Some(at), number("end_ns"));
        assert_eq!(thread("thread")["tid"].as_u64(), number("tid"));
        assert_eq!(thread("lane")["tid"].as_u64(), number("held_up_tid"));
        assert_eq!(string(&answer, &thread("thread")["name"]), text("thread").as_deref());
        assert_eq!((reason("reason"), reason("via")), (text("reason"), text("via")));
        assert_eq!(
            (named("function"), named("file"), named("device")),
            (text("function"), text("file"), text("device"))
        );
        assert_eq!(of("waker").as_u64(), number("waker_tid"));
        assert_eq!(of("count"), 1);
        assert_eq!(of("stack").is_null(), text("stack").is_none());
    }
    assert_eq!(Some(at), answer["end_ns"].as_u64());
}

#[test]
fn tables_are_those_of_ngmi_path() {
    let answer = answer(300, &PathRequest::default());
    let (tables, facts) = recording(300);
    let chosen = choose(&tables, &facts, &Selection::default()).unwrap();
    let report = serde_json::to_value(PathReport::new(&PathView::new(&tables, facts, chosen))).unwrap();
    let whole = answer["end_ns"].as_u64().unwrap() - answer["start_ns"].as_u64().unwrap();
    assert_eq!(answer["tables"].as_array().unwrap().len(), 7);
    for table in answer["tables"].as_array().unwrap() {
        let expected = report[table["key"].as_str().unwrap()].as_array().unwrap();
        let rows = table["rows"].as_array().unwrap();
        assert_eq!((rows.len(), table["others"].as_u64()), (expected.len(), Some(0)));
        for (row, expected) in rows.iter().zip(expected) {
            for number in ["time_ns", "pieces", "longest_ns", "saves_ns"] {
                assert_eq!(row[number], expected[number], "{number}");
            }
            for name in ["reason", "via", "function", "file", "device"] {
                assert_eq!(string(&answer, &row[name]), expected[name].as_str(), "{name}");
            }
        }
        let sum: u64 = rows.iter().map(|row| row["time_ns"].as_u64().unwrap()).sum();
        assert_eq!(sum, whole);
    }
}

#[test]
fn another_thread_and_its_lifetime() {
    let choices = answer(60, &PathRequest::default())["choices"].clone();
    let tids: Vec<_> = choices
        .as_array()
        .unwrap()
        .iter()
        .map(|choice| &choice["tid"])
        .collect();
    assert_eq!(tids, [100, 101, 200], "the command's first thread comes first");
    let request = PathRequest {
        thread: Some(2),
        from_ns: Some(2_000_000),
        to_ns: Some(u64::MAX),
    };
    let other = answer(60, &request);
    assert_eq!(
        (&other["thread"]["tid"], &other["thread"]["number"]),
        (&200.into(), &2.into())
    );
    assert_eq!(
        (&other["start_ns"], &other["end_ns"]),
        (&2_000_000.into(), &1_000_000_000.into())
    );
    assert_eq!(
        (&other["born_ns"], &other["ended_ns"]),
        (&0.into(), &1_000_000_000.into())
    );
    assert_eq!(string(&other, &other["thread"]["name"]), Some(EVIL));
}

#[test]
fn without_a_path_the_answer_says_why() {
    for (request, why) in [
        (
            PathRequest {
                thread: Some(3),
                ..PathRequest::default()
            },
            "no such thread",
        ),
        (
            PathRequest {
                from_ns: Some(5_000_000_000),
                ..PathRequest::default()
            },
            "lived from 0 ns to 1.00 s",
        ),
        (
            PathRequest {
                from_ns: Some(9),
                to_ns: Some(3),
                ..PathRequest::default()
            },
            "select another time range",
        ),
    ] {
        let answer = answer(20, &request);
        assert!(answer["why_empty"].as_str().unwrap().contains(why), "{answer}");
        assert_eq!(answer.as_object().unwrap().len(), 1);
    }
    let (tables, _) = tables();
    assert!(PathSource::new(tables, PathFacts::default()).is_none());
}

#[test]
fn long_names_and_many_pieces_are_limited() {
    let (mut tables, stacks) = tables();
    for thread in &mut tables.threads {
        thread.name = "é".repeat(1 << 20);
    }
    for process in &mut tables.processes {
        process.name = "x".repeat(1 << 20);
    }
    for file in &mut tables.files {
        file.path = "y/".repeat(1 << 20).into();
    }
    let mut facts = PathFacts::default();
    for i in 0..250_000 {
        let wait = WaitFact {
            thread: ThreadId(0),
            start: at(3 * i),
            end: at(3 * i + 1),
            off: Duration::from_micros(1),
            queued: Duration::ZERO,
            count: 1,
            reason: WaitReason::ALL[usize::try_from(i % 14).unwrap()],
            waker: None,
            ..numbered(i, &stacks)
        };
        facts.wait(&tables, &wait);
    }
    let source = PathSource::new(tables, facts).unwrap();
    let bytes = source.answer(&PathRequest::default()).unwrap();
    assert!(bytes.len() < 30 << 20, "{}", bytes.len());
    let answer: Value = serde_json::from_slice(&bytes).unwrap();
    let (durations, counts) = (column(&answer, "piece_duration"), column(&answer, "piece_count"));
    assert!(durations.len() <= 200_001, "{}", durations.len());
    let sum = |values: &[Value]| values.iter().map(|value| value.as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum(&durations), 1_000_000_000);
    assert_eq!(Some(sum(&counts)), answer["pieces"].as_u64());
    assert!(answer["pieces"].as_u64() > Some(400_000));
    let strings = answer["strings"].as_array().unwrap();
    assert!(strings.iter().all(|name| name.as_str().unwrap().len() < 510));
}
