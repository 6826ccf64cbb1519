//! Losses: the kernel's counters and our own, in one table.

use aya::maps::{MapData, PerCpuArray};
use profiler_common::Loss;
use profiler_common::loss::LOSS_COUNT;

/// Counts since the start of the recording.
#[derive(Debug, Default)]
pub struct Losses {
    /// Counted in this process.
    ours: [u64; LOSS_COUNT],
    /// The kernel's counters as last read.
    kernel: [u64; LOSS_COUNT],
    written: [u64; LOSS_COUNT],
}

impl Losses {
    /// Counts a loss in this process.
    pub fn count(&mut self, loss: Loss, how_many: u64) {
        if let Some(count) = self.ours.get_mut(loss as usize) {
            *count = count.saturating_add(how_many);
        }
    }

    /// Replaces a count that the kernel keeps as a total.
    pub fn set(&mut self, loss: Loss, total: u64) {
        if let Some(count) = self.ours.get_mut(loss as usize) {
            *count = total;
        }
    }

    /// Reads the counters of the programs.
    pub fn read(&mut self, counters: &PerCpuArray<MapData, u64>) {
        for (index, count) in (0_u32..).zip(&mut self.kernel) {
            if let Ok(values) = counters.get(&index, 0) {
                *count = values.iter().sum();
            }
        }
    }

    /// All losses.
    pub fn total(&self) -> u64 {
        self.ours.iter().chain(&self.kernel).sum()
    }

    /// The counts that have changed since the last call.
    pub fn changed(&mut self) -> Vec<(Loss, u64)> {
        let mut changed = Vec::new();
        for loss in Loss::ALL {
            let index = loss as usize;
            let count = self.ours[index] + self.kernel[index];
            if count != self.written[index] {
                self.written[index] = count;
                changed.push((loss, count));
            }
        }
        changed
    }
}
