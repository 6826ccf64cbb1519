//! Which cgroups the recorded processes are in, as `/proc/PID/cgroup` shows after a birth or an exec, and at the end.
//!
//! A process that ends before it is read has none in the log: a reader takes that of its parent. The files of /proc are
//! read without waiting for a disk; the state files of container runtimes are not, so these are read only while nothing
//! is drained.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::cycle::Drain;
use super::log::Log;

use crate::proc::{cgroups, containers, procfs};
use base::addr::{Timestamp, ns};
use base::event::Event;
use base::event::owners::{CgroupProcesses, MAX_CGROUP, Owners};
use base::owner;

/// Hierarchy of cgroups of version 2.
const VERSION_2: u32 = 0;
/// Cgroups that are noted, at most.
const MAX_CGROUPS: usize = 1 << 16;
/// Containers whose names are read, at most.
const MAX_CONTAINERS: usize = 4096;
/// After this time, the number of a process may be that of another one.
const REUSED: Duration = Duration::from_secs(1);
/// How much later than its first event a process may seem to have started: /proc counts in ticks.
const TICKS: Duration = Duration::from_millis(20);

/// What is known of the recorded processes.
#[derive(Debug, Default)]
pub struct Memberships {
    /// Processes that have not ended.
    processes: FxHashMap<u32, Membership>,
    /// Processes to read, and when they were born or executed a program.
    due: BTreeMap<u32, Timestamp>,
    /// Numbers of cgroups, by path.
    cgroups: FxHashMap<String, u32>,
    /// Containers whose names have not been read.
    unnamed: BTreeSet<String>,
    /// What is not in the log yet: processes by cgroup.
    news: BTreeMap<String, Vec<(u32, Timestamp)>>,
}

#[derive(Debug, Clone, Copy)]
struct Membership {
    /// The time of its first event in the log.
    born: Timestamp,
    /// The cgroup in the log.
    cgroup: Option<u32>,
}

impl Drain {
    /// Writes what is known of cgroups, and passes the log to the kernel: it then outlives this process.
    pub fn flush_log(&mut self) {
        if let Some(owners) = self.owners.news() {
            self.write(&Event::Owners(Box::new(owners)));
        }
        self.log().into_iter().for_each(Log::flush);
    }

    /// Writes the names of containers; may wait for a disk.
    pub fn name_containers(&mut self) {
        if let Some(owners) = self.owners.names() {
            self.write(&Event::Owners(Box::new(owners)));
        }
    }
}

impl Memberships {
    /// A thread is recorded from now on.
    pub fn born(&mut self, pid: u32, tid: u32, time: Timestamp) {
        if pid == tid || !self.processes.contains_key(&pid) {
            let born = Membership {
                born: time,
                cgroup: None,
            };
            self.processes.insert(pid, born);
            self.due.insert(pid, time);
        }
    }

    /// A process executed a program: what starts it often moves it before.
    pub fn executed(&mut self, pid: u32, time: Timestamp) {
        self.due.insert(pid, time);
    }

    /// A process ended.
    pub fn ended(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }

    /// Reads the cgroups of processes with news.
    pub fn read(&mut self) {
        if self.due.is_empty() {
            return;
        }
        let now = procfs::now();
        for (pid, time) in std::mem::take(&mut self.due) {
            self.read_one(pid, |path| {
                // Read after the cgroup, so that both are of this process.
                let is_it = |stat: procfs::Stat| stat.started <= Timestamp(time.0.saturating_add(ns(TICKS)));
                let is_late = now.since(time) > REUSED;
                (!is_late || procfs::stat(pid, pid).is_ok_and(is_it)).then_some(path)
            });
        }
    }

    /// Reads the cgroups of all processes again: some may have moved.
    pub fn read_all(&mut self) {
        let all: Vec<u32> = self.processes.keys().copied().collect();
        for pid in all {
            self.read_one(pid, Some);
        }
    }

    fn read_one(&mut self, pid: u32, check: impl FnOnce(String) -> Option<String>) {
        let Some(known) = self.processes.get_mut(&pid) else {
            return;
        };
        let Some(path) = cgroups::of_thread(pid, pid, VERSION_2).ok().and_then(check) else {
            return;
        };
        let number = match self.cgroups.get(&path) {
            Some(number) => *number,
            None if path.len() > MAX_CGROUP || self.cgroups.len() >= MAX_CGROUPS => return,
            None => {
                let id = owner::of(&path).container.filter(|id| owner::is_id(id));
                self.unnamed.extend(id);
                let number = u32::try_from(self.cgroups.len()).unwrap_or(u32::MAX);
                self.cgroups.insert(path.clone(), number);
                number
            }
        };
        if known.cgroup.replace(number) != Some(number) {
            self.news.entry(path).or_default().push((pid, known.born));
        }
    }

    /// What was read since the last call, for the log.
    pub fn news(&mut self) -> Option<Owners> {
        let cgroups = std::mem::take(&mut self.news).into_iter();
        let owners = Owners {
            cgroups: cgroups
                .map(|(path, processes)| CgroupProcesses { path, processes })
                .collect(),
            containers: Vec::new(),
        };
        (!owners.is_empty()).then_some(owners)
    }

    /// The names of containers that have been found since the last call.
    pub fn names(&mut self) -> Option<Owners> {
        let ids = std::mem::take(&mut self.unnamed).into_iter().take(MAX_CONTAINERS);
        let owners = Owners {
            cgroups: Vec::new(),
            containers: ids.filter_map(|id| containers::with_id(&id)).collect(),
        };
        (!owners.is_empty()).then_some(owners)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_in_the_log_once() {
        let own = std::process::id();
        let Ok(path) = cgroups::of_thread(own, own, VERSION_2) else {
            println!("skipped: a_process_is_in_the_log_once: no cgroup of version 2");
            return;
        };
        let born = procfs::stat(own, own).unwrap().started;
        let mut memberships = Memberships::default();
        memberships.born(own, own, born);
        // A number of no process.
        memberships.born(u32::MAX, u32::MAX, born);
        memberships.read();
        let expected = CgroupProcesses {
            path,
            processes: vec![(own, born)],
        };
        let news = memberships.news().map(|owners| owners.cgroups);
        assert_eq!(news, Some(vec![expected]));
        memberships.executed(own, procfs::now());
        memberships.read();
        memberships.read_all();
        assert_eq!(memberships.news(), None);
    }

    #[test]
    fn another_process_with_the_number_is_not_read() {
        let own = std::process::id();
        let mut memberships = Memberships::default();
        // It was born long before this one.
        memberships.born(own, own, Timestamp(0));
        memberships.read();
        assert_eq!(memberships.news(), None);
    }
}
