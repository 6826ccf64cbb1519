//! One cycle of draining: rings to log, in an order that never checks a child's mapping before its birth.

mod bulk;
mod entered;
mod tasks;

use std::os::fd::{AsFd as _, BorrowedFd};
use std::rc::Rc;

use aya::maps::{HashMap, MapData, PerCpuArray, RingBuf};
use profiler_common::Loss;
use profiler_common::block::PendingRequest;
use profiler_common::scope::{ThreadState, Wanted};
use rustc_hash::{FxHashMap, FxHashSet};

use self::entered::Entered;
use super::early;
use super::file_names::FileNames;
use super::fill::Fill;
use super::left_out::LeftOut;
use super::log::Log;
use super::owners::Memberships;
use super::records::{self, Unseen};
use super::scope::Recorded;
use super::selected::Selected;
use super::threads::{Full, Threads};
use crate::files::open::ReportedFiles;
use crate::files::perf_maps::PerfMaps;
use crate::hooks::attach::Hooks;
use crate::hooks::disks::{Disks, Flags};
use crate::hooks::governor;
use crate::hooks::load::Sizes;
use crate::hooks::losses::Losses;
use crate::hooks::missed::Missed;
use crate::proc::kallsyms::KernelAddresses;
use crate::proc::mounts::Mounts;
use crate::proc::procfs;
use crate::space::mappings::{self, Record};
use crate::space::spaces::{Change, Code, Spaces};
use crate::space::tables::UnwindTables;
use base::addr::Timestamp;
use base::event::{Event, Mapping};

/// A program that is interrupted or preempted between reading the clock and submitting its record may be this late, in ns. The
/// conversion holds this much of the recording in memory.
const SUBMIT_SLACK: u64 = 200_000_000;
/// Records taken from a ring in one cycle, so a flood does not keep us from the other rings. The ring of task events holds
/// fewer than this.
const CYCLE_LIMIT: usize = 1 << 16;

/// A request as words: `aya::Pod` can't be implemented for a foreign type.
type RequestBytes = [u64; size_of::<PendingRequest>() / 8];

/// Everything that a cycle needs.
pub struct Drain {
    tasks: RingBuf<MapData>,
    /// `None`: nothing more is drained.
    bulk: Option<RingBuf<MapData>>,
    /// How full that ring was; `None`: the kernel does not show it.
    pub fill: Option<Fill>,
    /// The recorded threads, as the eBPF programs know them.
    pub threads: Threads,
    requests: HashMap<MapData, u64, RequestBytes>,
    counters: PerCpuArray<MapData, u64>,
    /// Losses so far.
    pub losses: Losses,
    /// Skipped runs of programs, as of the last reading of the losses.
    pub missed: Missed,
    /// The recorded processes and threads.
    pub recorded: Recorded,
    /// Which cgroups their processes are in.
    pub owners: Memberships,
    /// Which threads are recorded, if that is decided by what they are.
    pub selected: Option<Rc<Selected>>,
    /// Processes that are recorded from now on, although no recorded thread created them.
    entered: Entered,
    /// Processes that are no longer recorded, because the user may not inspect them.
    pub left_out: LeftOut,
    /// Addresses of kernel functions; `None`: hidden.
    pub kernel: Option<KernelAddresses>,
    log: Option<Log>,
    /// Mappings found before the log has its header.
    early: Vec<Event<'static>>,
    spaces: Spaces,
    /// The walker's unwind tables and ranges.
    pub tables: UnwindTables,
    files: ReportedFiles,
    /// Bits of an operation's flags in this kernel.
    pub flags: Flags,
    /// Block devices.
    pub disks: Disks,
    mounts: Mounts,
    file_names: FileNames,
    /// The files in which run-time compilers describe their code.
    pub perf_maps: PerfMaps,
    new_files: Vec<Mapping>,
    /// Mappings of processes that were unknown in the last cycle.
    unknown: Vec<Mapping>,
    /// Changes after the mapping records of the last cycle were read.
    later: Vec<(Timestamp, Change)>,
    /// On-CPU time of a sample where it is not measured, in ns.
    nominal_time: Option<u64>,
    frames: records::Frames,
    /// What was written so far.
    pub counts: Counts,
    /// Waits whose beginning no switch showed, by thread and time, until their records arrive.
    pub asleep: FxHashMap<(u32, Timestamp), Unseen>,
    /// When the recording ended; the maximum: it continues.
    pub end: Timestamp,
    /// Waits from before the end that threads reported since [`Self::start_noting_reports`]; `None`: the end has not come.
    reported_waits: Option<FxHashSet<(u32, Timestamp)>>,
}

