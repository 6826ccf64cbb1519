//! The address spaces of the recorded processes: which code is where, for the walker, and for samples outside the
//! known mappings.
//!
//! The kernel is asked what is mapped at a sample's address for mappings that mremap moved, mappings with a lost
//! record, and all mappings where the kernel refuses the records. Tracing mremap itself would cost 50 ns on every
//! system call of every process (docs/task.md).

use std::collections::BTreeMap;

use profiler_common::space::first_space_id;
use rustc_hash::{FxHashMap, FxHashSet};

use super::generations::Generations;
use super::maps;
use base::addr::Timestamp;
use base::event::{At, FileId, Mapping, PROT_EXEC};

/// Limit of remembered addresses at which nothing was found.
const ABSENT_LIMIT: usize = 1 << 16;
const PAGE: u64 = 4096;
/// The vdso of a 32-bit process is below, and is a different one.
const FIRST_64_BIT: u64 = 1 << 32;
/// Mappings that an exec itself creates: the segments of the program and of its loader, and the kernel's own.
const EXEC_MAPPINGS: usize = 64;

/// Where code comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// From a file.
    File(FileId),
    /// From the kernel, in every process.
    Vdso,
    /// Generated at run time.
    Made,
}

impl Code {
    fn of(mapping: &Mapping) -> Self {
        if mapping.path == b"[vdso]" && mapping.start.0 >= FIRST_64_BIT {
            Self::Vdso
        } else if mapping.file.inode == 0
            || [&b"/memfd:"[..], b"/dev/", b"/SYSV", b"//anon"]
                .iter()
                .any(|start| mapping.path.starts_with(start))
        {
            Self::Made
        } else {
            Self::File(mapping.file)
        }
    }
}

/// A range of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The address after its last byte.
    pub end: u64,
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// Where the code comes from.
    pub code: Code,
}

/// A change to an address space.
#[derive(Debug)]
pub enum Change {
    /// A process was created, with a copy of its creator's space or in that space itself.
    Born {
        /// The creator.
        parent: u32,
        /// The new process.
        child: u32,
        /// The child's space.
        space: u64,
    },
    /// The first thread of a process took a name: later mappings may be those of an exec.
    Renamed(u32),
    /// A process got a new space by exec.
    Executed(u32, u64),
    /// A new mapping.
    Mapped(Mapping),
}

/// Ranges of code, by space.
#[derive(Debug, Default)]
pub struct Spaces {
    /// The space of each process.
    of: FxHashMap<u32, u64>,
    /// Pieces by start, without overlaps, and the number of processes that share the space.
    pieces: FxHashMap<u64, (BTreeMap<u64, Piece>, u32)>,
    /// Code that a process has mapped since its last new name.
    since_rename: FxHashMap<u32, Vec<Mapping>>,
    /// Process and page.
    absent: FxHashSet<(u32, u64)>,
    /// Processes that no longer had an address space when they were asked. Thousands of their events may still be in
    /// the rings.
    ended: FxHashSet<u32>,
    changed: FxHashSet<u64>,
    gone: Vec<u64>,
    /// The file that each inode number currently means.
    pub generations: Generations,
}

impl Spaces {
    /// Applies the changes of a cycle, in the order in which they happened.
    pub fn apply(&mut self, mut changes: Vec<(Timestamp, Change)>) {
        changes.sort_by_key(|(time, _)| *time);
        for (_, change) in changes {
            match change {
                Change::Born { parent, child, space } => self.born(parent, child, space),
                Change::Renamed(pid) => drop(self.since_rename.insert(pid, Vec::new())),
                Change::Executed(pid, space) => self.executed(pid, space),
                Change::Mapped(mapping) => self.mapped(&mapping),
            }
        }
    }

    /// A new mapping: it replaces what was there.
    pub fn mapped(&mut self, mapping: &Mapping) {
        let pid = mapping.at.pid;
        let executable = mapping.protection & PROT_EXEC != 0;
        if executable
            && let Some(recent) = self.since_rename.get_mut(&pid)
            && recent.len() < EXEC_MAPPINGS
        {
            recent.push(mapping.clone());
        }
        let id = self.of.get(&pid).copied().unwrap_or_else(|| {
            let id = first_space_id(pid);
            self.move_to(pid, id);
            id
        });
        let (pieces, _) = self.pieces.entry(id).or_default();
        let (start, end) = (mapping.start.0, mapping.start.0.saturating_add(mapping.len));
        let around = pieces.range(..=start).next_back();
        if mapping.may_be_copy()
            && around.is_some_and(|(_, piece)| end <= piece.end && matches!(piece.code, Code::File(_)))
        {
            return; // the file's rows apply
        }
        let cut = cut(pieces, start, end);
        if executable && end > start {
            let (offset, code) = (mapping.offset.0, Code::of(mapping));
            pieces.insert(start, Piece { end, offset, code });
        }
        if cut || executable {
            self.changed.insert(id);
        }
    }

