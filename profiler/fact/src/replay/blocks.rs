//! Matches bios to block requests: same device and operation, and the request's sectors contain the bio's.
//!
//! A bio waits here, by sector, until requests have taken all of it: one bio in one request, several merged into
//! one, or pieces of one in several:
//!
//! - Several bios in one request: each bio that the request's sectors contain.
//! - One bio split over several requests: each has its piece; the bio stays pending until nothing is left.
//! - Two bios at the same sectors: those queued before the issue; first one wholly within the request, then the older.
//! - A flush, which has no sectors: every bio that requested a flush by then, else the data to be written after it.
//! - Discards and writes of zeroes: as reads and writes, each separately.
//! - A device that takes bios (zram, dm, md): the request is the bio.

use std::collections::BTreeMap;
use std::ops::Range;

use profiler_common::block::{SECTOR, operation};
use rustc_hash::FxHashMap;

use crate::prune::{Visit, visit_bios};
use crate::request::BioFact;
use base::addr::Timestamp;
use base::event::{Device, Request};

/// Maximum number of waiting bios; the oldest is dropped first.
const MAX_WAITING: usize = 1 << 16;
/// Maximum number of bios examined for one request: those nearest to its end.
const MAX_LOOKED_AT: usize = 1 << 12;
/// Maximum number of bios in one request. The kernel merges a few hundred.
const MAX_BIOS: usize = 1 << 12;
/// Maximum number of gaps that requests leave in a bio: they take it from one end to the other, a few out of turn.
const MAX_GAPS: usize = 1 << 10;

/// What a bio and its request must have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Queue {
    device: Device,
    /// The operation; a flush for anything without sectors that requests one.
    operation: u32,
}

/// A bio, or the rest of it.
#[derive(Debug, Clone)]
struct Waiting {
    bio: BioFact,
    /// Operation and flags.
    operation: u32,
    /// Sectors that no request has taken yet; empty for a bio without sectors.
    left: Vec<Range<u64>>,
}

impl Waiting {
    fn end(&self) -> u64 {
        self.left.last().map_or(self.bio.sector, |range| range.end)
    }

    /// The part of the bio that covers these sectors.
    fn piece(&self, sectors: &Range<u64>) -> BioFact {
        let bio = &self.bio;
        let skipped = sectors.start.saturating_sub(bio.sector).saturating_mul(SECTOR);
        let left = u64::from(bio.bytes).saturating_sub(skipped);
        let bytes = sectors
            .end
            .saturating_sub(sectors.start)
            .saturating_mul(SECTOR)
            .min(left);
        BioFact {
            sector: sectors.start,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            offset: bio.offset.map(|offset| offset.saturating_add(skipped)),
            ..bio.clone()
        }
    }
}

/// Bios of one device and operation.
#[derive(Debug, Default)]
struct Bios {
    /// By first sector, then by arrival.
    waiting: BTreeMap<(u64, u64), Waiting>,
    /// Sectors of the longest waiting bio.
    longest: u64,
}

/// A bio that never completed within the recording.
#[derive(Debug, Clone)]
pub struct Unfinished {
    /// Its device.
    pub device: Device,
    /// Operation and flags.
    pub operation: u32,
    /// The part that no request took.
    pub bio: BioFact,
}

/// All waiting bios.
#[derive(Debug, Default)]
pub struct Blocks {
    queues: FxHashMap<Queue, Bios>,
    /// Queue and first sector of each bio, by arrival.
    places: BTreeMap<u64, (Queue, u64)>,
    arrivals: u64,
    forgotten: u64,
}