/// How much was written.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Of the recorded threads.
    pub of_recorded: governor::Counts,
    /// Page faults.
    pub faults: u64,
}

/// What a cycle found.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cycle {
    /// Records of any kind.
    pub records: usize,
    /// Bytes of samples.
    pub bytes: usize,
    /// A process was born or executed a program, or new code was mapped.
    pub has_news: bool,
}

impl Drain {
    /// Takes the maps out of the object.
    pub fn new(
        hooks: &mut Hooks,
        recorded: Recorded,
        kernel: Option<KernelAddresses>,
        hz: u32,
        sizes: Sizes,
    ) -> anyhow::Result<Self> {
        let tables = UnwindTables::new(&mut hooks.ebpf, sizes)?;
        let threads = Threads::new(&mut hooks.ebpf)?;
        let mut take = |name: &str| {
            let map = hooks.ebpf.take_map(name);
            map.ok_or_else(|| anyhow::anyhow!("the eBPF object has no map {name}: run `scripts/build-ebpf`"))
        };
        let bulk = RingBuf::try_from(take("BULK")?)?;
        Ok(Self {
            fill: Fill::new(&bulk, sizes.bulk_bytes).ok(),
            tasks: RingBuf::try_from(take("TASKS")?)?,
            bulk: Some(bulk),
            threads,
            requests: HashMap::try_from(take("REQUESTS")?)?,
            counters: PerCpuArray::try_from(take("LOSSES")?)?,
            losses: Losses::default(),
            missed: Missed::default(),
            recorded,
            owners: Memberships::of_machine(),
            selected: None,
            entered: Entered::default(),
            left_out: LeftOut::default(),
            kernel,
            log: None,
            early: Vec::new(),
            spaces: Spaces::default(),
            tables,
            files: ReportedFiles::default(),
            flags: Flags::default(),
            disks: Disks::default(),
            mounts: Mounts::default(),
            file_names: FileNames::default(),
            perf_maps: PerfMaps::default(),
            new_files: Vec::new(),
            unknown: Vec::new(),
            later: Vec::new(),
            nominal_time: (!hooks.has_switches).then(|| 1_000_000_000 / u64::from(hz.max(1))),
            frames: records::Frames::default(),
            counts: Counts::default(),
            asleep: FxHashMap::default(),
            end: Timestamp(u64::MAX),
            reported_waits: None,
        })
    }

    /// Starts recording a thread.
    pub fn want(&mut self, tid: u32, wanted: Wanted) {
        if let Err(Full) = self.threads.want(tid, wanted) {
            self.losses.count(Loss::ThreadTableFull, 1);
        }
    }

    /// On-CPU time up to a thread's last switch-out that no sample has reported, in ns; 0 where its time is not measured.
    pub fn unreported(&self, state: &ThreadState) -> u64 {
        match self.nominal_time {
            None => state.total.saturating_sub(state.reported),
            Some(_) => 0,
        }
    }

    /// Starts noting which threads report a wait, and when that wait began.
    pub fn start_noting_reports(&mut self) {
        self.reported_waits = Some(FxHashSet::default());
    }

    /// Whether a thread has reported, since [`Self::start_noting_reports`], the wait that began at `since`.
    pub fn has_reported(&self, tid: u32, since: Timestamp) -> bool {
        self.reported_waits
            .as_ref()
            .is_some_and(|reported_waits| reported_waits.contains(&(tid, since)))
    }

    /// Starts writing events to `log`. The recording began at `beginning`.
    pub fn set_log(&mut self, log: Log, beginning: Timestamp) {
        self.log = Some(log);
        for event in early::living(std::mem::take(&mut self.early), beginning) {
            self.write(&event);
        }
    }

    /// The log, once there is one.
    pub fn log(&mut self) -> Option<&mut Log> {
        self.log.as_mut()
    }

