//! One cycle of draining: rings to log, in an order in which a child's mapping is never judged before its birth.

use aya::maps::{HashMap, MapData, PerCpuArray, RingBuf};
use profiler_common::Loss;
use profiler_common::sample::FLAG_USER_REGS;
use profiler_common::scope::ThreadState;
use zerocopy::{FromBytes, IntoBytes};

use super::attach::Hooks;
use super::code::Code;
use super::files::{self, Files};
use super::kallsyms::KernelAddresses;
use super::log::Log;
use super::losses::Losses;
use super::mappings::{self, Record};
use super::perf_maps::PerfMaps;
use super::scope::Recorded;
use super::wire::Mapped;
use super::{procfs, records};
use crate::addr::{KernelOffset, Timestamp};
use crate::event::{Event, Mapping};

/// A program that is interrupted between reading the clock and submitting its record may be this late, in ns.
const SUBMIT_SLACK: u64 = 5_000_000;
/// Records taken from a ring in one cycle, so that a flood does not keep us from the other rings. The ring of task events
/// does not hold so many.
const CYCLE_LIMIT: usize = 1 << 16;

/// A thread's entry as bytes: `aya::Pod` can't be implemented for a foreign type.
type StateBytes = [u64; size_of::<ThreadState>() / 8];

/// Everything that a cycle needs.
pub struct Drain {
    tasks: RingBuf<MapData>,
    /// `None`: nothing more is drained.
    bulk: Option<RingBuf<MapData>>,
    threads: HashMap<MapData, u32, StateBytes>,
    counters: PerCpuArray<MapData, u64>,
    /// What was lost.
    pub losses: Losses,
    /// Who is recorded.
    pub recorded: Recorded,
    /// Where kernel functions are; `None`: hidden.
    pub kernel: Option<KernelAddresses>,
    log: Option<Log>,
    /// Mappings found before the log has its header.
    early: Vec<Event<'static>>,
    code: Code,
    files: Files,
    /// What compilers at run time write about their code.
    pub perf_maps: PerfMaps,
    new_files: Vec<Mapping>,
    /// Mappings of processes that nobody knew in the last cycle.
    unknown: Vec<Mapping>,
    /// On-CPU time of a sample where it is not measured, in ns.
    nominal_time: Option<u64>,
    frames: Vec<KernelOffset>,
    samples: u64,
}

/// What a cycle found.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cycle {
    /// Records of any kind.
    pub records: usize,
    /// Bytes of samples.
    pub bytes: usize,
    /// A task was born, ended or changed, or new code was mapped.
    pub has_news: bool,
}

impl Drain {
    /// Takes the maps out of the object.
    pub fn new(
        hooks: &mut Hooks,
        recorded: Recorded,
        kernel: Option<KernelAddresses>,
        hz: u32,
    ) -> anyhow::Result<Self> {
        let mut take = |name: &str| {
            let map = hooks.ebpf.take_map(name);
            map.ok_or_else(|| anyhow::anyhow!("the eBPF object has no map {name}: run `scripts/build-ebpf`"))
        };
        Ok(Self {
            tasks: RingBuf::try_from(take("TASKS")?)?,
            bulk: Some(RingBuf::try_from(take("BULK")?)?),
            threads: HashMap::try_from(take("THREADS")?)?,
            counters: PerCpuArray::try_from(take("LOSSES")?)?,
            losses: Losses::default(),
            recorded,
            kernel,
            log: None,
            early: Vec::new(),
            code: Code::default(),
            files: Files::default(),
            perf_maps: PerfMaps::default(),
            new_files: Vec::new(),
            unknown: Vec::new(),
            nominal_time: (!hooks.has_switches).then(|| 1_000_000_000 / u64::from(hz.max(1))),
            frames: Vec::new(),
            samples: 0,
        })
    }

    /// Records a thread from now on. An entry that the kernel side made meanwhile stays.
    pub fn seed(&mut self, tid: u32, state: ThreadState) {
        const BPF_NOEXIST: u64 = 1;
        let mut words = StateBytes::default();
        words.as_mut_bytes().copy_from_slice(state.as_bytes());
        let inserted = self.threads.insert(tid, words, BPF_NOEXIST);
        if inserted.is_err() && self.threads.get(&tid, 0).is_err() {
            self.losses.count(Loss::ThreadTableFull, 1);
        }
    }

    /// On-CPU time up to a thread's last switch-out that no sample has reported, in ns. `None`: it is recorded no more, or its
    /// time is not measured.
    pub fn unreported(&self, tid: u32) -> Option<u64> {
        let words = self.threads.get(&tid, 0).ok()?;
        let state = ThreadState::read_from_bytes(words.as_bytes()).ok()?;
        self.nominal_time
            .is_none()
            .then(|| state.total.saturating_sub(state.reported))
    }

    /// From here on events are written.
    pub fn set_log(&mut self, log: Log) {
        self.log = Some(log);
        for event in std::mem::take(&mut self.early) {
            self.write(&event);
        }
    }

    /// The log, once it is there.
    pub fn log(&mut self) -> Option<&mut Log> {
        self.log.as_mut()
    }

    /// Gives back the ring of samples: what comes at the end needs memory, and no sample comes any more.
    pub fn close_samples(&mut self) {
        self.bulk = None;
    }

    /// Samples written so far.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Writes an event, or keeps it until there is a log.
    pub fn write(&mut self, event: &Event<'static>) {
        match &mut self.log {
            Some(log) => log.event(event, &mut self.losses),
            None => self.early.push(event.clone()),
        }
    }

