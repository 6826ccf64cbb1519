//! Threads that are off-CPU when the recording begins. No switch shows where they are until they run again, and a
//! hanging one never does. An iterator over the kernel's tasks finds them.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use aya::programs::{Iter, ProgramError};
use aya::{Btf, Ebpf};
use profiler_common::config::Config;
use profiler_common::stack::{
    FLAG_IN_KERNEL, FLAG_STACK_CUT, FLAG_STACK_STOPPED, FLAG_STACK_UNREADABLE, FLAG_USER_REGS, MAX_KERNEL_FRAMES, mix,
};
use profiler_common::switch::{Asleep, PATH_LEN, WAIT_IN_CALL};
use zerocopy::FromBytes as _;

use super::ahead;
use super::drain::Drain;
use super::{records, waits};
use base::addr::Timestamp;
use base::event::{At, Call, CallPath, Event, KernelStack, StackAhead, Stacks, Wait};

/// The program, and the type it iterates over.
pub const PROGRAM: (&str, &str) = ("asleep", "task");
/// Bytes of all stack copies, at most: the number of threads is unlimited, memory is not.
const COPIES_LIMIT: usize = 64 << 20;
/// Time limit for copying the memory of all threads.
const PATIENCE: Duration = Duration::from_secs(2);

/// A thread, and the part of its memory that the iterator can't read.
pub struct Sleeper {
    asleep: Asleep,
    /// Its user stack from the stack pointer upward.
    copy: Vec<u8>,
    /// The path argument of its system call, if there is one.
    path: Vec<u8>,
}

/// What is known of a wait whose start was not seen.
pub struct Unseen {
    state: u32,
    flags: u32,
    call: Option<Call>,
}

impl Unseen {
    fn of(asleep: &Asleep) -> Self {
        Self {
            state: asleep.state,
            flags: asleep.flags,
            call: records::call_of(asleep.flags, asleep.call, asleep.arguments, &asleep.file),
        }
    }

    /// Adds it to the wait's own record.
    pub fn complete(self, wait: &mut Wait) {
        wait.state = self.state;
        wait.flags |= self.flags;
        wait.call = self.call;
    }
}

/// Has the kernel verify the program.
pub fn load(ebpf: &mut Ebpf, btf: &Btf) -> Result<(), ProgramError> {
    ahead::or_loaded(program(ebpf)?.load(PROGRAM.1, btf))
}

fn program(ebpf: &mut Ebpf) -> Result<&mut Iter, ProgramError> {
    ebpf.program_mut(PROGRAM.0).ok_or(ProgramError::NotLoaded)?.try_into()
}

/// The threads that are asleep now.
///
/// # Errors
/// When the kernel does not run the program.
pub fn find(ebpf: &mut Ebpf, config: &Config) -> anyhow::Result<Vec<Sleeper>> {
    let program = program(ebpf)?;
    let link = program.attach()?;
    let mut file = program.take_link(link)?.into_file()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).context("the kernel's list of tasks")?;
    let records = bytes.chunks_exact(size_of::<Asleep>());
    let mut found: Vec<Sleeper> = records
        .filter_map(|record| Asleep::read_from_bytes(record).ok())
        .map(|asleep| Sleeper {
            asleep,
            copy: Vec::new(),
            path: Vec::new(),
        })
        .collect();
    read_memory(&mut found, config);
    Ok(found)
}

/// Copies the memory that can be read. The kernel decides whether it may be.
///
/// A stack pointer may point into a file of a server that does not answer: reading there blocks forever, so another
/// thread does it.
fn read_memory(sleepers: &mut [Sleeper], config: &Config) {
    let places: Vec<(u32, u64, Option<u64>)> = sleepers
        .iter()
        .map(|Sleeper { asleep, .. }| {
            let argument = waits::path_argument(config, asleep.call).filter(|_| asleep.flags & WAIT_IN_CALL != 0);
            let path = argument.and_then(|argument| asleep.arguments.get(argument).copied());
            (asleep.pid, asleep.regs.sp, path)
        })
        .collect();
    let (limit, (send, received)) = (config.stack_copy as usize, mpsc::channel());
    let reader = move || {
        let (mut left, mut open) = (COPIES_LIMIT, None);
        for (index, (pid, sp, path)) in places.into_iter().enumerate() {
            // Threads of a process are adjacent.
            if open.as_ref().is_none_or(|(of, _)| *of != pid) {
                open = Some((pid, File::open(format!("/proc/{pid}/mem")).ok()));
            }
            let Some((_, Some(memory))) = &open else { continue };
            let copy = read(memory, sp, left.min(limit));
            left -= copy.len();
            let mut path = path.map_or_else(Vec::new, |address| read(memory, address, PATH_LEN));
            path.truncate(path.iter().position(|byte| *byte == 0).unwrap_or(0));
            if send.send((index, copy, path)).is_err() {
                return; // the receiver has gone
            }
        }
    };
    // Without a thread, nothing is copied.
    let _ = thread::Builder::new().spawn(reader);
    let deadline = Instant::now() + PATIENCE;
    while let Ok((index, copy, path)) = received.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        if let Some(sleeper) = sleepers.get_mut(index) {
            (sleeper.copy, sleeper.path) = (copy, path);
        }
    }
}

fn read(memory: &File, address: u64, limit: usize) -> Vec<u8> {
    let mut bytes = vec![0; limit];
    let read = memory.read_at(&mut bytes, address).unwrap_or(0);
    bytes.truncate(read);
    bytes
}

/// Writes where the recorded threads are, before their waits, which [`Drain`] completes when they are emitted.
pub fn write(drain: &mut Drain, sleepers: Vec<Sleeper>, limit: u32) {
    for Sleeper { asleep, copy, path } in sleepers {
        // A thread that has ended since, or has become a program that may not be inspected, has already reported its
        // wait.
        if !drain.recorded.knows(asleep.pid, asleep.tid) {
            continue;
        }
        let at = At {
            time: Timestamp(asleep.out),
            pid: asleep.pid,
            tid: asleep.tid,
        };
        let stacks = Stacks {
            flags: FLAG_USER_REGS | FLAG_IN_KERNEL | end_of(&copy, limit),
            user: 0,
            kernel: kernel_stack(drain, &asleep),
            regs: asleep.regs,
            copy: copy.into(),
        };
        drain.write(&Event::StackAhead(StackAhead { at, stacks }));
        if !path.is_empty() {
            drain.write(&Event::CallPath(CallPath { at, path }));
        }
        drain.asleep.insert((asleep.tid, at.time), Unseen::of(&asleep));
    }
}

fn end_of(copy: &[u8], limit: u32) -> u32 {
    match copy.len() {
        0 => FLAG_STACK_UNREADABLE,
        len if len == limit as usize => FLAG_STACK_CUT,
        _ => FLAG_STACK_STOPPED,
    }
}

/// The key of the kernel stack, which is written; 0: there is none, or kernel addresses are hidden.
fn kernel_stack(drain: &mut Drain, asleep: &Asleep) -> u64 {
    let count = (asleep.frames as usize).min(MAX_KERNEL_FRAMES);
    let addresses = &asleep.kernel[..count];
    let Some(kernel) = drain.kernel.as_mut().filter(|_| count > 0) else {
        return 0;
    };
    let key = addresses.iter().fold(0, |key, address| mix(key, *address)) | 1;
    let frames = addresses.iter().enumerate();
    let frames = frames
        .map(|(depth, address)| kernel.offset(*address, depth > 0))
        .collect();
    drain.write(&Event::KernelStack(KernelStack { key, frames }));
    key
}
