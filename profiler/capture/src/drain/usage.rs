//! Reads memory and pressure of the cgroups that recorded processes are in, and of those above them that have a limit.
//!
//! Other users choose how many cgroups there are: at most [`MAX_CGROUPS`] are read at a time, those seen first, and reading
//! takes at most one part in [`REST`] of this thread's time, however many there are.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

use crate::proc::cgroup_files;
use crate::proc::cgroups::{self, Hierarchy};
use base::addr::Timestamp;
use base::event::owners::MAX_CGROUP;
use base::event::usage::{CgroupUsage, Usage, UsageHierarchy, UsageSample};

/// Cgroups that are read, at most.
const MAX_CGROUPS: usize = 64;
/// Cgroups above one of a process that are looked at, at most.
const MAX_ABOVE: usize = 16;
/// Cgroups left out that are counted, at most.
const MAX_COUNTED: usize = 1 << 16;
/// Time between two readings of a cgroup.
const INTERVAL: Duration = Duration::from_millis(100);
/// CPU time of one turn, roughly: rings fill meanwhile.
const SLICE: Duration = Duration::from_millis(1);
/// A turn is followed by a pause of this many times its CPU time.
const REST: u32 = 300;

/// The cgroups that are read.
#[derive(Default)]
pub struct UsageSampler {
    version_2: Option<Hierarchy>,
    memory_1: Option<Hierarchy>,
    cgroups: Vec<Cgroup>,
    /// Hashes of the paths that were left out.
    left_out: HashSet<u64>,
    hasher: RandomState,
    /// Until then nothing is read.
    rests_until: Option<Instant>,
    /// The number of those left out in the log.
    written_left_out: usize,
}

/// A cgroup that exists, as far as is known.
struct Cgroup {
    path: Arc<str>,
    hierarchy: UsageHierarchy,
    folder: PathBuf,
    /// When it is read next.
    due: Instant,
    /// The last reading that is in `news` or was there.
    written: Option<UsageSample>,
    /// The last reading, if it shows the same as the one in `written`.
    same: Option<UsageSample>,
    /// Readings for the log.
    news: Vec<UsageSample>,
    is_gone: bool,
}

impl std::fmt::Debug for UsageSampler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UsageSampler({} cgroups)", self.cgroups.len())
    }
}

impl UsageSampler {
    /// Reads cgroups of this machine; none, if no hierarchy is mounted.
    pub fn of_machine() -> Self {
        Self::of(cgroups::hierarchies().unwrap_or_default())
    }

    fn of(hierarchies: Vec<Hierarchy>) -> Self {
        let mut sampler = Self::default();
        for hierarchy in hierarchies {
            if hierarchy.number == 0 {
                sampler.version_2 = Some(hierarchy);
            } else if hierarchy.controllers.iter().any(|name| name == "memory") {
                sampler.memory_1 = Some(hierarchy);
            }
        }
        sampler
    }

    /// A recorded process is in these cgroups, a text as in `/proc/PID/cgroup`.
    pub fn notice(&mut self, cgroups: &str) {
        for hierarchy in [UsageHierarchy::Version2, UsageHierarchy::MemoryVersion1] {
            let number = self.hierarchy(hierarchy).map(|one| one.number);
            if let Some(path) = number.and_then(|number| cgroups::path_in(cgroups, number)) {
                self.add(hierarchy, path);
            }
        }
    }

    fn hierarchy(&self, hierarchy: UsageHierarchy) -> Option<&Hierarchy> {
        match hierarchy {
            UsageHierarchy::Version2 => self.version_2.as_ref(),
            UsageHierarchy::MemoryVersion1 => self.memory_1.as_ref(),
        }
    }

    fn is_read(&self, hierarchy: UsageHierarchy, path: &str) -> bool {
        let mut cgroups = self.cgroups.iter();
        cgroups.any(|one| !one.is_gone && one.hierarchy == hierarchy && &*one.path == path)
    }

    fn add(&mut self, hierarchy: UsageHierarchy, path: &str) {
        let Some(folder) = self.hierarchy(hierarchy).map(|one| one.folder(path)) else {
            return;
        };
        // A path with `..` is one outside the cgroup namespace of this process.
        let is_usable = path.len() <= MAX_CGROUP && path.split('/').all(|part| part != "..");
        if !is_usable || self.is_read(hierarchy, path) {
            return;
        }
        if self.cgroups.len() >= MAX_CGROUPS {
            if self.left_out.len() < MAX_COUNTED {
                self.left_out.insert(self.hasher.hash_one((hierarchy, path)));
            }
            return;
        }
        self.left_out.remove(&self.hasher.hash_one((hierarchy, path)));
        self.cgroups.push(Cgroup {
            path: path.into(),
            hierarchy,
            folder,
            due: Instant::now(),
            written: None,
            same: None,
            news: Vec::new(),
            is_gone: false,
        });
    }

