//! Which waits were within reclaim for the limit of a cgroup, as their kernel stacks show, and which cgroup's limit it was.
//!
//! Sources: `try_charge_memcg`, `reclaim_high` and the writers of limits in mm/memcontrol.c and mm/memcontrol-v1.c of Linux. Without
//! such a limit, `try_to_free_pages` reclaims for the whole machine.

use rustc_hash::FxHashMap;

use crate::wait::{WaitFact, WaitReason};
use crate::{FrameId, Location, Tables, owner, upwards};
use base::event::usage::{CgroupUsage, UsageHierarchy};

/// What a function on a stack means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It reclaims memory of one cgroup.
    Reclaims,
    /// It does so, or makes the thread sleep, because `memory.high` was exceeded.
    High,
    /// It does so for any cgroup, because a program wrote to one of its files, or in a kernel thread.
    Other,
}

/// The functions, all of them with external linkage or called by address, so that they are not inlined.
const ROLES: [(Role, &[&str]); 3] = [
    (Role::Reclaims, &["try_to_free_mem_cgroup_pages"]),
    (
        Role::High,
        &["mem_cgroup_handle_over_high", "__mem_cgroup_handle_over_high"],
    ),
    (
        Role::Other,
        &[
            "high_work_func",
            "memory_high_write",
            "memory_max_write",
            "memory_reclaim",
            "user_proactive_reclaim",
            "mem_cgroup_write",
            "mem_cgroup_force_empty_write",
        ],
    ),
];

/// A limit for which memory was reclaimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReclaimLimit {
    /// It is `memory.high`, not the limit that can't be exceeded.
    pub is_high: bool,
    /// Its cgroup, as the place in [`crate::Recording::cgroup_usage`]. `None`: it may be any of several.
    pub cgroup: Option<usize>,
}

/// Finds waits within such reclaim.
#[derive(Debug, Default)]
pub struct LimitReclaim {
    roles: FxHashMap<FrameId, Role>,
    /// The cgroups in [`crate::Recording::cgroup_usage`].
    cgroups: Vec<Limited>,
}

/// A cgroup.
#[derive(Debug)]
struct Limited {
    /// Its short name.
    name: String,
    /// It had a limit at some time.
    has_max: bool,
    /// `memory.high` was set at some time.
    has_high: bool,
}

impl LimitReclaim {
    /// Finds the kernel's functions among the frames.
    pub fn new(tables: &Tables) -> Self {
        let role = |name: &str| {
            let is_it = |(_, names): &&(Role, &[&str])| names.contains(&name);
            ROLES.iter().find(is_it).map(|(role, _)| *role)
        };
        let of_kernel = tables.names.iter().filter_map(|(id, name)| {
            let frame = tables.frames.get(id.index())?;
            let is_kernel = matches!(frame.location, Location::Kernel { .. });
            let symbol = name.symbol.split([' ', '.']).next().unwrap_or_default();
            Some((*id, role(symbol).filter(|_| is_kernel)?))
        });
        let roles: FxHashMap<_, _> = of_kernel.collect();
        let paths = tables.recording.cgroup_usage.iter().map(|usage| usage.path.as_str());
        let names = if roles.is_empty() {
            Vec::new()
        } else {
            owner::labels(tables, paths)
        };
        let limited = |(name, usage): (String, &CgroupUsage)| Limited {
            name,
            has_max: usage.samples.iter().any(|sample| sample.max.is_some()),
            has_high: usage.samples.iter().any(|sample| sample.high.is_some()),
        };
        let cgroups = names.into_iter().zip(&tables.recording.cgroup_usage).map(limited);
        Self {
            roles,
            cgroups: cgroups.collect(),
        }
    }

    /// Whether no wait can be within such reclaim.
    pub fn is_empty(&self) -> bool {
        self.roles.is_empty()
    }

