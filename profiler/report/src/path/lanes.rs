//! Threads as lanes: when each of them was off CPUs. In between, it ran.

use base::addr::Timestamp;
use fact::{DeviceId, MappedFileId, StackId, ThreadId, WaitReason};

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EndedBy {
    /// Unknown, or nothing: a thread that is runnable has no waker.
    #[default]
    Unknown,
    /// An interrupt: a timer or a device.
    Interrupt,
    /// A recorded thread.
    Thread(ThreadId),
    /// A thread that is not recorded, by its tid.
    Unrecorded(u32),
}

/// A wait of a lane: blocked until `woken`, then waiting for a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneWait {
    /// When the thread was switched out.
    pub start: Timestamp,
    /// When it became runnable; from `start` to `end`.
    pub woken: Timestamp,
    /// When it ran again; after `start`.
    pub end: Timestamp,
    /// Why it waited.
    pub reason: WaitReason,
    /// Whether it was within a page fault.
    pub in_fault: bool,
    /// What ended it.
    pub ended_by: EndedBy,
    /// Its stack.
    pub stack: Option<StackId>,
    /// The file of its system call.
    pub file: Option<MappedFileId>,
    /// The block request that it waited for.
    pub request: Option<LaneRequest>,
    /// The CPU on which the thread ran again.
    pub cpu: Option<u16>,
    /// Its scheduling priority at the switch-out: lower numbers run first.
    pub priority: Option<i16>,
}

/// A block request that ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneRequest {
    /// When it was submitted.
    pub start: Timestamp,
    /// The thread that submitted it, if it is another one than the one that waited.
    pub by: Option<ThreadId>,
    /// Its device.
    pub device: DeviceId,
    /// Its file.
    pub file: Option<MappedFileId>,
}

/// A CPU sample of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneSample {
    /// When it was taken.
    pub time: Timestamp,
    /// Its stack.
    pub stack: Option<StackId>,
}

/// A page fault of a lane that read from a file, or waited for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneRead {
    /// When it began.
    pub start: Timestamp,
    /// When it ended; not before `start`.
    pub end: Timestamp,
    /// The file.
    pub file: MappedFileId,
}

/// A thread's time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lane {
    /// When the thread began, or the recording did.
    pub(super) born: Timestamp,
    /// Its process, as an index.
    pub(super) process: usize,
    /// The process that created its process, if it is the first thread of it.
    pub(super) parent: Option<usize>,
    /// The thread that created it, if that is known.
    pub(super) creator: Option<ThreadId>,
    /// When the thread ended: its last switch.
    ended: Option<Timestamp>,
    waits: Vec<LaneWait>,
    samples: Vec<LaneSample>,
    reads: Vec<LaneRead>,
}

/// What a thread did just before a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity<'l> {
    /// It had run since then.
    Ran(Timestamp),
    /// It was off CPUs.
    Waited(&'l LaneWait),
    /// It did not exist.
    Unborn,
}

/// The time of a thread on a CPU, between two switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// When it was switched in.
    pub start: Timestamp,
    /// When it was switched out; the end of time if it was not.
    pub end: Timestamp,
    /// The thread.
    pub thread: ThreadId,
}

/// The lanes of a recording, by [`ThreadId`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lanes {
    threads: Vec<Lane>,
    /// Which threads ran on each CPU, by time.
    cpus: Vec<Vec<Stretch>>,
    /// The threads of each process.
    processes: Vec<Vec<ThreadId>>,
}

impl Lane {
    /// A lane of waits and samples in any order. Waits that overlap, which only damaged recordings contain, are cut.
    pub fn new(born: Timestamp, mut waits: Vec<LaneWait>, mut samples: Vec<LaneSample>) -> Self {
        waits.sort_by_key(|wait| (wait.start, wait.end));
        let mut free = born;
        waits.retain_mut(|wait| {
            wait.start = wait.start.max(free);
            wait.woken = wait.woken.clamp(wait.start, wait.end.max(wait.start));
            if wait.start >= wait.end {
                return false;
            }
            free = wait.end;
            true
        });
        samples.sort_by_key(|sample| sample.time);
        Self {
            born,
            waits,
            samples,
            ..Self::default()
        }
    }

    /// The lane with these page faults, in any order. Those that begin within another one, which only damaged recordings
    /// contain, are dropped.
    #[must_use]
    pub fn with_reads(self, mut reads: Vec<LaneRead>) -> Self {
        reads.sort_by_key(|read| (read.start, read.end));
        let mut free = Timestamp(0);
        reads.retain(|read| {
            let is_free = read.start >= free && read.start < read.end;
            if is_free {
                free = read.end;
            }
            is_free
        });
        Self { reads, ..self }
    }

    /// The lane as a thread of the process with this index; for its first thread, with the process that created it.
    #[must_use]
    pub fn of_process(self, process: usize, parent: Option<usize>) -> Self {
        Self {
            process,
            parent,
            ..self
        }
    }

