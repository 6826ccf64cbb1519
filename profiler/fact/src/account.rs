//! Checks, thread by thread, whether the recorded page faults add up to the kernel's own count.

use profiler_common::Loss;
use serde::{Deserialize, Serialize};

use super::{Recording, Tables, ThreadId};
use base::event::EXACT_TOUCH;
use base::plural::{and_more, counted};

/// The hooks of the processors' exceptions: x86-64's, arm64's.
const EXCEPTIONS: [&str; 2] = ["tp_btf/page_fault_user", "fentry do_mem_abort"];

/// Which hooks recorded page faults (docs/page-faults.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FaultTier {
    /// `handle_mm_fault`: every fault that the kernel counts.
    Fentry,
    /// The exception and the kernel's count; faults without user registers are invisible.
    Tracepoint,
    /// The kernel's count alone; the same limit, and no latency.
    Perf,
}

impl FaultTier {
    /// The tier of a recording; `None` if faults were not traced.
    pub fn of(recording: &Recording) -> Option<Self> {
        let attached = |name: &str| {
            let mut hooks = recording.hooks.iter();
            hooks.any(|hook| hook.noun == "fault" && hook.hook == name && hook.refused.is_none())
        };
        if attached("fentry/fexit handle_mm_fault") {
            return Some(Self::Fentry);
        }
        let has_exceptions = EXCEPTIONS.into_iter().any(attached);
        match (attached("perf page-faults"), has_exceptions) {
            (true, true) => Some(Self::Tracepoint),
            (true, false) => Some(Self::Perf),
            (false, _) => None,
        }
    }

    /// Tier number and its hooks.
    pub fn words(self) -> &'static str {
        match self {
            Self::Fentry => "tier 1 (handle_mm_fault)",
            Self::Tracepoint => "tier 2 (exceptions and perf events)",
            Self::Perf => "tier 3 (perf events: no latency)",
        }
    }
}

/// Whether the kernel mapped no pages around a fault, so each first touch of a page caused one.
pub fn is_exact_touch(recording: &Recording) -> bool {
    let mut hooks = recording.hooks.iter();
    hooks.any(|hook| hook.noun == "fault" && hook.hook.starts_with(EXACT_TOUCH) && hook.refused.is_none())
}

/// Whether page faults are missing from a recording: lost, or not requested. Their pages then look untouched.
pub fn misses_faults(tables: &Tables) -> bool {
    let mut losses = tables.recording.losses.iter();
    let of_faults = [Loss::FaultRingFull, Loss::FaultNested].map(Loss::name);
    let check = check(tables);
    losses.any(|(loss, count)| *count > 0 && of_faults.contains(&loss.as_str())) || check.lost > 0 || check.filtered > 0
}

/// Whether unused reads are known: every fault is recorded individually.
pub fn knows_waste(tables: &Tables) -> bool {
    tables.recording.folded_faults.is_empty() && !misses_faults(tables)
}

/// Totals over the fault accounts of all threads that ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AccountCheck {
    /// Threads with an account.
    pub threads: u64,
    /// Recorded faults.
    pub seen: u64,
    /// Lost faults: the ring was full.
    pub lost: u64,
    /// Faults that were not requested.
    pub filtered: u64,
    /// Failed faults, which the kernel does not count.
    pub failed: u64,
    /// Faults that the kernel counted while the thread was traced.
    pub kernel: u64,
    /// Faults that the kernel counted and the tier can't see.
    pub not_visible: u64,
    /// Threads whose fault counts do not reconcile with the kernel's.
    pub open: Vec<OpenAccount>,
}

/// A thread whose fault counts do not reconcile with the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenAccount {
    /// The thread.
    pub thread: ThreadId,
    /// The kernel's count minus the known faults: negative, more were recorded than happened; positive in tier 1,
    /// some were missed.
    pub difference: i64,
}

/// Checks every thread that ended: seen + lost + filtered must not exceed the kernel's count, and must equal it where
/// the tier sees every fault.
pub fn check(tables: &Tables) -> AccountCheck {
    let sees_all = FaultTier::of(&tables.recording) == Some(FaultTier::Fentry);
    let mut check = AccountCheck::default();
    for (thread, id) in tables.threads.iter().zip((0..).map(ThreadId)) {
        let (Some(account), Some(minor), Some(major)) = (thread.faults, thread.minor_faults, thread.major_faults)
        else {
            continue;
        };
        let total = minor.saturating_add(major);
        let Some(difference) = account.not_visible(total) else {
            continue;
        };
        let watched = total.saturating_sub(account.before.unwrap_or(0));
        check.threads += 1;
        for (sum, part) in [
            (&mut check.seen, account.seen),
            (&mut check.lost, account.lost),
            (&mut check.filtered, account.filtered),
            (&mut check.failed, account.failed),
            (&mut check.kernel, watched),
            (&mut check.not_visible, u64::try_from(difference).unwrap_or(0)),
        ] {
            *sum = sum.saturating_add(part);
        }
        if difference < 0 || sees_all && difference != 0 {
            check.open.push(OpenAccount { thread: id, difference });
        }
    }
    check
}

