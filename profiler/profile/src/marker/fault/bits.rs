//! The part of a fault's payload that only the reader uses, packed into an integer: kinds, flags,
//! and which values are known.
//!
//! From the lowest bit: class (4 bits, index in [`FaultClass::ALL`]), access (2), failure (3, 0:
//! none), major, in the kernel, another process's memory, read-around off, known parts of the
//! latency (6, in the order of [`known_parts`]), known retries, known mapped pages.

use std::time::Duration;

use base::addr::{Avma, Timestamp};
use fact::fault::{Access, Failure, FaultClass, FaultWaits, OtherFaults};
use fact::{FaultFact, ThreadId};

/// Number of latency parts.
const PARTS: usize = 6;
/// Number of bits in use.
const WIDTH: u32 = 21;

/// Which zeros of a payload are known values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownZeros {
    /// The latency parts, in the order of [`known_parts`].
    pub parts: [bool; PARTS],
    /// Whether attempts were counted.
    pub retries: bool,
    /// Whether the mapped pages are known: if none are given, only its own.
    pub mapped: bool,
}

/// The parts of a latency in the order of their bits.
pub fn known_parts(waits: &mut FaultWaits) -> [&mut Option<Duration>; PARTS] {
    let FaultWaits {
        lock,
        disk,
        other_read,
        blocked,
        preempted,
        reclaim,
    } = waits;
    [lock, disk, other_read, blocked, preempted, reclaim]
}

/// Packs a fault's kinds, flags and known values.
pub fn encode(fault: &FaultFact) -> u64 {
    let place = |found: Option<usize>| found.unwrap_or(0) as u64;
    let class = place(FaultClass::ALL.iter().position(|class| *class == fault.class));
    let access = place(Access::ALL.iter().position(|access| *access == fault.access));
    let failure = fault.failed.map_or(0, |failed| {
        1 + place(Failure::ALL.iter().position(|failure| *failure == failed))
    });
    let mut bits = class | access << 4 | failure << 6;
    let mut waits = fault.waits;
    let flags = [fault.major, fault.in_kernel, fault.remote, fault.read_around_off];
    let known = known_parts(&mut waits).map(|part| part.is_some());
    let known = known
        .into_iter()
        .chain([fault.retries.is_some(), fault.mapped.is_some()]);
    let flags = flags.into_iter().chain(known);
    for (flag, bit) in flags.zip(9..) {
        bits |= u64::from(flag) << bit;
    }
    bits
}

/// Unpacks the bits into an otherwise empty fault; `None` for bits that [`encode`] never produces.
pub fn decode(bits: u64) -> Option<(FaultFact, KnownZeros)> {
    let index = |shift: u32, width: u32| usize::try_from(bits >> shift & ((1 << width) - 1)).ok();
    let flag = |bit: u32| bits >> bit & 1 == 1;
    let failed = match index(6, 3)?.checked_sub(1) {
        None => None,
        Some(place) => Some(*Failure::ALL.get(place)?),
    };
    let mut known = KnownZeros {
        parts: [false; PARTS],
        retries: flag(WIDTH - 2),
        mapped: flag(WIDTH - 1),
    };
    for (part, bit) in known.parts.iter_mut().zip(13..) {
        *part = flag(bit);
    }
    let fault = FaultFact {
        start: Timestamp(0),
        latency: None,
        thread: ThreadId(0),
        stack: None,
        address: Avma(0),
        access: *Access::ALL.get(index(4, 2)?)?,
        class: *FaultClass::ALL.get(index(0, 4)?)?,
        place: None,
        major: flag(9),
        in_kernel: flag(10),
        remote: flag(11),
        failed,
        waits: FaultWaits::default(),
        retries: None,
        mapped: None,
        pages_read: 0,
        read_around_off: flag(12),
        others: OtherFaults::default(),
    };
    (bits >> WIDTH == 0).then_some((fault, known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fact::fault::Mapped;

    #[test]
    fn decoded_bits_encode_to_the_same_bits() {
        let mut decoded = 0;
        for bits in 0..1 << WIDTH {
            let Some((mut fault, known)) = decode(bits) else {
                continue;
            };
            decoded += 1;
            for (part, known) in known_parts(&mut fault.waits).into_iter().zip(known.parts) {
                *part = known.then_some(Duration::ZERO);
            }
            fault.retries = known.retries.then_some(0);
            fault.mapped = known.mapped.then(Mapped::own);
            assert_eq!(encode(&fault), bits);
        }
        // Classes, accesses, failures including none, flags.
        assert_eq!(decoded, (12 * 4 * 5) << 12);
        assert!(decode(1 << WIDTH).is_none() && decode(15).is_none() && decode(5 << 6).is_none());
    }
}
