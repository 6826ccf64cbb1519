//! Attaches all hooks, one by one. Each degrades separately: a refusal becomes a [`HookStatus`].

use std::io;
use std::os::fd::AsFd as _;

use anyhow::Context as _;
use aya::programs::{PerfEvent, ProgramError};
use aya::{Btf, Ebpf};

use super::ahead::{self, Wanted};
use super::coverage::{Coverage, Follower};
use super::disks::{self, BlockMode};
use super::faults::{self, Faults, Watched};
use super::hook::{attach_tracepoint, hook, io_remedy, program_of, row, with_remedy};
use super::perf::{self, Clock, Ring};
use super::selection::Tables;
use super::sleepers;
use super::waits::{self, OffCpu};
use base::event::HookStatus;

/// Programs on BTF tracepoints: event kind and name. Those of [`ESSENTIAL`] have to attach.
const TRACEPOINTS: [(&str, &str); 5] = [
    ("switch", "sched_switch"),
    ("task", "task_newtask"),
    ("task", "sched_process_exec"),
    ("task", "sched_process_exit"),
    ("task", "task_rename"),
];
/// Without these it is unknown which threads are recorded.
const ESSENTIAL: [&str; 3] = ["task_newtask", "sched_process_exec", "sched_process_exit"];
/// Bytes of each CPU's ring of mapping records, which hold about 3,000.
const MAPPING_BYTES: usize = 512 << 10;
/// Bytes of mapping records after which they are read at once: a thread can fill the ring in 20 ms.
const MAPPING_WAKEUP: u32 = 128 << 10;
/// Bytes of a sampling event's ring: records of throttling are few.
const SAMPLING_BYTES: usize = 4096;

/// Everything that is attached. Dropping it detaches.
pub struct Hooks {
    /// The object with its programs and the maps that were not taken.
    pub ebpf: Ebpf,
    /// The result of each hook.
    pub status: Vec<HookStatus>,
    /// A ring of mapping records for each CPU.
    pub mappings: Vec<(u32, Ring)>,
    /// Every CPU has such a ring.
    pub has_mappings: bool,
    /// Sampling events: for each CPU one, or one for each recorded cgroup.
    pub sampling: Vec<(u32, Ring)>,
    /// Which threads they are for.
    pub coverage: Coverage,
    /// What may change that.
    pub follower: Option<Follower>,
    /// The clock that triggers samples.
    pub clock: Clock,
    /// On-CPU times are measured.
    pub has_switches: bool,
    /// How page faults are traced.
    pub faults: Watched,
    /// Waits are recorded.
    pub has_waits: bool,
}

/// What is recorded in addition to samples and tasks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nouns {
    /// Which page faults.
    pub faults: Faults,
    /// Which waits.
    pub off_cpu: OffCpu,
    /// Which block requests.
    pub block: BlockMode,
    /// Whether to record where threads that already sleep are.
    pub asleep: bool,
}

/// Attaches everything but the sampling events, which [`sample`] opens and [`start`] starts. [`require`] judges the result.
///
/// # Errors
/// When it would be unknown which threads are recorded.
pub fn attach((mut ebpf, btf): (Ebpf, Btf), cpus: &[u32], nouns: Nouns, selection: &Tables) -> anyhow::Result<Hooks> {
    let mut status = Vec::new();
    let asleep = (nouns.asleep && nouns.off_cpu != OffCpu::Off).then_some(sleepers::PROGRAM);
    load_ahead(&mut ebpf, &btf, nouns, asleep);
    let (coverage, follower) = if selection.begin(&mut ebpf, &btf, &mut status)? {
        Follower::begin(&mut ebpf, selection, cpus)
    } else {
        Default::default()
    };
    for (noun, name) in TRACEPOINTS {
        let result = attach_tracepoint(&mut ebpf, name, &btf);
        status.push(hook(noun, &format!("tp_btf/{name}"), result));
    }
    waits::watch(&mut ebpf, &btf, nouns.off_cpu, &mut status);
    if asleep.is_some() {
        let remedy = "no action needed: the stacks of threads that already sleep are left out (docs/waits.md)";
        let result = sleepers::load(&mut ebpf, &btf);
        status.push(with_remedy(hook("switch", "iter/task", result), remedy));
    }
    disks::watch(&mut ebpf, &btf, nouns.block, &mut status);
    let faults = faults::watch(&mut ebpf, &btf, (cpus, &coverage), nouns.faults, &mut status);
    drop(btf);
    let has_switches = status
        .iter()
        .any(|status| status.noun == "switch" && status.hook == "tp_btf/sched_switch" && status.refused.is_none());
    let (mappings, result) = watch_mappings(cpus);
    let refused = result.err().map(|error| error.to_string());
    let remedy = "no action needed: code mappings are looked up when a sample falls outside the known ones";
    status.push(row("task", "perf mmap2", refused, remedy));
    Ok(Hooks {
        ebpf,
        status,
        has_mappings: !mappings.is_empty(),
        mappings,
        sampling: Vec::new(),
        coverage,
        follower,
        clock: Clock::CpuClock,
        has_switches,
        faults,
        has_waits: has_switches && nouns.off_cpu != OffCpu::Off,
    })
}

