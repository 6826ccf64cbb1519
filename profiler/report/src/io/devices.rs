//! Per-device totals, latencies and queue depths, with the device's own statistics for comparison.

use serde::Serialize;

use crate::export::ns;
use fact::request::{BlockDevice, Operation, RequestCoverage};
use fact::{RequestFact, Tables};

/// Size in bytes of a sector in the kernel's statistics.
const SECTOR: u64 = 512;

/// Requests of one device.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct DeviceRow {
    /// Device name, e.g. `vda`.
    pub device: String,
    /// The device is built on other devices or a file, which receive the same requests again. Its requests are in no total.
    pub stacked: bool,
    /// Completed requests of every operation.
    pub requests: u64,
    /// Requests and bytes by operation, as recorded.
    pub done: Counts,
    /// The same from the device's own counters during the recording; `None`: the counters were not read.
    pub counted: Option<Counts>,
    /// Read-ahead requests.
    pub read_ahead: u64,
    /// Failed requests.
    pub errors: u64,
    /// How often requests were put back into the queue.
    pub requeues: u64,
    /// Bios beyond the first one of each request.
    pub merged: u64,
    /// Requests whose start was missed.
    pub unseen_start: u64,
    /// Requests still in flight when the recording ended; no other field counts them.
    pub unfinished: u64,
    /// Time from queueing until the device received the request.
    pub queue: Times,
    /// Time from the device receiving the request until its completion.
    pub service: Times,
    /// Sum of the queue depths that requests found, themselves included.
    #[serde(skip)]
    pub depths: u64,
    /// Number of requests with a known depth.
    #[serde(skip)]
    pub with_depth: u64,
    /// Largest queue depth.
    pub depth_max: u32,
}

/// Requests and bytes by operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// Number of reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Number of writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Number of discards.
    pub discards: u64,
    /// Bytes discarded.
    pub discarded_bytes: u64,
    /// Flushes of the device's cache; `None`: old kernels do not count them.
    pub flushes: Option<u64>,
}

impl Counts {
    /// Reads the device's counters, which have the order of /sys/block/NAME/stat (Documentation/block/stat.rst).
    fn of_device(device: &BlockDevice) -> Option<Self> {
        let number = |place: usize| device.counted.get(place).copied();
        let bytes = |place| number(place).map(|sectors| sectors.saturating_mul(SECTOR));
        Some(Self {
            reads: number(0)?,
            read_bytes: bytes(2)?,
            writes: number(4)?,
            written_bytes: bytes(6)?,
            discards: number(11).unwrap_or(0),
            discarded_bytes: bytes(13).unwrap_or(0),
            flushes: number(15),
        })
    }

    /// Whether requests and bytes of both are equal; flushes are compared only if both count them.
    pub fn agrees(&self, other: &Self) -> bool {
        let flushes = self.flushes.is_none() || other.flushes.is_none() || self.flushes == other.flushes;
        flushes
            && Self { flushes: None, ..*self }
                == Self {
                    flushes: None,
                    ..*other
                }
    }
}

/// Latencies and their distribution.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Times {
    /// Number of requests with a known time.
    pub requests: u64,
    /// Sum of the times, in ns.
    pub total_ns: u64,
    /// Longest time, in ns.
    pub longest_ns: u64,
    /// Element i counts the requests that took 2^i to 2^(i+1) ns, up to the last nonzero count; 0 ns counts as 1 ns.
    pub histogram: Vec<u64>,
}

impl Times {
    fn add(&mut self, ns: u64) {
        self.requests += 1;
        self.total_ns = self.total_ns.saturating_add(ns);
        self.longest_ns = self.longest_ns.max(ns);
        let place = ns.max(1).ilog2() as usize;
        if self.histogram.len() <= place {
            self.histogram.resize(place + 1, 0);
        }
        if let Some(count) = self.histogram.get_mut(place) {
            *count += 1;
        }
    }

    /// Mean time in ns; `None` if there are no requests.
    pub fn mean_ns(&self) -> Option<u64> {
        self.total_ns.checked_div(self.requests)
    }

    /// Percentile in ns: upper bound of the histogram step in which `percent` of the requests were complete, or the longest
    /// time if that is less. `None` if there are no requests.
    pub fn within_ns(&self, percent: u64) -> Option<u64> {
        let wanted = self.requests.saturating_mul(percent).div_ceil(100).max(1);
        let mut sum = 0;
        let step = self.histogram.iter().position(|count| {
            sum += count;
            sum >= wanted
        })?;
        let end = u32::try_from(step + 1).ok().and_then(|bits| 1_u64.checked_shl(bits));
        Some(end.unwrap_or(u64::MAX).min(self.longest_ns))
    }
}

