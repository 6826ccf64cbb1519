//! Pages copied because a fork had shared them, by program and writing function.

use std::time::Duration;

use rustc_hash::FxHashMap;

use super::MAX_KEYS;
use crate::fault::{FaultClass, FaultFact, PageRange};
use crate::prune::{Visit, visit_keys};
use crate::reduce::pages::{PageSet, innermost};
use crate::reduce::sums::summed;
use crate::{FrameId, ProcessId, StackId, Tables, upwards};
use base::addr::PAGE;

/// Pages that the processes of one name copied because a fork had shared them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copies {
    /// The process; of ended ones, the first with this name.
    pub process: ProcessId,
    /// Frame of the write: the innermost one outside the C library; if there is none, the innermost user frame.
    pub frame: Option<FrameId>,
    /// Number of pages.
    pub pages: u64,
    /// Those of them that were counted, not recorded: where they were copied is an estimate.
    pub counted: u64,
    /// Total time of the faults.
    pub time: Duration,
}

summed!(Copies, by process: ProcessId, frame: Option<FrameId>; add pages, counted, time);

/// A sum of copies.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    pages: u64,
    counted: u64,
    time: Duration,
}

impl Sum {
    fn join(&mut self, other: Self) {
        self.pages = self.pages.saturating_add(other.pages);
        self.counted = self.counted.saturating_add(other.counted);
        self.time = self.time.saturating_add(other.time);
    }
}

/// By frame.
type Sums = FxHashMap<Option<FrameId>, Sum>;

/// Collects copies.
#[derive(Debug, Default)]
pub struct CopiesOf {
    living: FxHashMap<ProcessId, Sums>,
    /// By the first process of each name.
    ended: FxHashMap<ProcessId, Sums>,
    names: FxHashMap<String, ProcessId>,
    /// Number of sums.
    sums: usize,
    /// Pages that map the page of zeroes: replacing it is not a copy due to a fork.
    zeroes: FxHashMap<ProcessId, PageSet>,
}

impl CopiesOf {
    /// A process ended: keeps only its sums.
    pub fn ended(&mut self, tables: &Tables, process: ProcessId) {
        self.zeroes.remove(&process);
        let Some(own) = self.living.remove(&process) else {
            return;
        };
        let name = tables
            .processes
            .get(process.index())
            .map_or("", |process| &*process.name);
        let first = match self.names.get(name) {
            Some(first) => *first,
            None => *self.names.entry(name.to_owned()).or_insert(process),
        };
        self.sums -= own.len();
        let sums = self.ended.entry(first).or_default();
        self.sums -= sums.len();
        for (frame, sum) in own {
            sums.entry(frame).or_default().join(sum);
        }
        self.sums += sums.len();
    }

    /// Adds a fault.
    pub fn fault(&mut self, tables: &Tables, fault: &FaultFact) {
        if !matches!(fault.class, FaultClass::Cow | FaultClass::ZeroPage) {
            return;
        }
        let Some(process) = tables.threads.get(fault.thread.index()).map(|thread| thread.process) else {
            return;
        };
        // Faults that none represents: which pages they were, and whether these mapped the page of zeroes, is unknown.
        if fault.address.0 == 0 {
            return;
        }
        let page = fault.address.0 / PAGE;
        let zeroes = self.zeroes.entry(process).or_default();
        if fault.class == FaultClass::ZeroPage {
            zeroes.insert(page);
            return;
        }
        if zeroes.remove_range(PageRange { first: page, count: 1 }) > 0 {
            return;
        }
        let room = self.sums < MAX_KEYS;
        let frame = fault.stack.filter(|_| room).and_then(|stack| writer(tables, stack));
        let sums = self.living.entry(process).or_default();
        self.sums -= sums.len();
        sums.entry(frame).or_default().join(Sum {
            pages: fault.count(),
            counted: u64::from(fault.others.count),
            time: fault.total_time(),
        });
        self.sums += sums.len();
    }

    /// Visits the frames that it keeps.
    pub fn visit(&mut self, visit: &mut dyn Visit) {
        for sums in self.living.values_mut().chain(self.ended.values_mut()) {
            let each = |frame: &mut Option<FrameId>, _: &mut Sum, visit: &mut dyn Visit| {
                if let Some(frame) = frame {
                    visit.frame(frame);
                }
            };
            visit_keys(sums, visit, each, |sum, more| sum.join(*more));
        }
    }

    /// All copies, by process and frame.
    pub fn all(&self) -> Vec<Copies> {
        let processes = self.living.iter().chain(&self.ended);
        let copies = processes.flat_map(|(process, sums)| {
            sums.iter().map(|(frame, sum)| Copies {
                process: *process,
                frame: *frame,
                pages: sum.pages,
                counted: sum.counted,
                time: sum.time,
            })
        });
        let mut copies: Vec<Copies> = copies.collect();
        copies.sort_unstable_by_key(|one| (one.process, one.frame));
        copies
    }
}

/// The caller of `memset` is reported, not `memset`; code without a name is not reported.
fn writer(tables: &Tables, stack: StackId) -> Option<FrameId> {
    let is_own = |frame: &FrameId| {
        let module = tables
            .frames
            .get(frame.index())
            .and_then(|frame| frame.location.module());
        module.is_some_and(|module| !is_library(tables.module_name(module)))
    };
    let own = upwards(tables, stack).find(is_own);
    own.or_else(|| innermost(tables, stack))
}

/// Libraries with functions that act on behalf of their caller.
pub fn is_library(module: &str) -> bool {
    let starts = [
        "libc.",
        "libc-",
        "libpthread",
        "libstdc++.",
        "libm.",
        "ld-linux",
        "ld-musl",
        "libgcc_s.",
    ];
    starts.iter().any(|start| module.starts_with(start)) || module.starts_with('[')
}
