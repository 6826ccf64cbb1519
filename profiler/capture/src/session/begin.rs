//! The beginning of a recording: everything is loaded and attached, and what already exists is written.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Instant;

use anyhow::Context as _;
use profiler_common::config::Config;

use super::Session;
use crate::checks;
use crate::drain::asleep;
use crate::drain::cycle::Drain;
use crate::drain::log::Log;
use crate::drain::poll::PollInterval;
use crate::drain::scope::Recorded;
use crate::drain::selected::Selected;
use crate::drain::{header, snapshot, threads};
use crate::files::opener::Opener;
use crate::hooks::ahead;
use crate::hooks::attach::{self, Hooks, Nouns};
use crate::hooks::bounds::Bounds;
use crate::hooks::btf::{self, Btf};
use crate::hooks::disks::{Disks, Flags};
use crate::hooks::exact_touch::{self, ExactTouch};
use crate::hooks::governor::{Governor, Limit};
use crate::hooks::hotplug::Cpus;
use crate::hooks::load::{self, Sizes};
use crate::hooks::meter::{self, Meter};
use crate::hooks::{faults, pid_namespace, sleepers, waits};
use crate::judged::Judged;
use crate::privilege::terms::{Scope, Terms};
use crate::privilege::{file_capabilities, require};
use crate::proc::machine;
use crate::proc::memory::Memory;
use crate::proc::{open_files, priority};
use crate::socket::channel::Channel;
use crate::socket::wire::Reply;

/// Attaches everything and writes what already exists.
pub(crate) fn begin(
    mut terms: Terms,
    mut pids: Vec<u32>,
    judged: &Judged,
    (command, log): (Vec<String>, OwnedFd),
    (channel, opener): (&mut Channel, Opener),
) -> anyhow::Result<Session> {
    for warning in require::check(&mut terms, &mut pids)? {
        channel.send(&Reply::Warning(warning), None)?;
    }
    let mut exact_touch = None;
    if terms.exact_touch {
        let (begun, restored) = ExactTouch::begin()?;
        channel.warn(restored)?;
        exact_touch = Some(begun);
    } else {
        channel.warn(exact_touch::recover().unwrap_or_else(|error| Some(format!("{error:#}"))))?;
    }
    let watched = Cpus::new(terms.sample_hz);
    let cpus = machine::cpus()?;
    let excluded = terms.exclude_pids.iter().copied().chain([std::process::id()]);
    let excluded: Vec<u32> = excluded.chain(opener.pids()).collect();
    let mut config = Config::NOTHING;
    let loader = ahead::Loader::begin();
    let types = Btf::of_kernel()?;
    let missing = btf::locate(&types, &mut config);
    pid_namespace::configure(&mut config)?;
    let selected = match &terms.scope {
        Scope::Selected(selection) => Some(Rc::new(Selected::find(selection)?)),
        _ => None,
    };
    let selection = selected.as_ref().map(|selected| selected.tables()).unwrap_or_default();
    let walker = load::walker_refused(&types);
    config.walk = u32::from(walker.is_none());
    let limit = limit(&terms, channel)?;
    config.thins = u32::from(limit.is_some());
    follow(&mut config, &terms, &excluded);
    faults::configure(&mut config, terms.faults.mode, &types);
    waits::configure(&mut config, terms.off_cpu, &types);
    file_capabilities::configure(&mut config, &terms)?;
    let tasks = threads::existing(&terms.scope);
    let mut sizes = Sizes::for_machine(u32::try_from(cpus.len())?, tasks, machine::memory());
    selection.configure(&mut config, &mut sizes, &types)?;
    config.doorbell = sizes.doorbell(cpus.len());
    let object = load::load(loader, &config, sizes, &types).map_err(refused)?;
    let nouns = Nouns {
        faults: terms.faults,
        off_cpu: terms.off_cpu,
        block: terms.block,
        // When a command begins, no other recorded thread exists.
        asleep: terms.scope != Scope::Command,
    };
    let mut hooks = attach::attach(object, &cpus, nouns, &selection)?;
    // The kernel's types took some 20 MB.
    let memory = Memory::give_back();
    attach::sample(&mut hooks, &cpus, terms.sample_hz);
    attach::require(&hooks)?;
    let (kernel, symbols) = checks::kernel_symbols();
    hooks.status.extend([symbols, checks::mapping_query()]);
    hooks.status.push(checks::walker(walker));
    hooks.status.extend(exact_touch.iter().map(ExactTouch::status));
    hooks.status.extend(missing.into_iter().map(checks::missing_field));

    let recorded = Recorded::new(terms.scope == Scope::System, excluded.clone());
    let mut drain = Drain::new(&mut hooks, recorded, kernel, terms.sample_hz, sizes)?;
    drain.flags = Flags::of_kernel(&types, terms.block);
    drain.selected.clone_from(&selected);
    snapshot::take_all(&mut drain, &terms.scope, &pids, &excluded)?;
    require_any(&mut drain, &mut hooks)?;
    judged.confirm(&terms, &mut drain)?;
    drain.owners.allow_names(&terms);
    let governor = limit.map(|limit| Governor::new(&mut hooks.ebpf, limit)).transpose()?;
    let meter = Meter::begin(&hooks.ebpf, terms.self_account);
    attach::start(&hooks)?;
    let mut bounds = Bounds::new(&mut hooks.ebpf)?;
    let beginning = bounds.begin()?;
    let sleepers = if nouns.asleep && hooks.has_waits {
        sleepers::find(&mut hooks.ebpf, &config).unwrap_or_default() // the hooks say why it was not loaded
    } else {
        Vec::new()
    };
    drain.disks = Disks::now(terms.block);
    let header = header::of(&terms, command, beginning, &cpus, &hooks);
    let log = Log::new(log, &header).context("cannot write the event log; choose another path with --keep-events")?;
    // Processes that ended meanwhile.
    drain.cycle(&mut hooks);
    drain.set_log(log, beginning);
    asleep::write(&mut drain, sleepers, terms.stack_copy);
    // What already existed is in the log, whatever happens later.
    drain.flush_log();
    channel.send(&Reply::Ready(Box::new(header)), None)?;
    priority::drain();
    let now = Instant::now();
    Ok(Session {
        hooks,
        drain,
        opener,
        bounds,
        beginning,
        poll: PollInterval::new(sizes.bulk_bytes, cpus.len(), terms.sample_hz, terms.stack_copy),
        flushed: now,
        progress_sent: now,
        counted: now,
        log_failed: false,
        exact_touch,
        meter,
        governor,
        cpus: watched,
        memory,
    })
}

