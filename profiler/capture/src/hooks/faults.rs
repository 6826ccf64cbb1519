//! Attaches the hooks of page faults, tier by tier: a refused one is reported, and the next tier is tried.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use aya::programs::{BtfTracePoint, PerfEvent, ProgramError};
use aya::{Btf, Ebpf};
use profiler_common::config::Config;
use profiler_common::fault::FAULT_MAJOR;
use serde::{Deserialize, Serialize};

use super::ahead::{self, Wanted};
use super::arch::{self, EXCEPTIONS};
use super::btf::{Btf as Types, FIND_VMA};
use super::coverage::Coverage;
use super::hook::{self, attach_entry, attach_exit, hook};
use super::{exact_touch, perf, preempt};
use crate::proc::{machine, open_files};
use base::event::HookStatus;

/// Which page faults are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum FaultMode {
    /// None.
    Off,
    /// All; of writes to anonymous memory, a sample that represents the others.
    #[default]
    Auto,
    /// All.
    All,
    /// Those in mappings of files.
    File,
    /// Those that the kernel counts as major, or that waited for a disk.
    Major,
}

impl FaultMode {
    /// The value that the programs read.
    pub fn number(self) -> u32 {
        use profiler_common::fault::{FAULTS_ALL, FAULTS_AUTO, FAULTS_FILE, FAULTS_MAJOR};
        match self {
            Self::Off => 0,
            Self::Auto => FAULTS_AUTO,
            Self::All => FAULTS_ALL,
            Self::File => FAULTS_FILE,
            Self::Major => FAULTS_MAJOR,
        }
    }
}

/// Which hooks trace page faults (docs/page-faults.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FaultSource {
    /// Tier 1: `handle_mm_fault`, which has the mapping at hand.
    Fentry,
    /// Tier 2: the exception, and the kernel's count at the end.
    Tracepoint,
    /// Tier 3: only the kernel's count, without latency.
    Perf,
}

/// What to record of page faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Faults {
    /// Which faults.
    pub mode: FaultMode,
    /// Which hooks; `None`: the best that the kernel allows.
    pub source: Option<FaultSource>,
}

/// The kernel's default of the bytes that it maps around a fault (`fault_around_pages` in mm/memory.c).
const USUAL_AROUND: u64 = 65536;

/// Configures which faults are recorded, and how the mapping and its pages are found.
pub fn configure(config: &mut Config, mode: FaultMode, types: &Types) {
    config.faults = mode.number();
    if mode == FaultMode::Off {
        return;
    }
    config.find_vma = u32::from(types.has_function(FIND_VMA));
    if arch::page_tables(config).is_some() {
        config.populated = 1;
        config.physical_end = machine::memory_end();
        config.wide_around = u32::from(exact_touch::around().is_some_and(|bytes| bytes > USUAL_AROUND));
    }
}

/// Programs at the entry and the exit of `handle_mm_fault`. The kernel skips a program that was preempted in another
/// thread on the same CPU; then its twin runs, or, where preemption is common, the kernel's own count of the fault is
/// used.
pub const TWINS: [[&str; 2]; 2] = [["fault_entry", "fault_entry_again"], ["fault_exit", "fault_exit_again"]];
/// Programs at the exit of functions, which add details to tier 1; each is optional.
const EXITS: [Wanted; 2] = [
    ("filemap_exit", "filemap_fault"),
    ("huge_exit", "do_huge_pmd_anonymous_page"),
];
/// Hooks that add details to tiers 1 and 2; each is optional.
const MORE: [&str; 8] = [
    "signal_generate",
    "mm_filemap_add_to_page_cache",
    "mm_vmscan_direct_reclaim_begin",
    "mm_vmscan_direct_reclaim_end",
    "mm_vmscan_memcg_reclaim_begin",
    "mm_vmscan_memcg_reclaim_end",
    "mm_compaction_begin",
    "mm_compaction_end",
];

/// Hooks of pages that system calls map ahead, which tiers 2 and 3 do not see otherwise; each is optional.
const POPULATED: [&str; 2] = ["vm_unmapped_area", "mmap_lock_released"];

/// Remedies of refused hooks.
const NEXT_TIER: &str = "no action needed: falling back to the next tier (docs/page-faults.md)";
const LEFT_OUT: &str = "no action needed: the data of this hook is left out (docs/page-faults.md)";
const NOT_SEEN: &str = "no action needed: pages that `mlock` and `MAP_POPULATE` map are not seen (docs/page-faults.md)";
const NOT_RECORDED: &str = "page faults are not recorded: a newer kernel may help";
/// The kernel's counts of faults.
const COUNTS: &str = "perf page-faults";
/// The function that tier 1 hooks.
const HANDLER: &str = "handle_mm_fault";