/// Loads all programs at once, those that take long to verify first: each CPU then has work until the end.
fn load_ahead(ebpf: &mut Ebpf, btf: &Btf, nouns: Nouns, asleep: Option<Wanted>) {
    let mut wanted = faults::programs(ebpf, btf, nouns.faults);
    wanted.insert(0, ("sched_switch", "sched_switch"));
    wanted.extend(ahead::by_name(waits::programs(nouns.off_cpu)));
    wanted.extend(ahead::by_name(&["sample"]));
    wanted.extend(ahead::by_name(disks::programs(nouns.block)));
    wanted.extend(ahead::by_name(&TRACEPOINTS.map(|(_, name)| name)).chain(asleep));
    ahead::load(ebpf, btf, wanted);
}

/// Opens the rings on all CPUs or on none: a mapping created on an untraced CPU would be missing silently.
fn watch_mappings(cpus: &[u32]) -> (Vec<(u32, Ring)>, io::Result<()>) {
    let rings: io::Result<Vec<(u32, Ring)>> = cpus.iter().map(|&cpu| Ok((cpu, watch_mappings_on(cpu)?))).collect();
    match rings {
        Ok(rings) => (rings, Ok(())),
        Err(error) => (Vec::new(), Err(error)),
    }
}

fn watch_mappings_on(cpu: u32) -> io::Result<Ring> {
    let ring = Ring::new(perf::open_mappings(cpu, MAPPING_WAKEUP)?, MAPPING_BYTES)?;
    perf::enable(ring.as_fd())?;
    Ok(ring)
}

/// Opens a sampling event on each CPU: cycles, or the kernel's timer where there is no counter.
pub fn sample(hooks: &mut Hooks, cpus: &[u32], hz: u32) {
    let result = load_sampling(&mut hooks.ebpf);
    if result.is_err() {
        hooks.status.push(hook("sample", "perf_event", result));
        return;
    }
    for clock in [Clock::Cycles, Clock::CpuClock] {
        let opened = open_sampling(&hooks.ebpf, clock, cpus, hz, &hooks.coverage);
        let remedy = opened.as_ref().err().map_or("", |error| match clock {
            Clock::Cycles => "no action needed: falling back to cpu-clock",
            Clock::CpuClock => io_remedy(error),
        });
        let refused = opened.as_ref().err().map(no_counter);
        let name = format!("perf_event {}", clock.name());
        hooks.status.push(row("sample", &name, refused, remedy));
        if let Ok(rings) = opened {
            (hooks.sampling, hooks.clock) = (rings, clock);
            return;
        }
    }
}

fn load_sampling(ebpf: &mut Ebpf) -> Result<(), ProgramError> {
    let program: &mut PerfEvent = ebpf.program_mut("sample").ok_or(ProgramError::NotLoaded)?.try_into()?;
    ahead::unless_loaded(program.fd().is_ok(), || program.load())
}

fn open_sampling(
    ebpf: &Ebpf,
    clock: Clock,
    cpus: &[u32],
    hz: u32,
    coverage: &Coverage,
) -> io::Result<Vec<(u32, Ring)>> {
    let program = program_of(ebpf, "sample")?;
    let targets = coverage.targets();
    let pairs = cpus
        .iter()
        .flat_map(|&cpu| targets.iter().map(move |&target| (cpu, target)));
    let rings = pairs.map(|(cpu, target)| {
        let ring = Ring::new(perf::open_sampling(clock, cpu, hz, target)?, SAMPLING_BYTES)?;
        perf::set_program(ring.as_fd(), program)?;
        Ok((cpu, ring))
    });
    rings.collect()
}

