//! Which threads perf events are for: of a recording of cgroups only those in them, so that other threads do not pay for the events.
//!
//! The programs decide what is recorded, whatever the events are for. Events of a cgroup include those below it. One that is created
//! later, with the path or the name of a recorded one, has none yet: the programs report its creation, and earlier that a recorded one is
//! empty, as before a service is restarted. From then on the events are for all threads, until nothing changes for a while.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use aya::Ebpf;
use aya::maps::{Array, MapData};
use profiler_common::selection::{BY_CGROUP, CHANGES, CHOSEN, COVERAGE, GENERATION, LIMITED, WIDENED};

use super::perf::{self, Count, Target};
use super::selection::Tables;
use crate::proc::cgroups::{Cgroup, Hierarchy};
use crate::proc::machine;

/// Cgroups that have events of their own, at most.
const MOST_CGROUPS: usize = 8;
/// Their number times that of CPUs, at most: each takes four descriptors.
const MOST_EVENTS: usize = 256;
/// The first version in which a switch between cgroups leaves other events alone (`perf_cgroup_switch` in kernel/events/core.c): before,
/// threads that switch often would pay more for that than for the events.
const SINCE: (u32, u32) = (6, 7);
/// How long nothing has to change until the events are limited again.
const CALM: Duration = Duration::from_secs(1);
/// How long the cgroups may be looked for while the recording waits: else the events are not limited again.
const LONGEST_SEARCH: Duration = Duration::from_millis(10);

/// The threads that all events of one generation are for.
#[derive(Debug, Default)]
pub struct Coverage {
    /// The folders of cgroups; empty: all threads.
    folders: Vec<File>,
    generation: u32,
}

impl Coverage {
    /// Whether they are for some cgroups only.
    pub fn is_limited(&self) -> bool {
        !self.folders.is_empty()
    }

    /// Each CPU needs an event for each of these.
    pub fn targets(&self) -> Vec<Target<'_>> {
        if self.folders.is_empty() {
            return vec![Target::All];
        }
        let folders = self.folders.iter();
        folders.map(|folder| Target::Cgroup(folder.as_fd())).collect()
    }

    /// The cookie of a counting event with these flags.
    pub fn cookie(&self, flags: u32) -> u64 {
        u64::from(self.generation) << 32 | u64::from(flags)
    }
}

/// Follows which cgroups exist.
pub struct Follower {
    wanted: Wanted,
    table: Array<MapData, u64>,
    /// How many changes were seen.
    changes: u64,
    /// When the last one was; `None`: the events are as they should be since then.
    changed: Option<Instant>,
    /// Other events could not be opened once.
    has_failed: bool,
    /// To look for the cgroups takes too long.
    is_slow: bool,
}

impl Follower {
    /// Finds what the events can be limited to; call it once the programs report changes. `None`: nothing, now and later.
    pub fn begin(ebpf: &mut Ebpf, selection: &Tables, cpus: &[u32]) -> (Coverage, Option<Self>) {
        let wanted =
            Wanted::of(selection).filter(|_| machine::kernel_version().is_some_and(|version| version >= SINCE));
        let table = ebpf.take_map("EVENTS").and_then(|map| Array::try_from(map).ok());
        let Some((wanted, table)) = wanted.zip(table) else {
            return (Coverage::default(), None);
        };
        let mut follower = Self {
            wanted,
            table,
            changes: 0,
            changed: None,
            has_failed: false,
            is_slow: false,
        };
        let coverage = follower.find(cpus, 0);
        (coverage, Some(follower))
    }

    /// The coverage to take the place of another one, if there was a change. Then [`Self::take`] it.
    pub fn due(&mut self, now: &Coverage, cpus: &[u32]) -> Option<Coverage> {
        let changes = self.table.get(&CHANGES, 0).unwrap_or(self.changes);
        let has_changed = changes != self.changes;
        if has_changed {
            (self.changes, self.changed) = (changes, Some(Instant::now()));
        }
        let is_calm = self.changed.is_some_and(|last| last.elapsed() >= CALM);
        if now.is_limited() {
            let folders = Vec::new();
            let generation = now.generation.wrapping_add(1);
            return (has_changed || is_calm).then_some(Coverage { folders, generation });
        }
        if !is_calm || self.is_slow {
            return None;
        }
        self.changed = None;
        let next = self.find(cpus, now.generation.wrapping_add(1));
        next.is_limited().then_some(next)
    }

    /// From now on the events of this coverage count, and no others.
    ///
    /// # Errors
    /// When the kernel refuses the write.
    pub fn take(&mut self, next: &Coverage) -> io::Result<()> {
        let set = self.table.set(GENERATION, u64::from(next.generation), 0);
        set.map_err(io::Error::other)?;
        self.report(if next.is_limited() { LIMITED } else { WIDENED });
        Ok(())
    }

    /// Tries again in a while, and has no change reported at once until then. True: for the first time.
    pub fn postpone(&mut self) -> bool {
        self.changed = Some(Instant::now());
        self.report(WIDENED);
        !std::mem::replace(&mut self.has_failed, true)
    }

    fn report(&mut self, coverage: u64) {
        let _ = self.table.set(COVERAGE, coverage, 0); // without it, changes are seen in the next cycle
    }

