//! Attaches the hooks of waits, and configures which system calls have a descriptor or a path.

use aya::{Btf as Types, Ebpf};
use profiler_common::config::{CALL_WORDS, CallSet, Config};
use profiler_common::switch::CALL_I386;
use serde::{Deserialize, Serialize};

use super::arch;
use super::btf::Btf;
use super::hook;
use base::event::HookStatus;

/// Waits of a thread that are examined however fast they follow each other: two milliseconds of work.
const BURST: u32 = 2000;

/// Which waits are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OffCpu {
    /// None.
    Off,
    /// Each that lasts at least this long, in ns; shorter ones are aggregated.
    AtLeast(u32),
}

impl Default for OffCpu {
    fn default() -> Self {
        Self::AtLeast(0)
    }
}

/// Configures what is recorded, and where the programs find the fields that they need.
pub fn configure(config: &mut Config, asked: OffCpu, types: &Btf) {
    config.calls_with_file = arch::calls_with_descriptor();
    config.calls_with_path = arch::calls_with_path();
    config.calls_with_path_second = arch::calls_with_path_second();
    let OffCpu::AtLeast(shortest) = asked else { return };
    (config.waits, config.wait_min, config.wait_burst) = (1, shortest, BURST);
    // For wakers only: the kernel writes half its list of symbols for it, which takes tens of milliseconds.
    let _ = arch::preempt_count(config, types); // otherwise it stays unknown
}

/// Which argument of a system call of `config` is a path.
pub fn path_argument(config: &Config, call: u32) -> Option<usize> {
    let is_among = |set: &CallSet| {
        let words = if call & CALL_I386 == 0 { &set.native } else { &set.i386 };
        let number = call & !CALL_I386;
        let word = words.get(usize::try_from(number / 32).unwrap_or(CALL_WORDS));
        word.is_some_and(|word| word >> (number % 32) & 1 != 0)
    };
    [&config.calls_with_path, &config.calls_with_path_second]
        .into_iter()
        .position(is_among)
}

/// The programs that it needs in addition to that of the switches, which are always traced.
pub fn programs(asked: OffCpu) -> &'static [&'static str] {
    match asked {
        OffCpu::Off => &[],
        OffCpu::AtLeast(_) => &["sched_waking", "contention_begin"],
    }
}

/// Attaches the hooks that report wakers, and locks of the kernel.
pub fn watch(ebpf: &mut Ebpf, types: &Types, asked: OffCpu, status: &mut Vec<HookStatus>) {
    for program in programs(asked) {
        let remedy = match *program {
            "contention_begin" => {
                "no action needed: locks of the kernel are known by their functions only (docs/waits.md); Linux 5.19 or newer has it"
            }
            _ => "no action needed: wakers are left out (docs/waits.md)",
        };
        status.extend(hook::attach_tracepoints(ebpf, types, ("switch", &[program]), remedy));
    }
}
