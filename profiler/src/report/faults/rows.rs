//! Every fault of a recording in 88 bytes: they arrive in the order in which they ended and are wanted by their start, and
//! names are known only when the last one has come.

use std::sync::Arc;
use std::time::Duration;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::addr::{Avma, FileOffset, Timestamp, ns};
use crate::fact::clues::Gather;
use crate::fact::dirty::Dirtied;
use crate::fact::fault::{Access, Failure, FaultClass, FaultFact, FaultWaits, FilePlace, MappedFileId, PageRange};
use crate::fact::pages::Pages;
use crate::fact::{FactSink, Mark, MarkKind, PagesReadFact, SampleFact, StackId, Tables, ThreadId};
use crate::report::sorted::{self, Ordered, Scratch, Sorted};

/// Stands for nothing.
const NONE: u32 = u32::MAX;
/// With the place of a time of 2.15 s or more, which is kept beside.
const LONG: u32 = 1 << 31;
/// Stands for "the tier can't tell".
const NO_RETRIES: u16 = u16::MAX;
const ACCESSES: [Access; 4] = [Access::Unknown, Access::Read, Access::Write, Access::Execute];
const FAILURES: [Option<Failure>; 5] = [
    None,
    Some(Failure::Segv),
    Some(Failure::Bus),
    Some(Failure::OutOfMemory),
    Some(Failure::Other),
];

/// Latency and waits, in this order.
const TIMES: usize = 7;

/// A fault, as it is kept.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct Row {
    start: u64,
    address: u64,
    byte: u64,
    around_first: u64,
    file: u32,
    /// From the page's start to the byte.
    in_page: u32,
    thread: u32,
    stack: u32,
    around_count: u32,
    pages_read: u32,
    times: [u32; TIMES],
    retries: u16,
    bits: u16,
}

/// Faults in the order in which they were handed in.
#[derive(Debug, Default)]
pub struct Rows {
    kept: Sorted<Row>,
    /// Seven a fault of 2.15 s at most: not many in the life of a thread.
    long: Vec<u64>,
}

impl sorted::Row for Row {
    fn key(&self) -> u64 {
        self.start
    }
}

impl Rows {
    /// In memory up to a limit, and beyond it there.
    pub fn beyond_memory(scratch: &Arc<dyn Scratch>) -> Self {
        Self {
            kept: Sorted::beyond_memory(scratch),
            long: Vec::new(),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.kept.len() as usize
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.kept.len() == 0
    }

    /// Bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        self.kept.bytes() + self.long.capacity() * size_of::<u64>()
    }

    /// Keeps a fault, whole but for retries beyond 65,534. False: there are four thousand million already.
    pub fn push(&mut self, fault: &FaultFact) -> bool {
        if self.kept.is_full() {
            return false;
        }
        let [lock, disk, other_read, blocked, preempted, reclaim] = fault.waits.parts();
        let times = [fault.latency, lock, disk, other_read, blocked, preempted, reclaim];
        let times = times.map(|time| self.short(time));
        let place = fault.place;
        let in_page = place.map_or(0, |place| place.byte.0.saturating_sub(place.offset.0));
        let row = Row {
            start: fault.start.0,
            address: fault.address.0,
            byte: place.map_or(0, |place| place.byte.0),
            around_first: fault.around.map_or(0, |around| around.first),
            file: place.map_or(NONE, |place| place.file.0),
            in_page: u32::try_from(in_page).unwrap_or(u32::MAX),
            thread: fault.thread.0,
            stack: fault.stack.map_or(NONE, |stack| stack.0),
            around_count: fault.around.map_or(NONE, |around| around.count),
            pages_read: fault.pages_read,
            times,
            retries: fault.retries.map_or(NO_RETRIES, |retries| {
                u16::try_from(retries).unwrap_or(u16::MAX).min(NO_RETRIES - 1)
            }),
            bits: bits(fault),
        };
        self.kept.push(row)
    }

