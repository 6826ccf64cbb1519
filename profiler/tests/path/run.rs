//! Records an oracle of `tests/oracles/path`, and reads its output and that of `ngmi path`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;
use serde_json::Value;

use crate::harness::{Ngmi, Oracle, Outcome, skip};

/// Maximum number of recordings, since other programs may disturb one.
const ATTEMPTS: u32 = 4;
/// A piece of the path may differ from the program's own clock by this, in ns.
pub const TOLERANCE: u64 = 1_000_000;

/// Held by the test that records: the others would disturb it.
static TURN: Mutex<()> = Mutex::new(());

/// The time span of a program's path, by `CLOCK_MONOTONIC` in ns.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Window {
    /// The thread that the path is of.
    #[serde(rename = "window")]
    pub tid: u32,
    pub start: u64,
    pub end: u64,
}

/// A piece of the path, as the program knows it.
#[derive(Debug, Clone, Deserialize)]
pub struct Expected {
    #[serde(rename = "piece")]
    pub name: String,
    pub tid: u32,
    pub start: u64,
    pub end: u64,
}

/// A row of `ngmi path --ndjson`.
#[derive(Debug, Deserialize)]
pub struct Piece {
    pub time_ns: u64,
    pub end_ns: u64,
    pub duration_ns: u64,
    pub tid: u32,
    pub thread: String,
    pub reason: String,
    pub via: Option<String>,
    pub held_up_tid: u32,
    pub file: Option<String>,
    pub device: Option<String>,
}

impl Piece {
    /// Whether another program had the CPU of the thread.
    pub fn is_taken(&self) -> bool {
        self.reason == "run-queue" && self.tid == self.held_up_tid
    }
}

/// A recording of a program, and its path.
pub struct Run {
    pub program: PathBuf,
    pub outcome: Outcome,
    pub window: Window,
    pub expected: Vec<Expected>,
    /// Other lines that the program printed.
    pub others: Vec<Value>,
    pub pieces: Vec<Piece>,
    pub report: Value,
    /// The recording's start, on the program's clock.
    pub start: u64,
}

/// Records the oracle `path/NAME` until nothing disturbed it, according to `is_disturbed`. `None`: the test is counted
/// as skipped.
#[track_caller]
pub fn record(name: &str, is_disturbed: impl Fn(&Run) -> Option<String>) -> Option<Run> {
    record_in(Path::new(""), name, is_disturbed)
}

/// Like [`record`], of an oracle that is passed a folder for its files.
#[track_caller]
pub fn record_in(folder: &Path, name: &str, is_disturbed: impl Fn(&Run) -> Option<String>) -> Option<Run> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        let run = record_once(folder, name)?;
        run.expect_partition();
        let losses = run.report["recording"]["losses"].as_array().unwrap();
        let disturbed = if losses.is_empty() {
            is_disturbed(&run)
        } else {
            Some(format!("lost: {losses:?}"))
        };
        let Some(reason) = disturbed else { return Some(run) };
        eprintln!("once more: {reason}");
        last = reason;
    }
    skip::skip(&format!("each of {ATTEMPTS} recordings was disturbed: {last}"));
    None
}

/// A folder on a disk, not in memory: the one that `NGMI_WAIT_DIR` names, or the folder of the build.
pub fn scratch() -> tempfile::TempDir {
    let place =
        std::env::var_os("NGMI_WAIT_DIR").map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    tempfile::Builder::new().prefix("path-").tempdir_in(place).unwrap()
}

#[track_caller]
fn record_once(folder: &Path, name: &str) -> Option<Run> {
    let oracle = Oracle::c(&format!("path/{name}"));
    let ngmi = Ngmi::record().args(["--keep-events", "log"]);
    let args = Some(folder).filter(|folder| !folder.as_os_str().is_empty());
    let outcome = ngmi.program(&oracle.path, args).run();
    outcome.expect_no_panic();
    let (mut window, mut expected, mut others) = (None, Vec::new(), Vec::new());
    for line in outcome.stdout.lines().filter(|line| line.starts_with("{\"")) {
        let value: Value = serde_json::from_str(line).unwrap();
        if let Some(reason) = value["skip"].as_str() {
            skip::skip(reason);
            return None;
        }
        if value.get("window").is_some() {
            window = Some(serde_json::from_value::<Window>(value).unwrap());
        } else if value.get("piece").is_none() {
            others.push(value);
        } else {
            expected.push(serde_json::from_value(value).unwrap());
        }
    }
    outcome.expect_code(0);
    let window = window.unwrap();
    let whole = path(&outcome, &["--json"]);
    let whole: Value = serde_json::from_str(&whole).unwrap();
    let start = whole["recording"]["start"].as_u64().unwrap();
    let seconds = |time: u64| format!("{:.9}", (time - start) as f64 / 1e9);
    let (from, to, tid) = (seconds(window.start), seconds(window.end), window.tid.to_string());
    let args = ["--thread", &tid, "--from", &from, "--to", &to];
    let rows = path(&outcome, &[&args[..], &["--ndjson"]].concat());
    let report = path(&outcome, &[&args[..], &["--json"]].concat());
    Some(Run {
        program: oracle.path,
        window,
        expected,
        others,
        pieces: rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
        report: serde_json::from_str(&report).unwrap(),
        start,
        outcome,
    })
}

