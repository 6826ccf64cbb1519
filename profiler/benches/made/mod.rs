//! Streams synthetic event logs of any size: forty processes like those of a browser, with any number of events.
//!
//! The same number always gives the same log. The memory for reading a log depends on its distinct threads, files, pages and
//! stacks, so there are as many of these as in a long recording, whatever the number of events.
// Each user of this module needs a part of it.
#![allow(dead_code)]

mod machine;
mod stacks;

use std::io::{self, Write};

use profiler::addr::{Avma, FileOffset, Timestamp};
use profiler::event::write::LogWriter;
use profiler::event::{
    At, Attempts, Bio, Call, End, Event, Fault, FaultFile, FaultVma, Header, HookStatus, OpenFile, PagesRead, Request,
    Sample, StackAhead, Stacks, TaskExit, Wait, Waker,
};
use profiler_common::block::{BIO_CACHED, BIO_IN_FAULT, BIO_RECORDED};
use profiler_common::fault::{FAULT_EXCEPTION, FAULT_HAS_FILE, FAULT_HAS_VMA, FAULT_STARTED, error_code};
use profiler_common::stack::{FLAG_IN_KERNEL, FLAG_USER_REGS};

use self::machine::{DEVICE, FILE_PAGES, Machine, any_thread, at, file, library_at, process_of};
use self::stacks::StackBook;

/// When the recording starts.
pub const START: u64 = 1_000_000_000_000;
/// Time from one event of the machine to the next, in ns.
const STEP: u64 = 4_000;
/// Maximum delay of an event's draining, in ns.
const JUMBLE: u64 = 100_000;
/// Number of events between watermarks.
const WATERMARK: u64 = 4096;

/// The size of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// This many samples, faults, waits, reads and requests together.
    Events(u64),
    /// Approximately this many bytes.
    Bytes(u64),
}

/// Pseudo-random numbers, the same each time.
#[derive(Debug, Clone, Copy)]
pub struct Dice(pub u64);

impl Dice {
    /// The next number (splitmix64).
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which must not be 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.roll() % limit
    }

    /// A number below `limit`, small ones far more often.
    pub fn mostly_small(&mut self, limit: u64) -> u64 {
        let part = self.below(1 << 20);
        let cubed = part * part / (1 << 20) * part / (1 << 20);
        (limit * cubed) >> 20
    }
}

/// Writes a log of that size with at most that many distinct user stacks, and returns the number of events.
///
/// # Errors
/// If `out` can't be written.
pub fn write(out: impl Write, size: Size, distinct_stacks: u64) -> io::Result<u64> {
    let mut made = Made {
        log: LogWriter::new(out, &header())?,
        machine: Machine::default(),
        stacks: StackBook::new(distinct_stacks),
        dice: Dice(1),
        now: START,
        events: 0,
    };
    made.machine.begin(&mut made.log, START)?;
    stacks::kernel_stacks(&mut made.log)?;
    let goes_on = |made: &Made<_>| match size {
        Size::Events(events) => made.events < events,
        Size::Bytes(bytes) => made.log.bytes_written() < bytes,
    };
    while goes_on(&made) {
        made.next()?;
        if made.events.is_multiple_of(WATERMARK) {
            made.log.event(&Event::Watermark(Timestamp(made.now - 2 * JUMBLE)))?;
        }
    }
    made.finish()
}

/// The header of such a log.
pub fn header() -> Header {
    let hook = |noun: &str, hook: &str| HookStatus {
        noun: noun.into(),
        hook: hook.into(),
        refused: None,
        remedy: None,
    };
    Header {
        ngmi_version: "0.1.0".into(),
        command: vec!["made-up".into()],
        start: Timestamp(START),
        start_unix_ms: 1_750_000_000_000,
        kernel: "6.18.0".into(),
        arch: "x86_64".into(),
        boot_id: "none".into(),
        cpus: 8,
        sample_hz: 1000,
        sample_event: "cpu-clock".into(),
        stack_copy: 0,
        scope: "command".into(),
        hooks: vec![
            hook("sample", "perf cpu-clock"),
            hook("fault", "perf page-faults"),
            hook("fault", "tp_btf/page_fault_user"),
            hook("switch", "tp_btf/sched_switch"),
            hook("block", "tp_btf/block_rq_complete"),
        ],
    }
}

struct Made<W: Write> {
    log: LogWriter<W>,
    machine: Machine,
    stacks: StackBook,
    dice: Dice,
    now: u64,
    events: u64,
}

impl<W: Write> Made<W> {
    fn next(&mut self) -> io::Result<()> {
        self.now += STEP / 2 + self.dice.below(STEP);
        let thread = any_thread(&mut self.dice);
        // Drained a little late, and never before the thread's last event.
        let time = (self.now - self.dice.below(JUMBLE)).max(self.machine.last[thread] + 200);
        let at = at(thread, time);
        match self.dice.below(100) {
            0..20 => self.sample(thread, at)?,
            20..58 => self.fault(thread, at)?,
            58..96 => self.wait(thread, at)?,
            _ => self.read(thread, at)?,
        }
        self.machine.last[thread] = time;
        Ok(())
    }

