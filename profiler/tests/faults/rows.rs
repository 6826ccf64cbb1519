//! The output of `ngmi faults`: one object per fault from `--ndjson`, and the accounts from `--json`.

use serde::{Deserialize, Deserializer};

/// The columns in order. The first fifteen are promised to scripts that plot; the others were added later.
pub const COLUMNS: &[&str] = &[
    "time_ns",
    "pid",
    "tid",
    "file",
    "offset",
    "section",
    "symbol",
    "class",
    "access",
    "major",
    "waited",
    "latency_ns",
    "address",
    "function",
    "process",
    "thread",
    "in_kernel",
    "failed",
    "lock_ns",
    "disk_ns",
    "other_read_ns",
    "reclaim_ns",
    "blocked_ns",
    "preempted_ns",
    "retries",
    "pages_around",
    "pages_read",
    "device",
    "inode",
    "build_id",
    "stack_complete",
];

/// One fault. `None` is `null`: unknown in this tier.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Row {
    pub time_ns: u64,
    pub pid: u32,
    pub tid: u32,
    pub file: Option<String>,
    pub offset: Option<u64>,
    pub section: Option<String>,
    pub symbol: Option<String>,
    pub class: String,
    /// `null` is `unknown`.
    #[serde(deserialize_with = "or_unknown")]
    pub access: String,
    pub major: bool,
    pub waited: Option<bool>,
    pub latency_ns: Option<u64>,
    #[serde(deserialize_with = "hexadecimal")]
    pub address: u64,
    pub function: Option<String>,
    pub process: Option<String>,
    pub thread: Option<String>,
    pub in_kernel: bool,
    pub failed: Option<String>,
    pub lock_ns: Option<u64>,
    pub disk_ns: Option<u64>,
    pub other_read_ns: Option<u64>,
    pub reclaim_ns: Option<u64>,
    pub blocked_ns: Option<u64>,
    pub preempted_ns: Option<u64>,
    pub retries: Option<u64>,
    pub pages_around: Option<u64>,
    pub pages_read: Option<u64>,
    pub device: Option<String>,
    pub inode: Option<u64>,
    pub build_id: Option<String>,
    pub stack_complete: Option<bool>,
}

/// The fault counts of one thread that ended: see [`Account::expect_closed`].
#[derive(Debug, Clone, Deserialize)]
pub struct Account {
    pub pid: u32,
    pub tid: u32,
    pub name: String,
    pub seen: u64,
    pub lost: u64,
    pub filtered: u64,
    /// Signed, to detect a negative remainder. `None` if no fault of the thread was traced.
    pub not_visible: Option<i64>,
    pub failed: u64,
    pub kernel_minor: Option<u64>,
    pub kernel_major: Option<u64>,
    pub before: Option<u64>,
}

/// The tables that the tests check.
#[derive(Debug, Deserialize)]
pub struct Tables {
    pub accounts: Vec<Account>,
}

fn hexadecimal<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let text = String::deserialize(from)?;
    text.strip_prefix("0x")
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .ok_or_else(|| serde::de::Error::custom(format!("invalid address: {text:?}")))
}

fn or_unknown<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_else(|| "unknown".to_owned()))
}

impl Row {
    /// Sum of the parts of the latency that this tier knows and that do not overlap, in ns. Reclaim is left out because it includes waits.
    pub fn parts_ns(&self) -> u64 {
        let parts = [
            self.lock_ns,
            self.disk_ns,
            self.other_read_ns,
            self.blocked_ns,
            self.preempted_ns,
        ];
        parts.into_iter().flatten().sum()
    }

    /// The file's path at the time of mapping.
    pub fn path(&self) -> Option<&str> {
        let file = self.file.as_deref()?;
        Some(file.strip_suffix(" (deleted)").unwrap_or(file))
    }
}

impl Account {
    /// Asserts that the fault counts reconcile: seen, lost, filtered and not visible faults add up to the kernel's count.
    #[track_caller]
    pub fn expect_closed(&self) {
        let watched = i128::from(self.seen) + i128::from(self.lost) + i128::from(self.filtered);
        let Some(not_visible) = self.not_visible else {
            assert_eq!(watched, 0, "a thread with traced faults has no account: {self:?}");
            return;
        };
        let count = |count: Option<u64>| i128::from(count.unwrap_or_else(|| panic!("a count is missing: {self:?}")));
        let kernels = count(self.kernel_minor) + count(self.kernel_major) - count(self.before);
        assert_eq!(
            watched + i128::from(not_visible),
            kernels,
            "the fault counts do not reconcile: {self:?}"
        );
        assert!(
            not_visible >= 0,
            "more faults were recorded than the kernel counted: {self:?}"
        );
    }
}
