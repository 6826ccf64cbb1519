//! Which cgroups the recorded processes are in, as `/proc/PID/cgroup` shows after a birth or an exec, and at the end.
//!
//! A process that ends before it is read has none in the log: a reader takes that of its parent. Other users choose how many
//! cgroups there are, and what they are called: hence the limits. The files of /proc are read without waiting for a disk,
//! a few in each cycle; the state files of container runtimes are read only while nothing is drained.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::cycle::Drain;
use super::log::Log;
use super::usage::UsageSampler;

use crate::privilege::terms::Terms;
use crate::proc::{cgroups, conmon, containers, procfs};
use base::addr::{Timestamp, ns};
use base::event::Event;
use base::event::owners::{CgroupProcesses, Container, MAX_CGROUP, Owners};
use base::owner;

/// Hierarchy of cgroups of version 2.
const VERSION_2: u32 = 0;
/// Cgroups that are noted, at most.
const MAX_CGROUPS: usize = 1 << 16;
/// Bytes of their paths, at most.
const MAX_PATHS: usize = 16 << 20;
/// Containers whose names are read at once, at most.
const MAX_CONTAINERS: usize = 4096;
/// Processes of a cgroup that are asked for the name of their container, at most.
const TRIES: usize = 4;
/// Bytes of one event in the log, roughly: of a path, JSON may make six times as many.
const PART: usize = 1 << 20;
/// How long processes are read in a cycle: rings fill meanwhile.
const READING: Duration = Duration::from_millis(2);
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
    /// Cgroups by path: their numbers.
    numbers: FxHashMap<Arc<str>, u32>,
    /// Paths by number.
    paths: Vec<Arc<str>>,
    path_bytes: usize,
    /// Containers whose names have not been read.
    unnamed: BTreeSet<String>,
    /// What is not in the log yet: the cgroups of processes, which a pid and a birth identify.
    news: BTreeMap<(u32, Timestamp), u32>,
    /// Whether their names may be read.
    may_name: bool,
    /// Names that are not in the log yet.
    named: Vec<Container>,
    /// What these cgroups use.
    pub usage: UsageSampler,
    /// Processes whose cgroups exceeded the limits.
    pub left_out: u64,
}

#[derive(Debug, Clone, Copy)]
struct Membership {
    /// The time of its first event in the log.
    born: Timestamp,
    /// The cgroup in the log.
    cgroup: Option<u32>,
    /// Whether it is counted as left out.
    is_left_out: bool,
}

impl Drain {
    /// Writes what is known of cgroups, and passes the log to the kernel: it then outlives this process.
    pub fn flush_log(&mut self) {
        for owners in self.owners.news() {
            self.write(&Event::Owners(Box::new(owners)));
        }
        if let Some(usage) = self.owners.usage.news() {
            self.write(&Event::Usage(Box::new(usage)));
        }
        self.log().into_iter().for_each(Log::flush);
    }
}

impl Memberships {
    /// Reads the cgroups of this machine.
    pub fn of_machine() -> Self {
        Self {
            usage: UsageSampler::of_machine(),
            ..Self::default()
        }
    }