    /// Writes a mapping, and takes note of a new file.
    pub fn mapping(&mut self, mapping: Mapping) {
        self.code.mapped(&mapping);
        self.perf_maps.mapped(&mapping);
        if self.files.is_new(&mapping) {
            self.new_files.push(mapping.clone());
        }
        self.write(&Event::Mapping(mapping));
    }

    /// The next executable file that was mapped for the first time, with its descriptor if `open`.
    pub fn next_file(&mut self, open: bool) -> Option<(Mapped, Option<std::os::fd::OwnedFd>)> {
        let mapping = self.new_files.pop()?;
        Some(files::mapped(&mapping, open))
    }

    /// Empties the rings into the log.
    ///
    /// Mapping records first, but only held: the births read after them are complete up to their time.
    pub fn cycle(&mut self, hooks: &mut Hooks) -> Cycle {
        let began = procfs::now();
        let made = self.read_mappings(hooks);
        let mut cycle = Cycle {
            records: made.len(),
            ..Cycle::default()
        };
        let tasks = self.read_tasks();
        cycle.records += tasks;
        self.judge(made);
        for pid in self.recorded.settle() {
            self.code.ended(pid);
            self.perf_maps.ended(pid);
        }
        let (samples, bytes) = self.read_samples();
        (cycle.records, cycle.bytes) = (cycle.records + samples, bytes);
        cycle.has_news = tasks > 0 || !self.new_files.is_empty();
        if cycle.records > 0 && samples < CYCLE_LIMIT {
            self.write(&Event::Watermark(Timestamp(began.0.saturating_sub(SUBMIT_SLACK))));
        }
        cycle
    }

    /// Writes the mappings of recorded processes. One of an unknown process is judged once more in the next cycle: a record
    /// that another CPU had not finished may have hidden the birth.
    fn judge(&mut self, made: Vec<Mapping>) {
        let last = std::mem::take(&mut self.unknown);
        let known = |mapping: &Mapping| self.recorded.contains(mapping.at.pid);
        let (write, unknown): (Vec<_>, Vec<_>) = made.into_iter().partition(known);
        let late: Vec<Mapping> = last.into_iter().filter(known).collect();
        self.unknown = unknown;
        for mapping in late.into_iter().chain(write) {
            self.mapping(mapping);
        }
    }

    /// Reads the counters of losses, and writes those that changed.
    pub fn read_losses(&mut self, hooks: &Hooks) {
        self.losses.read(&self.counters);
        self.losses
            .set(Loss::ProgramMissed, super::attach::recursion_misses(hooks));
        if let Some(log) = &mut self.log {
            self.losses.write(log);
        }
    }

    fn read_mappings(&mut self, hooks: &mut Hooks) -> Vec<Mapping> {
        let mut made = Vec::new();
        let losses = &mut self.losses;
        for ring in &mut hooks.mappings {
            ring.drain(|kind, misc, record| match mappings::parse(kind, misc, record) {
                Some(Record::Mapping(mapping)) => made.push(mapping),
                Some(Record::Lost(count)) => losses.count(Loss::PerfRecordLost, count),
                Some(Record::Throttled) | None => {}
            });
        }
        for ring in &mut hooks.sampling {
            ring.drain(|kind, misc, record| {
                if mappings::parse(kind, misc, record) == Some(Record::Throttled) {
                    losses.count(Loss::SampleThrottled, 1);
                }
            });
        }
        made
    }

    fn read_tasks(&mut self) -> usize {
        let mut count = 0;
        while count < CYCLE_LIMIT {
            let Some(event) = self.tasks.next().map(|record| records::task_event(&record)) else {
                break;
            };
            count += 1;
            let Some(event) = event else { continue };
            match &event {
                Event::TaskNew(new) => {
                    self.recorded.born(new.at.pid, new.at.tid);
                    if new.at.pid == new.at.tid {
                        self.code.forked(new.parent.0, new.at.pid);
                    }
                }
                Event::TaskExec(exec) => {
                    self.recorded.executed(exec.at.pid, exec.old_tid);
                    self.code.ended(exec.at.pid);
                    self.perf_maps.ended(exec.at.pid);
                }
                Event::TaskExit(exit) => self.recorded.ended(exit.at.pid, exit.at.tid),
                _ => {}
            }
            self.write(&event);
        }
        count
    }

    fn read_samples(&mut self) -> (usize, usize) {
        let (mut count, mut bytes, mut found) = (0, 0, Vec::new());
        while count < CYCLE_LIMIT
            && let Some(record) = self.bulk.as_mut().and_then(RingBuf::next)
        {
            count += 1;
            bytes += record.len();
            let Some(mut sample) = records::sample(&record, self.kernel.as_mut(), &mut self.frames) else {
                continue;
            };
            if let Some(time) = self.nominal_time {
                sample.cpu_time = time;
            }
            self.samples += 1;
            let Some(log) = &mut self.log else { continue };
            if sample.flags & FLAG_USER_REGS != 0
                && let Some(mapping) = self.code.find(sample.at, sample.regs.ip)
            {
                log.event(&Event::Mapping(mapping.clone()), &mut self.losses);
                found.push(mapping);
            }
            log.event(&Event::Sample(sample), &mut self.losses);
        }
        self.new_files
            .extend(found.into_iter().filter(|mapping| self.files.is_new(mapping)));
        (count, bytes)
    }
}
