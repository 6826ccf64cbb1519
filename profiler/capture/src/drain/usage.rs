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

use crate::proc::cgroups::{self, Hierarchy};
use crate::proc::{cgroup_files, procfs};
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
/// Time between two looks at the limits above a cgroup, which may be set at any time.
const ABOVE_INTERVAL: Duration = Duration::from_secs(10);
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
    /// Limits above the root of a cgroup namespace are not visible.
    is_below_others: bool,
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
    /// When those above it are looked at next.
    above_due: Instant,
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
            if hierarchy.is_version_2() {
                // The root of the machine has no such file.
                sampler.is_below_others = hierarchy.folder("/").join("cgroup.type").exists();
                sampler.version_2 = Some(hierarchy);
            } else if hierarchy.has_memory_of_version_1() {
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
        if self.is_read(hierarchy, path) {
            return;
        }
        if !is_usable || self.cgroups.len() >= MAX_CGROUPS {
            self.leave_out(hierarchy, path);
            return;
        }
        self.left_out.remove(&self.hasher.hash_one((hierarchy, path)));
        self.cgroups.push(Cgroup {
            path: path.into(),
            hierarchy,
            folder,
            due: Instant::now(),
            above_due: Instant::now(),
            written: None,
            same: None,
            news: Vec::new(),
            is_gone: false,
        });
    }

    fn leave_out(&mut self, hierarchy: UsageHierarchy, path: &str) {
        if self.left_out.len() < MAX_COUNTED {
            self.left_out.insert(self.hasher.hash_one((hierarchy, path)));
        }
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
        match cgroup_files::read(&one.folder, one.hierarchy) {
            Ok(sample) => one.note(sample),
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)) => return one.end(),
            // Such as a shortage of descriptors, which passes.
            Err(_) => {}
        }
        if one.above_due <= now {
            one.above_due = now + ABOVE_INTERVAL;
            self.add_limited_above(place);
        }
    }

    /// Also reads those above a cgroup whose limits apply to it.
    fn add_limited_above(&mut self, place: usize) {
        let (path, hierarchy) = (Arc::clone(&self.cgroups[place].path), self.cgroups[place].hierarchy);
        let mut above = std::iter::successors(path.rsplit_once('/'), |(above, _)| above.rsplit_once('/'));
        for (above, _) in above.by_ref().take(MAX_ABOVE) {
            // The root of a cgroup namespace may have limits.
            let above = if above.is_empty() { "/" } else { above };
            let folder = self.hierarchy(hierarchy).map(|one| one.folder(above));
            let sample = folder.map(|folder| cgroup_files::read(&folder, hierarchy));
            match sample {
                Some(Ok(sample)) if sample.limit().is_some() && *above != *path => self.add(hierarchy, above),
                Some(Err(_)) => self.leave_out(hierarchy, above),
                _ => {}
            }
        }
        if above.next().is_some() {
            self.leave_out(hierarchy, &path);
        }
    }

    /// The recording ended: reads all once more.
    pub fn end(&mut self, time: Timestamp) {
        for one in self.cgroups.iter_mut().filter(|one| !one.is_gone) {
            // One that was read after the end shows all of it.
            let last = one.same.or(one.written).map(|sample| sample.time);
            if last.is_none_or(|last| last < time)
                && let Ok(sample) = cgroup_files::read(&one.folder, one.hierarchy)
            {
                one.note(UsageSample { time, ..sample });
            }
            one.news.extend(one.same.take());
        }
    }

    /// What was read since the last call, for the log; `None`: nothing.
    pub fn news(&mut self) -> Option<Usage> {
        let mut usage = Usage::default();
        for one in &mut self.cgroups {
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
        usage.is_below_others = self.is_below_others;
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

    /// It does not exist any more. One that is created by the same name later has nothing to do with it.
    fn end(&mut self) {
        self.is_gone = true;
        self.news.extend(self.same.take());
        if self.written.is_some() {
            self.news.push(UsageSample {
                time: procfs::now(),
                ..UsageSample::default()
            });
        }
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests;
