//! Compares a recording with what the program knows: every fault, its time, and every account.

use std::collections::{BTreeMap, BTreeSet};

use crate::harness::page::{UNIT, page_size};
use crate::rows::Row;
use crate::run::Run;
use crate::said::{Phase, Raised, Sweep, Touch};
use crate::tier::Knows;

/// The largest number of faults without user registers that any thread may have: exec's argument pages, robust futexes.
const UNSEEN_BY_NATURE: i64 = 8;

/// A row that has to exist: for a touch, or for a page of a sweep.
struct Expected<'a> {
    phase: &'a Phase,
    address: u64,
    touch: Option<&'a Touch>,
}

impl Run {
    /// Asserts that each phase's thread has exactly the phase's faults in the phase's memory, in order.
    #[track_caller]
    pub fn expect_phases(&self) {
        let mut stretches: BTreeMap<(u32, u64), Vec<&Phase>> = BTreeMap::new();
        for phase in &self.said.phases {
            stretches.entry((phase.tid, phase.base)).or_default().push(phase);
        }
        assert!(
            !stretches.is_empty(),
            "the oracle printed nothing: {}",
            self.outcome.stdout
        );
        for phases in stretches.values() {
            self.expect_stretch(phases);
        }
        self.expect_stacks();
    }

    /// Asserts that the stacks of the phases are complete, except for a few of a young process, for which unwind tables are not ready yet.
    #[track_caller]
    fn expect_stacks(&self) {
        let rows: Vec<&Row> = self.said.phases.iter().flat_map(|phase| self.rows_of(phase)).collect();
        let cut: Vec<_> = rows.iter().filter(|row| row.stack_complete != Some(true)).collect();
        assert!(
            cut.len() * 5 <= rows.len(),
            "{} of {} stacks are incomplete, such as that of {:?}",
            cut.len(),
            rows.len(),
            cut[0]
        );
    }

    /// Asserts the faults of all phases that one thread spent in the same range of memory.
    #[track_caller]
    fn expect_stretch(&self, phases: &[&Phase]) {
        let name = &phases[0].name;
        let mut expected: Vec<Expected<'_>> = phases.iter().flat_map(|phase| self.expected_of(phase)).collect();
        let found = self.rows_of(phases[0]);
        let exactly = phases.iter().all(|phase| phase.raised == Raised::User);
        let addresses: Vec<u64> = found
            .iter()
            .map(|row| {
                if exactly {
                    row.address
                } else {
                    row.address & !(page_size() - 1)
                }
            })
            .collect();
        if self.may_lose {
            let lost = self.account(phases[0].tid).lost;
            without_lost(&mut expected, &addresses, &found, lost);
        }
        let truth: Vec<u64> = expected.iter().map(|one| one.address).collect();
        if let Some(place) = first_difference(&addresses, &truth) {
            let near = |list: &[u64]| format!("{:x?}", &list[place.min(list.len())..(place + 4).min(list.len())]);
            panic!(
                "{name}, tier {}: {} faults instead of {}; from number {place} on {} instead of {}",
                self.tier.name(),
                addresses.len(),
                truth.len(),
                near(&addresses),
                near(&truth)
            );
        }
        let mut wrong: Vec<String> = Vec::new();
        for (row, one) in found.iter().zip(&expected) {
            let faults = self.compare(row, one);
            wrong.extend(
                faults
                    .into_iter()
                    .map(|fault| format!("{fault}\n    in {row:?}\n    of {:?}", one.touch)),
            );
        }
        let shown = wrong.iter().take(3).cloned().collect::<Vec<_>>().join("\n");
        assert!(
            wrong.is_empty(),
            "{name}, tier {}: {} differences\n{shown}",
            self.tier.name(),
            wrong.len()
        );
        expect_moments(name, &found, &expected);
    }