impl Blocks {
    /// Adds a bio; `operation` includes the flags.
    pub fn bio(&mut self, device: Device, operation: u32, bio: BioFact) {
        if self.places.len() >= MAX_WAITING {
            self.forget_oldest();
        }
        let queue = queue_of(device, operation, bio.bytes);
        let (sector, arrival) = (bio.sector, self.arrivals);
        self.arrivals += 1;
        let sectors = sectors_of(sector, bio.bytes);
        let bios = self.queues.entry(queue).or_default();
        bios.longest = bios.longest.max(sectors.end - sectors.start);
        let left = if sectors.is_empty() { Vec::new() } else { vec![sectors] };
        let waiting = Waiting { bio, operation, left };
        bios.waiting.insert((sector, arrival), waiting);
        self.places.insert(arrival, (queue, sector));
    }

    /// Visits the stacks that it keeps.
    pub fn visit(&mut self, visit: &mut dyn Visit) {
        let waiting = self.queues.values_mut().flat_map(|bios| bios.waiting.values_mut());
        visit_bios(waiting.map(|waiting| &mut waiting.bio), visit);
    }

    /// Removes and returns the bios, or pieces of bios, that make up a request, by sector.
    pub fn complete(&mut self, request: &Request) -> Vec<BioFact> {
        let queue = queue_of(request.device, request.operation, request.bytes);
        let wanted = sectors_of(request.sector, request.bytes);
        let mut bios = if wanted.is_empty() {
            self.without_sectors(queue, request)
        } else {
            self.with_sectors(queue, request, &wanted)
        };
        bios.sort_by_key(|bio| (bio.sector, bio.time));
        bios
    }

    /// Bios that never completed, by arrival.
    pub fn finish(mut self) -> Vec<Unfinished> {
        let mut unfinished = Vec::new();
        for (arrival, (queue, sector)) in std::mem::take(&mut self.places) {
            let waiting = self
                .queues
                .get_mut(&queue)
                .and_then(|bios| bios.waiting.remove(&(sector, arrival)));
            let Some(waiting) = waiting else { continue };
            let pieces: Vec<BioFact> = match waiting.left.as_slice() {
                [] => vec![waiting.bio],
                left => left.iter().map(|sectors| waiting.piece(sectors)).collect(),
            };
            let (device, operation) = (queue.device, waiting.operation);
            unfinished.extend(pieces.into_iter().map(|bio| Unfinished { device, operation, bio }));
        }
        unfinished
    }

