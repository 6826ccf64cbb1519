//! The profiler's symbol server without its network part: requests and responses are JSON in the
//! protocol of Mozilla's and samply's servers.
//! <https://tecken.readthedocs.io/en/latest/symbolication.html>
//!
//! Only libraries in the profile are read, and only sources that both the profile and the debug
//! info of such a library name: see docs/server.md. Files are opened on the first request for them.

mod asm;
mod fetch;
mod files;
mod guesses;
mod libraries;
mod roots;
mod source;

use std::collections::HashSet;
use std::fmt::Display;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

pub use libraries::Library;
pub use roots::SourceRoots;

use crate::elf::ElfError;
use crate::{Config, Debuginfod, SymbolServers, Symbolicator};
use libraries::Libraries;

/// Maximum number of addresses in a request: the largest library of a browser's profile has a
/// tenth.
const MAX_FRAMES: usize = 500_000;

/// The names in a profile.
#[derive(Debug, Clone, Default)]
pub struct Named {
    /// Its libraries.
    pub libraries: Vec<Library>,
    /// Its source files, as spelled in the profile.
    pub sources: HashSet<String>,
}

/// Configuration of the server.
#[derive(Debug, Clone, Default)]
pub struct ServerConfig {
    /// Folders with sources.
    pub roots: SourceRoots,
    /// debuginfod servers, for debug files.
    pub debuginfod: Option<Debuginfod>,
    /// Servers for symbol files.
    pub symbol_servers: Option<SymbolServers>,
    /// Whether missing sources may be downloaded.
    pub fetch_source: bool,
}

/// Kinds of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Query {
    /// Names of addresses.
    Symbolicate,
    /// A source file.
    Source,
    /// Machine code, disassembled.
    Asm,
}

impl Query {
    /// The kind of request for a path.
    pub fn from_path(path: &str) -> Option<Self> {
        match path {
            "/symbolicate/v5" => Some(Self::Symbolicate),
            "/source/v1" => Some(Self::Source),
            "/asm/v1" => Some(Self::Asm),
            _ => None,
        }
    }
}

/// Reads the names in the profile; an error is a sentence for the user.
type Read = dyn Fn() -> Result<Named, String> + Send + Sync;

/// Answers requests about one profile.
pub struct SymbolServer {
    config: ServerConfig,
    read: Box<Read>,
    known: OnceLock<Result<ServerState, String>>,
    /// Taken by `drop`.
    runtime: Option<Runtime>,
}

/// State that is initialized once the profile has been read.
struct ServerState {
    sources: HashSet<String>,
    libraries: Libraries,
    /// Whose rules decide which functions have names.
    symbolicator: Symbolicator,
}

impl SymbolServer {
    /// `read` is called on the first request, so the link is available before a large profile has
    /// been read.
    ///
    /// # Errors
    /// The system could not create a thread or a descriptor.
    pub fn new(
        config: ServerConfig,
        read: impl Fn() -> Result<Named, String> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("symbol-server")
            .enable_all()
            .build()?;
        Ok(Self {
            config,
            read: Box::new(read),
            known: OnceLock::new(),
            runtime: Some(runtime),
        })
    }

    /// Answers a request, in JSON; the response to an unanswerable one is `{"error": WHY}`. Blocks,
    /// possibly for seconds; not for use on a thread that drives an async runtime.
    pub fn answer(&self, query: Query, question: &[u8]) -> Vec<u8> {
        // Damaged debug info can make samply-symbols panic. Only this response fails.
        let answer = catch_unwind(AssertUnwindSafe(|| self.try_answer(query, question)))
            .unwrap_or_else(|_| Err("the debug info is damaged, and reading it failed".to_owned()));
        answer
            .unwrap_or_else(|why| json!({ "error": why }).to_string())
            .into_bytes()
    }

    fn try_answer(&self, query: Query, question: &[u8]) -> Result<String, String> {
        let question = std::str::from_utf8(question).map_err(|_| "the question is not UTF-8".to_owned())?;
        let runtime = self.runtime.as_ref().ok_or("the server is shutting down")?;
        let known = self.known.get_or_init(|| self.know()).as_ref().map_err(Clone::clone)?;
        let answer = match query {
            Query::Symbolicate => {
                check_size(question)?;
                let answer = runtime.block_on(known.libraries.query("/symbolicate/v5", question));
                guesses::removed(&answer, question, &known.libraries, &known.symbolicator)
            }
            Query::Source => runtime.block_on(source::answer(known, &self.config, question)),
            Query::Asm => runtime.block_on(asm::answer(known, question)),
        };
        // A response based on zeros would look like any other.
        if known.libraries.manager.helper().was_cut() {
            return Err(ElfError::Cut.to_string());
        }
        answer
    }

    fn know(&self) -> Result<ServerState, String> {
        let Named { libraries, sources } = (self.read)()?;
        let symbolicator = Symbolicator::new(Config {
            debuginfod: self.config.debuginfod.clone(),
            symbol_servers: self.config.symbol_servers.clone(),
            ..Config::default()
        });
        Ok(ServerState {
            sources,
            symbolicator: symbolicator.map_err(|error| format!("no thread could be started: {error}"))?,
            libraries: Libraries::new(&libraries, &self.config),
        })
    }
}

impl Drop for SymbolServer {
    fn drop(&mut self) {
        // Dropping a runtime would block, which panics inside another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The response has at least one name per address, so the number of addresses is limited.
fn check_size(question: &str) -> Result<(), String> {
    #[derive(Deserialize)]
    struct Job {
        stacks: Vec<Vec<IgnoredAny>>,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Jobs {
        Many { jobs: Vec<Job> },
        One(Job),
    }
    let jobs = match parse(question)? {
        Jobs::Many { jobs } => jobs,
        Jobs::One(job) => vec![job],
    };
    let frames: usize = jobs.iter().flat_map(|job| &job.stacks).map(Vec::len).sum();
    if frames > MAX_FRAMES {
        return Err(format!(
            "{frames} addresses are more than the limit of {MAX_FRAMES} per request"
        ));
    }
    Ok(())
}

fn parse<'q, T: Deserialize<'q>>(question: &'q str) -> Result<T, String> {
    serde_json::from_str(question).map_err(|error| format!("Couldn't parse request: {error}"))
}

/// Parses an address in the protocol's form: `0x1a2b`.
fn address(text: &str) -> Result<u32, String> {
    let digits = text.strip_prefix("0x").ok_or_else(|| not_hexadecimal(&text))?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(not_hexadecimal(&text));
    }
    u32::from_str_radix(digits, 16).map_err(|_| not_hexadecimal(&text))
}

fn not_hexadecimal(text: &dyn Display) -> String {
    format!("Couldn't parse request: {text} is not an address like 0x1a2b")
}