    fn stacks(&mut self, thread: usize, flags: u32) -> io::Result<Stacks<'static>> {
        let process = process_of(thread);
        let user = self.stacks.user(&mut self.log, process, &mut self.dice)?;
        Ok(Stacks {
            flags: FLAG_USER_REGS | flags,
            user,
            ..Stacks::default()
        })
    }

    fn sample(&mut self, thread: usize, at: At) -> io::Result<()> {
        let mut stacks = self.stacks(thread, 0)?;
        if self.dice.below(4) == 0 {
            stacks.flags |= FLAG_IN_KERNEL;
            stacks.kernel = stacks::kernel(stacks.user, &mut self.dice);
        }
        let sample = Sample {
            at,
            cpu: 0,
            cpu_time: 1_000_000,
            stacks,
        };
        self.events += 1;
        self.log.event(&Event::Sample(sample))
    }

    fn fault(&mut self, thread: usize, at: At) -> io::Result<()> {
        let stacks = self.stacks(thread, 0)?;
        let latency = 300 + self.dice.mostly_small(40_000);
        let start = at.time.0.saturating_sub(latency).max(self.machine.last[thread]);
        let mut fault = Fault {
            at,
            start: Some(Timestamp(start)),
            flags: FAULT_STARTED | FAULT_EXCEPTION | FAULT_HAS_VMA,
            stacks,
            ..Fault::default()
        };
        fault.attempts = Attempts {
            error_code: error_code::USER,
            ..Attempts::default()
        };
        let process = process_of(thread);
        if self.dice.below(3) == 0 {
            let library = self.dice.mostly_small(machine::LIBRARIES);
            let page = self.dice.mostly_small(FILE_PAGES);
            fault.flags |= FAULT_HAS_FILE;
            fault.address = Avma(library_at(process, library) + page * 4096 + self.dice.below(4096));
            fault.vma = Some(FaultVma {
                flags: 5,
                file: Some(FaultFile {
                    file: file(library),
                    offset: FileOffset(page * 4096),
                    magic: 0xef53,
                    mmap_miss: 0,
                }),
            });
        } else {
            fault.attempts.error_code |= error_code::WRITE;
            fault.address = Avma(machine::heap_at(process) + self.dice.below(1 << 30));
            fault.vma = Some(FaultVma { flags: 3, file: None });
        }
        self.events += 1;
        self.log.event(&Event::Fault(fault))
    }

    fn wait(&mut self, thread: usize, at: At) -> io::Result<()> {
        let mut stacks = self.stacks(thread, 0)?;
        stacks.kernel = stacks::kernel(stacks.user, &mut self.dice);
        let out = Timestamp(self.machine.last[thread] + 100).min(at.time);
        let off = at.time.since(out).as_nanos().try_into().unwrap_or(u64::MAX);
        let other = any_thread(&mut self.dice);
        let woken = machine::at(other, at.time.0.saturating_sub(off / 10));
        let number = [202, 232, 0, 1, 7, 35][usize::try_from(self.dice.below(6)).unwrap_or(0)];
        let file = file(self.dice.mostly_small(machine::LIBRARIES));
        let wait = Wait {
            at,
            cpu: 0,
            out,
            end: at.time,
            off,
            queued: off / 10,
            longest: off,
            count: 1,
            state: 1,
            flags: 0,
            call: Some(Call {
                number,
                arguments: [3, 128, 0],
                file: (number < 2).then_some(OpenFile {
                    file,
                    mode: 0o100_644,
                    magic: 0xef53,
                    name: 0,
                }),
            }),
            waker: Some(Waker {
                time: woken.time,
                pid: woken.pid,
                tid: woken.tid,
                user: 0,
                kernel: stacks::kernel(0, &mut self.dice),
            }),
            stacks,
        };
        self.events += 1;
        self.log.event(&Event::Wait(wait))
    }

    /// A thread reads pages: its stack, the bio, the pages and the request.
    fn read(&mut self, thread: usize, at: At) -> io::Result<()> {
        let stacks = self.stacks(thread, 0)?;
        self.log.event(&Event::StackAhead(StackAhead { at, stacks }))?;
        let (library, first) = (
            self.dice.mostly_small(machine::LIBRARIES),
            self.dice.mostly_small(FILE_PAGES),
        );
        let (sector, bytes) = (library * FILE_PAGES * 8 + first * 8, 32 * 4096);
        self.log.event(&Event::Bio(Bio {
            at,
            device: DEVICE,
            sector,
            bytes,
            flags: BIO_RECORDED | BIO_CACHED | BIO_IN_FAULT,
            file: Some(file(library)),
            page: first,
            ..Bio::default()
        }))?;
        self.log.event(&Event::PagesRead(PagesRead {
            at,
            since: at.time,
            file: file(library),
            first,
            count: 32,
            in_fault: true,
            order: Some(0),
        }))?;
        let done = at.time.0 + 20_000 + self.dice.mostly_small(80_000);
        let request = Request {
            at: At {
                time: Timestamp(done),
                ..at
            },
            device: DEVICE,
            sector,
            bytes,
            queued: Some(at.time),
            issued: Some(Timestamp(at.time.0 + 2_000)),
            depth: 1,
            ..Request::default()
        };
        self.events += 3;
        self.log.event(&Event::Request(request))
    }

    fn finish(mut self) -> io::Result<u64> {
        self.now += 2 * JUMBLE;
        for thread in (0..self.machine.last.len()).rev() {
            let time = self.now.max(self.machine.last[thread] + 1);
            self.log.event(&Event::TaskExit(TaskExit {
                at: at(thread, time),
                sum_exec_runtime: 1_000_000,
                ..TaskExit::default()
            }))?;
        }
        self.log.event(&Event::End(End {
            time: Timestamp(self.now + JUMBLE),
            reason: "command exited".into(),
            status: Some(0),
        }))?;
        self.log.finish()?;
        Ok(self.events)
    }
}