    /// Reads the cgroups that are due, as far as time permits.
    pub fn turn(&mut self) {
        let now = Instant::now();
        if self.rests_until.is_some_and(|until| now < until) {
            return;
        }
        let began = cpu_time();
        let mut spent = Duration::ZERO;
        while spent < SLICE {
            let due = (0..self.cgroups.len()).filter(|place| {
                let one = &self.cgroups[*place];
                !one.is_gone && one.due <= now
            });
            let Some(place) = due.min_by_key(|place| self.cgroups[*place].due) else {
                break;
            };
            self.read(place, now);
            spent = cpu_time().saturating_sub(began);
        }
        self.rests_until = Some(now + spent * REST);
    }

    fn read(&mut self, place: usize, now: Instant) {
        let one = &mut self.cgroups[place];
        one.due = now + INTERVAL;
        let Ok(sample) = cgroup_files::read(&one.folder, one.hierarchy) else {
            one.is_gone = true;
            return;
        };
        let is_first = one.written.is_none();
        one.note(sample);
        if is_first {
            self.add_limited_above(place);
        }
    }

    /// Also reads those above a cgroup whose limits apply to it.
    fn add_limited_above(&mut self, place: usize) {
        let (path, hierarchy) = (Arc::clone(&self.cgroups[place].path), self.cgroups[place].hierarchy);
        let above = std::iter::successors(path.rsplit_once('/'), |(above, _)| above.rsplit_once('/'));
        for (above, _) in above.take(MAX_ABOVE).filter(|(above, _)| !above.is_empty()) {
            let folder = self.hierarchy(hierarchy).map(|one| one.folder(above));
            let sample = folder.and_then(|folder| cgroup_files::read(&folder, hierarchy).ok());
            if sample.is_some_and(|sample| sample.limit().is_some()) {
                self.add(hierarchy, above);
            }
        }
    }

    /// The recording ended: reads all once more.
    pub fn end(&mut self, time: Timestamp) {
        for one in self.cgroups.iter_mut().filter(|one| !one.is_gone) {
            if let Ok(sample) = cgroup_files::read(&one.folder, one.hierarchy) {
                one.note(UsageSample { time, ..sample });
                one.news.extend(one.same.take());
            }
        }
    }

    /// What was read since the last call, for the log; `None`: nothing.
    pub fn news(&mut self) -> Option<Usage> {
        let mut usage = Usage::default();
        for one in &mut self.cgroups {
            if one.is_gone {
                one.news.extend(one.same.take());
            }
            if !one.news.is_empty() {
                usage.cgroups.push(CgroupUsage {
                    path: one.path.to_string(),
                    hierarchy: one.hierarchy,
                    samples: std::mem::take(&mut one.news),
                });
            }
        }
        self.cgroups.retain(|one| !one.is_gone);
        usage.left_out = self.left_out.len() as u64;
        let is_new = !usage.cgroups.is_empty() || self.left_out.len() != self.written_left_out;
        self.written_left_out = self.left_out.len();
        is_new.then_some(usage)
    }
}

impl Cgroup {
    /// Keeps a reading, unless it shows the same as the last one.
    fn note(&mut self, sample: UsageSample) {
        if self.written.is_some_and(|written| written.equals(&sample)) {
            self.same = Some(sample);
            return;
        }
        // The change happened after this one.
        self.news.extend(self.same.take());
        self.news.push(sample);
        self.written = Some(sample);
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Files as those of cgroups of version 2, in a folder.
    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn write(&self, path: &str, file: &str, text: &str) {
            let folder = self.0.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(file), text).unwrap();
        }