impl DeviceRow {
    /// Starts a row without requests.
    pub fn new(device: &BlockDevice) -> Self {
        Self {
            device: device.name.clone(),
            stacked: device.is_stacked(),
            counted: Counts::of_device(device),
            done: Counts {
                flushes: Some(0),
                ..Counts::default()
            },
            ..Self::default()
        }
    }

    /// Counts a request that was built from `bios` bios.
    pub fn add(&mut self, request: &RequestFact, bios: usize) {
        if request.coverage == RequestCoverage::EndMissed {
            self.unfinished += 1;
            return;
        }
        let bytes = u64::from(request.bytes);
        let done = &mut self.done;
        self.requests += 1;
        let (count, sum) = match request.operation {
            Operation::Read => (&mut done.reads, &mut done.read_bytes),
            // The device counts zeroed ranges as writes.
            Operation::Write | Operation::WriteZeroes => (&mut done.writes, &mut done.written_bytes),
            Operation::Discard => (&mut done.discards, &mut done.discarded_bytes),
            Operation::Flush => (done.flushes.get_or_insert(0), &mut 0),
            Operation::Other => (&mut 0, &mut 0),
        };
        *count += 1;
        *sum = sum.saturating_add(bytes);
        self.read_ahead += u64::from(request.kind.read_ahead);
        self.errors += u64::from(request.error != 0);
        self.requeues = self.requeues.saturating_add(u64::from(request.requeues));
        self.merged += bios.saturating_sub(1) as u64;
        self.unseen_start += u64::from(request.coverage == RequestCoverage::StartMissed);
        if let Some(time) = request.queued {
            self.queue.add(ns(time));
        }
        if let Some(time) = request.service {
            self.service.add(ns(time));
        }
        if request.depth > 0 {
            self.depths = self.depths.saturating_add(u64::from(request.depth));
            self.with_depth += 1;
            self.depth_max = self.depth_max.max(request.depth);
        }
    }

    /// Mean queue depth in tenths, each request included in its own; `None` if no depth is known.
    pub fn depth_tenths(&self) -> Option<u64> {
        self.depths.saturating_mul(10).checked_div(self.with_depth)
    }

    /// Whether the recorded requests match the device's counters; `None`: the counters were not read.
    pub fn agrees(&self) -> Option<bool> {
        self.counted.map(|counted| counted.agrees(&self.done))
    }
}

/// One empty row per device, in the order of the tables.
pub fn rows(tables: &Tables) -> Vec<DeviceRow> {
    tables.devices.iter().map(DeviceRow::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_spread_by_powers_of_two() {
        let mut times = Times::default();
        for ns in [0, 1, 2, 3, 4, 1000, 1023, 1024] {
            times.add(ns);
        }
        assert_eq!(times.histogram, [2, 2, 1, 0, 0, 0, 0, 0, 0, 2, 1]);
        assert_eq!(times.histogram.iter().sum::<u64>(), times.requests);
        assert_eq!((times.mean_ns(), times.longest_ns), (Some(3057 / 8), 1024));
        assert_eq!(
            (times.within_ns(50), times.within_ns(75), times.within_ns(99)),
            (Some(4), Some(1024), Some(1024))
        );
        assert_eq!(times.within_ns(0), Some(2));
        assert_eq!(Times::default().within_ns(50), None);
        times.add(u64::MAX);
        assert_eq!(times.within_ns(100), Some(u64::MAX));
    }

    #[test]
    fn device_statistics_are_in_sectors_and_may_be_short() {
        let device = |counted: &[u64]| BlockDevice {
            name: "vda".into(),
            counted: counted.to_vec(),
            ..BlockDevice::default()
        };
        let seen = Counts {
            reads: 3,
            read_bytes: 24 * 512,
            writes: 2,
            written_bytes: 16 * 512,
            flushes: Some(1),
            ..Counts::default()
        };
        let old = Counts::of_device(&device(&[3, 0, 24, 5, 2, 1, 16, 5, 0, 9, 9])).unwrap();
        assert!(seen.agrees(&old), "an old kernel counts neither discards nor flushes");
        let new = |flushes| device(&[3, 0, 24, 5, 2, 1, 16, 5, 0, 9, 9, 0, 0, 0, 0, flushes, 7]);
        assert!(seen.agrees(&Counts::of_device(&new(1)).unwrap()));
        assert!(!seen.agrees(&Counts::of_device(&new(2)).unwrap()));
        assert!(Counts::of_device(&device(&[1, 2])).is_none());
    }
}
