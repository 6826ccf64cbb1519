//! The tables of recorded threads, which the kernel side maintains and user space initializes.

use aya::Ebpf;
use aya::maps::{Array, HashMap, Map, MapData};
use profiler_common::fault::{FaultCounts, ThreadFaults};
use profiler_common::scope::{self, ThreadState, Wanted};
use rustc_hash::FxHashMap;
use zerocopy::{FromBytes as _, IntoBytes as _};

use crate::privilege::terms::Scope;
use crate::proc::procfs;

/// An entry as words: `aya::Pod` can't be implemented for a foreign type.
type StateWords = [u64; size_of::<ThreadState>() / 8];
/// A wanted thread as words, for the same reason.
type WantedWords = [u64; size_of::<Wanted>() / 8];

/// The recorded threads, as the kernel side knows them.
pub struct Threads {
    /// By the address of their `task_struct`.
    met: HashMap<MapData, u64, StateWords>,
    /// By number: those that the kernel side has not seen yet.
    wanted: HashMap<MapData, u32, WantedWords>,
    counts: Array<MapData, u64>,
    ever_wanted: u64,
}

/// The table is full.
#[derive(Debug)]
pub struct Full;

impl Threads {
    /// Takes the maps out of the object.
    ///
    /// # Errors
    /// When one is missing.
    pub fn new(ebpf: &mut Ebpf) -> anyhow::Result<Self> {
        let mut take = |name: &str| -> anyhow::Result<Map> {
            let map = ebpf.take_map(name);
            map.ok_or_else(|| anyhow::anyhow!("the eBPF object has no map {name}: run `scripts/build-ebpf`"))
        };
        Ok(Self {
            met: HashMap::try_from(take("THREADS")?)?,
            wanted: HashMap::try_from(take("WANTED")?)?,
            counts: Array::try_from(take("WANTED_COUNTS")?)?,
            ever_wanted: 0,
        })
    }

    /// Records a thread from now on. If its creator was recorded, the kernel side has an entry already, which stays.
    ///
    /// # Errors
    /// When the table is full.
    pub fn want(&mut self, tid: u32, wanted: Wanted) -> Result<(), Full> {
        let mut words: WantedWords = [0; size_of::<Wanted>() / 8];
        words.as_mut_bytes().copy_from_slice(wanted.as_bytes());
        // The count comes first: the kernel side looks up only counted numbers.
        self.ever_wanted += 1;
        let counted = self.counts.set(scope::WANTED, self.ever_wanted, 0);
        let inserted = self.wanted.insert(tid, words, 0);
        if inserted.is_err() {
            self.ever_wanted -= 1;
            let _ = self.counts.set(scope::WANTED, self.ever_wanted, 0); // as in `forget`
        }
        counted.and(inserted).map_err(|_| Full)
    }

    /// Stops recording a thread, even if its number has been reused.
    pub fn forget(&mut self, tid: u32) {
        if self.wanted.remove(&tid).is_ok() {
            self.ever_wanted -= 1;
            // Decremented late, it only costs some vain look-ups.
            let _ = self.counts.set(scope::WANTED, self.ever_wanted, 0);
        }
        let met: Vec<u64> = self
            .met()
            .filter(|(_, state)| state.tid == tid)
            .map(|(task, _)| task)
            .collect();
        for task in met {
            let _ = self.met.remove(&task); // absent is fine, too
        }
    }

    /// The kernel side's state of each recorded thread, by process and thread.
    pub fn states(&self) -> States {
        let met = self.met().map(|(_, state)| ((state.pid, state.tid), state)).collect();
        let wanted = self.wanted.iter().filter_map(|entry| {
            let (tid, words) = entry.ok()?;
            Some((tid, unseen(Wanted::read_from_bytes(words.as_bytes()).ok()?)))
        });
        States {
            met,
            wanted: wanted.collect(),
        }
    }

    fn met(&self) -> impl Iterator<Item = (u64, ThreadState)> {
        self.met.iter().filter_map(|entry| {
            let (task, words) = entry.ok()?;
            Some((task, ThreadState::read_from_bytes(words.as_bytes()).ok()?))
        })
    }
}

/// The number of threads that are recorded from the beginning.
pub fn existing(scope: &Scope) -> u32 {
    let count = match scope {
        Scope::Command => 1,
        Scope::Pids(pids) => pids
            .iter()
            .map(|&pid| procfs::threads(pid).map_or(0, |threads| threads.len()))
            .sum(),
        Scope::System | Scope::Selected(_) => {
            of_machine().unwrap_or_else(|| 16 * procfs::processes().map_or(0, |processes| processes.len()))
        }
    };
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The number of all threads: the fourth word of /proc/loadavg has the running and the existing ones.
fn of_machine() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split(' ').nth(3)?.split_once('/')?.1.parse().ok()
}

/// The state of a thread of which nothing was seen yet.
fn unseen(wanted: Wanted) -> ThreadState {
    let counts = FaultCounts {
        before: wanted.before,
        ..FaultCounts::default()
    };
    ThreadState {
        since: wanted.since,
        space: wanted.space,
        faults: ThreadFaults {
            counts,
            ..ThreadFaults::default()
        },
        ..ThreadState::default()
    }
}

/// The recorded threads at one moment.
pub struct States {
    met: FxHashMap<(u32, u32), ThreadState>,
    wanted: FxHashMap<u32, ThreadState>,
}

impl States {
    /// `None`: it is no longer recorded.
    pub fn of(&self, pid: u32, tid: u32) -> Option<ThreadState> {
        self.met.get(&(pid, tid)).or_else(|| self.wanted.get(&tid)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_begins_with_the_threads_of_its_scope() {
        let own = std::process::id();
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let threads = std::thread::spawn(move || receiver.recv());
        let of_us = existing(&Scope::Pids(vec![own]));
        assert!(of_us >= 2, "{of_us}");
        assert_eq!(existing(&Scope::Pids(Vec::new())), 0);
        assert_eq!(existing(&Scope::Command), 1);
        let all = procfs::processes().unwrap().len();
        assert!(of_machine().unwrap() >= all / 2 && existing(&Scope::System) > 2);
        drop(sender);
        assert!(threads.join().unwrap().is_err());
    }
}
