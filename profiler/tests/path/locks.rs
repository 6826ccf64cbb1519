//! `ngmi waits --locks`: which thread had a lock for how long, and what it did then, as the program knows it.

use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use serde_json::Value;

use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Outcome};
use crate::run::{Run, TOLERANCE, record};

/// A wait for a lock, as the program knows it, by `CLOCK_MONOTONIC` in ns.
#[derive(Debug, Deserialize)]
struct Known {
    /// What its holder did for most of the time.
    #[serde(rename = "lock")]
    did: String,
    address: u64,
    /// The distance from the start of the program; negative: it is in the heap.
    offset: i64,
    start: u64,
    end: u64,
    /// The thread that took the holder's CPU, if the program has one.
    hog: u64,
}

/// What `ngmi waits --locks` prints for a recording.
#[track_caller]
fn locks(outcome: &Outcome, input: &str, args: &[&str]) -> String {
    let ngmi = Ngmi::subcommand("waits").arg(outcome.file(input)).arg("--locks");
    ngmi.args(args).run().expect_code(0).stdout.clone()
}

#[track_caller]
fn report(outcome: &Outcome) -> Vec<Value> {
    let report: Value = serde_json::from_str(&locks(outcome, "log", &["--json"])).unwrap();
    report["locks"].as_array().unwrap().clone()
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no {key} in {value}"))
}

fn known(run: &Run) -> Vec<Known> {
    let known = run.others.iter().cloned().map(serde_json::from_value);
    known.collect::<Result<_, _>>().unwrap()
}

fn of<'l>(locks: &'l [Value], known: &Known) -> &'l Value {
    let address = format!("{:#x}", known.address);
    let lock = locks.iter().find(|lock| lock["address"] == *address);
    lock.unwrap_or_else(|| panic!("no lock {address} in {locks:?}"))
}

/// The program's variable at this distance from its start, as nm lists it.
fn variable_at(program: &Path, distance: u64) -> String {
    let listed = Command::new("nm").arg("-S").arg(program).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let words: Vec<Vec<&str>> = listed.lines().map(|line| line.split(' ').collect()).collect();
    let hex = |digits: &str| u64::from_str_radix(digits, 16).unwrap();
    let start = words.iter().find(|words| words.last() == Some(&"__executable_start"));
    let address = hex(start.unwrap()[0]) + distance;
    let variable = words.iter().find_map(|words| {
        match words[..] {
            [start, size, "b" | "B" | "d" | "D", name] => Some((address.checked_sub(hex(start))?, hex(size), name)),
            _ => None,
        }
        .filter(|(behind, size, _)| behind < size)
    });
    match variable.unwrap_or_else(|| panic!("no variable at {distance:#x} in {listed}")) {
        (0, _, name) => name.to_owned(),
        (behind, _, name) => format!("{name} + {behind:#x}"),
    }
}

/// What the holder of each lock did, in ms at least: the program asserts it by its own CPU time, sleeps and threads.
const DID: [(&str, u64); 4] = [("cpu", 40), ("other", 30), ("fault", 25), ("queue", 40)];

#[test]
fn a_holder_did_what_the_program_did() {
    needs_capture!();
    let difference = |run: &Run| {
        let locks = report(&run.outcome);
        known(run).iter().find_map(|known| {
            let blocked = number(of(&locks, known), "blocked_ns");
            let differ = blocked.abs_diff(known.end - known.start);
            (differ > TOLERANCE).then(|| format!("{known:?}: blocked for {blocked} ns"))
        })
    };
    let Some(run) = record("holders", difference) else {
        return;
    };
    let locks = report(&run.outcome);
    for known in known(&run) {
        let lock = of(&locks, &known);
        let is_heap = known.offset < 0;
        assert_eq!(lock["offset"].as_i64(), (!is_heap).then_some(known.offset), "{lock}");
        assert_eq!(
            lock["file"].as_str().is_some_and(|file| file.ends_with("holders")),
            !is_heap
        );
        let symbol = (!is_heap).then(|| variable_at(&run.program, known.offset.unsigned_abs()));
        assert_eq!(lock["symbol"].as_str(), symbol.as_deref(), "{lock}");
        assert_eq!((number(lock, "waits"), number(lock, "waiters")), (1, 1), "{lock}");
        let holder = &lock["by_holder"][0];
        assert_eq!(holder["thread"], "holder", "{lock}");
        let ms = DID.iter().find(|(did, _)| *did == known.did).unwrap().1;
        let did = number(holder, &format!("{}_ns", known.did));
        assert!(did + TOLERANCE >= ms * 1_000_000, "{}: {did} ns of {holder}", known.did);
        if known.did == "queue" {
            let patterns = lock["patterns"].as_array().unwrap();
            assert!(patterns.contains(&"preempted holder".into()), "{lock}");
            // The waiter's priority is not better than that of the thread that ran.
            assert!(!patterns.contains(&"priority inversion".into()), "{lock}");
            let mut by = lock["preempted_by"].as_array().unwrap().iter();
            let hog = by.find(|by| by["tid"].as_u64() == Some(known.hog)).unwrap();
            assert!(number(hog, "time_ns") + TOLERANCE >= 40_000_000, "{lock}");
            let all = lock["preempted_by"].as_array().unwrap().iter();
            assert_eq!(
                all.map(|by| number(by, "time_ns")).sum::<u64>(),
                number(lock, "preempted_ns")
            );
        }
    }
}

