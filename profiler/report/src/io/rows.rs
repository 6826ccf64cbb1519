//! Collects every request of a recording. Requests arrive in completion order but reports need them by start, and names
//! are known only after the last request.

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};

use super::kept::{PartRow, RequestRow, Requests, WaitedRow};
use crate::sorted::{self, Scratch, Sorted};
use base::addr::{PAGE, Timestamp};
use base::event::FileId;
use base::intern::Interner;
use fact::fault::PageRange;
use fact::reduce::pages::{PageSet, Pages};
use fact::request::{BioSource, DeviceId, Operation};
use fact::{
    BioFact, Cause, EffectKind, EventKind, FactSink, FaultFact, MappedFileId, Mark, PagesReadFact, Reason, RequestFact,
    SampleFact, StackId, Tables, ThreadId, WaitFact, WaitReason,
};

/// Pending waits that are kept until the request that ended them is known.
const MAX_WAITS: usize = 1 << 20;
/// Memory limit in bytes for the sets of pages read.
const MAX_PAGES: usize = 1 << 28;
/// Files with such a set.
const MAX_FILES: usize = 1 << 20;

/// A part of a request: [`BioFact`] with an index for its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// When the bio was queued.
    pub time: Timestamp,
    /// Process ID (thread group) of the submitter.
    pub pid: u32,
    /// Thread ID of the submitter.
    pub tid: u32,
    /// The submitter's name: index into [`Facts::names`].
    pub name: u32,
    /// The submitting thread, if it is recorded.
    pub thread: Option<ThreadId>,
    /// Stack of the submitter.
    pub stack: Option<StackId>,
    /// Size in bytes.
    pub bytes: u32,
    /// File that is read or written.
    pub file: Option<MappedFileId>,
    /// Offset of the first byte in the file.
    pub offset: Option<u64>,
    /// Source or destination of the bytes.
    pub source: BioSource,
    /// Submitted within a page fault.
    pub in_fault: bool,
    /// Number of the system call that submitted it.
    pub call: Option<u32>,
}

/// A request with its parts, as reports read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The request without its bios.
    pub request: RequestFact,
    /// The bios, by sector.
    pub parts: Vec<Part>,
    /// Time that threads waited for the request, in ns.
    pub waited_ns: u64,
}

/// Facts of a recording that a report on requests needs.
#[derive(Debug, Default)]
pub struct Facts {
    requests: Sorted<RequestRow>,
    parts: Sorted<PartRow>,
    waited: Sorted<WaitedRow>,
    /// Devices with at least one request.
    devices: FxHashSet<DeviceId>,
    /// Names of submitters.
    pub names: Interner<String>,
    /// Durations of waits that a request may have ended.
    waits: FxHashMap<(ThreadId, Timestamp), Duration>,
    /// Pages that requests read for faults.
    read_for_faults: FxHashMap<FileId, PageSet>,
    bytes: usize,
    /// How the files' pages were used.
    pub pages: Pages,
}

/// Requests ordered by start time.
#[derive(Debug)]
pub struct Ordered<'f> {
    requests: sorted::Ordered<'f, RequestRow>,
    parts: sorted::Ordered<'f, PartRow>,
    waited: sorted::Ordered<'f, WaitedRow>,
}

impl Ordered<'_> {
    /// Iterates over all requests from the first; can be called repeatedly.
    pub fn iter(&self) -> impl Iterator<Item = Asked> {
        Requests::new(self.requests.iter(), self.parts.iter(), self.waited.iter())
    }
}

impl Facts {
    /// Keeps rows in memory up to a limit and the rest in `scratch`.
    pub fn beyond_memory(scratch: &Arc<dyn Scratch>) -> Self {
        Self {
            requests: Sorted::beyond_memory(scratch),
            parts: Sorted::beyond_memory(scratch),
            waited: Sorted::beyond_memory(scratch),
            ..Self::default()
        }
    }

    /// Number of requests.
    pub fn len(&self) -> usize {
        self.requests.len() as usize
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.requests.len() == 0
    }

    /// All requests, ordered by start time.
    pub fn ordered(&self) -> Ordered<'_> {
        Ordered {
            requests: self.requests.ordered(),
            parts: self.parts.ordered(),
            waited: self.waited.ordered(),
        }
    }

    /// Whether the device had a request.
    pub fn has_request(&self, device: DeviceId) -> bool {
        self.devices.contains(&device)
    }

    /// Pages of a file that requests read for faults.
    pub fn read_for_faults(&self, file: FileId) -> Option<&PageSet> {
        self.read_for_faults.get(&file)
    }

    fn part(&mut self, bio: &BioFact) -> Part {
        let name = self.names.number(bio.name.as_str(), usize::MAX, str::to_owned);
        Part {
            time: bio.time,
            pid: bio.pid,
            tid: bio.tid,
            name: name.unwrap_or(u32::MAX),
            thread: bio.thread,
            stack: bio.stack,
            bytes: bio.bytes,
            file: bio.file,
            offset: bio.offset,
            source: bio.source,
            in_fault: bio.in_fault,
            call: bio.call,
        }
    }

    fn note_pages(&mut self, tables: &Tables, part: &Part) {
        let file = part.file.and_then(|file| tables.files.get(file.index()));
        let (Some(file), Some(offset)) = (file, part.offset) else {
            return;
        };
        let known = self.read_for_faults.contains_key(&file.id);
        if self.bytes > MAX_PAGES || (!known && self.read_for_faults.len() >= MAX_FILES) {
            return;
        }
        let set = self.read_for_faults.entry(file.id).or_default();
        let before = set.bytes();
        let count = u64::from(part.bytes).div_ceil(PAGE);
        set.insert_range(PageRange {
            first: offset / PAGE,
            count: u32::try_from(count).unwrap_or(u32::MAX),
        });
        self.bytes = (self.bytes + set.bytes()).saturating_sub(before);
    }
}

impl FactSink for Facts {
    fn wants_stacks(&self, kind: EventKind) -> bool {
        kind == EventKind::Wait
    }

    fn sample(&mut self, _: &Tables, _: &SampleFact) {}

    fn mark(&mut self, _: &Tables, _: &Mark) {}

    fn fault(&mut self, tables: &Tables, fault: &FaultFact) {
        self.pages.fault(tables, fault);
    }

    fn pages_read(&mut self, tables: &Tables, read: &PagesReadFact) {
        self.pages.read(tables, read);
    }

    fn wait(&mut self, _: &Tables, wait: &WaitFact) {
        let may_be_joined = wait.reason == WaitReason::Disk || wait.in_fault;
        if may_be_joined && self.waits.len() < MAX_WAITS {
            self.waits.insert((wait.thread, wait.start), wait.off);
        }
    }

    fn request(&mut self, tables: &Tables, request: &RequestFact) {
        let rows = self.parts.len() as usize + request.bios.len();
        if self.requests.is_full() || rows > u32::MAX as usize {
            return;
        }
        for bio in &request.bios {
            let part = self.part(bio);
            if part.in_fault && part.source == BioSource::Cache && request.operation == Operation::Read {
                self.note_pages(tables, &part);
            }
            self.parts.push(PartRow::new(request.start, &part));
        }
        self.devices.insert(request.device);
        self.requests.push(RequestRow::new(request));
    }

    fn joined(&mut self, _: &Tables, cause: &Cause) {
        let effect = cause.effect;
        if let (EffectKind::Wait, Reason::Request(request)) = (effect.kind, cause.reason)
            && let Some(time) = self.waits.remove(&(effect.thread, effect.start))
        {
            self.waited.push(WaitedRow::new(&request, time));
        }
    }
}
