//! A recording, from `Start` to `Ended` or until the recorder is gone.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use profiler_common::config::Config;

use crate::checks;
use crate::drain::asleep;
use crate::drain::cycle::Drain;
use crate::drain::fill::Fill;
use crate::drain::log::Log;
use crate::drain::poll::PollInterval;
use crate::drain::scope::Recorded;
use crate::drain::selected::Selected;
use crate::drain::{header, live_threads};
use crate::drain::{snapshot, threads};
use crate::files::opener::Opener;
use crate::hooks::ahead;
use crate::hooks::attach::{self, Hooks, Nouns};
use crate::hooks::bounds::Bounds;
use crate::hooks::btf::{self, Btf};
use crate::hooks::disks::{Disks, Flags};
use crate::hooks::exact_touch::{self, ExactTouch};
use crate::hooks::hotplug::Cpus;
use crate::hooks::load::{self, Sizes};
use crate::hooks::meter::{self, Meter};
use crate::hooks::{faults, pid_namespace, sleepers, waits};
use crate::judged::Judged;
use crate::pass_on;
use crate::privilege::terms::{Scope, Terms};
use crate::privilege::{file_capabilities, require};
use crate::proc::machine;
use crate::proc::memory::Memory;
use crate::proc::{open_files, priority, procfs};
use crate::socket::channel::{Channel, ChannelError};
use crate::socket::protocol::{Action, Protocol};
use crate::socket::wire::{Ended, Progress, Reply, TableOf};
use crate::space::spaces::Code;
use base::addr::Timestamp;
use base::event::Event;

/// Events older than this are in the log even if we are killed (docs/event-log.md).
const FLUSH_INTERVAL: Duration = Duration::from_millis(250);
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
/// How often losses are read: the kernel's counters take about thirty system calls.
const LOSSES_INTERVAL: Duration = Duration::from_secs(1);
/// Time between the exit that the recorder sees and the exiting thread's last switch-out.
const LAST_SWITCH: Duration = Duration::from_millis(5);
/// What the rings held at the end takes two or three cycles; threads that keep faulting would keep us forever.
const LAST_CYCLES: u32 = 16;
/// How long the recorder may take to read its last messages.
pub(crate) const FAREWELL: Duration = Duration::from_secs(10);

/// A recording under way.
pub(crate) struct Session {
    hooks: Hooks,
    drain: Drain,
    opener: Opener,
    bounds: Bounds,
    beginning: Timestamp,
    poll: PollInterval,
    flushed: Instant,
    progress_sent: Instant,
    counted: Instant,
    log_failed: bool,
    exact_touch: Option<ExactTouch>,
    meter: Meter,
    cpus: Cpus,
    memory: Memory,
}

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
    let loaders_types = ahead::Types::begin();
    let types = Btf::of_kernel()?;
    let missing = btf::locate(&types, &mut config);
    pid_namespace::configure(&mut config)?;
    let selected = match &terms.scope {
        Scope::Selected(selection) => Some(Rc::new(Selected::find(selection)?)),
        _ => None,
    };
    let selection = selected.as_ref().map(|selected| selected.tables()).unwrap_or_default();
    config.whole_system = u32::from(terms.scope.is_of_machine());
    config.stack_copy = terms.stack_copy;
    let walker = load::walker_refused(&types);
    config.walk = u32::from(walker.is_none());
    config.check_walks = u32::from(terms.check_walks);
    faults::configure(&mut config, terms.faults.mode, &types);
    waits::configure(&mut config, terms.off_cpu, &types);
    file_capabilities::configure(&mut config, &terms)?;
    for (place, pid) in config.exclude_pid.iter_mut().zip(&excluded) {
        *place = *pid;
    }
    let tasks = threads::existing(&terms.scope);
    let mut sizes = Sizes::for_machine(u32::try_from(cpus.len())?, tasks, machine::memory());
    selection.configure(&mut config, &mut sizes, &types)?;
    config.doorbell = sizes.doorbell(cpus.len());
    let ebpf = load::load(&config, sizes, &types).map_err(refused)?;
    let nouns = Nouns {
        faults: terms.faults,
        off_cpu: terms.off_cpu,
        block: terms.block,
        // When a command begins, no other recorded thread exists.
        asleep: terms.scope != Scope::Command,
    };
    let mut hooks = attach::attach((ebpf, loaders_types), &cpus, nouns, &selection)?;
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
        cpus: watched,
        memory,
    })
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

