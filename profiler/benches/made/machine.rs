//! The synthetic machine: processes, threads, and their mappings.

use std::io::{self, Write};

use profiler::addr::{Avma, FileOffset, KernelOffset, Timestamp};
use profiler::event::write::LogWriter;
use profiler::event::{At, Device, DeviceName, Event, FileId, Mapping, Module, Segment, TaskExec, TaskNew};

use super::Dice;

/// Number of processes.
pub const PROCESSES: u64 = 40;
/// Number of threads in all of them.
pub const THREADS: u64 = 300;
/// Number of files that each process has mapped.
pub const LIBRARIES: u64 = 120;
/// Pages of a library's code, and as many of its data.
pub const FILE_PAGES: u64 = 16_384;
/// Number of kernel functions.
pub const KERNEL_FUNCTIONS: u64 = 4_000;
/// The disk.
pub const DEVICE: Device = Device { major: 254, minor: 0 };

const FIRST_PID: u64 = 1_000;
const BYTES: u64 = FILE_PAGES * 4096;

/// The file of a library.
pub fn file(library: u64) -> FileId {
    FileId {
        major: 254,
        minor: 1,
        inode: 100_000 + library,
        generation: 0,
    }
}

/// Address of a library's code in a process.
pub fn library_at(process: u64, library: u64) -> u64 {
    0x7000_0000_0000 + (process << 37) + library * 2 * BYTES
}

/// Address of a process's own memory.
pub fn heap_at(process: u64) -> u64 {
    0x5500_0000_0000 + (process << 32)
}

/// The process of a thread; the first threads are the main threads.
pub fn process_of(thread: usize) -> u64 {
    thread as u64 % PROCESSES
}

/// A random thread; some are busier than others.
pub fn any_thread(dice: &mut Dice) -> usize {
    usize::try_from(dice.mostly_small(THREADS)).unwrap_or(0)
}

/// A thread and a time.
pub fn at(thread: usize, time: u64) -> At {
    let number = |number: u64| u32::try_from(FIRST_PID + number).unwrap_or(u32::MAX);
    At {
        time: Timestamp(time),
        pid: number(process_of(thread)),
        tid: number(thread as u64),
    }
}

/// Threads, with the time of each one's last event.
pub struct Machine {
    pub last: Vec<u64>,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            last: (0..THREADS).map(|_| 0).collect(),
        }
    }
}

impl Machine {
    /// Writes process starts, programs, mappings and names.
    pub fn begin<W: Write>(&mut self, log: &mut LogWriter<W>, start: u64) -> io::Result<()> {
        for library in 0..LIBRARIES {
            log.event(&Event::Module(module(library)))?;
        }
        for function in 0..KERNEL_FUNCTIONS {
            log.event(&Event::KernelSymbol {
                // Each address in it is looked up as the one before a return address.
                offset: KernelOffset(function * 256 + 15),
                start: KernelOffset(function * 256),
                name: format!("kernel_function_{function}").into_bytes(),
            })?;
        }
        log.event(&Event::DeviceName(DeviceName {
            device: DEVICE,
            name: "vda".into(),
            ..DeviceName::default()
        }))?;
        for thread in 0..self.last.len() {
            self.last[thread] = start + thread as u64;
            let at = at(thread, self.last[thread]);
            log.event(&Event::TaskNew(TaskNew {
                at,
                name: format!("Worker {thread}").into_bytes(),
                ..TaskNew::default()
            }))?;
            if at.pid == at.tid {
                log.event(&Event::TaskExec(TaskExec {
                    at,
                    old_tid: at.tid,
                    name: b"browser".to_vec(),
                    path: b"/usr/lib/browser/browser".to_vec(),
                    ..TaskExec::default()
                }))?;
            }
        }
        for process in 0..PROCESSES {
            let thread = usize::try_from(process).unwrap_or(0);
            let at = at(thread, start + THREADS + 1);
            for mapping in mappings(at, process) {
                log.event(&Event::Mapping(mapping))?;
            }
        }
        self.last.fill(start + THREADS + 2);
        Ok(())
    }
}

fn mappings(at: At, process: u64) -> impl Iterator<Item = Mapping> {
    let heap = Mapping {
        at,
        start: Avma(heap_at(process)),
        len: 1 << 31,
        protection: 3,
        flags: 2,
        path: b"//anon".to_vec(),
        ..Mapping::default()
    };
    let of_library = move |library| {
        let code = Mapping {
            at,
            start: Avma(library_at(process, library)),
            len: BYTES,
            offset: FileOffset(0),
            file: file(library),
            protection: 5,
            flags: 2,
            path: format!("/usr/lib/browser/lib{library}.so").into_bytes(),
            build_id: build_id(library),
        };
        let data = Mapping {
            start: Avma(code.start.0 + BYTES),
            offset: FileOffset(BYTES),
            protection: 3,
            ..code.clone()
        };
        [code, data]
    };
    (0..LIBRARIES).flat_map(of_library).chain([heap])
}

fn build_id(library: u64) -> Vec<u8> {
    [[0xab; 12].as_slice(), &library.to_be_bytes()].concat()
}

fn module(library: u64) -> Module {
    let segment = |offset| Segment {
        offset,
        svma: offset,
        file_size: BYTES,
    };
    Module {
        file: file(library),
        path: format!("/usr/lib/browser/lib{library}.so"),
        build_id: build_id(library),
        segments: vec![segment(0), segment(BYTES)],
        entry: 0x1000,
        problem: None,
    }
}
