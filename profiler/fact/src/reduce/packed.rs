//! A page fault in 96 bytes, for keeping millions.

mod outliers;

pub use outliers::Outliers;

use std::cmp::Ordering;
use std::sync::Arc;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::fault::{Access, Failure, FaultClass, FaultFact, FaultWaits, FilePlace, MappedFileId, OtherFaults};
use crate::prune::Visit;
use crate::{StackId, ThreadId};
use base::addr::{Avma, FileOffset, Timestamp};

const FAILURES: [Option<Failure>; 5] = [
    None,
    Some(Failure::Segv),
    Some(Failure::Bus),
    Some(Failure::OutOfMemory),
    Some(Failure::Other),
];

const MAJOR: u32 = 1 << 9;
const IN_KERNEL: u32 = 1 << 10;
const REMOTE: u32 = 1 << 11;
const READ_AROUND_OFF: u32 = 1 << 12;
const HAS_PLACE: u32 = 1 << 13;
const HAS_STACK: u32 = 1 << 14;
const HAS_MAPPED: u32 = 1 << 15;
const HAS_RETRIES: u32 = 1 << 16;
const HAS_OTHERS: u32 = 1 << 17;

/// Index of a value in `all`, for compact rows.
pub fn place<T: PartialEq>(all: &[T], one: &T) -> u8 {
    let place = all.iter().position(|each| each == one).unwrap_or_default();
    u8::try_from(place).unwrap_or_default()
}

/// The value at that [`place`].
pub fn among<T: Copy, const N: usize>(all: &[T; N], place: u8) -> T {
    *all.get(usize::from(place)).unwrap_or(&all[0])
}

/// Number of times: latency and waits, in this order.
const TIMES: usize = 7;

/// A fault. Read it with the [`Outliers`] that it was built with.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct PackedFault {
    start: u64,
    address: u64,
    offset: u64,
    byte: u64,
    /// The mapped pages, if all are within 64; else where they are stored. With [`HAS_OTHERS`], where these are stored with
    /// the faults that it represents.
    mapped: u64,
    file: u32,
    thread: u32,
    stack: u32,
    /// Distance of the first mapped page from the fault's own; with [`outliers::LONG`], the pages are stored separately.
    mapped_before: u32,
    pages_read: u32,
    retries: u32,
    times: [u32; TIMES],
    /// As built by [`bits`]; absent values are 0 in the fields above.
    bits: u32,
}

impl PackedFault {
    /// Packs a fault.
    pub fn new(fault: &FaultFact, long: &mut Outliers) -> Self {
        let [lock, disk, other_read, blocked, preempted, reclaim] = fault.waits.parts();
        let times = [fault.latency, lock, disk, other_read, blocked, preempted, reclaim];
        let place = fault.place;
        let (mut mapped, mapped_before) = fault.mapped.map_or((0, 0), |mapped| long.keep_mapped(mapped));
        if has_others(fault) {
            mapped = long.keep_others(fault.others, mapped);
        }
        Self {
            start: fault.start.0,
            address: fault.address.0,
            offset: place.map_or(0, |place| place.offset.0),
            byte: place.map_or(0, |place| place.byte.0),
            mapped,
            file: place.map_or(0, |place| place.file.0),
            thread: fault.thread.0,
            stack: fault.stack.map_or(0, StackId::number),
            mapped_before,
            pages_read: fault.pages_read,
            retries: fault.retries.unwrap_or_default(),
            times: times.map(|time| long.keep_time(time)),
            bits: bits(fault),
        }
    }

    /// Visits its stack.
    pub fn visit(&mut self, visit: &mut dyn Visit) {
        if self.bits & HAS_STACK != 0 {
            let mut stack = StackId::new(self.stack);
            visit.stack(&mut stack);
            self.stack = stack.number();
        }
    }

    /// When it began.
    pub fn start(&self) -> Timestamp {
        Timestamp(self.start)
    }

