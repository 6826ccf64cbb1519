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
use profiler_common::switch::{Asleep, PATH_LEN, WAIT_IN_CALL};
use zerocopy::FromBytes as _;

use super::{ahead, waits};

/// The program, and the type it iterates over.
pub const PROGRAM: (&str, &str) = ("asleep", "task");
/// Bytes of all stack copies, at most: the number of threads is unlimited, memory is not.
const COPIES_LIMIT: usize = 64 << 20;
/// Time limit for copying the memory of all threads.
const PATIENCE: Duration = Duration::from_secs(2);

/// A thread, and the part of its memory that the iterator can't read.
pub struct Sleeper {
    /// What the iterator found.
    pub asleep: Asleep,
    /// Its user stack from the stack pointer upward.
    pub copy: Vec<u8>,
    /// The path argument of its system call, if there is one.
    pub path: Vec<u8>,
}

/// Has the kernel verify the program.
pub fn load(ebpf: &mut Ebpf, btf: &Btf) -> Result<(), ProgramError> {
    let program = program(ebpf)?;
    ahead::unless_loaded(program.fd().is_ok(), || program.load(PROGRAM.1, btf))
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
