//! A recording, from `Start` to `Ended` or until the recorder is gone.

mod begin;

use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use crate::drain::cycle::Drain;
use crate::drain::fill::Fill;
use crate::drain::live_threads;
use crate::drain::poll::PollInterval;
use crate::files::opener::Opener;
use crate::hooks::attach::{self, Hooks};
use crate::hooks::bounds::Bounds;
use crate::hooks::exact_touch::ExactTouch;
use crate::hooks::governor::Governor;
use crate::hooks::hotplug::Cpus;
use crate::hooks::meter::{self, Meter};
use crate::pass_on;
use crate::proc::memory::Memory;
use crate::proc::procfs;
use crate::socket::channel::{Channel, ChannelError};
use crate::socket::protocol::{Action, Protocol};
use crate::socket::wire::{Ended, Progress, Reply, TableOf};
use crate::space::spaces::Code;
use base::addr::Timestamp;
use base::event::Event;

pub(crate) use begin::begin;

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
    governor: Option<Governor>,
    cpus: Cpus,
    memory: Memory,
}

impl Session {
    pub(crate) fn record(mut self, channel: &mut Channel, protocol: &mut Protocol) -> anyhow::Result<()> {
        let mut interval = self.poll.first();
        let end = loop {
            // A program that maps much fills a ring within an interval.
            let mappings = self.hooks.mappings.iter().map(|(_, ring)| ring.as_fd());
            let others: Vec<_> = self
                .opener
                .sockets()
                .chain([self.drain.news()])
                .chain(mappings)
                .collect();
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
            if let Err(error) = channel.warn(self.follow_cgroups()) {
                break Err(error);
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

    /// At once, since a new cgroup may have processes in a moment. Returns a warning.
    fn follow_cgroups(&mut self) -> Option<String> {
        let error = attach::follow_cgroups(&mut self.hooks, self.cpus.hz()).err()?;
        Some(format!(
            "samples and page faults of new cgroups may be missing: {error}"
        ))
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
        self.govern();
        if self.meter.turn(&self.hooks.ebpf) {
            self.govern();
        }
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

    /// Reads what the kernel measures at the beginning and before the end of each stretch, and has the programs leave out
    /// more or less.
    fn govern(&mut self) {
        if let Some(governor) = &mut self.governor {
            governor.turn(
                &self.meter,
                &self.hooks.ebpf,
                self.drain.counts.of_recorded,
                procfs::now(),
            );
        }
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
            samples: self.drain.counts.of_recorded.samples,
            faults: self.drain.counts.faults,
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
        let ring = self.drain.fill.as_ref().map(Fill::cost);
        let mut cost = self.meter.cost(ring, progress.log_bytes);
        cost.thinning = self.governor.as_ref().map(Governor::result);
        self.drain.write(&Event::Cost(Box::new(cost)));
        self.drain.flush_log();
        Ended {
            progress,
            time,
            peak_rss_kib: meter::peak_rss() / 1024,
        }
    }
}