    /// The rows that a phase must have in this tier.
    fn expected_of<'a>(&self, phase: &'a Phase) -> Vec<Expected<'a>> {
        if phase.is_remote() && !self.tier.knows(Knows::Remote) {
            return Vec::new();
        }
        if phase.sweep.is_some() {
            let page = |number| Expected {
                phase,
                address: phase.base + number * page_size(),
                touch: None,
            };
            return (0..phase.pages).map(page).collect();
        }
        let known = phase
            .touches
            .iter()
            .filter(|touch| self.tier.knows(Knows::Failed) || touch.failed.is_none());
        let times = |touch: &'a Touch| {
            (0..touch.faults()).map(move |_| Expected {
                phase,
                address: touch.address,
                touch: Some(touch),
            })
        };
        known.flat_map(times).collect()
    }

    /// The names of the fields of a row that are wrong.
    fn compare(&self, row: &Row, expected: &Expected<'_>) -> Vec<String> {
        let phase = expected.phase;
        let mut wrong = Vec::new();
        let mut check = |right: bool, what: &str| {
            if !right {
                wrong.push(what.to_owned());
            }
        };
        let user = phase.raised == Raised::User;
        check(row.pid == phase.pid, "pid");
        check(row.in_kernel != user, "in_kernel");
        match (&phase.sweep, expected.touch) {
            (Some(Sweep { access, class }), _) => {
                check(self.is_access(row, access), "access");
                check(self.tier.takes_class(class, &row.class), "class");
                check(
                    !user || row.function.as_deref() == Some(function_of(access)),
                    "function",
                );
                check(row.file.is_none(), "a file");
            }
            (None, Some(touch)) => wrong.extend(self.compare_touch(row, phase, touch)),
            (None, None) => unreachable!("a phase has a sweep or touches"),
        }
        wrong.extend(self.compare_times(row, expected.touch));
        wrong
    }

    fn is_access(&self, row: &Row, access: &str) -> bool {
        row.access == access || (!self.tier.knows(Knows::Access) && row.access == "unknown")
    }

    /// The fields of a touch's row that are wrong: those about its kind and its file.
    fn compare_touch(&self, row: &Row, phase: &Phase, touch: &Touch) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut check = |right: bool, what: &str| {
            if !right {
                wrong.push(what.to_owned());
            }
        };
        let user = phase.raised == Raised::User;
        check(self.is_access(row, &touch.access), "access");
        check(self.tier.takes_class(&touch.class, &row.class), "class");
        check(row.failed == touch.failed, "failed");
        check(
            !user || row.function.as_deref() == Some(function_of(&touch.access)),
            "function",
        );
        if touch.failed.is_none() && touch.faults() == 1 {
            check(row.major == (touch.major == 1), "major");
        }
        if phase.is_cold() && self.tier.knows(Knows::Latency) {
            let unknown = row.waited.is_none() && self.misses_switches();
            check(unknown || row.waited == Some(touch.switches > 0), "waited");
        }
        match &touch.file {
            Some(file) => {
                // The kernel's name of a memfd has no folder. After mremap, the file is unknown to a tier that does not see the VMA.
                let unknown = row.file.is_none() && phase.name == "moved" && !self.tier.knows(Knows::MovedMappings);
                check(unknown || row.path() == Some(file), "file");
                let in_page = row.address % page_size() / UNIT * UNIT;
                let offset = touch.offset.map(|page| page + in_page);
                check(unknown || row.offset == offset, "offset");
                // On overlayfs, the mapping may show the file of the lower layer; stat never does.
                let exact = !unknown && phase.name != "overlay";
                check(!exact || row.inode == touch.inode, "inode");
                check(!exact || row.device == touch.device, "device");
            }
            // Shared anonymous memory and reserved huge pages are files inside the kernel.
            None => check(
                row.file.is_none() || matches!(&*touch.class, "shmem" | "huge"),
                "a file",
            ),
        }
        wrong
    }

    /// What is wrong with a row's durations.
    fn compare_times(&self, row: &Row, touch: Option<&Touch>) -> Vec<String> {
        let mut wrong = Vec::new();
        match row.latency_ns {
            None if self.tier.knows(Knows::Latency) && row.failed.is_none() => wrong.push("no latency".to_owned()),
            Some(_) if !self.tier.knows(Knows::Latency) => {
                wrong.push("a latency that this tier cannot know".to_owned());
            }
            _ => {}
        }
        let latency = row.latency_ns.unwrap_or(0);
        if row.reclaim_ns.unwrap_or(0) > latency {
            wrong.push(format!(
                "{:?} ns of reclaim in a latency of {latency} ns",
                row.reclaim_ns
            ));
        }
        if row.parts_ns() > latency {
            wrong.push(format!("parts of {} ns in a latency of {latency} ns", row.parts_ns()));
        }
        if let Some(touch) = touch.filter(|touch| latency > touch.nanoseconds()) {
            wrong.push(format!("{latency} ns within a touch of {} ns", touch.nanoseconds()));
        }
        wrong
    }

    /// Asserts that per-thread fault counts reconcile with the kernel's, that no fault was lost, and that only faults invisible to the tier are
    /// missing.
    #[track_caller]
    pub fn expect_accounts(&self) {
        assert!(!self.accounts.is_empty(), "no thread has an account");
        for account in &self.accounts {
            account.expect_closed();
            assert!(!account.name.is_empty(), "{account:?}");
            assert_eq!(account.filtered, 0, "{account:?}");
            assert!(account.lost == 0 || self.may_lose, "{account:?}");
            let rows = self
                .rows
                .iter()
                .filter(|row| row.tid == account.tid && row.pid == account.pid);
            let (failed, seen): (Vec<_>, Vec<_>) = rows.partition(|row| row.failed.is_some());
            assert_eq!(
                (seen.len() as u64, failed.len() as u64),
                (account.seen, account.failed),
                "the rows of {account:?}"
            );
            self.expect_hidden(account.tid, account.not_visible.unwrap_or(0));
        }
        for phase in &self.said.phases {
            let account = self.account(phase.tid);
            assert!(account.not_visible.is_some(), "{account:?}");
        }
    }

    /// Asserts that this tier may miss `hidden` faults of the thread.
    #[track_caller]
    fn expect_hidden(&self, tid: u32, hidden: i64) {
        let populated = self.said.phases.iter().filter(|phase| phase.tid == tid);
        let populated = i64::try_from(populated.map(|phase| phase.populated).sum::<u64>()).unwrap();
        let remote = self
            .said
            .phases
            .iter()
            .filter(|phase| phase.is_remote() && phase.tid == tid);
        let remote = i64::try_from(remote.map(Phase::faults).sum::<u64>()).unwrap();
        let possible = if self.tier.knows(Knows::Remote) {
            0..=0
        } else {
            remote..=remote + populated + UNSEEN_BY_NATURE
        };
        assert!(
            possible.contains(&hidden),
            "thread {tid}: {hidden} faults are not visible, expected {possible:?}"
        );
    }
}

