//! Debug files from debuginfod servers, in our own cache.
//! <https://www.mankier.com/8/debuginfod#Webapi>

use std::env;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;

/// Default timeout for one file, without `DEBUGINFOD_TIMEOUT`; that of elfutils.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(90);
/// Larger files are not saved: no readable debug file is larger.
const MAX_BYTES: u64 = 16 << 30;

/// The servers for debug files, and the cache for downloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Debuginfod {
    /// Base URLs, in the order of requests.
    pub urls: Vec<String>,
    /// Cache folder; files are saved as `BUILD_ID/debuginfo`.
    pub cache_directory: PathBuf,
    /// Timeout for one file. After the first timeout, no more files are requested.
    pub timeout: Duration,
}

impl Debuginfod {
    /// Reads `DEBUGINFOD_URLS` and `DEBUGINFOD_TIMEOUT` (seconds): `None` if no server is named, or
    /// there is no cache folder. Files are saved in `symbols/debuginfod` of the user's cache
    /// directory.
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
        let cache = crate::home::cache_folder()?;
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

/// The kind of a build's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Its debug information.
    DebugInfo,
    /// The executable.
    Executable,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::DebugInfo => "debuginfo",
            Self::Executable => "executable",
        }
    }
}

/// Requests files until a server times out.
pub(crate) struct Client {
    config: Debuginfod,
    gave_up: AtomicBool,
}

impl Client {
    pub(crate) fn new(config: Debuginfod) -> Self {
        Self {
            config,
            gave_up: AtomicBool::new(false),
        }
    }

    /// Whether a server timed out, so the remaining files were not requested.
    pub(super) fn gave_up(&self) -> bool {
        self.gave_up.load(Ordering::Relaxed)
    }

    /// The path of the debug file with `build_id`, from the cache or from a server.
    pub(super) fn debug_file(&self, runtime: &Runtime, build_id: &[u8]) -> Option<PathBuf> {
        runtime.block_on(self.file(build_id, Kind::DebugInfo))
    }

    /// The path of a file of the build with `build_id`, from the cache or from a server.
    pub(crate) async fn file(&self, build_id: &[u8], kind: Kind) -> Option<PathBuf> {
        if build_id.is_empty() {
            return None;
        }
        let build_id = super::hex(build_id);
        let folder = self.config.cache_directory.join(&build_id);
        let path = folder.join(kind.name());
        if path.is_file() {
            return Some(path);
        }
        if self.gave_up() {
            return None;
        }
        let download = self.download(&build_id, kind, &folder, &path);
        let Ok(found) = tokio::time::timeout(self.config.timeout, download).await else {
            self.gave_up.store(true, Ordering::Relaxed);
            return None;
        };
        found.then_some(path)
    }

    /// Downloads from the first server that has the file.
    async fn download(&self, build_id: &str, kind: Kind, folder: &Path, path: &Path) -> bool {
        let Ok(client) = reqwest::Client::builder()
            .user_agent(concat!("ngmi/", env!("CARGO_PKG_VERSION")))
            .build()
        else {
            return false;
        };
        for server in &self.config.urls {
            let url = format!("{}/buildid/{build_id}/{}", server.trim_end_matches('/'), kind.name());
            let Ok(response) = client
                .get(url)
                .send()
                .await
                .and_then(reqwest::Response::error_for_status)
            else {
                continue;
            };
            if keep(response, folder, path).await.is_ok() {
                return true;
            }
        }
        false
    }
}

/// Renames a download into place when it is complete.
async fn keep(mut response: reqwest::Response, folder: &Path, path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    let mut size = 0_u64;
    while let Some(chunk) = response.chunk().await.map_err(io::Error::other)? {
        size = size.saturating_add(chunk.len() as u64);
        if size > MAX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        file.write_all(&chunk)?;
    }
    file.persist(path)?;
    Ok(())
}