/// Replaces the events that are for threads of some cgroups, or for all, if cgroups were created or are empty.
///
/// # Errors
/// The first time that the kernel refuses an event: it is tried again later.
pub fn follow_cgroups(hooks: &mut Hooks, hz: u32) -> io::Result<()> {
    let Some(mut follower) = hooks.follower.take() else {
        return Ok(());
    };
    let mut cpus: Vec<u32> = hooks.sampling.iter().map(|(cpu, _)| *cpu).collect();
    cpus.dedup();
    let mut result = match follower.due(&hooks.coverage, &cpus) {
        Some(next) => replace(hooks, &mut follower, (&cpus, hz), next),
        None => Ok(()),
    };
    if result.is_err() && !follower.postpone() {
        result = Ok(());
    }
    hooks.follower = Some(follower);
    result
}

/// Of faults none is lost and none is counted twice: the programs take those of the new events from one moment on.
fn replace(hooks: &mut Hooks, follower: &mut Follower, (cpus, hz): (&[u32], u32), next: Coverage) -> io::Result<()> {
    let sampling = open_sampling(&hooks.ebpf, hooks.clock, cpus, hz, &next)?;
    let mut counts = Vec::new();
    for &cpu in cpus.iter().filter(|_| hooks.faults.has_events) {
        counts.extend(faults::completions_on(&hooks.ebpf, cpu, &next)?);
    }
    let mut events = counts.iter().map(|(_, event)| event.as_fd());
    events.try_for_each(perf::enable)?;
    follower.take(&next)?;
    for (_, ring) in &hooks.sampling {
        let _ = perf::disable(ring.as_fd()); // fails if the CPU went offline, which removes its event
    }
    for (_, ring) in &sampling {
        perf::enable(ring.as_fd())?;
    }
    (hooks.sampling, hooks.faults.events, hooks.coverage) = (sampling, counts, next);
    Ok(())
}

/// Opens and starts on a CPU that came online what the other CPUs have: all of it, or nothing.
pub fn attend(hooks: &mut Hooks, cpu: u32, hz: u32) -> io::Result<()> {
    let sampling = open_sampling(&hooks.ebpf, hooks.clock, &[cpu], hz, &hooks.coverage)?;
    let mappings = hooks.has_mappings.then(|| watch_mappings_on(cpu)).transpose()?;
    let faults = if hooks.faults.has_events {
        faults::completions_on(&hooks.ebpf, cpu, &hooks.coverage)?
    } else {
        Vec::new()
    };
    let events = faults.iter().map(|(_, event)| event.as_fd());
    for event in sampling.iter().map(|(_, ring)| ring.as_fd()).chain(events) {
        perf::enable(event)?;
    }
    hooks.sampling.extend(sampling);
    hooks.mappings.extend(mappings.map(|ring| (cpu, ring)));
    hooks.faults.events.extend(faults);
    Ok(())
}

/// Closes the events of a CPU that went offline.
pub fn release(hooks: &mut Hooks, cpu: u32) {
    hooks.sampling.retain(|(of, _)| *of != cpu);
    hooks.mappings.retain(|(of, _)| *of != cpu);
    hooks.faults.events.retain(|(of, _)| *of != cpu);
}

fn no_counter(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => "no hardware cycle counter available".to_owned(),
        _ => error.to_string(),
    }
}

/// Fails if a recording would contain nothing, or if it would be unknown which threads are recorded.
pub fn require(hooks: &Hooks) -> anyhow::Result<()> {
    let essential = |status: &&HookStatus| {
        let name = status.hook.trim_start_matches("tp_btf/");
        ESSENTIAL.contains(&name) || status.noun == "sample" && hooks.sampling.is_empty()
    };
    let mut refused = hooks
        .status
        .iter()
        .filter(essential)
        .filter(|status| status.refused.is_some());
    if let Some(HookStatus {
        hook,
        refused: Some(reason),
        remedy,
        ..
    }) = refused.next_back()
    {
        anyhow::bail!(
            "{hook} was refused: {reason}: {}",
            remedy.as_deref().unwrap_or("run `ngmi doctor` for details")
        );
    }
    Ok(())
}

/// Starts sampling and counting on all CPUs.
pub fn start(hooks: &Hooks) -> anyhow::Result<()> {
    for (_, ring) in &hooks.sampling {
        perf::enable(ring.as_fd()).context("cannot start the sampling event")?;
    }
    for (_, event) in &hooks.faults.events {
        perf::enable(event.as_fd()).context("cannot start the page fault event")?;
    }
    Ok(())
}

/// Stops sampling and the records of mappings; the programs stay until [`Hooks`] is dropped.
pub fn stop(hooks: &Hooks) {
    for (_, ring) in hooks.sampling.iter().chain(&hooks.mappings) {
        let _ = perf::disable(ring.as_fd()); // fails if the CPU went offline, which removes its event
    }
    for (_, event) in &hooks.faults.events {
        let _ = perf::disable(event.as_fd()); // as above
    }
}