/// What `ngmi path` prints for the log.
#[track_caller]
pub fn path(outcome: &Outcome, args: &[&str]) -> String {
    let ngmi = Ngmi::subcommand("path").arg(outcome.file("log")).args(args);
    ngmi.run().expect_code(0).stdout.clone()
}

impl Run {
    /// The path of the same thread from the same moment to an earlier one, by the program's clock.
    #[track_caller]
    pub fn pieces_up_to(&self, end: u64) -> Vec<Piece> {
        let seconds = |time: u64| format!("{:.9}", (time - self.start) as f64 / 1e9);
        let (from, to, tid) = (seconds(self.window.start), seconds(end), self.window.tid.to_string());
        let args = ["--thread", &tid, "--from", &from, "--to", &to, "--ndjson"];
        let rows = path(&self.outcome, &args);
        rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The pieces are adjacent, and add up to the span exactly, as do all tables.
    #[track_caller]
    pub fn expect_partition(&self) {
        let (start, end) = (self.window.start - self.start, self.window.end - self.start);
        let mut at = start;
        for piece in &self.pieces {
            assert_eq!(piece.time_ns, at, "{piece:?}");
            assert_eq!(piece.duration_ns, piece.end_ns - piece.time_ns, "{piece:?}");
            at = piece.end_ns;
        }
        assert_eq!(at, end, "{:?}", self.pieces.last());
        assert_eq!(self.report["totals"]["time_ns"].as_u64(), Some(end - start));
        for (key, rows) in self
            .report
            .as_object()
            .unwrap()
            .iter()
            .filter(|(key, _)| key.starts_with("by_"))
        {
            let rows = rows.as_array().unwrap().iter();
            let sum: u64 = rows.map(|row| row["time_ns"].as_u64().unwrap()).sum();
            assert_eq!(sum, end - start, "{key}");
        }
    }

    /// The first difference of more than a millisecond between a piece that the program knows and the path.
    pub fn difference(&self) -> Option<String> {
        self.expected.iter().find_map(|expected| {
            let (start, end) = (expected.start - self.start, expected.end - self.start);
            let of_thread = |piece: &&Piece| piece.tid == expected.tid || piece.held_up_tid == expected.tid;
            let within = |piece: &Piece| piece.end_ns.min(end).saturating_sub(piece.time_ns.max(start));
            let found: u64 = self.pieces.iter().filter(of_thread).map(within).sum();
            let missing = (end - start).abs_diff(found);
            (missing > TOLERANCE).then(|| format!("{expected:?}: {found} ns on the path, {missing} ns differ"))
        })
    }

    /// Asserts that most of the path is what the thread with this name did: `reason`. Time that other programs took
    /// from a thread on a busy machine is left out; without it this is the first row of the table.
    #[track_caller]
    pub fn expect_first(&self, thread: &str, reason: &str) {
        let mut parts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for piece in self.pieces.iter().filter(|piece| !piece.is_taken()) {
            *parts.entry((&piece.thread, &piece.reason)).or_default() += piece.duration_ns;
        }
        let first = parts.iter().max_by_key(|(_, time)| **time).unwrap();
        assert_eq!(*first.0, (thread, reason), "{parts:?}");
    }

    /// The time of the path within a span of the program's clock, by reason, in ns.
    pub fn reasons_within(&self, start: u64, end: u64) -> BTreeMap<&str, u64> {
        let (start, end) = (start - self.start, end - self.start);
        let mut reasons = BTreeMap::new();
        for piece in &self.pieces {
            let within = piece.end_ns.min(end).saturating_sub(piece.time_ns.max(start));
            *reasons.entry(&*piece.reason).or_default() += within;
        }
        reasons.retain(|_, time| *time > 0);
        reasons
    }

    /// Time on the path of a thread by name, in ms.
    pub fn thread_ms(&self, name: &str) -> u64 {
        let pieces = self.pieces.iter().filter(|piece| piece.thread == name);
        pieces.map(|piece| piece.duration_ns).sum::<u64>() / 1_000_000
    }

    /// What the path leads over, in its order, without repetitions: for each change, the reason and the thread.
    pub fn links(&self) -> Vec<(Option<&str>, u32)> {
        let mut links: Vec<_> = self
            .pieces
            .iter()
            .map(|piece| (piece.via.as_deref(), piece.held_up_tid))
            .collect();
        links.dedup();
        links
    }
}