/// The hooks that were attached.
#[derive(Default)]
pub struct Watched {
    /// The tier; `None`: faults are not traced.
    pub source: Option<FaultSource>,
    /// Software events with their CPUs, not enabled yet.
    pub events: Vec<(u32, Counted)>,
    /// Each CPU has such events.
    pub has_events: bool,
}

/// The programs that [`watch`] attaches if nothing is refused, and what they attach to; those that take long to verify
/// come first.
pub fn programs(ebpf: &mut Ebpf, btf: &Btf, asked: Faults) -> Vec<Wanted> {
    if asked.mode == FaultMode::Off {
        return Vec::new();
    }
    let tries = |source| asked.source.is_none_or(|only| only == source);
    let [entries, exits] = &TWINS;
    // A policy against programs of this kind shows in the first one.
    let is_handled = tries(FaultSource::Fentry) && hook::load_entry(ebpf, entries[0], HANDLER, btf).is_ok();
    let is_counted = if is_handled {
        preempt::is_usual(machine::kernel_version())
    } else {
        tries(FaultSource::Tracepoint) || tries(FaultSource::Perf)
    };
    let mut wanted = Vec::new();
    if is_handled {
        let twins = if is_counted { 1 } else { 2 };
        let both = exits[..twins].iter().chain(&entries[1..twins]);
        wanted.extend(both.map(|&name| (name, HANDLER)));
        wanted.extend(EXITS);
    }
    if is_counted {
        wanted.push((COUNTED, COUNTED));
    }
    if !is_handled {
        wanted.extend(ahead::by_name(&POPULATED));
    }
    if is_handled || tries(FaultSource::Tracepoint) {
        wanted.extend(ahead::by_name(&MORE).chain(arch::exception_programs()));
    }
    wanted
}

/// Attaches the best tier that was requested and that the kernel allows.
pub fn watch(
    ebpf: &mut Ebpf,
    btf: &Btf,
    (cpus, coverage): (&[u32], &Coverage),
    asked: Faults,
    status: &mut Vec<HookStatus>,
) -> Watched {
    if asked.mode == FaultMode::Off {
        return Watched::default();
    }
    let tries = |source| asked.source.is_none_or(|only| only == source);
    if tries(FaultSource::Fentry)
        && let Some(events) = handled(ebpf, btf, (cpus, coverage), status)
    {
        exceptions(ebpf, btf, status);
        more(ebpf, btf, status);
        return Watched {
            source: Some(FaultSource::Fentry),
            has_events: !events.is_empty(),
            events,
        };
    }
    let source = if tries(FaultSource::Tracepoint) && exceptions(ebpf, btf, status) {
        more(ebpf, btf, status);
        FaultSource::Tracepoint
    } else if tries(FaultSource::Perf) || tries(FaultSource::Tracepoint) {
        FaultSource::Perf
    } else {
        unload(ebpf, &EXCEPTIONS);
        unload(ebpf, &MORE);
        unload(ebpf, &POPULATED);
        unload(ebpf, &[COUNTED]);
        return Watched::default();
    };
    let opened = completions(ebpf, cpus, coverage);
    status.push(status_of_counts(&opened, NOT_RECORDED));
    let Ok(events) = opened else {
        unload(ebpf, &EXCEPTIONS);
        unload(ebpf, &MORE);
        unload(ebpf, &POPULATED);
        return Watched::default();
    };
    status.extend(hook::attach_tracepoints(ebpf, btf, ("fault", &POPULATED), NOT_SEEN));
    Watched {
        source: Some(source),
        has_events: true,
        events,
    }
}

/// Attaches tier 1, with the kernel's counts where threads lose their CPU within programs. A kernel that takes only
/// one end of the function is not usable: `None`.
fn handled(
    ebpf: &mut Ebpf,
    btf: &Btf,
    (cpus, coverage): (&[u32], &Coverage),
    status: &mut Vec<HookStatus>,
) -> Option<Vec<(u32, Counted)>> {
    let [entries, exits] = &TWINS;
    let mut events = Vec::new();
    let ends = attach_entry(ebpf, entries[0], HANDLER, btf).and_then(|()| {
        let wants_counts = preempt::is_usual(machine::kernel_version());
        let mut twins = if wants_counts { 1 } else { 2 };
        if wants_counts {
            let opened = completions(ebpf, cpus, coverage);
            status.push(status_of_counts(&opened, LEFT_OUT));
            match opened {
                Ok(opened) => events = opened,
                Err(_) => twins = 2,
            }
        }
        entries[1..twins]
            .iter()
            .try_for_each(|name| attach_entry(ebpf, name, HANDLER, btf))?;
        exits[..twins]
            .iter()
            .try_for_each(|name| attach_exit(ebpf, name, HANDLER, btf))
    });
    let works = ends.is_ok();
    if !works {
        unload(ebpf, TWINS.as_flattened());
        unload(ebpf, &EXITS.map(|(name, _)| name));
    }
    status.push(hook::with_remedy(
        hook("fault", "fentry/fexit handle_mm_fault", ends),
        NEXT_TIER,
    ));
    if works {
        for (name, function) in EXITS {
            let result = attach_exit(ebpf, name, function, btf);
            status.push(hook::with_remedy(
                hook("fault", &format!("fexit {function}"), result),
                LEFT_OUT,
            ));
        }
    }
    works.then_some(events)
}

