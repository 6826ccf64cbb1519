//! Names addresses of binaries: symbol tables and `.eh_frame` for functions, samply-symbols for debug info.

pub(crate) mod debug_files;
pub(crate) mod debuginfod;
mod frames;
pub(crate) mod locate;
mod minidebug;
mod module;
mod scratch;
mod split;

use std::io;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Builder, Runtime};

pub use debuginfod::Debuginfod;

use crate::elf::{ElfError, ElfFile};
use crate::vetted;

/// Where to look for debug files besides the usual places.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// debuginfod servers to ask; none if absent.
    pub debuginfod: Option<Debuginfod>,
    /// Directories with debug files: `NAME`, `NAME.debug`, or `.build-id/ab/cdef.debug` inside them.
    pub extra_symbol_directories: Vec<PathBuf>,
}

impl Config {
    /// The configuration that the environment asks for: [`Debuginfod::from_env`], no extra directories.
    pub fn from_env() -> Self {
        Self {
            debuginfod: Debuginfod::from_env(),
            ..Self::default()
        }
    }

    /// Where files may be that memory has no room for: the folder that `TMPDIR` names; else the usual one, unless that is memory, too.
    pub fn scratch_folder() -> PathBuf {
        scratch::folder()
    }
}

/// A binary whose addresses are to be named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BinaryRequest {
    /// Opens the binary: its path, or a descriptor that the caller keeps open (`/proc/self/fd/N`). An image that has no
    /// file, such as the vdso, can be put into a memfd.
    pub open_path: PathBuf,
    /// The path as the process saw it; separate debug files are looked for beside it.
    pub path: PathBuf,
    /// The build id of the binary that ran, empty if it had none. Another file is refused.
    pub build_id: Vec<u8>,
}

/// What is at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressName {
    /// The function in the symbol table, demangled.
    pub symbol: String,
    /// Only its place is known, from `.eh_frame` or from what is known around it: `symbol` is `fun_` and its start, as samply-symbols has it.
    pub is_nameless: bool,
    /// Its relative address.
    pub symbol_start: u32,
    /// Its size in bytes, if known.
    pub symbol_size: Option<u32>,
    /// The functions inlined into each other at the address, innermost first. Never empty: without debug info it holds
    /// `symbol` alone, without a file.
    pub inline_chain: Vec<SourceFrame>,
}

/// A function, and the place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFrame {
    /// Its name, demangled.
    pub function: String,
    /// The source file, as the compiler wrote it down.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u32>,
}

/// Why the addresses of a binary can't be named.
#[derive(Debug, thiserror::Error)]
pub enum SymbolError {
    /// The binary is gone or may not be read.
    #[error("{path} can't be opened: {source}")]
    Open {
        /// The binary.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The binary is damaged.
    #[error("{path}: {source}")]
    Elf {
        /// The binary.
        path: PathBuf,
        /// What is wrong with it.
        source: ElfError,
    },
    /// Another file took the binary's place.
    #[error(
        "{path} is no longer the file that ran (build id {found}, recorded {expected}): record again, or put the old \
         file into a symbol directory"
    )]
    BuildIdMismatch {
        /// The binary.
        path: PathBuf,
        /// The build id that was recorded, in hexadecimal.
        expected: String,
        /// The build id of the file.
        found: String,
    },
    /// A library gave up on the file's contents in a way that it should not.
    #[error("{path}: the debug info is damaged, and reading it failed: {reason}")]
    Crashed {
        /// The binary.
        path: PathBuf,
        /// The panic message.
        reason: String,
    },
}

/// Names, one an address, in the order of the addresses. `None`: nothing is known to be there.
pub type Names = Vec<Option<AddressName>>;

/// Names addresses. One is enough for a program; it can be shared between threads.
pub struct Symbolicator {
    /// Taken by `drop`.
    runtime: Option<Runtime>,
    debuginfod: Option<debuginfod::Client>,
    extra_symbol_directories: Vec<PathBuf>,
}

