//! The tiers of capture, what each can and can't know, and each test once in each of them.

use std::process::Command;
use std::sync::{OnceLock, PoisonError, RwLock};

use crate::harness::{Oracle, skip};

/// A way to see faults, as `--fault-source` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// fentry and fexit of `handle_mm_fault` and `filemap_fault`: everything.
    Fentry,
    /// The exception's tracepoints and the software events of its completion.
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
    /// How long it took and why, and whether it waited.
    Latency,
    /// Mappings that mremap moved.
    MovedMappings,
    /// That a page of 2 MiB came, where pages of 4 KiB might have.
    TransparentHugePages,
    /// Every class.
    Class,
}

/// What each tier can't know, and why. A test then asserts that the tier says so, and nothing else of that column; everything else it
/// has to know exactly.
const UNKNOWN: &[(Tier, Knows, &str)] = &[
    (
        Tier::Tracepoint,
        Knows::Remote,
        "get_user_pages raises no exception and no software event",
    ),
    (
        Tier::Tracepoint,
        Knows::TransparentHugePages,
        "the exception comes before the page, and its completion does not say the size",
    ),
    (Tier::Perf, Knows::Remote, "get_user_pages raises no software event"),
    (
        Tier::Perf,
        Knows::Failed,
        "the events of minor and major faults are those of faults that succeed",
    ),
    (Tier::Perf, Knows::Access, "the error code is not in the event"),
    (Tier::Perf, Knows::Latency, "the event is one moment, at the end"),
    (Tier::Perf, Knows::MovedMappings, "no record of perf's says mremap"),
    (Tier::Perf, Knows::TransparentHugePages, "the size is not in the event"),
    (
        Tier::Perf,
        Knows::Class,
        "without the access one class is not told from its neighbour",
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

    /// It can know that.
    pub fn knows(self, what: Knows) -> bool {
        !UNKNOWN
            .iter()
            .any(|(tier, unknown, _)| *tier == self && *unknown == what)
    }

    /// What it says of a fault of that class may be this.
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

    /// Why this kernel does not have it, found without asking ngmi.
    fn refused(self) -> Option<String> {
        match self {
            Self::Perf => None,
            Self::Tracepoint if cfg!(target_arch = "x86_64") => None,
            Self::Tracepoint => Some("this architecture has no tracepoint for page faults".to_owned()),
            Self::Fentry => {
                static ANSWER: OnceLock<Option<String>> = OnceLock::new();
                ANSWER.get_or_init(ask_for_fentry).clone()
            }
        }
    }
}

/// Loads an fentry program of no ngmi's.
fn ask_for_fentry() -> Option<String> {
    let answer = Command::new(Oracle::c("faults/fentry").path).output().unwrap();
    (!answer.status.success()).then(|| String::from_utf8_lossy(&answer.stdout).trim().to_owned())
}

/// Tests that need the machine for themselves hold it alone.
static MACHINE: RwLock<()> = RwLock::new(());

/// Runs the test in that tier beside others, or says and counts that it is skipped.
pub fn run(tier: Tier, judge: fn(Tier)) {
    let _shared = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    run_here(tier, judge);
}

/// As [`run`], with no other test at the same time.
pub fn run_alone(tier: Tier, judge: fn(Tier)) {
    let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
    run_here(tier, judge);
}

/// Runs something that is of no tier, with no other test at the same time.
pub fn alone(test: impl FnOnce()) {
    let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
    test();
}

fn run_here(tier: Tier, judge: fn(Tier)) {
    skip::needs_capture!();
    let asked = std::env::var("NGMI_FAULT_SOURCE").unwrap_or_default();
    if !asked.is_empty() && !asked.split(',').any(|name| name == tier.name()) {
        skip::skip(&format!("tier {}: NGMI_FAULT_SOURCE asks for {asked}", tier.name()));
    } else if let Some(reason) = tier.refused() {
        skip::skip(&format!("tier {}: {reason}", tier.name()));
    } else {
        judge(tier);
    }
}

/// Makes each of these functions a test in each tier: `NAME::fentry`, `NAME::tracepoint` and `NAME::perf`; after `alone:`, with
/// no other test at the same time.
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
