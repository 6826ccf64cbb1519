//! The tiers of capture, what each can and cannot know, and a macro that runs each test once per tier.

use std::process::Command;
use std::sync::{OnceLock, PoisonError, RwLock};

use crate::harness::{Oracle, skip};

/// A method of tracing faults, as in `--fault-source`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// fentry and fexit of `handle_mm_fault` and `filemap_fault`, which see everything.
    Fentry,
    /// The tracepoints of the exception, and the software events at its completion.
    Tracepoint,
    /// The software events alone.
    Perf,
}

/// Something that a tier may know of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knows {
    /// Faults without user registers.
    Remote,
    /// Faults that ended in a signal.
    Failed,
    /// Read, write or execute.
    Access,
    /// The duration and its parts, and whether the fault waited.
    Latency,
    /// Mappings that mremap moved.
    MovedMappings,
    /// Whether a page of 2 MiB was mapped instead of 4 KiB pages.
    TransparentHugePages,
    /// Every class.
    Class,
}

/// What each tier cannot know, and why. A test asserts only that the tier marks such a value as unknown; all other values must be exact.
const UNKNOWN: &[(Tier, Knows, &str)] = &[
    (
        Tier::Tracepoint,
        Knows::Remote,
        "get_user_pages raises no exception and no software event",
    ),
    (
        Tier::Tracepoint,
        Knows::TransparentHugePages,
        "the exception precedes the page, and its completion does not report the size",
    ),
    (Tier::Perf, Knows::Remote, "get_user_pages raises no software event"),
    (
        Tier::Perf,
        Knows::Failed,
        "the events of minor and major faults only cover faults that succeed",
    ),
    (Tier::Perf, Knows::Access, "the error code is not in the event"),
    (Tier::Perf, Knows::Latency, "the event only has the time of the end"),
    (Tier::Perf, Knows::MovedMappings, "perf has no record for mremap"),
    (Tier::Perf, Knows::TransparentHugePages, "the size is not in the event"),
    (
        Tier::Perf,
        Knows::Class,
        "without the access, similar classes cannot be distinguished",
    ),
];

impl Tier {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fentry => "fentry",
            Self::Tracepoint => "tracepoint",
            Self::Perf => "perf",
        }
    }

    /// Whether the tier can know this.
    pub fn knows(self, what: Knows) -> bool {
        !UNKNOWN
            .iter()
            .any(|(tier, unknown, _)| *tier == self && *unknown == what)
    }

    /// Whether this tier may report the class `said` for a fault of the class `truth`.
    pub fn takes_class(self, truth: &str, said: &str) -> bool {
        said == truth
            || (!self.knows(Knows::Class) && said == "unknown")
            || (truth == "transparent-huge"
                && said
                    == if self.knows(Knows::TransparentHugePages) {
                        "huge"
                    } else {
                        "anonymous"
                    })
    }

    /// The reason why this kernel does not support the tier, found without ngmi.
    fn refused(self) -> Option<String> {
        match self {
            Self::Perf => None,
            Self::Tracepoint if cfg!(target_arch = "x86_64") => None,
            // On arm64 the exception is the entry of `do_mem_abort`.
            Self::Tracepoint | Self::Fentry => {
                static ANSWER: OnceLock<Option<String>> = OnceLock::new();
                ANSWER.get_or_init(ask_for_fentry).clone()
            }
        }
    }
}

/// Loads an fentry program independently of ngmi.
fn ask_for_fentry() -> Option<String> {
    let answer = Command::new(Oracle::c("faults/fentry").path).output().unwrap();
    (!answer.status.success()).then(|| String::from_utf8_lossy(&answer.stdout).trim().to_owned())
}

/// A lock that tests hold exclusively if no other test may run at the same time.
static MACHINE: RwLock<()> = RwLock::new(());

/// Runs the test in this tier in parallel with other tests, or skips and counts it.
pub fn run(tier: Tier, judge: fn(Tier)) {
    let _shared = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    run_here(tier, judge);
}

/// Like [`run`], but with no other test at the same time.
pub fn run_alone(tier: Tier, judge: fn(Tier)) {
    let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
    run_here(tier, judge);
}

/// Runs a test that belongs to no tier, with no other test at the same time.
pub fn alone(test: impl FnOnce()) {
    let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
    test();
}

fn run_here(tier: Tier, judge: fn(Tier)) {
    skip::needs_capture!();
    let asked = std::env::var("NGMI_FAULT_SOURCE").unwrap_or_default();
    if !asked.is_empty() && !asked.split(',').any(|name| name == tier.name()) {
        skip::skip(&format!("tier {}: NGMI_FAULT_SOURCE selects {asked}", tier.name()));
    } else if let Some(reason) = tier.refused() {
        skip::skip(&format!("tier {}: {reason}", tier.name()));
    } else {
        judge(tier);
    }
}

/// Turns each of these functions into a test per tier: `NAME::fentry`, `NAME::tracepoint` and `NAME::perf`. After `alone:`, no other test runs
/// at the same time.
macro_rules! in_each_tier {
    (alone: $($judge:ident),* $(,)?) => {
        $crate::tier::in_each_tier!(@ run_alone: $($judge),*);
    };
    (@ $run:ident: $($judge:ident),*) => {
        $(mod $judge {
            use crate::tier::{Tier, $run};

            #[test]
            fn fentry() {
                $run(Tier::Fentry, super::$judge);
            }

            #[test]
            fn tracepoint() {
                $run(Tier::Tracepoint, super::$judge);
            }

            #[test]
            fn perf() {
                $run(Tier::Perf, super::$judge);
            }
        })*
    };
    ($($judge:ident),* $(,)?) => {
        $crate::tier::in_each_tier!(@ run: $($judge),*);
    };
}
pub(crate) use in_each_tier;
