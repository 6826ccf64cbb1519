//! Records an oracle of `tests/oracles/waits`, and reads its output and that of `ngmi waits` and `ngmi io`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::harness::{Ngmi, Oracle, Outcome, skip};

/// Maximum number of attempts. When other recorders start or stop, the kernel occasionally skips a switch or a request's end, which
/// counts as a loss. Therefore these tests run one at a time, and a recording with losses is repeated.
pub const ATTEMPTS: u32 = 4;

/// Held by the test that records; see [`ATTEMPTS`].
pub static TURN: Mutex<()> = Mutex::new(());

/// An episode is accounted for if at most this time is unexplained, in ns.
const UNEXPLAINED: u64 = 1_000_000;

/// What a program knows about an episode of its run. Times are `CLOCK_MONOTONIC`, in ns.
#[derive(Debug, Deserialize)]
pub struct Episode {
    #[serde(rename = "episode")]
    pub name: String,
    pub pid: u32,
    pub tid: u32,
    pub start: u64,
    pub end: u64,
    /// On-CPU time during the episode.
    pub cpu: u64,
    /// Number of voluntary context switches, as counted by the kernel.
    pub switches: u64,
    /// Thread that ended the wait; 0: no thread.
    pub waker: u32,
    pub file: Option<String>,
    pub offset: u64,
    pub bytes: u64,
}

/// A row of `ngmi waits --ndjson`.
#[derive(Debug, Deserialize)]
pub struct Wait {
    pub time_ns: u64,
    pub end_ns: u64,
    pub tid: u32,
    pub reason: String,
    pub off_ns: u64,
    pub queued_ns: u64,
    pub count: u32,
    pub call: Option<String>,
    pub file: Option<String>,
    pub waker_tid: Option<u32>,
    pub waker: Option<String>,
    pub cause: Option<String>,
    pub cause_sector: Option<u64>,
    pub cause_file: Option<String>,
    pub cause_offset: Option<u64>,
    pub cause_tid: Option<u32>,
}

/// A row of `ngmi io --ndjson`.
#[derive(Debug, Deserialize)]
pub struct Request {
    pub time_ns: u64,
    pub end_ns: Option<u64>,
    pub operation: String,
    pub bytes: u64,
    pub file: Option<String>,
    pub offset: Option<u64>,
    pub pid: Option<u32>,
    pub source: Option<String>,
    pub stacked: bool,
}

/// A thread of `lives` in `ngmi waits --json`.
#[derive(Debug, Deserialize)]
pub struct Life {
    pub tid: u32,
    pub on_ns: u64,
    pub off_ns: u64,
    pub life_ns: u64,
}

#[derive(Debug, Deserialize)]
struct Tables {
    recording: Recording,
    lives: Lifetimes,
}

#[derive(Debug, Deserialize)]
pub struct Recording {
    /// On the same clock as [`Episode`].
    start: u64,
    hooks: Vec<Hook>,
    pub losses: Vec<(String, u64)>,
}

#[derive(Debug, Deserialize)]
struct Hook {
    noun: String,
    hook: String,
    refused: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Lifetimes {
    each: Vec<Life>,
}

/// A recording with the program's episodes and ngmi's output.
pub struct Run {
    pub episodes: Vec<Episode>,
    pub waits: Vec<Wait>,
    pub lives: Vec<Life>,
    outcome: Outcome,
    start: u64,
}

/// A folder on a disk; /tmp is in memory on most machines.
pub fn scratch() -> tempfile::TempDir {
    let place =
        std::env::var_os("NGMI_WAIT_DIR").map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    tempfile::Builder::new().prefix("waits-").tempdir_in(place).unwrap()
}

/// Guests of `tests/kernels/check` use prebuilt oracles from here, since a compiler is several times slower there.
#[test]
fn oracles_build() {
    for name in [
        "sleep",
        "pipe",
        "epoll",
        "child",
        "lock",
        "disk",
        "together",
        "uring",
        "hog",
        "lives",
        "swap",
        "names",
        "int80",
        "hung",
        "absent",
        "throttled",
    ] {
        assert!(Oracle::c(&format!("waits/{name}")).path.exists());
    }
}

/// Records the oracle `waits/NAME` with a folder on a disk as its argument. `None`: the test is counted as skipped.
#[track_caller]
pub fn record(name: &str) -> Option<Run> {
    record_as(name, |oracle, folder| vec![oracle.into(), folder.into()])
}

/// Like [`record`], with a command built from the oracle's path and the folder.
#[track_caller]
pub fn record_as(name: &str, command: impl Fn(&Path, &Path) -> Vec<OsString>) -> Option<Run> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut last = Vec::new();
    for _ in 0..ATTEMPTS {
        let (run, losses) = record_once(name, &command)?;
        if losses.is_empty() {
            return Some(run);
        }
        eprintln!("once more: {losses:?}");
        last = losses;
    }
    skip::skip(&format!(
        "each recording has losses, as happens while other recorders run: {last:?}"
    ));
    None
}