    fn short(&mut self, time: Option<Duration>) -> u32 {
        let Some(time) = time else { return NONE };
        let ns = ns(time);
        if let Ok(ns @ ..LONG) = u32::try_from(ns) {
            return ns;
        }
        match u32::try_from(self.long.len()) {
            Ok(place) if place < NONE - LONG => {
                self.long.push(ns);
                LONG | place
            }
            // Beyond a century of such faults.
            _ => LONG - 1,
        }
    }

    /// The fault, as it was handed in.
    pub(super) fn fault(&self, row: &Row) -> FaultFact {
        let time = |number: usize| match row.times[number] {
            NONE => None,
            ns @ ..LONG => Some(Duration::from_nanos(u64::from(ns))),
            long => self.long.get((long - LONG) as usize).copied().map(Duration::from_nanos),
        };
        FaultFact {
            start: Timestamp(row.start),
            latency: time(0),
            thread: ThreadId(row.thread),
            stack: (row.stack != NONE).then_some(StackId(row.stack)),
            address: Avma(row.address),
            access: ACCESSES[usize::from(row.bits & 3)],
            class: (FaultClass::ALL.get(usize::from(row.bits >> 2 & 15)).copied()).unwrap_or_default(),
            place: (row.file != NONE).then(|| FilePlace {
                file: MappedFileId(row.file),
                offset: FileOffset(row.byte.saturating_sub(u64::from(row.in_page))),
                byte: FileOffset(row.byte),
            }),
            major: row.bits & 1 << 9 != 0,
            in_kernel: row.bits & 1 << 10 != 0,
            remote: row.bits & 1 << 11 != 0,
            failed: FAILURES.get(usize::from(row.bits >> 6 & 7)).copied().flatten(),
            waits: FaultWaits {
                lock: time(1),
                disk: time(2),
                other_read: time(3),
                blocked: time(4),
                preempted: time(5),
                reclaim: time(6),
            },
            retries: (row.retries != NO_RETRIES).then_some(u32::from(row.retries)),
            around: (row.around_count != NONE).then_some(PageRange {
                first: row.around_first,
                count: row.around_count,
            }),
            pages_read: row.pages_read,
            read_around_off: row.bits & 1 << 12 != 0,
        }
    }

    /// All faults, by the time at which they began.
    pub(super) fn ordered(&self) -> Ordered<'_, Row> {
        self.kept.ordered()
    }
}

/// Two bits of access, four of class, three of failure, and flags.
fn bits(fault: &FaultFact) -> u16 {
    fn position<T: PartialEq>(all: &[T], one: &T) -> u16 {
        let position = all.iter().position(|each| each == one).unwrap_or_default();
        u16::try_from(position).unwrap_or_default()
    }
    position(&ACCESSES, &fault.access)
        | position(&FaultClass::ALL, &fault.class) << 2
        | position(&FAILURES, &fault.failed) << 6
        | u16::from(fault.major) << 9
        | u16::from(fault.in_kernel) << 10
        | u16::from(fault.remote) << 11
        | u16::from(fault.read_around_off) << 12
}

/// A moment in the life of a program that a marker told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Milestone {
    /// When.
    pub time: Timestamp,
    /// Which thread told it.
    pub thread: ThreadId,
    /// A new program; else its first window.
    pub is_exec: bool,
}

/// What a report on faults keeps of a recording.
#[derive(Debug, Default)]
pub struct Facts {
    /// The faults.
    pub rows: Rows,
    /// Starts of programs and first windows.
    pub milestones: Vec<Milestone>,
    /// What became of the files' pages.
    pub pages: Pages,
    /// Who made copies of them.
    pub dirtied: Dirtied,
    /// What culprits are named by.
    pub clues: Gather,
    /// The source keeps no mappings: nobody knows which anonymous memory is `.bss`.
    pub is_without_mappings: bool,
}

impl Facts {
    /// Rows are in memory up to a limit, and beyond it there.
    pub fn beyond_memory(scratch: &Arc<dyn Scratch>) -> Self {
        Self {
            rows: Rows::beyond_memory(scratch),
            ..Self::default()
        }
    }
}

impl FactSink for Facts {
    fn sample(&mut self, _: &Tables, _: &SampleFact) {}