    /// A thread is recorded from now on.
    pub fn born(&mut self, pid: u32, tid: u32, time: Timestamp) {
        if pid == tid || !self.processes.contains_key(&pid) {
            let born = Membership {
                born: time,
                cgroup: None,
                is_left_out: false,
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

    /// Reads the cgroups of some processes with news; the others are read in the next cycles.
    pub fn read(&mut self) {
        self.read_until(Instant::now() + READING);
    }

    fn read_until(&mut self, end: Instant) {
        while let Some((pid, time)) = self.due.pop_first() {
            self.read_one(pid, |cgroups| {
                // Read after the cgroup, so that both are of this process.
                let is_it = |stat: procfs::Stat| stat.started <= Timestamp(time.0.saturating_add(ns(TICKS)));
                let is_late = procfs::now().since(time) > REUSED;
                (!is_late || procfs::stat(pid, pid).is_ok_and(is_it)).then_some(cgroups)
            });
            if Instant::now() >= end {
                break;
            }
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
        let Some(all) = cgroups::all_of_thread(pid, pid).ok().and_then(check) else {
            return;
        };
        self.usage.notice(&all);
        let Some(path) = cgroups::path_in(&all, VERSION_2) else {
            return;
        };
        let number = match self.numbers.get(path) {
            Some(number) => *number,
            None if path.len() > MAX_CGROUP
                || self.paths.len() >= MAX_CGROUPS
                || self.path_bytes + path.len() > MAX_PATHS =>
            {
                self.left_out += u64::from(!std::mem::replace(&mut known.is_left_out, true));
                return;
            }
            None => {
                let id = owner::of(path).container.filter(|id| owner::is_id(id));
                self.unnamed.extend(id);
                self.path_bytes += path.len();
                let number = u32::try_from(self.paths.len()).unwrap_or(u32::MAX);
                let path: Arc<str> = path.into();
                self.numbers.insert(Arc::clone(&path), number);
                self.paths.push(path);
                number
            }
        };
        if known.cgroup.replace(number) != Some(number) {
            self.news.insert((pid, known.born), number);
        }
    }

    /// What was read since the last call, for the log, in parts of limited size.
    pub fn news(&mut self) -> Vec<Owners> {
        let mut processes: BTreeMap<u32, Vec<(u32, Timestamp)>> = BTreeMap::new();
        for (process, number) in std::mem::take(&mut self.news) {
            processes.entry(number).or_default().push(process);
        }
        let mut parts = vec![Owners::default()];
        let mut bytes = 0;
        for (number, processes) in processes {
            let Some(path) = self.paths.get(number as usize) else {
                continue;
            };
            bytes += path.len() + processes.len() * size_of::<(u32, Timestamp)>();
            if let Some(part) = parts.last_mut() {
                part.cgroups.push(CgroupProcesses {
                    path: path.to_string(),
                    processes,
                });
            }
            if bytes >= PART {
                bytes = 0;
                parts.push(Owners::default());
            }
        }
        if let Some(part) = parts.last_mut() {
            part.containers = std::mem::take(&mut self.named);
        }
        parts.retain(|part| !part.is_empty());
        parts
    }

    /// Reads the names of containers now and at the end, if the terms allow it: they are root's, and another user gets them
    /// only with what takes root's rights anyway.
    pub fn allow_names(&mut self, terms: &Terms) {
        self.may_name = terms.user.is_none() || terms.scope.is_of_machine();
        self.name_containers();
    }

    /// Reads the names of containers that have been found; may wait for a disk.
    pub fn name_containers(&mut self) {
        if !self.may_name {
            return;
        }
        self.read_until(Instant::now() + REUSED);
        let ids: BTreeSet<String> = std::mem::take(&mut self.unnamed);
        let (now, later): (Vec<_>, Vec<_>) = ids.into_iter().zip(0..).partition(|(_, place)| *place < MAX_CONTAINERS);
        self.unnamed = later.into_iter().map(|(id, _)| id).collect();
        let ids: BTreeSet<String> = now.into_iter().map(|(id, _)| id).collect();
        let named = containers::with_ids(ids.iter().cloned());
        let unknown = ids.into_iter().filter(|id| named.iter().all(|one| one.id != *id));
        let by_conmon = self.names_by_conmon(unknown.collect());
        self.named.extend(named.into_iter().chain(by_conmon));
    }

    /// The names of containers that conmon started, by their recorded processes.
    fn names_by_conmon(&self, mut unknown: BTreeSet<String>) -> Vec<Container> {
        let mut found = Vec::new();
        let mut counts = BTreeMap::new();
        for (&pid, known) in &self.processes {
            let path = known.cgroup.and_then(|number| self.paths.get(number as usize));
            let Some(id) = path.and_then(|path| owner::of(path).container) else {
                continue;
            };
            let tried: &mut usize = counts.entry(known.cgroup).or_default();
            if *tried == TRIES || !unknown.contains(&id) {
                continue;
            }
            *tried += 1;
            let name = conmon::name_of(&id, pid, VERSION_2);
            let one = name.map(|name| Container {
                id: id.clone(),
                name: Some(name),
                pod: None,
            });
            if let Some(one) = one.filter(Container::fits) {
                unknown.remove(&id);
                found.push(one);
            }
        }
        found
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
        let news: Vec<_> = memberships.news().into_iter().map(|owners| owners.cgroups).collect();
        assert_eq!(news, [vec![expected]]);
        memberships.executed(own, procfs::now());
        memberships.read();
        memberships.read_all();
        assert!(memberships.news().is_empty());
    }

    /// The last one read counts, whatever the paths are.
    #[test]
    fn a_process_that_moves_twice_is_where_it_was_last() {
        let mut memberships = Memberships::default();
        for (number, path) in (0..).zip(["/z", "/a"]) {
            memberships.numbers.insert(path.into(), number);
            memberships.paths.push(path.into());
        }
        for number in [0, 1] {
            memberships.news.insert((7, Timestamp(1)), number);
        }
        let news = memberships.news();
        assert_eq!(news.len(), 1);
        let cgroups: Vec<&str> = news[0].cgroups.iter().map(|cgroup| &*cgroup.path).collect();
        assert_eq!(cgroups, ["/a"]);
    }

    #[test]
    fn long_paths_are_written_in_parts() {
        let mut memberships = Memberships::default();
        for number in 0..2000_u32 {
            memberships.paths.push("\u{1}".repeat(MAX_CGROUP).into());
            memberships.news.insert((number, Timestamp(0)), number);
        }
        let news = memberships.news();
        let sizes = news.iter().map(|part| serde_json::to_vec(part).unwrap().len());
        assert!(sizes.max().unwrap() < 8 << 20);
        assert_eq!(news.iter().map(|part| part.cgroups.len()).sum::<usize>(), 2000);
    }

    #[test]
    fn another_process_with_the_number_is_not_read() {
        let own = std::process::id();
        let mut memberships = Memberships::default();
        // It was born long before this one.
        memberships.born(own, own, Timestamp(0));
        memberships.read();
        assert!(memberships.news().is_empty());
    }
}
