//! Names the addresses of binaries: symbol tables, `.eh_frame` and Go's own tables for functions,
//! samply-symbols for debug info.

pub(crate) mod debug_files;
pub(crate) mod debuginfod;
mod frames;
mod go;
pub(crate) mod locate;
mod minidebug;
mod module;
mod split;
mod sym_check;
mod sym_file;
pub(crate) mod symbol_servers;

use std::io;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Builder, Runtime};

pub use debuginfod::Debuginfod;
pub use symbol_servers::SymbolServers;

use crate::download::OnDownload;
use crate::elf::{ElfError, ElfFile};
use crate::patience::sharing_a_thread;
use crate::{scratch, vetted};

/// Additional locations of debug files.
#[derive(Clone, Default)]
pub struct Config {
    /// debuginfod servers to query, if any.
    pub debuginfod: Option<Debuginfod>,
    /// Directories with debug files: `NAME`, `NAME.debug`, or `.build-id/ab/cdef.debug`.
    pub extra_symbol_directories: Vec<PathBuf>,
    /// Servers for the symbols of binaries with functions that have no name otherwise, if any.
    pub symbol_servers: Option<SymbolServers>,
    /// Called during downloads, on any thread.
    pub on_download: Option<OnDownload>,
}

impl Config {
    /// The folder for temporary files that do not fit in memory: `TMPDIR`, or else the default one,
    /// unless that is in memory, too.
    pub fn scratch_folder() -> PathBuf {
        scratch::folder()
    }
}

/// A binary with addresses to name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BinaryRequest {
    /// Opens the binary: its path, or a descriptor that the caller keeps open (`/proc/self/fd/N`). An image that has no
    /// file, such as the vdso, can be put into a memfd.
    pub open_path: PathBuf,
    /// The path as the process saw it, next to which separate debug files are searched.
    pub path: PathBuf,
    /// The build id of the binary that ran, empty if it had none. A different file is rejected.
    pub build_id: Vec<u8>,
}

/// The result for an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressName {
    /// The function in the symbol table, demangled.
    pub symbol: String,
    /// Only the location is known, from `.eh_frame` or from its neighbours: `symbol` is `fun_` with
    /// its start, as in samply-symbols.
    pub is_nameless: bool,
    /// Its relative address.
    pub symbol_start: u32,
    /// Its size in bytes, if known.
    pub symbol_size: Option<u32>,
    /// The functions inlined into each other at the address, innermost first. Never empty: without
    /// debug info it contains only `symbol`, without a file, except in Go programs.
    pub inline_chain: Vec<SourceFrame>,
}

/// A function, and the location in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFrame {
    /// Its name, demangled.
    pub function: String,
    /// The source file, as the compiler recorded it.
    pub file: Option<String>,
    /// The line, counted from 1.
    pub line: Option<u32>,
}

/// Why the addresses of a binary can't be named.
#[derive(Debug, thiserror::Error)]
pub enum SymbolError {
    /// The binary is missing or may not be read.
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
        /// The problem.
        source: ElfError,
    },
    /// A different file is at the binary's path.
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
    /// A library failed on the file's contents in an unexpected way.
    #[error("{path}: the debug info is damaged, and reading it failed: {reason}")]
    Crashed {
        /// The binary.
        path: PathBuf,
        /// The panic message.
        reason: String,
    },
}

/// Results, one per address, in the order of the addresses. `None`: the address is unknown.
pub type AddressNames = Vec<Option<AddressName>>;

/// What is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// Only functions.
    Functions,
    /// Also inline chains and lines.
    Lines,
}

/// Names addresses. One is sufficient for a program; it can be shared between threads.
pub struct Symbolicator {
    /// Taken by `drop`.
    runtime: Option<Runtime>,
    debuginfod: Option<debuginfod::Client>,
    symbol_servers: Option<symbol_servers::Client>,
    extra_symbol_directories: Vec<PathBuf>,
}

