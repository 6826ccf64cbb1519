//! How long to sleep between two cycles: every cycle disturbs the program, and a late cycle loses data.

use std::time::{Duration, Instant};

use profiler_common::sample::SampleHead;
use profiler_common::stack::{MAX_KERNEL_FRAMES, MAX_USER_FRAMES, STACK_CLASSES, StackHead};

use super::cycle::Cycle;

/// Interval while idle: nothing happens except samples that all fit into the ring.
const IDLE: Duration = Duration::from_millis(50);
/// Interval while busy, when processes start and end: a file has to be opened before the last process that maps it is
/// gone.
const BUSY: Duration = Duration::from_millis(10);
/// Processes tend to start in groups: this many cycles after the last one stay busy.
const BUSY_CYCLES: u32 = 10;
/// The shortest interval, however fast the ring could fill.
const SHORTEST: Duration = Duration::from_millis(1);
/// After a cycle that found this many bytes of samples, the next one follows at once.
const FLOOD_BYTES: usize = 2 << 20;
/// Messages this close to each other are handled together: for instance tables, one for each library.
const TOGETHER: Duration = Duration::from_millis(2);
/// Bytes that a ring buffer adds to each record (`BPF_RINGBUF_HDR_SZ`), with rounding to 8 bytes.
const RECORD_HEADER: usize = 16;
/// A sample's own stacks, if neither was sent before.
const NEW_STACKS: usize = 2 * (size_of::<StackHead>() + RECORD_HEADER) + (MAX_USER_FRAMES + MAX_KERNEL_FRAMES) * 8;

/// Chooses the time to the next cycle.
#[derive(Debug, Clone, Copy)]
pub struct PollInterval {
    idle: Duration,
    busy_cycles: u32,
    /// Time by which the messages that arrive now must be handled.
    gathers_until: Option<Instant>,
}

impl PollInterval {
    /// Chooses intervals for a ring of `ring_bytes` that samples of `cpus` CPUs at `hz` fill, with stack copies of at
    /// most `stack_copy` bytes: even if every sample is as large as possible and sends new stacks, half of the ring
    /// stays free.
    pub fn new(ring_bytes: u32, cpus: usize, hz: u32, stack_copy: u32) -> Self {
        let stack = STACK_CLASSES
            .into_iter()
            .find(|class| *class >= stack_copy as usize)
            .unwrap_or(STACK_CLASSES[STACK_CLASSES.len() - 1]);
        let record = size_of::<SampleHead>() + stack + RECORD_HEADER + NEW_STACKS;
        let bytes_per_second = (record as u64)
            .saturating_mul(cpus as u64)
            .saturating_mul(u64::from(hz))
            .max(1);
        let half_full = u64::from(ring_bytes / 2).saturating_mul(1_000_000) / bytes_per_second;
        Self {
            idle: Duration::from_micros(half_full).clamp(SHORTEST, IDLE),
            busy_cycles: BUSY_CYCLES,
            gathers_until: None,
        }
    }

    /// How long to wait before the first cycle: processes are about to start.
    pub fn first(&self) -> Duration {
        self.idle.min(BUSY)
    }

    /// How long to wait, after a message, for the next one before the cycle. `None`: the cycle is due.
    pub fn gather(&mut self, now: Instant) -> Option<Duration> {
        let until = *self.gathers_until.get_or_insert(now + self.first());
        let left = until.saturating_duration_since(now).min(TOGETHER);
        (!left.is_zero()).then_some(left)
    }

    /// How long to wait after a cycle.
    pub fn after(&mut self, cycle: Cycle) -> Duration {
        self.gathers_until = None;
        self.busy_cycles = if cycle.has_news {
            BUSY_CYCLES
        } else {
            self.busy_cycles.saturating_sub(1)
        };
        if cycle.bytes > FLOOD_BYTES {
            Duration::ZERO
        } else if self.busy_cycles > 0 {
            self.idle.min(BUSY)
        } else {
            self.idle
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycle(bytes: usize, has_news: bool) -> Cycle {
        Cycle {
            records: 1,
            bytes,
            has_news,
        }
    }

    #[test]
    fn new_processes_and_floods_shorten_the_interval() {
        let mut poll = PollInterval::new(16 << 20, 2, 1000, 65_536);
        for _ in 0..BUSY_CYCLES {
            poll.after(cycle(10_000, false));
        }
        assert_eq!(poll.after(cycle(10_000, false)), IDLE);
        assert_eq!(poll.after(cycle(10_000, true)), BUSY);
        assert_eq!(poll.after(cycle(10_000, false)), BUSY);
        assert_eq!(poll.after(cycle(FLOOD_BYTES + 1, false)), Duration::ZERO);
        for _ in 0..BUSY_CYCLES {
            poll.after(cycle(0, false));
        }
        assert_eq!(poll.after(cycle(0, false)), IDLE);
    }

    #[test]
    fn messages_are_batched_for_at_most_a_short_cycle() {
        let mut poll = PollInterval::new(16 << 20, 2, 1000, 65_536);
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        for _ in 0..2 {
            assert_eq!(poll.gather(at(0)), Some(TOGETHER));
            assert_eq!(poll.gather(at(7)), Some(TOGETHER));
            assert_eq!(poll.gather(at(9)), Some(Duration::from_millis(1)));
            assert_eq!(poll.gather(at(10)), None);
            assert_eq!(poll.gather(at(11)), None);
            poll.after(cycle(0, false));
        }
    }

    #[test]
    fn a_flood_fills_at_most_half_the_ring_per_cycle() {
        for (ring, cpus, hz, copy) in [
            (16 << 20, 2, 1000, 65_536),
            (16 << 20, 4, 1000, 65_536),
            (256 << 20, 64, 1000, 65_536),
            (16 << 20, 2, 10_000, 65_536),
            (16 << 20, 4, 1000, 16_384),
        ] {
            let idle = PollInterval::new(ring, cpus, hz, copy).idle;
            let filled = idle.as_secs_f64() * f64::from(hz) * cpus as f64 * f64::from(copy);
            assert!(
                idle >= SHORTEST && filled <= f64::from(ring / 2),
                "{idle:?} fills {filled}"
            );
        }
        // No interval prevents a ring from filling up within a millisecond.
        assert_eq!(PollInterval::new(1 << 20, 64, 100_000, 65_536).idle, SHORTEST);
        assert_eq!(PollInterval::new(16 << 20, 0, 0, 0).idle, IDLE);
    }
}
