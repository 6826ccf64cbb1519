//! Options that are one of some words.

use std::str::FromStr;

use clap::ValueEnum;

use crate::report::order::Format;

/// `--faults`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum FaultsArg {
    /// All page faults; frequent writes to anonymous memory are sampled (totals stay exact)
    #[default]
    Auto,
    /// Every page fault
    All,
    /// Faults that the kernel counts as major, or that waited for a disk
    Major,
    /// Faults in file mappings
    File,
    /// No page faults
    Off,
}

/// `--block`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum BlockArg {
    /// Requests of all devices, from any process
    #[default]
    All,
    /// No block requests
    Off,
}

/// `--gecko`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum GeckoArg {
    /// If the command is Firefox
    #[default]
    Auto,
    /// Whatever the command is
    On,
    /// Whatever the command is, and with messages between processes
    Ipc,
    /// Never
    Off,
}

/// `--fault-source`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum FaultSourceArg {
    /// The best available hooks
    #[default]
    Auto,
    /// fentry and fexit of `handle_mm_fault`
    Fentry,
    /// Tracepoints of the exceptions, and perf's software events at the end
    Tracepoint,
    /// perf's software events only: no latency
    Perf,
}

/// What `--cold` evicts from the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Cold {
    /// Pages of the files that the command will use
    Files,
    /// Everything that the machine has cached
    System,
}

/// `--format` of `ngmi order`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum LinkerArg {
    /// `ld.lld --symbol-ordering-file`
    #[default]
    Lld,
    /// `ld.gold --section-ordering-file`
    Gold,
    /// `llvm-bolt --reorder-functions=user --function-order`
    Bolt,
}

impl From<LinkerArg> for Format {
    fn from(linker: LinkerArg) -> Self {
        match linker {
            LinkerArg::Lld => Self::Lld,
            LinkerArg::Gold => Self::Gold,
            LinkerArg::Bolt => Self::Bolt,
        }
    }
}

/// Parses a whole number; the standard library's error names a digit.
///
/// # Errors
/// When the text is something else, or too large.
pub fn whole<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "give a whole number")
}
