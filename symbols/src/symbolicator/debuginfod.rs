//! Debug files from debuginfod servers, downloaded by wholesym into a cache of our own.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;
use wholesym::debugid::DebugId;
use wholesym::samply_symbols::DebugIdExt as _;
use wholesym::{CodeId, ElfBuildId, LibraryInfo, SymbolManager, SymbolManagerConfig};

/// How long to wait for one file unless `DEBUGINFOD_TIMEOUT` says otherwise; elfutils' own default.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(90);

/// The servers to ask for debug files, and where to keep what they send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Debuginfod {
    /// Base URLs, asked in this order.
    pub urls: Vec<String>,
    /// Downloaded files are kept here, as `BUILD_ID/debuginfo`.
    pub cache_directory: PathBuf,
    /// How long one file may take. After the first that takes longer no more are asked for.
    pub timeout: Duration,
}

impl Debuginfod {
    /// What `DEBUGINFOD_URLS` and `DEBUGINFOD_TIMEOUT` (seconds) ask for: `None` if no server is named. Files are
    /// kept in `symbols/debuginfod` of the user's cache directory.
    pub fn from_env() -> Option<Self> {
        // elfutils also allows words such as `ima:enforcing` in the list.
        let urls: Vec<String> = env::var("DEBUGINFOD_URLS")
            .ok()?
            .split_ascii_whitespace()
            .filter(|word| word.starts_with("http://") || word.starts_with("https://"))
            .map(str::to_owned)
            .collect();
        if urls.is_empty() {
            return None;
        }
        let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
        let seconds = env::var("DEBUGINFOD_TIMEOUT").ok().and_then(|value| value.parse().ok());
        let timeout = seconds
            .filter(|seconds| *seconds > 0)
            .map_or(DEFAULT_TIMEOUT, Duration::from_secs);
        Some(Self {
            urls,
            cache_directory: cache.join("symbols/debuginfod"),
            timeout,
        })
    }
}

/// Asks the servers until one of them hangs.
pub(super) struct Client {
    config: Debuginfod,
    gave_up: AtomicBool,
}

impl Client {
    pub(super) fn new(config: Debuginfod) -> Self {
        Self {
            config,
            gave_up: AtomicBool::new(false),
        }
    }

    /// Whether a server hung, and the rest was not asked for.
    pub(super) fn gave_up(&self) -> bool {
        self.gave_up.load(Ordering::Relaxed)
    }

    /// The path of the debug file with `build_id`, from the cache or from a server.
    pub(super) fn debug_file(&self, runtime: &Runtime, build_id: &[u8]) -> Option<PathBuf> {
        if build_id.is_empty() {
            return None;
        }
        let cached = self.config.cache_directory.join(super::hex(build_id)).join("debuginfo");
        if !cached.is_file() && !self.gave_up() {
            self.download(runtime, build_id);
        }
        cached.is_file().then_some(cached)
    }

    /// Lets wholesym load the symbols, for the sake of the file that it leaves in the cache.
    fn download(&self, runtime: &Runtime, build_id: &[u8]) {
        let cache: &Path = &self.config.cache_directory;
        let config = self
            .config
            .urls
            .iter()
            .fold(SymbolManagerConfig::default().use_debuginfod(true), |config, url| {
                config.extra_debuginfod_server(url, cache)
            });
        let debug_name = super::hex(build_id);
        let debug_id = DebugId::from_identifier(build_id, true);
        let mut manager = SymbolManager::with_config(config);
        manager.add_known_library(LibraryInfo {
            debug_name: Some(debug_name.clone()),
            debug_id: Some(debug_id),
            code_id: Some(CodeId::ElfBuildId(ElfBuildId::from_bytes(build_id))),
            ..LibraryInfo::default()
        });
        let load =
            async { tokio::time::timeout(self.config.timeout, manager.load_symbol_map(&debug_name, debug_id)).await };
        if runtime.block_on(load).is_err() {
            self.gave_up.store(true, Ordering::Relaxed);
        }
    }
}
