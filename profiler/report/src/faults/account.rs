//! Reconciles recorded faults with the kernel's own counts, per thread.

use serde::Serialize;

use fact::Tables;

/// The account of a thread that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadAccount {
    /// Its process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Its last name.
    pub name: String,
    /// Recorded faults.
    pub seen: u64,
    /// Lost faults.
    pub lost: u64,
    /// Faults that were not requested.
    pub filtered: u64,
    /// Faults that the kernel counted and the tier cannot see; negative if more were recorded than counted. `None` if the kernel's
    /// count before tracing began is unknown.
    pub not_visible: Option<i64>,
    /// Failed faults, which the kernel does not count.
    pub failed: u64,
    /// Minor faults during its lifetime, as counted by the kernel.
    pub kernel_minor: Option<u64>,
    /// Major faults during its lifetime, as counted by the kernel.
    pub kernel_major: Option<u64>,
    /// The kernel's count before the first traced fault.
    pub before: Option<u64>,
}

/// The sum of all threads with a known account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct AccountTotal {
    /// Threads included in the sums.
    pub threads: u64,
    /// Threads that ended without a traced fault; no sum includes them.
    pub unwatched: u64,
    /// Faults that the kernel counted while tracing was on.
    pub kernel: u64,
    /// Recorded faults.
    pub seen: u64,
    /// Lost faults.
    pub lost: u64,
    /// Faults that were not requested.
    pub filtered: u64,
    /// Faults that the kernel counted and the tier cannot see.
    pub not_visible: i64,
    /// Threads with more recorded faults than the kernel counted, which is a bug in ngmi.
    pub negative: u64,
    /// Failed faults, which the kernel does not count.
    pub failed: u64,
}

/// The accounts of the threads that ended, in the order of the tables.
pub fn accounts(tables: &Tables) -> Vec<ThreadAccount> {
    let of = tables.threads.iter().filter_map(|thread| {
        let account = thread.faults?;
        let kernel = (thread.minor_faults).and_then(|minor| minor.checked_add(thread.major_faults?));
        Some(ThreadAccount {
            pid: tables
                .processes
                .get(thread.process.index())
                .map_or(0, |process| process.pid),
            tid: thread.tid,
            name: thread.name.clone(),
            seen: account.seen,
            lost: account.lost,
            filtered: account.filtered,
            not_visible: kernel.and_then(|kernel| account.not_visible(kernel)),
            failed: account.failed,
            kernel_minor: thread.minor_faults,
            kernel_major: thread.major_faults,
            before: account.before,
        })
    });
    of.collect()
}

/// Sums accounts.
pub fn total(accounts: &[ThreadAccount]) -> AccountTotal {
    let mut total = AccountTotal::default();
    for account in accounts {
        total.failed = total.failed.saturating_add(account.failed);
        let Some(not_visible) = account.not_visible else {
            total.unwatched += 1;
            continue;
        };
        let life = (account.kernel_minor.unwrap_or(0)).saturating_add(account.kernel_major.unwrap_or(0));
        total.threads += 1;
        total.kernel = (total.kernel).saturating_add(life.saturating_sub(account.before.unwrap_or(0)));
        total.seen = total.seen.saturating_add(account.seen);
        total.lost = total.lost.saturating_add(account.lost);
        total.filtered = total.filtered.saturating_add(account.filtered);
        total.not_visible = total.not_visible.saturating_add(not_visible);
        total.negative += u64::from(not_visible < 0);
    }
    total
}