        fn sampler(&self) -> UsageSampler {
            let hierarchy = |number, controllers: &[&str], mount: &Path| Hierarchy {
                number,
                controllers: controllers.iter().map(|name| (*name).to_owned()).collect(),
                mount: mount.to_owned(),
            };
            UsageSampler::of(vec![
                hierarchy(0, &[], self.0.path()),
                hierarchy(3, &["cpu", "cpuacct"], Path::new("/nowhere")),
                hierarchy(4, &["memory"], &self.0.path().join("v1")),
            ])
        }
    }

    /// Reads all now, whatever was spent before.
    fn turn(sampler: &mut UsageSampler) {
        let limit = 4 * MAX_CGROUPS;
        sampler.cgroups.iter_mut().for_each(|one| one.due = Instant::now());
        for _ in 0..limit {
            sampler.rests_until = None;
            sampler.turn();
        }
    }

    fn memory(usage: Option<Usage>) -> Vec<(String, UsageHierarchy, Vec<Option<u64>>)> {
        let cgroups = usage.into_iter().flat_map(|usage| usage.cgroups);
        let values = |samples: Vec<UsageSample>| samples.into_iter().map(|sample| sample.memory).collect();
        cgroups
            .map(|one| (one.path, one.hierarchy, values(one.samples)))
            .collect()
    }

    #[test]
    fn each_hierarchy_is_read_where_the_process_is() {
        let tree = Tree::new();
        tree.write("/a", "memory.current", "1");
        tree.write("/v1/b", "memory.usage_in_bytes", "2");
        let mut sampler = tree.sampler();
        sampler.notice("4:memory:/b\n3:cpu,cpuacct:/c\n0::/a\n");
        turn(&mut sampler);
        let expected = [
            ("/a".to_owned(), UsageHierarchy::Version2, vec![Some(1)]),
            ("/b".to_owned(), UsageHierarchy::MemoryVersion1, vec![Some(2)]),
        ];
        assert_eq!(memory(sampler.news()), expected);
        assert_eq!(sampler.news(), None);
    }

    #[test]
    fn a_change_is_between_two_readings() {
        let tree = Tree::new();
        tree.write("/a", "memory.current", "1");
        let mut sampler = tree.sampler();
        sampler.notice("0::/a\n");
        for _ in 0..3 {
            turn(&mut sampler);
        }
        assert_eq!(memory(sampler.news())[0].2, [Some(1)]);
        tree.write("/a", "memory.current", "5");
        turn(&mut sampler);
        let news = sampler.news();
        let read = &news.as_ref().unwrap().cgroups[0].samples;
        assert!(read[0].time < read[1].time);
        assert_eq!(memory(news)[0].2, [Some(1), Some(5)]);
        sampler.end(Timestamp(u64::MAX));
        let last = &sampler.news().unwrap().cgroups[0].samples;
        assert_eq!((last[0].time, last[0].memory), (Timestamp(u64::MAX), Some(5)));
    }

    #[test]
    fn those_above_are_read_if_they_have_a_limit() {
        let tree = Tree::new();
        for (path, limit) in [
            ("/", "7"),
            ("/pod", "1000"),
            ("/pod/free", "max"),
            ("/pod/free/a", "max"),
        ] {
            tree.write(path, "memory.max", limit);
            tree.write(path, "memory.current", "1");
        }
        let mut sampler = tree.sampler();
        sampler.notice("0::/pod/free/a\n");
        turn(&mut sampler);
        let paths: Vec<String> = memory(sampler.news()).into_iter().map(|one| one.0).collect();
        assert_eq!(paths, ["/pod/free/a", "/pod"]);
    }

    #[test]
    fn a_cgroup_that_vanishes_makes_room_for_another_one() {
        let tree = Tree::new();
        let mut sampler = tree.sampler();
        for number in 0..MAX_CGROUPS + 3 {
            tree.write(&format!("/{number}"), "memory.current", "1");
            sampler.notice(&format!("0::/{number}\n"));
            sampler.notice(&format!("0::/{number}\n"));
        }
        turn(&mut sampler);
        let news = sampler.news().unwrap();
        assert_eq!((news.cgroups.len(), news.left_out), (MAX_CGROUPS, 3));
        std::fs::remove_dir_all(tree.0.path().join("5")).unwrap();
        turn(&mut sampler);
        sampler.news();
        sampler.notice(&format!("0::/{}\n", MAX_CGROUPS + 1));
        turn(&mut sampler);
        let news = sampler.news().unwrap();
        assert_eq!((news.cgroups.len(), news.left_out), (1, 2));
        assert_eq!(news.cgroups[0].path, format!("/{}", MAX_CGROUPS + 1));
    }

    #[test]
    fn paths_outside_are_not_read() {
        let tree = Tree::new();
        tree.write("/a", "memory.current", "1");
        let mut sampler = tree.sampler();
        sampler.notice("0::/b/../a\n0::/a\n");
        sampler.notice("0::/../a\nx\n:::\n");
        assert_eq!(sampler.cgroups.len(), 0);
    }

    #[test]
    fn reading_rests_for_many_times_as_long_as_it_took() {
        let tree = Tree::new();
        tree.write("/a", "memory.current", "1");
        let mut sampler = tree.sampler();
        sampler.notice("0::/a\n");
        let now = Instant::now();
        sampler.turn();
        assert!(sampler.rests_until.unwrap() > now && sampler.news().is_some());
        sampler.cgroups[0].due = now;
        sampler.rests_until = Some(Instant::now() + Duration::from_secs(9));
        sampler.turn();
        assert_eq!(sampler.cgroups[0].same, None, "it was read again");
    }
}