impl Symbolicator {
    /// Errors: the system could not create a thread or a descriptor.
    pub fn new(config: Config) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("symbols")
            .enable_all()
            .build()?;
        Ok(Self {
            runtime: Some(runtime),
            symbol_servers: (config.symbol_servers.as_ref())
                .map(|servers| symbol_servers::Client::new(servers, config.on_download.clone())),
            debuginfod: (config.debuginfod).map(|servers| debuginfod::Client::new(servers, config.on_download)),
            extra_symbol_directories: config.extra_symbol_directories,
        })
    }

    /// Names `addresses` of one binary: relative addresses, stated address minus
    /// [`ElfFile::base_svma`]. For a return address, subtract 1 first, so that it is in the call.
    ///
    /// Errors: the binary can't be read, or does not have the requested build id.
    pub fn resolve(&self, binary: &BinaryRequest, addresses: &[u32]) -> Result<AddressNames, SymbolError> {
        let jobs = [(binary.clone(), addresses.to_vec())];
        let mut results = self.resolve_many(&jobs, |_| {});
        results.pop().unwrap_or_else(|| Err(crashed(binary, "no answer")))
    }

    /// [`Symbolicator::resolve`] without inline chains and lines, which is faster: names are those of symbols only.
    pub(crate) fn functions(&self, binary: &BinaryRequest, addresses: &[u32]) -> Result<AddressNames, SymbolError> {
        self.resolve_here(binary, addresses, Detail::Functions)
    }

    /// [`Symbolicator::resolve`] for many binaries, on all CPUs. `progress` is called on any thread
    /// after each binary, with the number of completed ones. Blocks; safe to call inside an async
    /// runtime that may block.
    pub fn resolve_many(
        &self,
        jobs: &[(BinaryRequest, Vec<u32>)],
        progress: impl Fn(usize) + Sync,
    ) -> Vec<Result<AddressNames, SymbolError>> {
        let threads = std::thread::available_parallelism()
            .map_or(1, NonZero::get)
            .min(jobs.len());
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let results: Mutex<Vec<_>> = Mutex::new(jobs.iter().map(|_| None).collect());
        // The largest first, so that the last thread to finish has not just started it.
        let mut order: Vec<_> = (0..jobs.len()).zip(jobs).collect();
        order.sort_by_key(|(_, (_, addresses))| std::cmp::Reverse(addresses.len()));
        let work = || {
            while let Some((index, (binary, addresses))) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                let answer = catch_unwind(AssertUnwindSafe(|| self.resolve_here(binary, addresses, Detail::Lines)))
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
                scope.spawn(|| sharing_a_thread(work));
            }
        });
        let results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let finish = |(answer, (binary, _)): (Option<_>, &(BinaryRequest, _))| {
            answer.unwrap_or_else(|| Err(crashed(binary, "no answer")))
        };
        results.into_iter().zip(jobs).map(finish).collect()
    }

    /// Which servers were asked so far, and why some symbols are not from there: sentences for the user.
    pub fn notes(&self) -> Vec<String> {
        let debuginfod = self.debuginfod.iter().flat_map(debuginfod::Client::notes);
        let symbols = self.symbol_servers.iter().flat_map(symbol_servers::Client::notes);
        debuginfod.chain(symbols).collect()
    }

    fn resolve_here(
        &self,
        binary: &BinaryRequest,
        addresses: &[u32],
        detail: Detail,
    ) -> Result<AddressNames, SymbolError> {
        self.resolve_by_file(binary, addresses, detail)
            .or_else(|error| match error {
                SymbolError::Open { .. } | SymbolError::BuildIdMismatch { .. } => {
                    self.name_without_binary(binary, addresses).ok_or(error)
                }
                _ => Err(error),
            })
    }

    fn resolve_by_file(
        &self,
        binary: &BinaryRequest,
        addresses: &[u32],
        detail: Detail,
    ) -> Result<AddressNames, SymbolError> {
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
        self.name_all(&opened, (binary, detail), addresses).map_err(elf_error)
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

/// Lower-case hexadecimal, the usual form of build ids.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
