//! Collects the facts that metrics are computed from: those of the reports on faults, waits and requests, and samples.

use std::sync::Arc;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::between::Between;
use crate::dirty::{ChainId, FirstCopy};
use crate::path::PathFacts;
use crate::sample::PackedSample;
use crate::sorted::{Row, Scratch, Sorted};
use crate::{faults, io, waits};
use base::addr::{FileOffset, PAGE, Timestamp};
use fact::fault::{Access, FaultClass, FilePlace};
use fact::{
    Cause, FactSink, FaultFact, MappedFileId, Mark, PagesReadFact, ProcessId, RequestFact, SampleFact, StackId, Tables,
    ThreadId, WaitFact,
};

/// A process's first copy of a page, packed into 32 bytes.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct Copied {
    time: u64,
    byte: u64,
    thread: u32,
    stack: u32,
    file: u32,
    chain: u32,
}

impl Row for Copied {
    fn key(&self) -> u64 {
        self.time
    }
}

impl From<&FirstCopy> for Copied {
    fn from(copy: &FirstCopy) -> Self {
        Self {
            time: copy.time.0,
            byte: copy.place.byte.0,
            thread: copy.thread.0,
            stack: copy.stack.number(),
            file: copy.place.file.0,
            chain: copy.chain.0,
        }
    }
}

impl Copied {
    /// Unpacks the copy.
    pub fn copy(&self) -> FirstCopy {
        let byte = FileOffset(self.byte);
        FirstCopy {
            time: Timestamp(self.time),
            thread: ThreadId(self.thread),
            stack: StackId::new(self.stack),
            place: FilePlace {
                file: MappedFileId(self.file),
                offset: FileOffset(byte.0 - byte.0 % PAGE),
                byte,
            },
            chain: ChainId(self.chain),
        }
    }
}

/// Facts of a recording from which metrics are computed.
#[derive(Debug, Default)]
pub struct Facts {
    pub(super) faults: faults::Facts,
    pub(super) waits: waits::Facts,
    pub(super) requests: io::Facts,
    pub(super) samples: Sorted<PackedSample>,
    pub(super) copies: Sorted<Copied>,
    /// Faults that may have copied a page; their result was not recorded.
    pub(super) may_have_copied: u64,
    /// Set for a profile of another program, which contains only samples: the reason why other metrics are unknown.
    pub foreign: Option<String>,
    /// What critical paths are followed through; `None`: they are not wanted.
    pub path: Option<PathFacts>,
    /// Finds the markers between which metrics are wanted.
    pub between: Vec<Between>,
}

impl Facts {
    /// Number of row types.
    pub const KINDS: usize = 5;

    /// Keeps rows in memory up to a limit and the rest in `scratch`.
    pub fn beyond_memory(scratch: &Arc<dyn Scratch>) -> Self {
        Self {
            faults: faults::Facts::beyond_memory(scratch),
            waits: waits::Facts::beyond_memory(scratch),
            requests: io::Facts::beyond_memory(scratch),
            samples: Sorted::beyond_memory(scratch),
            copies: Sorted::beyond_memory(scratch),
            ..Self::default()
        }
    }
}

/// Whether a fault of unknown class may have copied a page. Reads never do; they include those of vdso pages, whose class is
/// always unknown.
fn may_have_copied(fault: &FaultFact) -> bool {
    fault.class == FaultClass::Unknown
        && fault.failed.is_none()
        && matches!(fault.access, Access::Write | Access::Unknown)
}

impl FactSink for Facts {
    fn sample(&mut self, tables: &Tables, sample: &SampleFact) {
        if let Some(path) = &mut self.path {
            path.sample(tables, sample);
        }
        self.samples.push(sample.into());
    }

    fn mark(&mut self, tables: &Tables, mark: &Mark) {
        self.faults.mark(tables, mark);
        for between in &mut self.between {
            between.mark(tables, mark);
        }
    }

    fn fault(&mut self, tables: &Tables, fault: &FaultFact) {
        self.may_have_copied += u64::from(may_have_copied(fault));
        if let Some(copy) = self.faults.take(tables, fault) {
            self.copies.push(Copied::from(&copy));
        }
    }

    fn bss(&mut self, tables: &Tables, fault: &FaultFact, file: MappedFileId) {
        self.faults.bss(tables, fault, file);
    }

    fn pages_read(&mut self, tables: &Tables, read: &PagesReadFact) {
        self.faults.pages_read(tables, read);
    }

    fn wait(&mut self, tables: &Tables, wait: &WaitFact) {
        self.waits.wait(tables, wait);
        if let Some(path) = &mut self.path {
            path.wait(tables, wait);
        }
    }

    fn request(&mut self, tables: &Tables, request: &RequestFact) {
        self.requests.request(tables, request);
    }

    fn process_ended(&mut self, tables: &Tables, process: ProcessId) {
        self.faults.process_ended(tables, process);
    }

    fn joined(&mut self, tables: &Tables, cause: &Cause) {
        if let Some(path) = &mut self.path {
            path.joined(tables, cause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_rows_round_trip() {
        let copy = FirstCopy {
            time: Timestamp(u64::MAX),
            thread: ThreadId(3),
            stack: StackId::new(0),
            place: FilePlace {
                file: MappedFileId(7),
                offset: FileOffset(0x5000),
                byte: FileOffset(0x5fff),
            },
            chain: ChainId(u32::MAX),
        };
        assert_eq!(Copied::from(&copy).copy(), copy);
        assert_eq!(size_of::<Copied>(), 32);
    }
}