    fn mark(&mut self, _: &Tables, mark: &Mark) {
        let is_exec = match &mark.kind {
            MarkKind::Exec { .. } => true,
            MarkKind::Program { text } if is_first_window(text) => false,
            _ => return,
        };
        self.milestones.push(Milestone {
            time: mark.start,
            thread: mark.thread,
            is_exec,
        });
    }

    fn fault(&mut self, tables: &Tables, fault: &FaultFact) {
        self.pages.fault(tables, fault);
        self.dirtied.fault(tables, fault);
        self.clues.fault(tables, fault);
        self.rows.push(fault);
    }

    fn bss(&mut self, tables: &Tables, fault: &FaultFact, file: MappedFileId) {
        self.dirtied.bss(tables, fault, file);
    }

    fn pages_read(&mut self, tables: &Tables, read: &PagesReadFact) {
        self.pages.read(tables, read);
    }
}

/// A program's marker says that something can be seen now: `First paint`, `FirstContentfulPaint`, `first window`.
fn is_first_window(text: &str) -> bool {
    let mut letters = String::new();
    letters.extend(
        text.chars()
            .filter(char::is_ascii_alphanumeric)
            .take(24)
            .map(|c| c.to_ascii_lowercase()),
    );
    ["firstpaint", "firstcontentfulpaint", "firstwindow"]
        .iter()
        .any(|start| letters.starts_with(start))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn time() -> impl Strategy<Value = Option<Duration>> {
        let ns = prop_oneof![
            0..10_u64,
            u64::from(LONG) - 2..u64::from(LONG) + 2,
            u64::from(NONE) - 2..u64::from(NONE) + 2,
            any::<u64>()
        ];
        prop::option::of(ns.prop_map(Duration::from_nanos))
    }

    prop_compose! {
        fn fault()(
            times in prop::array::uniform7(time()),
            (start, address, page, in_page) in (any::<u64>(), any::<u64>(), 0..u64::MAX / 4096, 0..4096_u64),
            (access, class, failure, flags) in (0..4_usize, 0..12_usize, 0..5_usize, 0..16_u8),
            (file, stack) in (prop::option::of(0..u32::MAX), prop::option::of(0..u32::MAX)),
            (retries, pages_read, thread) in (prop::option::of(0..65_535_u32), any::<u32>(), any::<u32>()),
            around in prop::option::of((any::<u64>(), 0..u32::MAX)),
        ) -> FaultFact {
            FaultFact {
                start: Timestamp(start),
                latency: times[0],
                thread: ThreadId(thread),
                stack: stack.map(StackId),
                address: Avma(address),
                access: ACCESSES[access],
                class: FaultClass::ALL[class],
                place: file.map(|file| FilePlace {
                    file: MappedFileId(file),
                    offset: FileOffset(page * 4096),
                    byte: FileOffset(page * 4096 + in_page),
                }),
                major: flags & 1 != 0,
                in_kernel: flags & 2 != 0,
                remote: flags & 4 != 0,
                failed: FAILURES[failure],
                waits: FaultWaits {
                    lock: times[1],
                    disk: times[2],
                    other_read: times[3],
                    blocked: times[4],
                    preempted: times[5],
                    reclaim: times[6],
                },
                retries,
                around: around.map(|(first, count)| PageRange { first, count }),
                pages_read,
                read_around_off: flags & 8 != 0,
            }
        }
    }

    proptest! {
        #[test]
        fn a_row_is_the_fault(faults in prop::collection::vec(fault(), 1..20)) {
            let mut rows = Rows::default();
            for fault in &faults {
                prop_assert!(rows.push(fault));
            }
            let mut faults = faults;
            faults.sort_by_key(|fault| fault.start);
            let kept: Vec<FaultFact> = rows.ordered().iter().map(|row| rows.fault(&row)).collect();
            prop_assert_eq!(kept, faults);
        }
    }

    #[test]
    fn a_row_takes_what_the_header_says() {
        assert_eq!(size_of::<Row>(), 88);
    }

    #[test]
    fn first_windows_are_known_by_their_names() {
        for text in ["First paint", "FirstContentfulPaint — after 812ms", "first_window"] {
            assert!(is_first_window(text), "{text}");
        }
        assert!(!is_first_window("the first paint") && !is_first_window(""));
    }
}