    /// The faulting thread.
    pub fn thread(&self) -> ThreadId {
        ThreadId(self.thread)
    }

    /// Compares by thread and start; the few that began at the same time are unpacked.
    pub fn order(&self, other: &Self, long: &Outliers) -> Ordering {
        let rest = |fault: &Self| {
            let fault = fault.fact(long);
            (fault.latency, fault.address, fault.stack)
        };
        let began = |fault: &Self| (fault.thread, fault.start);
        began(self)
            .cmp(&began(other))
            .then_with(|| rest(self).cmp(&rest(other)))
    }

    /// The fault as it was passed in. Inlined: a caller that uses one field unpacks only that.
    #[inline]
    pub fn fact(&self, long: &Outliers) -> FaultFact {
        let time = |number: usize| long.time(self.times[number]);
        let has = |bit: u32| self.bits & bit != 0;
        let (others, mapped) = if has(HAS_OTHERS) {
            long.others(self.mapped)
        } else {
            (OtherFaults::default(), self.mapped)
        };
        FaultFact {
            start: Timestamp(self.start),
            latency: time(0),
            thread: ThreadId(self.thread),
            stack: has(HAS_STACK).then_some(StackId::new(self.stack)),
            address: Avma(self.address),
            access: Access::ALL[(self.bits & 3) as usize],
            class: (FaultClass::ALL.get((self.bits >> 2 & 15) as usize).copied()).unwrap_or_default(),
            place: has(HAS_PLACE).then_some(FilePlace {
                file: MappedFileId(self.file),
                offset: FileOffset(self.offset),
                byte: FileOffset(self.byte),
            }),
            major: has(MAJOR),
            in_kernel: has(IN_KERNEL),
            remote: has(REMOTE),
            failed: FAILURES.get((self.bits >> 6 & 7) as usize).copied().flatten(),
            waits: FaultWaits {
                lock: time(1),
                disk: time(2),
                other_read: time(3),
                blocked: time(4),
                preempted: time(5),
                reclaim: time(6),
            },
            retries: has(HAS_RETRIES).then_some(self.retries),
            mapped: long.mapped(mapped, self.mapped_before).filter(|_| has(HAS_MAPPED)),
            pages_read: self.pages_read,
            read_around_off: has(READ_AROUND_OFF),
            others,
        }
    }
}

/// Few faults represent others.
fn has_others(fault: &FaultFact) -> bool {
    fault.others != OtherFaults::default()
}

/// Two bits for access, four for class, three for failure, and flags.
fn bits(fault: &FaultFact) -> u32 {
    let flags = [
        (fault.major, MAJOR),
        (fault.in_kernel, IN_KERNEL),
        (fault.remote, REMOTE),
        (fault.read_around_off, READ_AROUND_OFF),
        (fault.place.is_some(), HAS_PLACE),
        (fault.stack.is_some(), HAS_STACK),
        (fault.mapped.is_some(), HAS_MAPPED),
        (fault.retries.is_some(), HAS_RETRIES),
        (has_others(fault), HAS_OTHERS),
    ];
    let kinds = u32::from(place(&Access::ALL, &fault.access))
        | u32::from(place(&FaultClass::ALL, &fault.class)) << 2
        | u32::from(place(&FAILURES, &fault.failed)) << 6;
    let set = flags.iter().filter(|(is, _)| *is);
    set.fold(kinds, |bits, (_, bit)| bits | bit)
}

/// Faults of one thread.
#[derive(Debug, Clone, Default)]
pub struct PackedFaults {
    rows: Vec<PackedFault>,
    long: Arc<Outliers>,
}

impl PackedFaults {
    /// From rows that were built with these times.
    pub fn new(rows: Vec<PackedFault>, long: Arc<Outliers>) -> Self {
        Self { rows, long }
    }

