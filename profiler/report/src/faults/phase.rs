//! Derives the phase of a process from stacks and markers: exec → ld.so → initializers → main → after its first window.
//!
//! A process enters a phase with the first fault whose stack shows it, and does not go back until it runs another program: a library that
//! `main` loads is loaded in `main`. Stripped programs have no `main`. There, the shape of the stack decides: libc calls `main` through two
//! of its functions, and initializers through one.

use serde::Serialize;

use super::rows::Facts;
use crate::functions::Functions;
use crate::sorted::Ordered;
use base::addr::Timestamp;
use base::named;
use fact::reduce::packed::PackedFault;
use fact::{FrameId, Process, ProcessId, StackId, Tables};

/// The number of ancestors to search for a phase.
const GENERATIONS: usize = 64;

named! {
    /// A phase, in the order in which a process goes through them.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
    pub enum Phase {
        /// The kernel sets up the program.
        #[serde(rename = "exec")]
        Exec => "exec",
        /// The dynamic linker maps and relocates libraries.
        #[serde(rename = "ld.so")]
        Loader => "ld.so",
        /// Static initializers run.
        #[serde(rename = "initializers")]
        Initialisers => "initializers",
        /// The program itself.
        #[serde(rename = "main")]
        Main => "main",
        /// A marker announced the first window.
        #[serde(rename = "after first window")]
        Window => "after first window",
    }
}

/// The phases of all processes, with the times at which they began.
#[derive(Debug, Default)]
pub struct Phases {
    by_process: Vec<Vec<(Timestamp, Phase)>>,
    /// For each process, the time since which its faults have no frame of a program. The kernel reports an exec once it has set up the new
    /// program, and these are the faults that it caused until then.
    bare_since: Vec<Option<Timestamp>>,
}

/// What a stack shows of its process's phase.
#[derive(Debug, Clone, Copy)]
struct Shown {
    phase: Option<Phase>,
    /// The number of consecutive libc frames, up to and including the innermost frame.
    libc: u8,
    /// The place of the innermost frame.
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Nowhere,
    Loader { named: bool },
    Libc,
    Elsewhere,
}

impl Phases {
    /// Derives phases from faults sorted by start.
    pub(super) fn new(tables: &Tables, functions: &Functions, facts: &Facts, order: &Ordered<'_, PackedFault>) -> Self {
        let shown = shown(tables, functions);
        let mut phases = Self {
            by_process: vec![Vec::new(); tables.processes.len()],
            bare_since: vec![None; tables.processes.len()],
        };
        let mut milestones = facts.milestones.clone();
        milestones.sort_by_key(|milestone| milestone.time);
        let mut milestones = milestones.into_iter().peekable();
        for fault in order.iter().map(|row| facts.rows.fault(&row)) {
            while let Some(milestone) = milestones.next_if(|milestone| milestone.time <= fault.start) {
                phases.milestone(tables, milestone);
            }
            let Some(thread) = tables.threads.get(fault.thread.index()) else {
                continue;
            };
            if let Some(since) = phases.bare_since.get_mut(thread.process.index()) {
                let is_bare = functions.innermost(fault.stack).is_none();
                *since = is_bare.then(|| since.unwrap_or(fault.start));
            }
            if let Some(phase) = fault.stack.and_then(|stack| shown.get(stack.index())?.phase) {
                phases.enter(thread.process, fault.start, phase);
            }
        }
        milestones.for_each(|milestone| phases.milestone(tables, milestone));
        phases
    }

    fn milestone(&mut self, tables: &Tables, milestone: super::rows::Milestone) {
        let Some(thread) = tables.threads.get(milestone.thread.index()) else {
            return;
        };
        let process = thread.process;
        let since = self.bare_since.get_mut(process.index()).and_then(Option::take);
        if !milestone.is_exec {
            self.enter(process, milestone.time, Phase::Window);
        } else if let Some(phases) = self.by_process.get_mut(process.index()) {
            phases.push((since.unwrap_or(milestone.time), Phase::Exec));
        }
    }

    fn enter(&mut self, process: ProcessId, time: Timestamp, phase: Phase) {
        if let Some(phases) = self.by_process.get_mut(process.index())
            && phases.last().is_none_or(|(_, last)| *last < phase)
        {
            phases.push((time, phase));
        }
    }