impl Symbolicator {
    /// Errors: the system refuses a thread or a descriptor.
    pub fn new(config: Config) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("symbols")
            .enable_all()
            .build()?;
        Ok(Self {
            runtime: Some(runtime),
            debuginfod: config.debuginfod.map(debuginfod::Client::new),
            extra_symbol_directories: config.extra_symbol_directories,
        })
    }

    /// Names `addresses` of one binary: relative addresses, stated address minus [`ElfFile::base_svma`]. For a return
    /// address subtract 1 first, so that it lies in the call.
    ///
    /// Errors: the binary can't be read, or is not the one with the build id asked for.
    pub fn resolve(&self, binary: &BinaryRequest, addresses: &[u32]) -> Result<Names, SymbolError> {
        let jobs = [(binary.clone(), addresses.to_vec())];
        let mut results = self.resolve_many(&jobs, |_| {});
        results.pop().unwrap_or_else(|| Err(crashed(binary, "no answer")))
    }

    /// [`Symbolicator::resolve`] for many binaries, on all CPUs. `progress` is called on some thread after each binary,
    /// with the count of those done. Blocks; safe to call inside an async runtime that may block.
    pub fn resolve_many(
        &self,
        jobs: &[(BinaryRequest, Vec<u32>)],
        progress: impl Fn(usize) + Sync,
    ) -> Vec<Result<Names, SymbolError>> {
        let threads = std::thread::available_parallelism()
            .map_or(1, NonZero::get)
            .min(jobs.len());
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let results: Mutex<Vec<_>> = Mutex::new(jobs.iter().map(|_| None).collect());
        // The largest first, so that the last thread to finish has not just begun it.
        let mut order: Vec<_> = (0..jobs.len()).zip(jobs).collect();
        order.sort_by_key(|(_, (_, addresses))| std::cmp::Reverse(addresses.len()));
        let work = || {
            while let Some((index, (binary, addresses))) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                let answer = catch_unwind(AssertUnwindSafe(|| self.resolve_here(binary, addresses)))
                    .unwrap_or_else(|panic| Err(crashed(binary, panic_message(&*panic))));
                let mut results = results.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                if let Some(slot) = results.get_mut(*index) {
                    *slot = Some(answer);
                }
                drop(results);
                progress(done.fetch_add(1, Ordering::Relaxed) + 1);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(work);
            }
        });
        let results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let finish = |(answer, (binary, _)): (Option<_>, &(BinaryRequest, _))| {
            answer.unwrap_or_else(|| Err(crashed(binary, "no answer")))
        };
        results.into_iter().zip(jobs).map(finish).collect()
    }

    /// Whether a debuginfod server hung, so that the rest of the debug files was not asked for.
    pub fn debuginfod_gave_up(&self) -> bool {
        self.debuginfod.as_ref().is_some_and(debuginfod::Client::gave_up)
    }

    fn resolve_here(&self, binary: &BinaryRequest, addresses: &[u32]) -> Result<Names, SymbolError> {
        let path = || binary.path.clone();
        let elf_error = |source| SymbolError::Elf { path: path(), source };
        let file =
            vetted::open_plain(&binary.open_path).map_err(|source| SymbolError::Open { path: path(), source })?;
        let opened = locate::Opened::new(file, &binary.path, ElfFile::open_here).map_err(elf_error)?;
        let elf = &opened.elf;
        if elf.build_id() != binary.build_id {
            return Err(SymbolError::BuildIdMismatch {
                path: path(),
                expected: hex(&binary.build_id),
                found: hex(elf.build_id()),
            });
        }
        self.name_all(&opened, binary, addresses).map_err(elf_error)
    }
}

impl Drop for Symbolicator {
    fn drop(&mut self) {
        // Dropping a runtime would block, which panics inside another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn crashed(binary: &BinaryRequest, reason: &str) -> SymbolError {
    SymbolError::Crashed {
        path: binary.path.clone(),
        reason: reason.to_owned(),
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// Lower-case hexadecimal, as build ids are written.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