    /// Merged with those of another thread, starts ascending.
    #[must_use]
    pub fn with(mut self, others: Self) -> Self {
        if self.rows.is_empty() {
            return others;
        }
        if others.rows.is_empty() {
            return self;
        }
        if Arc::ptr_eq(&self.long, &others.long) {
            self.rows.extend(others.rows);
        } else {
            self = self.iter().chain(others.iter()).collect();
        }
        self
    }

    /// All of them as those of `thread`, ordered by start.
    #[must_use]
    pub fn of_thread(mut self, thread: ThreadId) -> Self {
        self.rows.iter_mut().for_each(|row| row.thread = thread.0);
        self.rows.sort_unstable_by(|a, b| a.order(b, &self.long));
        self
    }

    /// Number of faults.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All faults, in order.
    pub fn iter(&self) -> impl Iterator<Item = FaultFact> {
        self.refs().map(|fault| fault.fact())
    }

    /// As [`PackedFaults::iter`], in 16 bytes each.
    pub fn refs(&self) -> impl Iterator<Item = PackedRef<'_>> {
        let long = &*self.long;
        self.rows.iter().map(move |row| PackedRef { row, long })
    }

    /// Visits their stacks.
    pub fn visit(&mut self, visit: &mut dyn Visit) {
        self.rows.iter_mut().for_each(|row| row.visit(visit));
    }
}

impl PartialEq for PackedFaults {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for PackedFaults {}

impl FromIterator<FaultFact> for PackedFaults {
    fn from_iter<T: IntoIterator<Item = FaultFact>>(faults: T) -> Self {
        let mut long = Outliers::default();
        let rows = faults.into_iter().map(|fault| PackedFault::new(&fault, &mut long));
        let rows = rows.collect();
        Self::new(rows, Arc::new(long))
    }
}

/// A kept fault.
#[derive(Debug, Clone, Copy)]
pub struct PackedRef<'f> {
    row: &'f PackedFault,
    long: &'f Outliers,
}

impl PackedRef<'_> {
    /// When it began.
    pub fn start(&self) -> Timestamp {
        self.row.start()
    }

    /// The unpacked fault.
    pub fn fact(&self) -> FaultFact {
        self.row.fact(self.long)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use std::time::Duration;

    use super::outliers::{LONG, NONE};
    use super::*;
    use crate::fault::Mapped;

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
            (start, address, offset, byte) in any::<(u64, u64, u64, u64)>(),
            (access, class, failure, flags) in (0..4_usize, 0..12_usize, 0..5_usize, 0..16_u8),
            (file, stack) in any::<(Option<u32>, Option<u32>)>(),
            (retries, pages_read, thread) in any::<(Option<u32>, u32, u32)>(),
            mapped in prop::option::of((prop::collection::vec((0..600_usize, 0..80_usize), 0..4), 0..600_usize)),
        ) -> FaultFact {
            FaultFact {
                start: Timestamp(start),
                latency: times[0],
                thread: ThreadId(thread),
                stack: stack.map(StackId::new),
                address: Avma(address),
                access: Access::ALL[access],
                class: FaultClass::ALL[class],
                place: file.map(|file| FilePlace {
                    file: MappedFileId(file),
                    offset: FileOffset(offset),
                    byte: FileOffset(byte),
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
                mapped: mapped.map(|(runs, own)| {
                    Mapped::new(runs.iter().map(|(first, count)| *first..first + count).collect(), own)
                }),
                pages_read,
                read_around_off: flags & 8 != 0,
                others: OtherFaults {
                    count: pages_read / 2,
                    time: times[0].unwrap_or_default(),
                },
            }
        }
    }

    proptest! {
        #[test]
        fn packed_faults_round_trip(faults in prop::collection::vec(fault(), 1..20)) {
            let packed: PackedFaults = faults.iter().copied().collect();
            prop_assert_eq!(packed.iter().collect::<Vec<_>>(), faults);
        }
    }

    #[test]
    fn the_packed_size_matches_the_documentation() {
        assert_eq!(size_of::<PackedFault>(), 96);
    }
}
