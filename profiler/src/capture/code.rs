//! Which addresses of each process are known as code, so that a sample outside of them can be looked into.
//!
//! A mapping that mremap moved, one whose record was lost, and all of them where the kernel refuses the records, are found
//! this way: the kernel is asked what is mapped at the sample's address. Tracing mremap itself would cost 50 ns on every
//! system call of every process (docs/task.md).

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::maps;
use crate::event::{At, Mapping, PROT_EXEC};

/// Addresses at which nothing was found are remembered, so many at most.
const ABSENT_LIMIT: usize = 1 << 16;
const PAGE: u64 = 4096;

/// Ranges of code by process.
#[derive(Debug, Default)]
pub struct Code {
    /// End by start, without overlaps.
    processes: FxHashMap<u32, BTreeMap<u64, u64>>,
    /// Process and page.
    absent: FxHashSet<(u32, u64)>,
}

impl Code {
    /// A mapping was made: it replaces what was there.
    pub fn mapped(&mut self, mapping: &Mapping) {
        let ranges = self.processes.entry(mapping.at.pid).or_default();
        let (start, end) = (mapping.start.0, mapping.start.0.saturating_add(mapping.len));
        let before = ranges.range(..start).next_back().map(|(&start, &end)| (start, end));
        let overlapping: Vec<(u64, u64)> = before
            .into_iter()
            .chain(ranges.range(start..end).map(|(&start, &end)| (start, end)))
            .collect();
        for (old_start, old_end) in overlapping.into_iter().filter(|&(_, old_end)| old_end > start) {
            ranges.remove(&old_start);
            if old_start < start {
                ranges.insert(old_start, start);
            }
            if old_end > end {
                ranges.insert(end, old_end);
            }
        }
        if mapping.protection & PROT_EXEC != 0 && end > start {
            ranges.insert(start, end);
        }
    }

    /// A process was born with its parent's mappings.
    pub fn forked(&mut self, parent: u32, child: u32) {
        self.ended(child);
        if let Some(ranges) = self.processes.get(&parent).filter(|_| parent != child).cloned() {
            self.processes.insert(child, ranges);
        }
    }

    /// A process ended, or took another program: nothing of it is known.
    pub fn ended(&mut self, pid: u32) {
        self.processes.remove(&pid);
        if !self.absent.is_empty() {
            self.absent.retain(|&(absent, _)| absent != pid);
        }
    }

    fn covers(&self, pid: u32, address: u64) -> bool {
        let ranges = self.processes.get(&pid);
        ranges
            .and_then(|ranges| ranges.range(..=address).next_back())
            .is_some_and(|(_, &end)| address < end)
    }

    /// Asks the kernel what is mapped at a sample's address, if that is not known. The mapping gets the sample's time: it was
    /// there at the latest by then.
    pub fn find(&mut self, at: At, address: u64) -> Option<Mapping> {
        if self.covers(at.pid, address) || self.absent.contains(&(at.pid, address / PAGE)) {
            return None;
        }
        let found = maps::at(at, address).ok().flatten();
        match &found {
            Some(mapping) if mapping.protection & PROT_EXEC != 0 => self.mapped(mapping),
            _ if self.absent.len() < ABSENT_LIMIT => drop(self.absent.insert((at.pid, address / PAGE))),
            _ => {}
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Avma;

    fn mapping(start: u64, len: u64, protection: u32) -> Mapping {
        Mapping {
            at: At {
                pid: 5,
                ..At::default()
            },
            start: Avma(start),
            len,
            protection,
            ..Mapping::default()
        }
    }

    fn ranges(code: &Code, pid: u32) -> Vec<(u64, u64)> {
        code.processes
            .get(&pid)
            .into_iter()
            .flatten()
            .map(|(&start, &end)| (start, end))
            .collect()
    }

    #[test]
    fn data_mapped_over_code_cuts_it() {
        let mut code = Code::default();
        code.mapped(&mapping(0x1000, 0x9000, 5));
        code.mapped(&mapping(0x3000, 0x1000, 3));
        code.mapped(&mapping(0x8000, 0x4000, 5));
        assert_eq!(ranges(&code, 5), [(0x1000, 0x3000), (0x4000, 0x8000), (0x8000, 0xc000)]);
        assert!(
            code.covers(5, 0x2fff) && !code.covers(5, 0x3000) && !code.covers(5, 0xc000) && !code.covers(6, 0x2000)
        );
        code.mapped(&mapping(u64::MAX - 1, 100, 5));
        code.mapped(&mapping(0, u64::MAX, 3));
        assert_eq!(ranges(&code, 5), []);
    }

    #[test]
    fn a_child_starts_with_its_parents_code() {
        let mut code = Code::default();
        code.mapped(&mapping(0x1000, 0x1000, 5));
        code.forked(5, 6);
        code.ended(5);
        assert!(code.covers(6, 0x1000) && !code.covers(5, 0x1000));
    }

    #[test]
    fn our_own_code_is_found_once() {
        let at = At {
            pid: std::process::id(),
            ..At::default()
        };
        let address = our_own_code_is_found_once as fn() as usize as u64;
        let mut code = Code::default();
        let found = code.find(at, address).unwrap();
        assert!(found.protection & PROT_EXEC != 0 && found.file.inode != 0);
        assert_eq!(code.find(at, address), None);
        assert_eq!(code.find(at, 0x10), None);
    }
}