#[test]
fn a_convoy_is_named_and_divided_among_its_holders() {
    needs_capture!();
    let Some(run) = record("convoy", Run::difference) else {
        return;
    };
    let locks = report(&run.outcome);
    let lock = locks.iter().find(|lock| number(lock, "waiters") == 4).unwrap();
    assert_eq!(lock["patterns"][0], "convoy", "{lock}");
    let convoy = &lock["convoy"];
    assert_eq!(
        (number(convoy, "hand_overs"), number(convoy, "waits")),
        (3, 4),
        "{lock}"
    );
    // The pieces of the path are the holders'; behind the first one three threads waited, and so on.
    let pieces = run.expected.iter().filter(|piece| piece.name.starts_with("holder"));
    for (piece, waiters) in pieces.zip([3, 2, 1]) {
        let mut rows = lock["by_holder"].as_array().unwrap().iter();
        let row = rows.find(|row| number(row, "tid") == u64::from(piece.tid)).unwrap();
        let differ = number(row, "blocked_ns").abs_diff(waiters * (piece.end - piece.start));
        assert!(differ <= 2 * waiters * TOLERANCE, "{piece:?} {row}");
    }
    let text = locks_text(&run);
    assert!(text.contains("convoy: 3 hand-overs in a row"), "{text}");
}

#[track_caller]
fn locks_text(run: &Run) -> String {
    let text = locks(&run.outcome, "log", &["--stacks"]);
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    text
}

#[test]
fn rows_and_a_profile_say_the_same() {
    needs_capture!();
    let Some(run) = record("convoy", |_| None) else { return };
    let rows = |input| -> Vec<Value> {
        let rows = locks(&run.outcome, input, &["--ndjson"]);
        rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect()
    };
    let (of_log, of_profile) = (rows("log"), rows("out.json.gz"));
    assert_eq!(of_log, of_profile);
    for lock in report(&run.outcome) {
        let of_lock = of_log.iter().filter(|row| row["address"] == lock["address"]);
        let blocked: u64 = of_lock.map(|row| number(row, "blocked_ns")).sum();
        // Waits that are stored together are not among the rows.
        assert!(blocked <= number(&lock, "blocked_ns"), "{lock}");
        if number(&lock, "waits") <= 4 {
            assert_eq!(blocked, number(&lock, "blocked_ns"), "{lock}");
        }
    }
    let csv = locks(&run.outcome, "log", &["--csv"]);
    assert_eq!(csv.lines().count(), of_log.len() + 1);
}

fn blocked_in<'l>(locks: &'l [Value], address: &Value) -> Vec<(&'l str, u64, u64)> {
    let address = format!("{:#x}", address.as_u64().unwrap());
    let mut found: Vec<_> = locks
        .iter()
        .filter(|lock| lock["address"] == *address)
        .map(|lock| {
            (
                lock["lock"].as_str().unwrap(),
                number(lock, "waits"),
                number(lock, "blocked_ns"),
            )
        })
        .collect();
    found.sort_unstable();
    found
}

#[test]
fn locks_in_the_heap_are_those_of_their_functions() {
    needs_capture!();
    let Some(run) = record("inturn", |_| None) else { return };
    let known = &run.others[0];
    let locks = report(&run.outcome);
    let in_turn = blocked_in(&locks, &known["in_turn"]);
    let [
        ("futex in read_images", 1, loading),
        ("futex in write_report", 1, saving),
    ] = in_turn[..]
    else {
        panic!("{in_turn:?}");
    };
    assert!(
        loading + TOLERANCE >= 12_000_000 && saving + TOLERANCE >= 17_000_000,
        "{in_turn:?}"
    );
    let shared = blocked_in(&locks, &known["shared"]);
    assert!(
        matches!(
            shared[..],
            [("futex in push" | "futex in pop" | "futex in clear", 3, 28_000_000..)]
        ),
        "{shared:?}"
    );
    let address = format!("{:#x}", known["in_turn"].as_u64().unwrap());
    let text = locks_text(&run);
    assert!(
        text.contains(&format!("futex in write_report, {address}, process inturn")),
        "{text}"
    );
    assert!(text.contains("released in: save"), "{text}");
}

#[test]
fn a_killer_held_no_lock() {
    needs_capture!();
    let Some(run) = record("killed", |_| None) else { return };
    let locks = report(&run.outcome);
    let lock = locks.iter().find(|lock| lock["lock"] == "futex in victim");
    let lock = lock.unwrap_or_else(|| panic!("{locks:?}"));
    let holders = lock["by_holder"].as_array().unwrap();
    assert!(holders.iter().all(|holder| holder["tid"].is_null()), "{lock}");
    assert_eq!(lock["by_release"][0]["function"], Value::Null, "{lock}");
}
