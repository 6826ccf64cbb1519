//! The account of faults beside the kernel's own counts, thread by thread: it has to close.

use serde::Serialize;

use crate::fact::Tables;

/// A thread that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadAccount {
    /// Its process.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Its last name.
    pub name: String,
    /// Recorded.
    pub seen: u64,
    /// Lost.
    pub lost: u64,
    /// Not asked for.
    pub filtered: u64,
    /// Counted by the kernel and invisible to the tier; negative: more were seen than counted. `None`: it is not known what the
    /// kernel had counted before.
    pub not_visible: Option<i64>,
    /// Failed; the kernel does not count them.
    pub failed: u64,
    /// Minor faults of its life, as the kernel counts them.
    pub kernel_minor: Option<u64>,
    /// Major faults of its life, as the kernel counts them.
    pub kernel_major: Option<u64>,
    /// What the kernel had counted before the first one that was watched.
    pub before: Option<u64>,
}

/// All threads whose account is known, together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct AccountTotal {
    /// Threads in the sums.
    pub threads: u64,
    /// Threads that ended without a fault that was watched: in no sum.
    pub unwatched: u64,
    /// Counted by the kernel while watched.
    pub kernel: u64,
    /// Recorded.
    pub seen: u64,
    /// Lost.
    pub lost: u64,
    /// Not asked for.
    pub filtered: u64,
    /// Counted and invisible to the tier.
    pub not_visible: i64,
    /// Threads of which more was seen than the kernel counted: a mistake of ours.
    pub negative: u64,
    /// Failed; in no count of the kernel's.
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

/// Sums up.
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