impl Session {
    pub(crate) fn record(mut self, channel: &mut Channel, protocol: &mut Protocol) -> anyhow::Result<()> {
        let mut interval = self.poll.first();
        let end = loop {
            let others: Vec<_> = self.opener.sockets().chain([self.drain.news()]).collect();
            let received = channel.receive(interval, &others);
            let has_message = matches!(received, Ok(Some(_)));
            match received {
                Ok(Some((request, descriptor))) => {
                    let accepted = protocol.accept(request, descriptor).map_err(ChannelError::refused);
                    match accepted.and_then(|action| self.act(channel, action)) {
                        Ok(true) => {}
                        Ok(false) => break Ok(()),
                        Err(error) => break Err(error),
                    }
                }
                Ok(None) => {}
                Err(error) => break Err(error),
            }
            let has_files = match pass_on::turn(&mut self.drain, &mut self.opener, channel) {
                Ok(any) => any,
                Err(error) => break Err(error),
            };
            if (has_message || has_files)
                && let Some(wait) = self.poll.gather(Instant::now())
            {
                interval = wait;
                continue;
            }
            interval = self.poll.after(self.drain.cycle(&mut self.hooks));
            if let Err(error) = self.report(channel) {
                break Err(error);
            }
        };
        let (time, put_back) = self.stop();
        let ended = self.finish(time);
        match end {
            Ok(()) => {
                pass_on::last(&mut self.drain, &mut self.opener, channel)?;
                self.report_log_failure(channel)?;
                channel.warn(self.drain.missed.sentence())?;
                channel.warn(self.drain.left_out.sentence())?;
                channel.warn(put_back.err().map(|error| format!("{error:#}")))?;
                channel.send(&Reply::Ended(ended), None)?;
                Ok(channel.finish(FAREWELL)?)
            }
            Err(ChannelError::Closed) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Carries out a request. False: end the recording.
    fn act(&mut self, channel: &mut Channel, action: Action<OwnedFd>) -> Result<bool, ChannelError> {
        match action {
            Action::Begin { .. } | Action::End => return Ok(false),
            Action::Table { code, of, table } => self.table(channel, code, of, table)?,
            Action::NoTable(code) => {
                self.drain.tables.add_none(code);
                self.drain.touch(code);
            }
            Action::Ignore => {}
        }
        Ok(true)
    }

    /// Loads a table that the recorder built.
    fn table(
        &mut self,
        channel: &mut Channel,
        code: Code,
        of: TableOf,
        table: Option<OwnedFd>,
    ) -> Result<(), ChannelError> {
        let added = match table {
            Some(table) => self.drain.tables.add(code, of.segments, table),
            None => Err(anyhow::anyhow!("received an unwind table without its bytes")),
        };
        match added {
            Ok(()) => self.drain.touch(code),
            Err(error) => {
                let text = format!("{}: {error:#}; its stacks are copied and unwound later", of.name);
                channel.send(&Reply::Warning(text), None)?;
            }
        }
        Ok(())
    }

    /// Does what is due between two cycles.
    fn report(&mut self, channel: &mut Channel) -> Result<(), ChannelError> {
        self.meter.turn(&self.hooks.ebpf);
        self.memory.turn();
        self.cpus.follow(&mut self.hooks);
        pass_on::open_new(&mut self.drain, &mut self.opener);
        pass_on::turn(&mut self.drain, &mut self.opener, channel)?;
        if self.flushed.elapsed() >= FLUSH_INTERVAL {
            self.flushed = Instant::now();
            self.drain.flush_log();
        }
        self.report_log_failure(channel)?;
        if self.counted.elapsed() >= LOSSES_INTERVAL {
            self.counted = Instant::now();
            self.drain.read_losses(&self.hooks);
        }
        if self.progress_sent.elapsed() >= PROGRESS_INTERVAL && channel.is_idle() {
            self.progress_sent = Instant::now();
            channel.send(&Reply::Progress(self.progress()), None)?;
        }
        Ok(())
    }

    fn report_log_failure(&mut self, channel: &mut Channel) -> Result<(), ChannelError> {
        let failure = self.drain.log().and_then(|log| log.failure().map(ToString::to_string));
        match failure.filter(|_| !self.log_failed) {
            Some(failure) => {
                self.log_failed = true;
                channel.send(&Reply::LogFailed(failure), None)
            }
            None => Ok(()),
        }
    }

    fn progress(&mut self) -> Progress {
        Progress {
            samples: self.drain.samples(),
            faults: self.drain.faults(),
            lost: self.drain.losses.total(),
            log_bytes: self.drain.log().map_or(0, |log| log.bytes()),
            processes: self.drain.recorded.processes_seen(),
            threads: self.drain.recorded.threads_alive(),
        }
    }

    /// Stops the recording and restores what was changed for it. Returns when it ended and whether restoring succeeded.
    fn stop(&mut self) -> (Timestamp, anyhow::Result<()>) {
        std::thread::sleep(LAST_SWITCH);
        let end = self.bounds.end();
        self.meter.stop(&self.hooks.ebpf);
        attach::stop(&self.hooks);
        let put_back = self.exact_touch.as_mut().map_or(Ok(()), ExactTouch::end);
        (end.unwrap_or_else(|_| procfs::now()), put_back)
    }

    /// Drains the rest, writes the names of kernel functions, and detaches.
    fn finish(&mut self, time: Timestamp) -> Ended {
        self.drain.end = time;
        live_threads::switch_out();
        for _ in 0..LAST_CYCLES {
            if self.drain.cycle(&mut self.hooks).records == 0 {
                break;
            }
        }
        let live_threads = live_threads::find(&mut self.drain);
        // Threads that ended since then have reported the rest of their time themselves.
        self.drain.cycle(&mut self.hooks);
        let within = (self.beginning, time);
        live_threads::write(&mut self.drain, within, &live_threads, self.hooks.has_waits);
        self.drain.owners.read_all();
        self.drain.owners.usage.end(time);
        self.drain.write_open_requests(time);
        for device in self.drain.disks.names() {
            self.drain.write(&Event::DeviceName(device));
        }
        self.drain.read_losses(&self.hooks);
        self.drain.close_samples();
        self.drain.owners.name_containers();
        // While our own programs are still loaded: they may be on the kernel's stacks.
        let names = self.drain.kernel.as_ref().and_then(|kernel| kernel.names().ok());
        for name in names.into_iter().flatten() {
            self.drain.write(&name);
        }
        let progress = self.progress();
        let cost = self
            .meter
            .cost(self.drain.fill.as_ref().map(Fill::cost), progress.log_bytes);
        self.drain.write(&Event::Cost(Box::new(cost)));
        self.drain.flush_log();
        Ended {
            progress,
            time,
            peak_rss_kib: meter::peak_rss() / 1024,
        }
    }
}