#[track_caller]
fn record_once(name: &str, command: &dyn Fn(&Path, &Path) -> Vec<OsString>) -> Option<(Run, Vec<(String, u64)>)> {
    let folder = scratch();
    let oracle = Oracle::c(&format!("waits/{name}"));
    // Other tests cover faults.
    let ngmi = Ngmi::record().args(["--keep-events", "log", "--faults", "off"]);
    let command = command(&oracle.path, folder.path());
    let outcome = ngmi.program(&command[0], &command[1..]).run();
    outcome.expect_no_panic();
    let mut episodes = Vec::new();
    for line in outcome.stdout.lines().filter(|line| line.starts_with("{\"")) {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        if let Some(reason) = value["skip"].as_str() {
            skip::skip(reason);
            return None;
        }
        episodes.push(serde_json::from_value(value).unwrap());
    }
    outcome.expect_code(0);
    let mut tables: Vec<Tables> = print(&outcome, "waits", "--json").unwrap();
    let Tables { recording, lives } = tables.remove(0);
    let refused = |hook: &&Hook| hook.noun == "switch" && hook.refused.is_some();
    if let Some(hook) = recording.hooks.iter().find(refused) {
        skip::skip(&format!("the kernel refuses {}", hook.hook));
        return None;
    }
    let run = Run {
        episodes,
        waits: print(&outcome, "waits", "--ndjson").unwrap(),
        lives: lives.each,
        outcome,
        start: recording.start,
    };
    Some((run, recording.losses))
}

/// Output of a subcommand for the log, value by value. `None` if it reports nothing and fails.
#[track_caller]
fn print<T: DeserializeOwned>(outcome: &Outcome, subcommand: &str, form: &str) -> Option<Vec<T>> {
    let said = Ngmi::subcommand(subcommand).arg(outcome.file("log")).arg(form).run();
    said.expect_no_panic();
    if said.code() != 0 {
        return None;
    }
    let values = serde_json::Deserializer::from_str(&said.stdout).into_iter();
    Some(values.map(Result::unwrap).collect())
}

impl Episode {
    /// Whether both episodes accessed the same page of the same file.
    pub fn is_same_page(&self, other: &Self) -> bool {
        self.file == other.file && self.offset == other.offset
    }
}

impl Run {
    /// Episodes with this name.
    #[track_caller]
    pub fn episodes(&self, name: &str) -> Vec<&Episode> {
        let found: Vec<_> = self.episodes.iter().filter(|episode| episode.name == name).collect();
        assert!(!found.is_empty(), "no episode {name:?}: {}", self.outcome.stdout);
        found
    }

    /// Waits of the episode's thread within the episode.
    pub fn within(&self, episode: &Episode) -> Vec<&Wait> {
        let lies = |wait: &&Wait| {
            wait.tid == episode.tid && {
                let (start, end) = (self.start + wait.time_ns, self.start + wait.end_ns);
                start >= episode.start && end <= episode.end
            }
        };
        self.waits.iter().filter(lies).collect()
    }

    /// Asserts that the episodes with this name are accounted for: waiting plus computing time equals the duration by the program's own
    /// clock, within a millisecond in the median, and never exceeds it. Time taken by the hypervisor is in neither.
    #[track_caller]
    pub fn expect_times(&self, name: &str) {
        let mut left: Vec<u64> = Vec::new();
        for episode in self.episodes(name) {
            let took = episode.end - episode.start;
            let waited: u64 = self.within(episode).iter().map(|wait| wait.off_ns).sum();
            assert!(waited <= took, "waited {waited} ns of {took}: {episode:?}");
            // The CPU time is read slightly before the clock, and slightly after it.
            left.push((took - waited).saturating_sub(episode.cpu));
        }
        left.sort_unstable();
        let median = left[left.len() / 2];
        // At least half of the episodes have the median or more.
        let taken = (self.outcome.taken_ms + 10.0) * 1e6 / left.len().div_ceil(2) as f64;
        assert!(
            (median as f64) < UNEXPLAINED as f64 + taken,
            "{name}: {left:?} ns are unexplained, of which {taken} may have been taken away"
        );
    }

    /// Asserts that each episode in which the kernel saw the thread sleep has a wait for one of these reasons in one of these calls,
    /// ended by the thread that the program names. Returns the wait of each; there may be waits for a CPU in addition.
    #[track_caller]
    pub fn expect_waits(&self, name: &str, reasons: &[&str], calls: &[&str]) -> Vec<(&Episode, &Wait)> {
        let mut found = Vec::new();
        for episode in self.episodes(name) {
            let waits = self.within(episode);
            let of_reason = waits.iter().filter(|wait| reasons.contains(&&*wait.reason));
            let of_reason: Vec<&Wait> = of_reason.copied().collect();
            let slept: u64 = of_reason.iter().map(|wait| u64::from(wait.count)).sum();
            assert_eq!(slept, episode.switches, "{episode:?} and {waits:#?}");
            let queued = waits.iter().filter(|wait| wait.reason == "run-queue").count();
            assert_eq!(of_reason.len() + queued, waits.len(), "{episode:?} and {waits:#?}");
            for wait in of_reason {
                assert!(
                    wait.call.as_deref().is_some_and(|call| calls.contains(&call)),
                    "{wait:?}"
                );
                if episode.waker != 0 {
                    assert_eq!(wait.waker_tid, Some(episode.waker), "{episode:?} and {wait:?}");
                }
                found.push((episode, wait));
            }
        }
        found
    }

    /// Requests of the recording, except those of stacked devices. `None`: there are none, and the test is counted as skipped.
    #[track_caller]
    pub fn requests(&self) -> Option<Vec<Request>> {
        let rows: Option<Vec<Request>> = print(&self.outcome, "io", "--ndjson");
        if rows.is_none() {
            skip::skip("files here are not on a block device");
        }
        Some(rows?.into_iter().filter(|request| !request.stacked).collect())
    }
}