    /// A limit in words: `reclaim for the limit of web`.
    pub fn words(&self, limit: ReclaimLimit) -> String {
        let cgroup = limit.cgroup.and_then(|place| self.cgroups.get(place));
        let name = cgroup.map_or("a cgroup", |cgroup| &cgroup.name);
        if limit.is_high {
            format!("reclaim for memory.high of {name}")
        } else {
            format!("reclaim for the limit of {name}")
        }
    }

    /// The limit that a wait was for; `None`: it was for something else, or for a CPU while the thread reclaimed.
    pub fn of(&self, tables: &Tables, wait: &WaitFact) -> Option<ReclaimLimit> {
        if self.is_empty() || matches!(wait.reason, WaitReason::RunQueue | WaitReason::Throttled) {
            return None;
        }
        let roles = upwards(tables, wait.stack?).filter_map(|frame| self.roles.get(&frame).copied());
        // The outermost function says what for.
        let is_high = match roles.last()? {
            Role::Reclaims => false,
            Role::High => true,
            Role::Other => return None,
        };
        Some(ReclaimLimit {
            is_high,
            cgroup: self.limited(tables, wait, is_high),
        })
    }

    /// The only cgroup with such a limit that the thread's process is in or below.
    fn limited(&self, tables: &Tables, wait: &WaitFact, is_high: bool) -> Option<usize> {
        if tables.recording.has_unread_limits {
            return None;
        }
        let process = tables
            .processes
            .get(tables.threads.get(wait.thread.index())?.process.index())?;
        // Which cgroup of version 1 a process is in is not known, but only those of recorded processes are read. Threads that are
        // merged may be of several cgroups.
        let may_apply = |usage: &CgroupUsage| match usage.hierarchy {
            UsageHierarchy::MemoryVersion1 => true,
            UsageHierarchy::Version2 => process.cgroup.as_deref().is_some_and(|path| usage.contains(path)),
        };
        let all = self.cgroups.iter().zip(&tables.recording.cgroup_usage).enumerate();
        let mut with_limit = all.filter(|(_, (limited, usage))| {
            let has_limit = if is_high { limited.has_high } else { limited.has_max };
            has_limit && may_apply(usage)
        });
        let (place, _) = with_limit.next()?;
        with_limit.next().is_none().then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wait::Coverage;
    use crate::{Frame, FrameName, ModuleId, StackId, StackNode, ThreadId, fixtures};
    use base::addr::{KernelOffset, Timestamp};
    use base::event::usage::UsageSample;

    /// A process in a cgroup, with a stack of these kernel functions, innermost first.
    fn tables(cgroup: &str, functions: &[&str]) -> (Tables, WaitFact) {
        let mut tables = Tables::default();
        let mut process = fixtures::process(1, "p");
        process.cgroup = Some(cgroup.into());
        tables.processes = vec![process];
        tables.threads = vec![fixtures::thread(0, 1)];
        for (function, place) in functions.iter().rev().zip(0_u32..) {
            let location = Location::Kernel {
                module: ModuleId(0),
                offset: KernelOffset(u64::from(place)),
            };
            tables.frames.push(Frame {
                location,
                is_return_address: false,
            });
            let name = FrameName {
                symbol: (*function).into(),
                symbol_start: 0,
                symbol_size: None,
                inline_chain: Vec::new(),
            };
            tables.names.insert(FrameId(place), name);
            tables.stacks.push(StackNode {
                parent: place.checked_sub(1).map(StackId::new),
                frame: FrameId(place),
            });
        }
        let count = u32::try_from(functions.len()).unwrap();
        let last = count.checked_sub(1).map(StackId::new);
        let wait = WaitFact {
            thread: ThreadId(0),
            stack: last,
            reason: WaitReason::Memory,
            start: Timestamp(0),
            end: Timestamp(1),
            off: Duration::from_nanos(1),
            queued: Duration::ZERO,
            longest: Duration::from_nanos(1),
            count: 1,
            call: None,
            waker: None,
            coverage: Coverage::Full,
            in_fault: false,
            cpu: None,
            futex: None,
            lock: None,
            priority: None,
        };
        (tables, wait)
    }

    fn usage(path: &str, max: Option<u64>, high: Option<u64>) -> CgroupUsage {
        CgroupUsage {
            path: path.to_owned(),
            hierarchy: UsageHierarchy::Version2,
            samples: vec![UsageSample {
                time: Timestamp(1),
                max,
                high,
                ..UsageSample::default()
            }],
        }
    }

    const CHARGE: [&str; 5] = [
        "io_schedule_timeout",
        "shrink_node",
        "try_to_free_mem_cgroup_pages",
        "try_charge_memcg",
        "handle_mm_fault",
    ];

    fn found(cgroup: &str, functions: &[&str], usage: Vec<CgroupUsage>) -> Option<String> {
        let (mut tables, wait) = tables(cgroup, functions);
        tables.recording.cgroup_usage = usage;
        let reclaim = LimitReclaim::new(&tables);
        reclaim.of(&tables, &wait).map(|limit| reclaim.words(limit))
    }

    #[test]
    fn the_only_limit_is_named() {
        let all = || {
            vec![
                usage("/pod/a", None, Some(1)),
                usage("/pod", Some(1), None),
                usage("/other", Some(1), None),
            ]
        };
        assert_eq!(
            found("/pod/a", &CHARGE, all()).unwrap(),
            "reclaim for the limit of /pod"
        );
        let high = [
            "schedule_timeout",
            "__mem_cgroup_handle_over_high",
            "exit_to_user_mode_loop",
        ];
        assert_eq!(
            found("/pod/a", &high, all()).unwrap(),
            "reclaim for memory.high of /pod/a"
        );
        assert_eq!(
            found("/pod/ab", &high, all()).unwrap(),
            "reclaim for memory.high of a cgroup"
        );
        // Each of two may be the one that was reached.
        let mut two = all();
        two[0].samples[0].max = Some(2);
        assert_eq!(
            found("/pod/a", &CHARGE, two).unwrap(),
            "reclaim for the limit of a cgroup"
        );
    }

    #[test]
    fn version_1_is_named_if_only_one_cgroup_has_a_limit() {
        let mut other = usage("/x", Some(1), None);
        other.hierarchy = UsageHierarchy::MemoryVersion1;
        assert_eq!(
            found("/", &CHARGE, vec![usage("/", None, None), other]).unwrap(),
            "reclaim for the limit of /x"
        );
    }

    #[test]
    fn reclaim_for_the_machine_or_by_request_is_not_for_a_limit() {
        let machine = [
            "io_schedule_timeout",
            "shrink_node",
            "try_to_free_pages",
            "__alloc_pages_slowpath",
        ];
        assert_eq!(found("/a", &machine, vec![usage("/a", Some(1), None)]), None);
        assert_eq!(found("/a", &[], Vec::new()), None);
        let written = [
            "shrink_node",
            "try_to_free_mem_cgroup_pages",
            "memory_reclaim",
            "kernfs_fop_write_iter",
        ];
        assert_eq!(found("/a", &written, vec![usage("/a", Some(1), None)]), None);
    }

    #[test]
    fn left_out_cgroups_may_have_limits() {
        let (mut tables, mut wait) = tables("/a", &CHARGE);
        tables.recording.cgroup_usage = vec![usage("/a", Some(1), None)];
        let reclaim = LimitReclaim::new(&tables);
        assert_eq!(reclaim.of(&tables, &wait).unwrap().cgroup, Some(0));
        tables.recording.has_unread_limits = true;
        assert_eq!(reclaim.of(&tables, &wait).unwrap().cgroup, None);
        wait.reason = WaitReason::RunQueue;
        assert_eq!(reclaim.of(&tables, &wait), None);
    }
}