    /// The lane as a thread that this one created.
    #[must_use]
    pub fn created_by(self, creator: Option<ThreadId>) -> Self {
        Self { creator, ..self }
    }

    /// The lane as a thread that left its CPU for good at `ended`.
    #[must_use]
    pub fn ended(self, ended: Option<Timestamp>) -> Self {
        Self { ended, ..self }
    }

    /// Whether it still existed at that moment.
    pub fn has_not_ended(&self, time: Timestamp) -> bool {
        self.ended.is_none_or(|end| end >= time)
    }

    /// When it ended; `None`: not within the recording.
    pub(super) fn last(&self) -> Option<Timestamp> {
        self.ended
    }

    /// Its waits by time; they do not overlap.
    pub fn waits(&self) -> &[LaneWait] {
        &self.waits
    }

    /// Its samples by time.
    pub fn samples(&self) -> &[LaneSample] {
        &self.samples
    }

    /// Its page faults that read, by time; they do not overlap.
    pub fn reads(&self) -> &[LaneRead] {
        &self.reads
    }

    /// Its stretches on CPUs that are known, as those of the thread with this id.
    fn stretches(&self, thread: ThreadId) -> impl Iterator<Item = (u16, Stretch)> {
        let last = self.ended.unwrap_or(Timestamp(u64::MAX));
        let outs = self.waits.iter().skip(1).map(|next| next.start).chain([last]);
        let stretch = move |(wait, end): (&LaneWait, Timestamp)| {
            let start = wait.end;
            Some((wait.cpu?, Stretch { start, end, thread })).filter(|_| start < end)
        };
        self.waits.iter().zip(outs).filter_map(stretch)
    }

    /// What the thread did just before `time`.
    pub fn at(&self, time: Timestamp) -> Activity<'_> {
        let after = self.waits.partition_point(|wait| wait.start < time);
        match after.checked_sub(1).and_then(|last| self.waits.get(last)) {
            Some(wait) if wait.end >= time => Activity::Waited(wait),
            Some(wait) => Activity::Ran(wait.end),
            None if time > self.born => Activity::Ran(self.born),
            None => Activity::Unborn,
        }
    }

    /// The first wait that begins at or after `time`.
    pub fn next(&self, time: Timestamp) -> Option<&LaneWait> {
        self.waits.get(self.waits.partition_point(|wait| wait.start < time))
    }
}

impl Lanes {
    /// The lanes of threads, by [`ThreadId`].
    pub fn new(threads: Vec<Lane>) -> Self {
        let mut cpus: Vec<Vec<Stretch>> = Vec::new();
        let mut processes: Vec<Vec<ThreadId>> = Vec::new();
        for (lane, id) in threads.iter().zip((0..).map(ThreadId)) {
            for (cpu, stretch) in lane.stretches(id) {
                let cpu = usize::from(cpu);
                if cpu >= cpus.len() {
                    cpus.resize(cpu + 1, Vec::new());
                }
                cpus[cpu].push(stretch);
            }
            if lane.process >= processes.len() {
                processes.resize(lane.process + 1, Vec::new());
            }
            processes[lane.process].push(id);
        }
        for cpu in &mut cpus {
            cpu.sort_unstable_by_key(|stretch| (stretch.start, stretch.thread));
        }
        Self {
            threads,
            cpus,
            processes,
        }
    }

    /// All lanes with their threads.
    pub fn all(&self) -> impl Iterator<Item = (ThreadId, &Lane)> {
        (0..).map(ThreadId).zip(&self.threads)
    }

    /// The lane of a thread.
    pub fn get(&self, thread: ThreadId) -> Option<&Lane> {
        self.threads.get(thread.index())
    }

    /// What a thread did just before `time`.
    pub fn at(&self, thread: ThreadId, time: Timestamp) -> Activity<'_> {
        self.get(thread).map_or(Activity::Unborn, |lane| lane.at(time))
    }

    /// Whether a thread ran just before `time`.
    pub fn ran(&self, thread: ThreadId, time: Timestamp) -> bool {
        matches!(self.at(thread, time), Activity::Ran(_))
    }

    /// The last stretch on a CPU that began before `time`, of a thread other than `thread`.
    pub fn on_cpu(&self, cpu: u16, thread: ThreadId, time: Timestamp) -> Option<Stretch> {
        let stretches = self.cpus.get(usize::from(cpu))?;
        let before = stretches.partition_point(|stretch| stretch.start < time);
        let last = stretches.get(before.checked_sub(1)?)?;
        (last.thread != thread).then_some(*last)
    }

    /// The threads of a process.
    pub fn of_process(&self, process: usize) -> &[ThreadId] {
        self.processes.get(process).map_or(&[], Vec::as_slice)
    }
}