fn exceptions(ebpf: &mut Ebpf, btf: &Btf, status: &mut Vec<HookStatus>) -> bool {
    let results = arch::exceptions(ebpf, btf, NEXT_TIER);
    let works = results.iter().all(|status| status.refused.is_none());
    status.extend(results);
    if !works {
        unload(ebpf, &EXCEPTIONS);
        unload(ebpf, &MORE);
    }
    works
}

fn more(ebpf: &mut Ebpf, btf: &Btf, status: &mut Vec<HookStatus>) {
    status.extend(hook::attach_tracepoints(ebpf, btf, ("fault", &MORE), LEFT_OUT));
}

/// The program on the kernel's counts of faults.
const COUNTED: &str = "fault_counted";

/// A count of one CPU, with the program attached.
pub struct Counted {
    event: OwnedFd,
    /// Keeps the program attached where it has a cookie.
    _link: Option<OwnedFd>,
}

impl AsFd for Counted {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

fn completions(ebpf: &mut Ebpf, cpus: &[u32], coverage: &Coverage) -> Result<Vec<(u32, Counted)>, ProgramError> {
    let program: &mut PerfEvent = ebpf.program_mut(COUNTED).ok_or(ProgramError::NotLoaded)?.try_into()?;
    ahead::unless_loaded(program.fd().is_ok(), || program.load())?;
    let mut events = Vec::new();
    for &cpu in cpus {
        events.extend(completions_on(ebpf, cpu, coverage).map_err(ProgramError::IOError)?);
    }
    Ok(events)
}

/// The status of the kernel's counts: they take three descriptors per CPU, which a low limit may not allow.
fn status_of_counts<T>(opened: &Result<T, ProgramError>, remedy: &str) -> HookStatus {
    let status = hook::hook_of("fault", COUNTS, opened.as_ref().map(|_| ()));
    match opened {
        Err(ProgramError::IOError(error) | ProgramError::LoadError { io_error: error, .. })
            if open_files::is_reached(error) =>
        {
            hook::with_remedy(status, &open_files::remedy())
        }
        _ => hook::with_remedy(status, remedy),
    }
}

/// Attaches the loaded program to one CPU's counts, which are not enabled yet. The cookie shows which of them it runs for.
pub fn completions_on(ebpf: &Ebpf, cpu: u32, coverage: &Coverage) -> io::Result<Vec<(u32, Counted)>> {
    let program = hook::program_of(ebpf, COUNTED)?;
    let mut counted = Vec::new();
    for target in coverage.targets() {
        for (count, flags) in [(perf::Count::MinorFaults, 0), (perf::Count::MajorFaults, FAULT_MAJOR)] {
            let event = perf::open_count(count, cpu, target)?;
            let link = match coverage.cookie(flags) {
                0 => perf::set_program(event.as_fd(), program).map(|()| None),
                cookie => perf::link_program(event.as_fd(), program, cookie).map(Some),
            };
            counted.push((cpu, Counted { event, _link: link? }));
        }
    }
    Ok(counted)
}

/// Detaches programs.
fn unload(ebpf: &mut Ebpf, names: &[&str]) {
    for name in names {
        // A program that was never loaded has nothing to detach.
        let _ = match ebpf.program_mut(name) {
            Some(aya::programs::Program::FEntry(program)) => program.unload(),
            Some(aya::programs::Program::FExit(program)) => program.unload(),
            Some(aya::programs::Program::BtfTracePoint(program)) => BtfTracePoint::unload(program),
            Some(aya::programs::Program::PerfEvent(program)) => program.unload(),
            _ => Ok(()),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_file_limit_is_not_taken_for_an_old_kernel() {
        let refused = |error| -> Result<(), _> { Err(ProgramError::IOError(io::Error::from_raw_os_error(error))) };
        let status = status_of_counts(&refused(libc::EMFILE), NOT_RECORDED);
        let remedy = status.remedy.unwrap();
        assert!(remedy.contains("`ulimit -n`") && !remedy.contains("kernel"), "{remedy}");
        let status = status_of_counts(&refused(libc::ENOENT), NOT_RECORDED);
        assert_eq!(status.remedy.as_deref(), Some(NOT_RECORDED));
        assert!(status_of_counts(&Ok(()), NOT_RECORDED).refused.is_none());
    }
}