/// The limit of cost, where it can be kept.
fn limit(terms: &Terms, channel: &mut Channel) -> anyhow::Result<Option<Limit>> {
    let Some(limit) = terms.max_overhead else {
        return Ok(None);
    };
    if meter::is_possible() {
        return Ok(Some(limit));
    }
    if limit.is_asked {
        let why = "--max-overhead has no effect: the time in eBPF programs is measured with CAP_SYS_ADMIN only";
        channel.warn(Some(why.to_owned()))?;
    }
    Ok(None)
}

/// Sets what the terms alone decide.
fn follow(config: &mut Config, terms: &Terms, excluded: &[u32]) {
    config.whole_system = u32::from(terms.scope.is_of_machine());
    config.stack_copy = terms.stack_copy;
    config.check_walks = u32::from(terms.check_walks);
    for (place, pid) in config.exclude_pid.iter_mut().zip(excluded) {
        *place = *pid;
    }
}

/// Fails if no thread meets the conditions and the recording is not to wait for one.
fn require_any(drain: &mut Drain, hooks: &mut Hooks) -> anyhow::Result<()> {
    let Some(selected) = drain.selected.clone().filter(|selected| !selected.waits()) else {
        return Ok(());
    };
    // A process that was created since it was looked for has reported itself.
    drain.cycle(hooks);
    if drain.recorded.threads_alive() == 0 {
        return Err(selected.nothing());
    }
    Ok(())
}

fn refused(error: anyhow::Error) -> anyhow::Error {
    let is_limit = error
        .chain()
        .filter_map(|cause| cause.downcast_ref())
        .any(open_files::is_reached);
    error.context(if is_limit {
        open_files::remedy()
    } else {
        load::privilege_remedy().to_owned()
    })
}