/// The oracle's function that makes this access.
fn function_of(access: &str) -> &'static str {
    if access == "read" {
        "oracle_load"
    } else {
        "oracle_store"
    }
}

/// Removes expected faults that are missing, at most as many as were lost; all others must exist in order.
///
/// If an address is touched repeatedly, addresses alone do not identify the missing touches, but times do: there is one offset between the two
/// clocks for which every row is within its touch.
fn without_lost(expected: &mut Vec<Expected<'_>>, addresses: &[u64], found: &[&Row], lost: u64) {
    let first = expected.iter().filter(|one| addresses.first() == Some(&one.address));
    let alignments = first.map(|one| paired(expected, addresses, found, Some(Clocks::of(found[0], one))));
    let whole = alignments.into_iter().find(|kept| kept.len() == found.len());
    let kept = whole.unwrap_or_else(|| paired(expected, addresses, found, None));
    let (mut number, mut lost) = (0, lost);
    expected.retain(|_| {
        let keep = kept.contains(&number) || lost == 0;
        number += 1;
        lost -= u64::from(!keep);
        keep
    });
}

/// Indices of expected faults that match the rows in order: each is the first with the row's address, and with its time if the clocks are known.
fn paired(expected: &[Expected<'_>], addresses: &[u64], found: &[&Row], clocks: Option<Clocks>) -> BTreeSet<usize> {
    let mut clocks = clocks;
    let mut rows = addresses.iter().zip(found).peekable();
    let mut kept = BTreeSet::new();
    for (number, one) in expected.iter().enumerate() {
        let Some((address, row)) = rows.peek() else { break };
        let both = clocks.map(|clocks| clocks.and(Clocks::of(row, one)));
        if **address == one.address && both.is_none_or(Clocks::is_possible) {
            clocks = both;
            kept.insert(number);
            rows.next();
        }
    }
    kept
}

/// The range of possible offsets of the program's clock from the recording's, in ns.
#[derive(Clone, Copy)]
struct Clocks {
    low: i128,
    high: i128,
}

impl Clocks {
    /// The offsets for which the row is within the touch; any offset for a page of a sweep, which has no time.
    fn of(row: &Row, expected: &Expected<'_>) -> Self {
        let time = i128::from(row.time_ns);
        expected.touch.map_or(
            Self {
                low: i128::MIN,
                high: i128::MAX,
            },
            |touch| Self {
                low: i128::from(touch.start) - time,
                high: i128::from(touch.end) - time,
            },
        )
    }

    fn and(self, other: Self) -> Self {
        Self {
            low: self.low.max(other.low),
            high: self.high.min(other.high),
        }
    }

    fn is_possible(self) -> bool {
        self.low <= self.high
    }
}

/// The first index at which the lists differ.
fn first_difference(left: &[u64], right: &[u64]) -> Option<usize> {
    let place = left.iter().zip(right).position(|(one, other)| one != other);
    place.or_else(|| (left.len() != right.len()).then(|| left.len().min(right.len())))
}

/// Asserts that there is one offset between the two clocks for which every row is within its touch.
#[track_caller]
fn expect_moments(name: &str, rows: &[&Row], expected: &[Expected<'_>]) {
    let clocks = rows.iter().zip(expected).map(|(row, one)| Clocks::of(row, one));
    if let Some(clocks) = clocks.reduce(Clocks::and) {
        let Clocks { low, high } = clocks;
        assert!(clocks.is_possible(), "{name}: the times are off by {} ns", low - high);
    }
}
