//! Cost of a read on the recorded disk: a seek plus a time per byte. Estimated from the recording's own requests.

use std::time::Duration;

use crate::metrics::median;
use base::addr::ns;
use fact::RequestFact;
use fact::request::RequestCoverage;

/// Reads up to this size in bytes consist almost entirely of the seek.
const SMALL: u32 = 16 << 10;
/// Reads from this size in bytes on are long enough to measure the time per byte.
const LARGE: u32 = 96 << 10;
/// Required number of small and of large reads.
const ENOUGH: usize = 8;
/// Limit of requests kept of each kind.
const MAX_KEPT: usize = 1 << 16;
/// Default gap, used if the recording has too few reads: 64 KiB.
const USUAL_GAP: u64 = 64 << 10;
/// Smallest and largest gap to read through: a page and 1 MiB.
const GAPS: (u64, u64) = (4 << 10, 1 << 20);
/// Default horizon: pages needed later than this are not read together with those needed now.
const USUAL_HORIZON: Duration = Duration::from_millis(250);
/// Horizon in seeks, if the seek time is known: on a disk with slow seeks, few long reads are worth the delay of the first pages.
const SEEKS: u32 = 3000;
const HORIZONS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_mins(1));

/// Parameters that decide which pages are read together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Model {
    /// Gap in bytes up to which reading is cheaper than skipping.
    pub gap: u64,
    /// How much later than the first page of a range a page may be needed to be read with it.
    pub horizon: Duration,
    /// Measurements behind the gap; `None`: too few reads, or set by the user.
    pub learned: Option<Learned>,
}

/// Measured disk: a read takes `seek` plus its bytes divided by `rate`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Learned {
    /// Time before the first byte.
    pub seek: Duration,
    /// Bytes per second.
    pub rate: f64,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            gap: USUAL_GAP,
            horizon: USUAL_HORIZON,
            learned: None,
        }
    }
}

/// Service times of reads.
#[derive(Debug, Default)]
pub struct Services {
    /// Times of small reads, in ns.
    small: Vec<u64>,
    /// Bytes and times in ns of large reads.
    large: Vec<(u64, u64)>,
}

impl Services {
    /// Adds a read if its start and end were both recorded.
    pub fn add(&mut self, request: &RequestFact) {
        let Some(service) = request.service.filter(|_| request.coverage == RequestCoverage::Full) else {
            return;
        };
        if request.bytes <= SMALL && self.small.len() < MAX_KEPT {
            self.small.push(ns(service));
        } else if request.bytes >= LARGE && self.large.len() < MAX_KEPT {
            self.large.push((u64::from(request.bytes), ns(service)));
        }
    }

    /// Estimates the model from medians: the time of small reads is the seek, the extra time of large ones is that of their bytes.
    pub fn model(&self) -> Model {
        if self.small.len() < ENOUGH || self.large.len() < ENOUGH {
            return Model::default();
        }
        let seek = median(&self.small);
        let rates = self.large.iter().map(|(bytes, time)| {
            // If small reads are as slow as large ones, assume that the seek takes at most half of the time.
            let moving = time.saturating_sub(seek).max(time / 2).max(1);
            // Kilobytes per second, which sort as integers.
            bytes.saturating_mul(1_000_000) / moving
        });
        let rate = median(&rates.collect::<Vec<_>>()) as f64 * 1e3;
        let seek = Duration::from_nanos(seek);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        // Both factors are positive, and the cast saturates.
        let gap = (seek.as_secs_f64() * rate) as u64;
        Model {
            gap: gap.clamp(GAPS.0, GAPS.1),
            horizon: seek.saturating_mul(SEEKS).clamp(HORIZONS.0, HORIZONS.1),
            learned: Some(Learned { seek, rate }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: u32, service: u64) -> RequestFact {
        let mut request = fact::fixtures::request();
        (request.bytes, request.service) = (bytes, Some(Duration::from_nanos(service)));
        request
    }

    #[test]
    fn a_disk_is_learned_from_its_reads() {
        let mut services = Services::default();
        // 100 µs, and 1 ns per byte: 1 GB/s.
        for _ in 0..ENOUGH {
            services.add(&read(4096, 100_000));
            services.add(&read(200_000, 300_000));
        }
        let model = services.model();
        assert_eq!(model.gap, 100_000);
        let learned = model.learned.unwrap();
        assert_eq!((learned.seek, learned.rate), (Duration::from_micros(100), 1e9));
    }

    #[test]
    fn few_or_extreme_reads_give_a_sane_model() {
        let mut services = Services::default();
        assert_eq!(services.model(), Model::default());
        for _ in 0..ENOUGH {
            services.add(&read(4096, u64::MAX));
            services.add(&read(u32::MAX, 0));
        }
        assert_eq!(services.model().gap, GAPS.1);
        assert_eq!(
            services.model().learned.map(|learned| learned.rate.is_finite()),
            Some(true)
        );
    }
}