    /// Number of bios dropped for lack of capacity.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    fn with_sectors(&mut self, queue: Queue, request: &Request, wanted: &Range<u64>) -> Vec<BioFact> {
        let Some(bios) = self.queues.get_mut(&queue) else {
            return Vec::new();
        };
        let latest = request.issued.unwrap_or(request.at.time);
        let from = wanted.start.saturating_sub(bios.longest);
        let near = bios.waiting.range((from, 0)..(wanted.end, 0)).rev().take(MAX_LOOKED_AT);
        let mut near: Vec<_> = near
            .filter(|(_, waiting)| waiting.end() > wanted.start && waiting.bio.time <= latest)
            .map(|(key, waiting)| {
                // If the request's first bio was seen, no bio of the request is older. An older one may have been
                // lost on its way.
                let is_older = request.queued.is_some_and(|queued| waiting.bio.time < queued);
                let reaches_out = waiting.bio.sector < wanted.start || waiting.end() > wanted.end;
                ((is_older, reaches_out, waiting.bio.time, key.1), *key)
            })
            .collect();
        near.sort_unstable();
        let mut open = vec![wanted.clone()];
        let mut taken = Vec::new();
        for (_, key) in near {
            if open.is_empty() || taken.len() >= MAX_BIOS {
                break;
            }
            let Some(waiting) = bios.waiting.get_mut(&key) else {
                continue;
            };
            let both = common(&waiting.left, &open);
            for piece in &both {
                taken.push(waiting.piece(piece));
                waiting.left = without(&waiting.left, piece);
                open = without(&open, piece);
            }
            let is_done = waiting.left.is_empty();
            if is_done || waiting.left.len() > MAX_GAPS {
                bios.waiting.remove(&key);
                self.places.remove(&key.1);
                self.forgotten += u64::from(!is_done);
            }
        }
        self.forget_if_empty(queue);
        taken
    }

    /// One flush serves all who requested one by then. Data to be written after a flush requests one too, and keeps
    /// waiting.
    fn without_sectors(&mut self, queue: Queue, request: &Request) -> Vec<BioFact> {
        let latest = request.issued.unwrap_or(request.at.time);
        let mut keys: Vec<(u64, u64)> = Vec::new();
        if let Some(bios) = self.queues.get(&queue) {
            let by_then = |(key, waiting): (&(u64, u64), &Waiting)| (waiting.bio.time <= latest).then_some(*key);
            keys = bios.waiting.iter().take(MAX_LOOKED_AT).filter_map(by_then).collect();
        }
        if queue.operation != operation::FLUSH {
            keys.sort_unstable_by_key(|key| key.1);
            keys.truncate(1);
        } else if keys.is_empty() {
            return self.with_flush_before(queue.device, latest);
        }
        let mut taken = Vec::new();
        for key in keys {
            let bios = self.queues.get_mut(&queue);
            taken.extend(
                bios.and_then(|bios| bios.waiting.remove(&key))
                    .map(|waiting| waiting.bio),
            );
            self.places.remove(&key.1);
        }
        self.forget_if_empty(queue);
        taken
    }

    fn with_flush_before(&self, device: Device, latest: Timestamp) -> Vec<BioFact> {
        let write = Queue {
            device,
            operation: operation::WRITE,
        };
        let writes = self
            .queues
            .get(&write)
            .into_iter()
            .flat_map(|bios| bios.waiting.values());
        let asks = |waiting: &&Waiting| waiting.operation & operation::PREFLUSH != 0 && waiting.bio.time <= latest;
        let oldest = writes
            .take(MAX_LOOKED_AT)
            .filter(asks)
            .min_by_key(|waiting| waiting.bio.time);
        let piece = |waiting: &Waiting| BioFact {
            bytes: 0,
            ..waiting.bio.clone()
        };
        oldest.map(piece).into_iter().collect()
    }

    fn forget_if_empty(&mut self, queue: Queue) {
        if self.queues.get(&queue).is_some_and(|bios| bios.waiting.is_empty()) {
            self.queues.remove(&queue);
        }
    }

    fn forget_oldest(&mut self) {
        let Some((arrival, (queue, sector))) = self.places.pop_first() else {
            return;
        };
        if let Some(bios) = self.queues.get_mut(&queue) {
            bios.waiting.remove(&(sector, arrival));
        }
        self.forget_if_empty(queue);
        self.forgotten += 1;
    }
}

fn queue_of(device: Device, operation: u32, bytes: u32) -> Queue {
    let number = operation & operation::MASK;
    let asks_for_flush = bytes == 0 && number == operation::WRITE;
    Queue {
        device,
        operation: if asks_for_flush { operation::FLUSH } else { number },
    }
}

fn sectors_of(sector: u64, bytes: u32) -> Range<u64> {
    sector..sector.saturating_add(u64::from(bytes).div_ceil(SECTOR))
}

/// The intersection of both lists of ranges, ascending.
fn common(left: &[Range<u64>], right: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut both = Vec::new();
    for one in left {
        for other in right {
            let range = one.start.max(other.start)..one.end.min(other.end);
            if !range.is_empty() {
                both.push(range);
            }
        }
    }
    both.sort_unstable_by_key(|range| range.start);
    both
}

/// The ranges without these sectors, ascending.
fn without(ranges: &[Range<u64>], gone: &Range<u64>) -> Vec<Range<u64>> {
    let mut left = Vec::new();
    for range in ranges {
        for part in [
            range.start..range.end.min(gone.start),
            range.start.max(gone.end)..range.end,
        ] {
            if !part.is_empty() {
                left.push(part);
            }
        }
    }
    left
}

#[cfg(test)]
mod tests;