    fn born(&mut self, parent: u32, child: u32, space: u64) {
        if parent == child {
            return; // a thread
        }
        let parents = self.of.get(&parent).copied();
        let copy = parents
            .filter(|&parents| parents != space)
            .and_then(|parents| self.pieces.get(&parents))
            .map(|(pieces, _)| pieces.clone());
        self.move_to(child, space);
        if let (Some(copy), Some((pieces, _))) = (copy, self.pieces.get_mut(&space)) {
            *pieces = copy;
            self.changed.insert(space);
        }
    }

    fn executed(&mut self, pid: u32, space: u64) {
        self.move_to(pid, space);
        for mapping in self.since_rename.remove(&pid).unwrap_or_default() {
            self.mapped(&mapping);
        }
        self.forget_absent(pid);
    }

    /// A process ended.
    pub fn ended(&mut self, pid: u32) {
        if let Some(id) = self.of.remove(&pid) {
            self.leave(id);
        }
        self.since_rename.remove(&pid);
        self.forget_absent(pid);
    }

    fn move_to(&mut self, pid: u32, id: u64) {
        self.ended.remove(&pid);
        self.pieces.entry(id).or_default().1 += 1;
        if let Some(old) = self.of.insert(pid, id) {
            self.leave(old);
        }
    }

    fn leave(&mut self, id: u64) {
        if let Some((_, users)) = self.pieces.get_mut(&id) {
            *users = users.saturating_sub(1);
            if *users == 0 {
                self.pieces.remove(&id);
                self.changed.remove(&id);
                self.gone.push(id);
            }
        }
    }

    fn forget_absent(&mut self, pid: u32) {
        if !self.absent.is_empty() {
            self.absent.retain(|&(absent, _)| absent != pid);
        }
    }

    /// The spaces that have changed since the last call.
    pub fn take_changed(&mut self) -> Vec<u64> {
        self.changed.drain().collect()
    }

    /// The spaces that no process has any more, since the last call.
    pub fn take_gone(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.gone)
    }

    /// The code of a space, by start.
    pub fn pieces(&self, id: u64) -> impl ExactSizeIterator<Item = (u64, Piece)> {
        let pieces = self.pieces.get(&id).map(|(pieces, _)| pieces);
        pieces
            .unwrap_or(const { &BTreeMap::new() })
            .iter()
            .map(|(&start, &piece)| (start, piece))
    }

    /// Something became known about this code: the spaces that contain it count as changed.
    pub fn touch(&mut self, code: Code) {
        for (&id, (pieces, _)) in &self.pieces {
            if pieces.values().any(|piece| piece.code == code) {
                self.changed.insert(id);
            }
        }
    }

    fn covers(&self, pid: u32, address: u64) -> bool {
        let space = self.of.get(&pid).and_then(|id| self.pieces.get(id));
        space
            .and_then(|(pieces, _)| pieces.range(..=address).next_back())
            .is_some_and(|(_, piece)| address < piece.end)
    }

    /// Asks the kernel what is mapped at a sample's address, if that is not known. The mapping gets the sample's
    /// time: it existed by then at the latest.
    pub fn find(&mut self, at: At, address: u64) -> Option<Mapping> {
        if self.covers(at.pid, address) || self.absent.contains(&(at.pid, address / PAGE)) {
            return None;
        }
        if self.ended.contains(&at.pid) {
            return None;
        }
        let answer = maps::at(at, address);
        let has_ended =
            matches!(&answer, Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)));
        let mut found = answer.ok().flatten();
        if let Some(mapping) = &mut found {
            mapping.file = self.generations.current(mapping.file);
        }
        if has_ended {
            if self.ended.len() >= ABSENT_LIMIT {
                self.ended.clear();
            }
            self.ended.insert(at.pid);
        }
        if !self.of.contains_key(&at.pid) {
            return found; // it ended meanwhile; a note about it would never be removed
        }
        match &found {
            None if has_ended => {}
            Some(mapping) if mapping.protection & PROT_EXEC != 0 => self.mapped(mapping),
            _ if self.absent.len() < ABSENT_LIMIT => drop(self.absent.insert((at.pid, address / PAGE))),
            _ => {}
        }
        found
    }
}

/// Removes `start..end` from the pieces. True: something was there.
fn cut(pieces: &mut BTreeMap<u64, Piece>, start: u64, end: u64) -> bool {
    let before = pieces.range(..start).next_back();
    let overlapping: Vec<(u64, Piece)> = before
        .into_iter()
        .chain(pieces.range(start..end.max(start)))
        .map(|(&start, &piece)| (start, piece))
        .filter(|(_, piece)| piece.end > start)
        .collect();
    for &(old_start, old) in &overlapping {
        pieces.remove(&old_start);
        if old_start < start {
            pieces.insert(old_start, Piece { end: start, ..old });
        }
        if old.end > end {
            let offset = old.offset.wrapping_add(end.wrapping_sub(old_start));
            pieces.insert(end, Piece { offset, ..old });
        }
    }
    !overlapping.is_empty()
}

#[cfg(test)]
mod tests;
