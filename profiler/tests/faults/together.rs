//! Records all oracles together: under emulation, the start and the end of a recording take most of its time.
//!
//! With `NGMI_FAULT_TOGETHER` set, the first test of a tier records the oracles in sequence, and every test checks its own part. The checks are
//! the same, but only one program runs, and its tables are built once.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitStatus;
use std::sync::OnceLock;

use crate::harness::{Oracle, Outcome};
use crate::images;
use crate::rows::{Account, Row};
use crate::run::{Run, read_said, recorder, rows, scratch, tables};
use crate::tier::Tier;

/// The oracles and modes to record together, which are those that tests pass to [`crate::run::judged`].
const ORACLES: &[(&str, &str)] = &[
    ("anon", "anonymous"),
    ("anon", "zero"),
    ("anon", "shared"),
    ("anon", "memfd"),
    ("anon", "thp"),
    ("anon", "hugetlb"),
    ("forked", ""),
    ("uffd", ""),
    ("writes", "private"),
    ("writes", "shared"),
    ("writes", "private-after-read"),
    ("writes", "shared-after-read"),
    ("cold", "ascending"),
    ("cold", "shuffled"),
    ("cold", "sequential"),
    ("cold", "plain"),
    ("race", ""),
    ("inside", "device"),
    ("inside", "file"),
    ("inside", "pipe"),
    ("inside", "write"),
    ("inside", "direct"),
    ("inside", "readv"),
    ("inside", "peek"),
    ("failed", ""),
    ("names", "link"),
    ("names", "deleted"),
    ("names", "replaced"),
    ("names", "moved"),
    ("names", "bind"),
    ("names", "overlay"),
    ("reclaim", ""),
];

/// The output of one oracle.
struct Part {
    status: i32,
    stdout: String,
    stderr: String,
}

/// One recording of all oracles.
struct Together {
    parts: HashMap<(&'static str, &'static str), Part>,
    rows: Vec<Row>,
    accounts: Vec<Account>,
    /// Whether the kernel skipped eBPF programs of the recorder.
    misses_programs: bool,
}

/// Whether tests share recordings.
pub fn is_asked() -> bool {
    std::env::var_os("NGMI_FAULT_TOGETHER").is_some()
}

/// The part of the oracle `faults/NAME` in the tier's recording. `None` if the oracle cannot run here and printed why.
#[track_caller]
pub fn part(tier: Tier, name: &str, arguments: &[&str]) -> Option<Run> {
    // Do not repeat a failed recording for each test.
    static RECORDINGS: [OnceLock<Option<Together>>; 3] = [const { OnceLock::new() }; 3];
    let together = RECORDINGS[tier as usize]
        .get_or_init(|| catch_unwind(AssertUnwindSafe(|| record(tier))).ok())
        .as_ref()
        .expect("the recording of all oracles failed: see the test that started it");
    let key = (name, arguments.first().copied().unwrap_or_default());
    let part = together.parts.get(&key);
    let part = part.unwrap_or_else(|| panic!("{key:?} is missing from `ORACLES`"));
    let outcome = Outcome {
        status: ExitStatus::from_raw(part.status << 8),
        stdout: part.stdout.clone(),
        stderr: part.stderr.clone(),
        taken_ms: 0.0,
        dir: tempfile::tempdir().unwrap(),
    };
    let said = read_said(&outcome)?;
    let pids: BTreeSet<u32> = said.phases.iter().map(|phase| phase.pid).collect();
    Some(Run {
        tier,
        outcome,
        rows: together
            .rows
            .iter()
            .filter(|row| pids.contains(&row.pid))
            .cloned()
            .collect(),
        accounts: together
            .accounts
            .iter()
            .filter(|one| pids.contains(&one.pid))
            .cloned()
            .collect(),
        said,
        may_lose: false,
    })
}

/// The largest number of recordings to try until the kernel skipped no eBPF program for a fault. A kernel that preempts eBPF programs skips
/// some now and then, and reports it.
const RECORDINGS: u32 = 6;

fn record(tier: Tier) -> Together {
    let missed = |one: &Together| one.misses_programs && one.accounts.iter().any(|account| account.lost > 0);
    let together = (1..RECORDINGS)
        .map(|_| record_once(tier))
        .find(|one| !missed(one))
        .unwrap_or_else(|| record_once(tier));
    for account in &together.accounts {
        assert_eq!(account.lost, 0, "{account:?}");
    }
    together
}

fn record_once(tier: Tier) -> Together {
    let folder = scratch();
    let mut script = String::new();
    for (number, (name, argument)) in ORACLES.iter().enumerate() {
        let oracle = Oracle::c(&format!("faults/{name}"));
        let work = folder.path().join(number.to_string());
        std::fs::create_dir(&work).unwrap();
        let (program, work) = (oracle.path.display(), work.display());
        writeln!(
            script,
            "{program} {argument} {work} >{work}.said 2>{work}.errors; echo $? >{work}.status"
        )
        .unwrap();
    }
    let outcome = recorder(tier, "all").program("sh", ["-c", &script]).run();
    outcome.expect_no_panic();
    outcome.expect_code(0);
    let log = outcome.file("log");
    let (rows, accounts) = (rows(&log, &[]), tables(&log).accounts);
    assert!(rows.is_sorted_by_key(|row| row.time_ns), "not sorted by time");
    for account in &accounts {
        account.expect_closed();
    }
    let said =
        |number: usize, what: &str| std::fs::read_to_string(folder.path().join(format!("{number}.{what}"))).unwrap();
    let part = |(number, key): (usize, &(&'static str, &'static str))| {
        let part = Part {
            status: said(number, "status").trim().parse().unwrap(),
            stdout: said(number, "said"),
            stderr: said(number, "errors"),
        };
        (*key, part)
    };
    Together {
        parts: ORACLES.iter().enumerate().map(part).collect(),
        rows,
        accounts,
        misses_programs: outcome.stderr.contains("program missed"),
    }
}

/// Builds every program in advance for guests, in which a compiler is several times slower.
#[test]
fn oracles_build() {
    let others = ["fentry", "library", "relocated", "mapping", "storm"];
    for name in ORACLES.iter().map(|(name, _)| *name).chain(others) {
        assert!(Oracle::c(&format!("faults/{name}")).path.exists());
    }
    for oracle in images::oracles() {
        assert!(oracle.path.exists());
    }
}
