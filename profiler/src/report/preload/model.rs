//! What a read costs on the recorded disk: a seek, and a time for each byte. Learned from the recording's own requests.

use std::time::Duration;

use crate::addr::ns;
use crate::fact::RequestFact;
use crate::fact::request::RequestSight;
use crate::report::metrics::median;

/// Reads up to this are nearly all seek.
const SMALL: u32 = 16 << 10;
/// Reads from this on are long enough to tell the time for a byte.
const LARGE: u32 = 96 << 10;
/// So many of both tell enough.
const ENOUGH: usize = 8;
/// Requests of each kind that are kept.
const MAX_KEPT: usize = 1 << 16;
/// Where the recording does not tell: 64 KiB.
const USUAL_GAP: u64 = 64 << 10;
/// A gap that is read over is a page at least and 1 MiB at most.
const GAPS: (u64, u64) = (4 << 10, 1 << 20);
/// Pages that are needed later than this are not read together with those that are needed now, where the recording does not tell.
const USUAL_HORIZON: Duration = Duration::from_millis(250);
/// Where it does, so many seeks: on a disk that seeks slowly, few long reads are worth the wait for what is needed first.
const SEEKS: u32 = 3000;
const HORIZONS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_mins(1));

/// Which pages are read together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Model {
    /// Bytes that are rather read than skipped.
    pub gap: u64,
    /// How much later a page may be needed to be read with the first one of a range.
    pub horizon: Duration,
    /// What the gap comes from; `None`: too few reads, or somebody's wish.
    pub learned: Option<Learned>,
}

/// A read takes `seek` and its bytes divided by `rate`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Learned {
    /// Time before the first byte.
    pub seek: Duration,
    /// Bytes a second.
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

/// Times of reads by the device.
#[derive(Debug, Default)]
pub struct Services {
    /// In ns.
    small: Vec<u64>,
    /// Bytes and ns.
    large: Vec<(u64, u64)>,
}

impl Services {
    /// Takes a read, if it was seen from begin to end.
    pub fn add(&mut self, request: &RequestFact) {
        let Some(service) = request.service.filter(|_| request.sight == RequestSight::Whole) else {
            return;
        };
        if request.bytes <= SMALL && self.small.len() < MAX_KEPT {
            self.small.push(ns(service));
        } else if request.bytes >= LARGE && self.large.len() < MAX_KEPT {
            self.large.push((u64::from(request.bytes), ns(service)));
        }
    }

    /// By medians: the service of small reads is the seek, what larger ones take more is the time of their bytes.
    pub fn model(&self) -> Model {
        if self.small.len() < ENOUGH || self.large.len() < ENOUGH {
            return Model::default();
        }
        let seek = median(&self.small);
        let rates = self.large.iter().map(|(bytes, time)| {
            // Where small reads take no less than large ones, the seek is at least no more than half of it.
            let moving = time.saturating_sub(seek).max(time / 2).max(1);
            // In kilobytes a second, to sort as integers.
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
        let mut request = crate::fact::made_up::request();
        (request.bytes, request.service) = (bytes, Some(Duration::from_nanos(service)));
        request
    }

    #[test]
    fn a_disk_is_learned_from_its_reads() {
        let mut services = Services::default();
        // 100 µs, and 1 ns a byte: 1 GB a second.
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
    fn few_reads_and_wild_ones_tell_nothing_silly() {
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
