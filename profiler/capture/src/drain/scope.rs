//! Which processes are recorded, according to the drained events: it decides which mappings belong in the log.

use rustc_hash::{FxHashMap, FxHashSet};

use base::addr::Timestamp;

/// The recorded processes and their threads.
#[derive(Debug, Default)]
pub struct Recorded {
    whole_system: bool,
    excluded: Vec<u32>,
    /// Live threads by process.
    processes: FxHashMap<u32, FxHashSet<u32>>,
    /// Threads that ended, and when: not all of their earlier mappings have been checked.
    ended: FxHashMap<(u32, u32), Timestamp>,
    seen: u32,
}

impl Recorded {
    /// An empty scope; with `-a`, every process except the recorder itself.
    pub fn new(whole_system: bool, excluded: Vec<u32>) -> Self {
        Self {
            whole_system,
            excluded,
            ..Self::default()
        }
    }

    /// A thread is recorded from now on.
    pub fn born(&mut self, pid: u32, tid: u32) {
        // Its number belonged to a thread that has ended.
        self.ended.remove(&(pid, tid));
        self.processes.entry(pid).or_insert_with(|| {
            self.seen = self.seen.saturating_add(1);
            FxHashSet::default()
        });
        self.processes.entry(pid).or_default().insert(tid);
    }

    /// The calling thread took the number of the process's first thread, which is gone like all others.
    pub fn executed(&mut self, time: Timestamp, pid: u32, old_tid: u32) {
        if old_tid != pid {
            self.ended(time, pid, old_tid);
        }
        self.born(pid, pid);
    }

    /// A thread ended. It counts until [`Self::settle`].
    pub fn ended(&mut self, time: Timestamp, pid: u32, tid: u32) {
        self.ended.insert((pid, tid), time);
    }

    /// Forgets the threads that ended before `until`, the time up to which all mapping records have been read.
    /// Returns the processes that ended with them.
    pub fn settle(&mut self, until: Timestamp) -> Vec<u32> {
        let mut gone = Vec::new();
        for ((pid, tid), _) in self.ended.extract_if(|_, time| *time < until) {
            if let Some(threads) = self.processes.get_mut(&pid) {
                threads.remove(&tid);
                if threads.is_empty() {
                    self.processes.remove(&pid);
                    gone.push(pid);
                }
            }
        }
        gone
    }

    /// Whether a process's mappings are recorded. Process 0 is any that is not in our pid namespace.
    pub fn contains(&self, pid: u32) -> bool {
        let is_any = || self.whole_system && pid != 0 && !self.excluded.contains(&pid);
        self.processes.contains_key(&pid) || is_any()
    }

    /// Whether a thread is known.
    pub fn knows(&self, pid: u32, tid: u32) -> bool {
        self.processes.get(&pid).is_some_and(|threads| threads.contains(&tid))
    }

    /// Whether a thread is known and has not ended.
    pub fn is_live(&self, pid: u32, tid: u32) -> bool {
        self.knows(pid, tid) && !self.ended.contains_key(&(pid, tid))
    }

    /// Whether a thread of the process is known and has not ended.
    pub fn has_live_thread(&self, pid: u32) -> bool {
        let threads = self.processes.get(&pid);
        threads.is_some_and(|threads| threads.iter().any(|&tid| self.is_live(pid, tid)))
    }

    /// Every live thread: process and thread.
    pub fn threads(&self) -> impl Iterator<Item = (u32, u32)> {
        let threads = self.processes.iter();
        threads.flat_map(|(&pid, threads)| threads.iter().map(move |&tid| (pid, tid)))
    }

    /// Number of processes so far.
    pub fn processes_seen(&self) -> u32 {
        self.seen
    }

    /// Number of live threads.
    pub fn threads_alive(&self) -> u32 {
        u32::try_from(self.processes.values().map(FxHashSet::len).sum::<usize>()).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_counts_until_the_mappings_before_its_end_were_read() {
        let mut recorded = Recorded::new(false, Vec::new());
        recorded.born(10, 10);
        recorded.born(10, 11);
        recorded.ended(Timestamp(5), 10, 11);
        recorded.ended(Timestamp(7), 10, 10);
        // These mapping records were read before the process created its last mappings and ended.
        assert!(recorded.settle(Timestamp(6)).is_empty());
        assert!(recorded.contains(10) && !recorded.knows(10, 11));
        assert_eq!(recorded.settle(Timestamp(8)), [10]);
        assert!(!recorded.contains(10));
        assert_eq!((recorded.processes_seen(), recorded.threads_alive()), (1, 0));
    }

    #[test]
    fn a_reused_pid_stays_in_scope() {
        let mut recorded = Recorded::new(false, Vec::new());
        recorded.born(10, 10);
        recorded.ended(Timestamp(5), 10, 10);
        recorded.born(10, 10);
        assert!(recorded.settle(Timestamp(6)).is_empty());
        assert!(recorded.knows(10, 10));
    }

    #[test]
    fn exec_by_another_thread_keeps_the_process() {
        let mut recorded = Recorded::new(false, Vec::new());
        recorded.born(10, 10);
        recorded.born(10, 11);
        recorded.ended(Timestamp(1), 10, 10);
        recorded.executed(Timestamp(2), 10, 11);
        recorded.settle(Timestamp(3));
        assert!(recorded.knows(10, 10) && !recorded.knows(10, 11));
        assert_eq!(recorded.threads_alive(), 1);
    }

    #[test]
    fn every_process_but_the_recorder() {
        let recorded = Recorded::new(true, vec![7]);
        assert!(recorded.contains(1) && !recorded.contains(7));
    }
}