impl AccountCheck {
    /// The largest difference, in one line; `None` if all fault counts reconcile.
    pub fn problem(&self, tables: &Tables) -> Option<String> {
        let worst = self.open.iter().max_by_key(|open| open.difference.unsigned_abs())?;
        let tid = tables.threads.get(worst.thread.index()).map_or(0, |thread| thread.tid);
        let more = and_more(self.open.len() - 1, "thread");
        let faults = counted(worst.difference.unsigned_abs(), "fault");
        let what = if worst.difference < 0 { "too many" } else { "missing" };
        Some(format!(
            "fault counts do not reconcile: {faults} {what} in thread {tid}{more}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FaultAccount;
    use crate::Thread;
    use crate::fixtures;
    use base::event::HookStatus;

    fn hook(name: &str, refused: Option<&str>) -> HookStatus {
        HookStatus {
            noun: "fault".into(),
            hook: name.into(),
            refused: refused.map(Into::into),
            remedy: None,
        }
    }

    fn thread(tid: u32, account: Option<FaultAccount>, minor: u64) -> Thread {
        Thread {
            minor_faults: Some(minor),
            major_faults: Some(1),
            faults: account,
            ..fixtures::thread(0, tid)
        }
    }

    fn account(seen: u64, before: u64) -> FaultAccount {
        FaultAccount {
            seen,
            lost: 2,
            filtered: 3,
            failed: 4,
            before: Some(before),
        }
    }

    #[test]
    fn the_tier_follows_the_attached_hooks() {
        let mut recording = Recording::default();
        assert_eq!(FaultTier::of(&recording), None);
        recording.hooks = vec![
            hook("fentry/fexit handle_mm_fault", Some("no")),
            hook("perf page-faults", None),
        ];
        assert_eq!(FaultTier::of(&recording), Some(FaultTier::Perf));
        recording.hooks.push(hook("tp_btf/page_fault_user", None));
        assert_eq!(FaultTier::of(&recording), Some(FaultTier::Tracepoint));
        recording.hooks[0].refused = None;
        assert_eq!(FaultTier::of(&recording), Some(FaultTier::Fentry));
    }

    #[test]
    fn unobservable_faults_are_allowed_but_surplus_is_not() {
        let mut tables = Tables {
            // 10 + 2 + 3 known of 15, of 16, and of 14 after the first five; the last thread was never traced.
            threads: vec![
                thread(1, Some(account(10, 0)), 14),
                thread(2, Some(account(10, 0)), 15),
                thread(3, Some(account(10, 5)), 18),
                thread(4, None, 99),
            ],
            ..Tables::default()
        };
        tables.recording.hooks = vec![hook("perf page-faults", None)];
        let open = |thread, difference| OpenAccount {
            thread: ThreadId(thread),
            difference,
        };
        let found = check(&tables);
        assert_eq!((found.threads, found.seen, found.lost, found.filtered), (3, 30, 6, 9));
        assert_eq!((found.kernel, found.not_visible, found.failed), (15 + 16 + 14, 1, 12));
        assert_eq!(found.open, [open(2, -1)]);
        assert_eq!(
            found.problem(&tables).as_deref(),
            Some("fault counts do not reconcile: 1 fault too many in thread 3")
        );

        tables.recording.hooks = vec![hook("fentry/fexit handle_mm_fault", None)];
        assert_eq!(
            check(&tables).open,
            [open(1, 1), open(2, -1)],
            "tier 1 sees every fault"
        );
    }

    #[test]
    fn waste_needs_every_fault() {
        let losing = |loss: Loss| {
            let mut tables = Tables::default();
            tables.recording.losses = vec![(loss.name().to_owned(), 1)];
            tables
        };
        assert!(knows_waste(&Tables::default()));
        assert!(knows_waste(&losing(Loss::ProgramMissed)));
        for loss in [Loss::FaultRingFull, Loss::FaultNested] {
            assert!(!knows_waste(&losing(loss)), "{}", loss.name());
        }
    }

    #[test]
    fn a_damaged_account_is_rejected() {
        let tables = Tables {
            threads: vec![thread(1, Some(account(u64::MAX, 0)), u64::MAX)],
            ..Tables::default()
        };
        assert_eq!(check(&tables), AccountCheck::default());
    }
}
