//! Records an oracle program in one tier, and reads back the output of the oracle and of `ngmi faults`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::emulated::is_emulated;
use crate::harness::{Ngmi, Oracle, Outcome, skip};
use crate::rows::{Account, Row, Tables};
use crate::said::{Phase, Said};
use crate::tier::Tier;
use crate::together;

/// A folder on a file system that uses the page cache; on most machines, /tmp is memory.
pub fn scratch() -> tempfile::TempDir {
    let place =
        std::env::var_os("NGMI_FAULT_DIR").map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    tempfile::Builder::new().prefix("faults-").tempdir_in(place).unwrap()
}

/// A recording, with the output of the oracle and of `ngmi faults`.
pub struct Run {
    pub tier: Tier,
    pub outcome: Outcome,
    /// The oracle's output.
    pub said: Said,
    /// The recorded faults, by time.
    pub rows: Vec<Row>,
    pub accounts: Vec<Account>,
    /// Whether losses are permitted if they are counted: see [`is_slow`].
    pub may_lose: bool,
}

/// Whether the recorder is a debug build or runs under emulation (`NGMI_FAULT_SLOW`). It then drains the rings several times slower, and a
/// storm may overrun it on a busy machine: every lost fault must be counted. A release build loses nothing.
pub fn is_slow() -> bool {
    let is_debug = cfg!(debug_assertions) && std::env::var_os("NGMI_BIN").is_none();
    is_debug || is_emulated()
}

/// Prepares `ngmi record` in this tier; the events are kept in `log`. An emulated machine takes seconds to verify each
/// program: other event kinds are left to the suite `capture`, which records all of them in each tier there.
pub fn recorder(tier: Tier, faults: &str) -> Ngmi {
    let others: &[&str] = if is_emulated() {
        &["--off-cpu", "off", "--block", "off"]
    } else {
        &[]
    };
    Ngmi::record()
        .args(["--faults", faults, "--fault-source", tier.name()])
        .args(["--keep-events", "log"])
        .args(others)
}

/// Records all faults of an oracle. `None` if the oracle cannot run here and printed why; the test then counts as skipped.
pub fn record<S: AsRef<OsStr>>(tier: Tier, oracle: &Oracle, arguments: impl IntoIterator<Item = S>) -> Option<Run> {
    read(tier, recorder(tier, "all").program(oracle, arguments).run())
}

/// Records the oracle `faults/NAME` in a scratch folder, whose path is its last argument, and judges every phase.
pub fn judged(tier: Tier, name: &str, arguments: &[&str]) -> Option<Run> {
    let run = if together::is_asked() {
        together::part(tier, name, arguments)?
    } else {
        let folder = scratch();
        let arguments = arguments.iter().map(OsStr::new).chain([folder.path().as_os_str()]);
        record(tier, &Oracle::c(&format!("faults/{name}")), arguments)?
    };
    run.expect_phases();
    run.expect_accounts();
    Some(run)
}

/// Reads the output of the oracle and of `ngmi faults` for a finished recording.
#[track_caller]
pub fn read(tier: Tier, outcome: Outcome) -> Option<Run> {
    outcome.expect_no_panic();
    let said = read_said(&outcome)?;
    let log = outcome.file("log");
    let rows = rows(&log, &[]);
    assert!(
        rows.is_sorted_by_key(|row| row.time_ns),
        "the rows are not sorted by time"
    );
    let accounts = tables(&log).accounts;
    Some(Run {
        tier,
        outcome,
        said,
        rows,
        accounts,
        may_lose: false,
    })
}

/// Reads the oracle's output. `None` if the oracle cannot run here and printed why; the test then counts as skipped.
#[track_caller]
pub fn read_said(outcome: &Outcome) -> Option<Said> {
    let said = Said::read(&outcome.stdout);
    if let Some(reason) = &said.skip {
        skip::skip(reason);
        return None;
    }
    outcome.expect_code(0);
    Some(said)
}

/// `ngmi faults FILE --ndjson`, as text.
#[track_caller]
pub fn ndjson(file: &Path, arguments: &[&str]) -> String {
    let outcome = Ngmi::subcommand("faults")
        .arg(file)
        .arg("--ndjson")
        .args(arguments)
        .run();
    outcome.expect_code(0);
    outcome.stdout
}

/// The rows of a log or of a profile.
#[track_caller]
pub fn rows(file: &Path, arguments: &[&str]) -> Vec<Row> {
    let text = ndjson(file, arguments);
    let row = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(row).collect()
}

/// The tables of a log or of a profile.
#[track_caller]
pub fn tables(file: &Path) -> Tables {
    let outcome = Ngmi::subcommand("faults").arg(file).arg("--json").run();
    outcome.expect_code(0);
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {}", outcome.stdout))
}

impl Run {
    /// The recorded faults of the phase's thread in the phase's memory.
    pub fn rows_of(&self, phase: &Phase) -> Vec<&Row> {
        let of_it = |row: &&Row| row.tid == phase.tid && phase.holds(row.address);
        self.rows.iter().filter(of_it).collect()
    }

    /// The only phase and its rows.
    #[track_caller]
    pub fn only_rows(&self) -> (&Phase, Vec<&Row>) {
        assert_eq!(self.said.phases.len(), 1);
        let phase = &self.said.phases[0];
        (phase, self.rows_of(phase))
    }

    /// Whether the kernel missed context switches, which the recording counts (docs/waits.md): waits of single faults may be unknown.
    pub fn misses_switches(&self) -> bool {
        self.outcome.stderr.contains("switches missed")
    }

    /// The account of a thread.
    #[track_caller]
    pub fn account(&self, tid: u32) -> &Account {
        let found = self.accounts.iter().find(|account| account.tid == tid);
        found.unwrap_or_else(|| panic!("no account of thread {tid}"))
    }
}