    /// The cgroups that exist, as far as the kernel has events for them. From before they are looked for, changes are reported.
    fn find(&mut self, cpus: &[u32], generation: u32) -> Coverage {
        let before = self.table.get(&COVERAGE, 0).unwrap_or(0);
        self.report(LIMITED);
        let begun = Instant::now();
        let roots = self.wanted.roots();
        self.is_slow = begun.elapsed() > LONGEST_SEARCH;
        let is_few = roots.len() <= 1 || roots.len() <= MOST_CGROUPS && roots.len() * cpus.len() <= MOST_EVENTS;
        let folders: io::Result<Vec<File>> = roots.iter().filter(|_| is_few).map(|root| open(root, cpus)).collect();
        let folders = folders.unwrap_or_default();
        if folders.is_empty() {
            self.report(before);
        }
        Coverage { folders, generation }
    }
}

/// Opens a cgroup's folder. Fails if the kernel has no events for it: they need the hierarchy of the controller `perf_event`, which is
/// version 2 unless it is mounted elsewhere.
fn open(cgroup: &Cgroup, cpus: &[u32]) -> io::Result<File> {
    let folder = File::open(cgroup.hierarchy.folder(&cgroup.path))?;
    let cpu = cpus.first().copied().unwrap_or(0);
    perf::open_count(Count::MajorFaults, cpu, Target::Cgroup(folder.as_fd()))?;
    Ok(folder)
}

/// The cgroups that contain each recorded thread.
#[derive(Debug)]
struct Wanted {
    hierarchy: Hierarchy,
    paths: Vec<Cgroup>,
    names: Vec<String>,
}

impl Wanted {
    /// `None`: threads elsewhere are recorded, too.
    fn of(selection: &Tables) -> Option<Self> {
        let is_chosen = |value: u32| value & CHOSEN != 0;
        let paths = selection.cgroups.iter().filter(|(_, value)| is_chosen(*value));
        let names = selection.names.iter().filter(|(_, value)| is_chosen(*value));
        let hierarchy = selection.hierarchy.clone()?;
        (selection.required & BY_CGROUP != 0).then(|| Self {
            hierarchy,
            paths: paths.map(|(cgroup, _)| cgroup.clone()).collect(),
            names: names.map(|(name, _)| name.clone()).collect(),
        })
    }

    /// Those that exist, without those below another one. None: a path does not exist yet, or everything is below one.
    fn roots(&self) -> Vec<Cgroup> {
        let mut found = self.paths.clone();
        if !found.iter().all(Cgroup::exists) {
            return Vec::new();
        }
        let has_name = |path: &str| {
            let name = path.rsplit('/').next();
            self.names.iter().any(|one| Some(one.as_str()) == name)
        };
        let is_whole = self.names.is_empty()
            || self.hierarchy.walk("/", |path, _| {
                if has_name(path) {
                    found.push(Cgroup {
                        hierarchy: self.hierarchy.clone(),
                        path: path.to_owned(),
                    });
                }
            });
        if !is_whole || found.iter().any(|cgroup| cgroup.path == "/") {
            return Vec::new();
        }
        without_nested(found)
    }
}

/// Events of a cgroup and of one below it would both fire.
fn without_nested(mut cgroups: Vec<Cgroup>) -> Vec<Cgroup> {
    cgroups.sort_by_key(|cgroup| cgroup.path.len());
    let mut roots: Vec<Cgroup> = Vec::new();
    for cgroup in cgroups {
        if !roots.iter().any(|root| root.contains(&cgroup.path)) {
            roots.push(cgroup);
        }
    }
    roots
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cgroups(paths: &[&str]) -> Vec<Cgroup> {
        let hierarchy = Hierarchy {
            number: 0,
            controllers: Vec::new(),
            mount: "/nonexistent".into(),
        };
        let cgroup = |path: &&str| Cgroup {
            hierarchy: hierarchy.clone(),
            path: (*path).to_owned(),
        };
        paths.iter().map(cgroup).collect()
    }

    #[test]
    fn a_cgroup_below_another_has_no_events_of_its_own() {
        let roots = without_nested(cgroups(&["/a/b/c", "/ab", "/a/b", "/d", "/a/b", "/d/e"]));
        let paths: Vec<&str> = roots.iter().map(|root| root.path.as_str()).collect();
        assert_eq!(paths, ["/d", "/ab", "/a/b"]);
    }

    #[test]
    fn a_missing_cgroup_or_an_exclusion_limits_nothing() {
        let of = |path: &str, value: u32, required: u32| {
            let one = cgroups(&[path]).remove(0);
            let hierarchy = Some(one.hierarchy.clone());
            let wanted = Wanted::of(&Tables {
                required,
                hierarchy,
                cgroups: vec![(one, value)],
                ..Tables::default()
            });
            wanted.map(|wanted| (wanted.paths.len(), wanted.roots().len()))
        };
        assert_eq!(of("/a", CHOSEN, BY_CGROUP), Some((1, 0)));
        assert_eq!(of("/a", profiler_common::selection::EXCLUDED, 0), None);
    }

    #[test]
    fn a_generation_is_in_each_cookie() {
        let all = Coverage::default();
        assert!(!all.is_limited() && all.targets().len() == 1 && all.cookie(32) == 32);
        let later = Coverage {
            folders: Vec::new(),
            generation: 3,
        };
        assert_eq!(later.cookie(32), 3 << 32 | 32);
    }
}