    /// The phase of a process at a time. A child is in its parent's phase until it shows its own. `None` if unknown.
    pub fn at(&self, tables: &Tables, process: ProcessId, time: Timestamp) -> Option<Phase> {
        let (mut process, mut time) = (process, time);
        for _ in 0..GENERATIONS {
            let entered = self.by_process.get(process.index())?;
            let before = entered.partition_point(|(start, _)| *start <= time);
            if let Some((_, phase)) = before.checked_sub(1).and_then(|last| entered.get(last)) {
                return Some(*phase);
            }
            let Process {
                parent, start, existed, ..
            } = tables.processes.get(process.index())?;
            if *existed {
                return None;
            }
            (process, time) = ((*parent)?, *start);
        }
        None
    }

    /// The phases of a process, with the times at which it entered them.
    pub fn of(&self, process: ProcessId) -> &[(Timestamp, Phase)] {
        self.by_process.get(process.index()).map_or(&[], |phases| phases)
    }
}

/// What each stack shows.
fn shown(tables: &Tables, functions: &Functions) -> Vec<Shown> {
    let mut all: Vec<Shown> = Vec::with_capacity(tables.stacks.len());
    for (index, node) in tables.stacks.iter().enumerate() {
        let parent = node.parent.map(StackId::index).filter(|&parent| parent < index);
        let above = parent.and_then(|parent| all.get(parent)).copied().unwrap_or(Shown {
            phase: None,
            libc: 0,
            place: Place::Nowhere,
        });
        let next = step(tables, functions, node.frame, above);
        all.push(next);
    }
    all
}

/// Combines a frame with what its callers show.
fn step(tables: &Tables, functions: &Functions, frame: FrameId, above: Shown) -> Shown {
    let chain = functions.of_frame(frame);
    let Some(function) = chain.first().and_then(|id| functions.get(*id)) else {
        return above;
    };
    let place = place(
        function.module.map_or("", |module| tables.module_name(module)),
        function.is_named,
    );
    let mut phase = above.phase;
    let mut raise = |to| phase = phase.max(Some(to));
    for id in chain {
        let function = functions.get(*id).filter(|function| function.is_named);
        function
            .and_then(|function| phase_of(&function.name))
            .into_iter()
            .for_each(&mut raise);
    }
    match (above.place, place) {
        (_, Place::Loader { .. }) => raise(Phase::Loader),
        // A linker with symbols shows `_dl_init` when it runs initializers. Its calls into libc and libm are IFUNC resolvers.
        (Place::Loader { named: false }, Place::Elsewhere) => raise(Phase::Initialisers),
        (Place::Libc, Place::Elsewhere) if above.phase.is_none() && above.libc == 1 => raise(Phase::Initialisers),
        (Place::Libc, Place::Elsewhere) if above.phase.is_none() && above.libc == 2 => raise(Phase::Main),
        _ => {}
    }
    let libc = if place == Place::Libc {
        above.libc.saturating_add(1)
    } else {
        0
    };
    Shown { phase, libc, place }
}

fn place(module: &str, named: bool) -> Place {
    if module.starts_with("ld-linux") || module.starts_with("ld-musl") || module.starts_with("ld.so") {
        Place::Loader { named }
    } else if ["libc.so", "libc-2", "libm.so", "libm-2"]
        .iter()
        .any(|start| module.starts_with(start))
    {
        Place::Libc
    } else {
        Place::Elsewhere
    }
}

/// The phase that a function name implies. Sources: glibc's elf/dl-init.c and csu/libc-start.c, and the names that GCC and LLVM give
/// initializers.
fn phase_of(function: &str) -> Option<Phase> {
    let plain = function.split(['.', '@', '(']).next().unwrap_or(function);
    match plain {
        "main" | "__libc_start_call_main" | "runtime::main" => Some(Phase::Main),
        "call_init" | "_dl_init" | "__libc_csu_init" | "__static_initialization_and_destruction_0" => {
            Some(Phase::Initialisers)
        }
        "_dl_start" | "_dl_sysdep_start" | "dl_main" | "_dl_start_user" => Some(Phase::Loader),
        _ if plain.starts_with("_GLOBAL__sub_I") || plain.starts_with("_GLOBAL__I_") => Some(Phase::Initialisers),
        _ if function == "runtime.main" => Some(Phase::Main),
        _ => None,
    }
}