    /// A descriptor that becomes readable as soon as a process has a new program.
    pub fn news(&self) -> BorrowedFd<'_> {
        self.tasks.as_fd()
    }

    /// Frees the ring of samples: the end of the recording needs memory, and no further samples arrive.
    pub fn close_samples(&mut self) {
        self.bulk = None;
    }

    /// Writes an event, or keeps it until there is a log.
    pub fn write(&mut self, event: &Event<'static>) {
        match &mut self.log {
            Some(log) => log.event(event, &mut self.losses),
            None => self.early.push(event.clone()),
        }
    }

    /// Writes a mapping that was found, and takes note of its code.
    pub fn found(&mut self, mut mapping: Mapping) {
        mapping.file = self.spaces.generations.current(mapping.file);
        self.spaces.mapped(&mapping);
        self.mapping(mapping);
    }

    /// Marks code about which something became known.
    pub fn touch(&mut self, code: Code) {
        self.spaces.touch(code);
    }

    /// Brings the walker's view up to date.
    pub fn publish(&mut self) {
        self.tables.publish(&mut self.spaces, &mut self.losses);
    }

    /// Writes a mapping, and takes note of a new file.
    fn mapping(&mut self, mapping: Mapping) {
        self.perf_maps.mapped(&mapping);
        if self.files.is_new(&mapping) {
            self.new_files.push(mapping.clone());
        }
        self.write(&Event::Mapping(mapping));
    }

    /// The executable files that were mapped for the first time.
    pub fn new_files(&mut self) -> Vec<Mapping> {
        std::mem::take(&mut self.new_files)
    }

    /// Empties the rings into the log; that of samples once there is one.
    ///
    /// Mapping records are read first, but only held: the births read after them are complete up to their time. Changes after
    /// they were read wait for the next cycle, since its records may include earlier mappings.
    pub fn cycle(&mut self, hooks: &mut Hooks) -> Cycle {
        let began = procfs::now();
        let made = self.read_mappings(hooks);
        let mut cycle = Cycle {
            records: made.len(),
            ..Cycle::default()
        };
        let mut changes = std::mem::take(&mut self.later);
        let (tasks, has_process) = self.read_tasks(&mut changes);
        cycle.records += tasks;
        self.judge(made, &mut changes);
        self.later = changes.extract_if(.., |(time, _)| *time >= began).collect();
        self.spaces.apply(changes);
        self.describe_entered();
        for pid in self.recorded.settle(began) {
            self.left_out.ended(pid);
            self.owners.ended(pid);
            self.spaces.ended(pid);
            self.perf_maps.ended(pid);
        }
        self.publish();
        let (samples, bytes) = if self.log.is_some() { self.read_bulk() } else { (0, 0) };
        self.owners.read();
        self.owners.usage.turn();
        (cycle.records, cycle.bytes) = (cycle.records + samples, bytes);
        cycle.has_news = has_process || !self.new_files.is_empty();
        if cycle.records > 0 && samples < CYCLE_LIMIT && self.log.is_some() {
            let complete = Timestamp(began.0.saturating_sub(SUBMIT_SLACK));
            // Whatever outlives the recording is written last, with its end as the time.
            self.write(&Event::Watermark(complete.min(self.end)));
        }
        cycle
    }

    /// Writes the mappings of recorded processes. One of an unknown process is checked again in the next cycle: a record
    /// that another CPU had not finished may have hidden the birth.
    fn judge(&mut self, made: Vec<Mapping>, changes: &mut Vec<(Timestamp, Change)>) {
        let last = std::mem::take(&mut self.unknown);
        let known = |mapping: &Mapping| self.recorded.contains(mapping.at.pid);
        let (write, unknown): (Vec<_>, Vec<_>) = made.into_iter().partition(known);
        let late: Vec<Mapping> = last.into_iter().filter(known).collect();
        self.unknown = unknown;
        for mapping in late.into_iter().chain(write) {
            changes.push((mapping.at.time, Change::Mapped(mapping.clone())));
            self.mapping(mapping);
        }
    }

    /// Reads the counters of losses, and writes those that changed.
    pub fn read_losses(&mut self, hooks: &Hooks) {
        self.losses.read(&self.counters);
        self.missed = Missed::read(&hooks.ebpf);
        self.losses.set(Loss::ProgramMissed, self.missed.count());
        self.losses.set(Loss::CgroupLeftOut, self.owners.left_out);
        if let Some(log) = &mut self.log {
            log.losses(&mut self.losses);
        }
    }

    fn read_mappings(&mut self, hooks: &mut Hooks) -> Vec<Mapping> {
        let mut made = Vec::new();
        let (losses, generations) = (&mut self.losses, &mut self.spaces.generations);
        for (_, ring) in &mut hooks.mappings {
            ring.drain(|kind, misc, record| match mappings::parse(kind, misc, record) {
                Some(Record::Mapping(mut mapping)) => {
                    mapping.file = generations.of_record(mapping.file);
                    made.push(mapping);
                }
                Some(Record::Lost(count)) => losses.count(Loss::PerfRecordLost, count),
                Some(Record::Throttled) | None => {}
            });
        }
        for (_, ring) in &mut hooks.sampling {
            ring.drain(|kind, misc, record| {
                if mappings::parse(kind, misc, record) == Some(Record::Throttled) {
                    losses.count(Loss::SampleThrottled, 1);
                }
            });
        }
        made
    }
}
