//! Debug files from debuginfod servers, in our own cache.
//! <https://www.mankier.com/8/debuginfod#Webapi>

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::download::{OnDownload, Server};
use crate::home;
use crate::notes::Notes;
use crate::store::Store;

/// Default timeout for one file, without `DEBUGINFOD_TIMEOUT`; that of elfutils.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(90);
/// Larger files are not saved: no readable debug file is larger.
const MAX_BYTES: u64 = 16 << 30;
/// Where packages and administrators name servers, one file each.
const SYSTEM: &str = "/etc/debuginfod";
/// Longest file there that is read.
const MAX_LIST: usize = 64 << 10;

/// The servers for debug files, and the cache for downloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Debuginfod {
    /// Base URLs, in the order of requests.
    pub urls: Vec<String>,
    /// Cache folder; files are saved as `BUILD_ID/debuginfo`.
    pub cache_directory: PathBuf,
    /// Timeout for one file. A server that exceeds it is not asked again.
    pub timeout: Duration,
}

impl Debuginfod {
    /// Reads `DEBUGINFOD_URLS`, or else `/etc/debuginfod/*.urls`, and `DEBUGINFOD_TIMEOUT`
    /// (seconds): `None` if no server is named (also if the variable is empty), or there is no
    /// cache folder. Files are saved in `ngmi/debuginfod` of the user's cache folder.
    pub fn from_env() -> Option<Self> {
        let urls = Self::named(|name| env::var_os(name));
        if urls.is_empty() {
            return None;
        }
        let cache = home::cache_folder()?;
        let seconds = env::var("DEBUGINFOD_TIMEOUT").ok().and_then(|value| value.parse().ok());
        let timeout = seconds
            .filter(|seconds| *seconds > 0)
            .map_or(DEFAULT_TIMEOUT, Duration::from_secs);
        Some(Self {
            urls,
            cache_directory: cache.join("ngmi/debuginfod"),
            timeout,
        })
    }

    /// The servers that another environment or this system names.
    pub fn named(variable: impl Fn(&str) -> Option<OsString>) -> Vec<String> {
        let named = variable("DEBUGINFOD_URLS").map(|text| text.to_string_lossy().into_owned());
        servers(&named.unwrap_or_else(|| of_the_system(Path::new(SYSTEM))))
    }
}

/// elfutils also allows words such as `ima:enforcing` in the list.
fn servers(list: &str) -> Vec<String> {
    list.split_ascii_whitespace()
        .filter(|word| word.starts_with("http://") || word.starts_with("https://"))
        .map(str::to_owned)
        .collect()
}

/// The texts of all lists, as the distributions' shell profiles join them.
fn of_the_system(folder: &Path) -> String {
    let mut lists: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "urls"))
        .collect();
    lists.sort();
    let read = |list: &PathBuf| fs::read_to_string(list).ok().filter(|text| text.len() <= MAX_LIST);
    lists.iter().filter_map(read).collect::<Vec<_>>().join(" ")
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

/// Requests files until each server has failed.
pub(crate) struct Client {
    servers: Vec<Server>,
    folder: PathBuf,
    store: Store,
    timeout: Duration,
    on_download: Option<OnDownload>,
    notes: Notes,
}

impl Client {
    pub(crate) fn new(config: Debuginfod, on_download: Option<OnDownload>) -> Self {
        Self {
            servers: config.urls.iter().filter_map(|url| Server::new(url)).collect(),
            store: Store::new(config.cache_directory.clone()),
            folder: config.cache_directory,
            timeout: config.timeout,
            on_download,
            notes: Notes::default(),
        }
    }

    /// What was asked, and what failed: for the user.
    pub(super) fn notes(&self) -> Vec<String> {
        let servers = self.servers.iter().flat_map(Server::notes);
        servers.chain(self.notes.all()).collect()
    }

    /// The path of the debug file with `build_id`, from the cache or from a server.
    pub(super) fn debug_file(&self, runtime: &Runtime, build_id: &[u8]) -> Option<PathBuf> {
        runtime.block_on(self.file(build_id, Kind::DebugInfo))
    }

    /// Notes that a file that was saved here is of no use.
    pub(super) fn note_unusable(&self, path: &Path) {
        self.notes.add(format!(
            "{} is not used: it is damaged, for another build, or without symbols; once removed, it is requested again",
            path.display()
        ));
    }

    /// The path of a file of the build with `build_id`, from the cache or from a server.
    pub(crate) async fn file(&self, build_id: &[u8], kind: Kind) -> Option<PathBuf> {
        if build_id.is_empty() {
            return None;
        }
        let build_id = super::hex(build_id);
        let relative = Path::new(&build_id).join(kind.name());
        match self.store.open(&relative) {
            Ok(None) => {}
            Ok(Some(_)) => return Some(self.folder.join(relative)),
            Err(error) => {
                self.notes
                    .add(format!("debug files in the cache are not used: {error}"));
                return None;
            }
        }
        let not_saved = |error: io::Error| self.notes.add(format!("debug files can't be saved: {error}"));
        for server in self.servers.iter().filter(|server| !server.has_failed()) {
            let mut target = DebugFile {
                out: self.store.create(&relative).map_err(not_saved).ok()?,
                start: Vec::new(),
                bytes: 0,
            };
            let parts = ["buildid", &build_id, kind.name()];
            let download = server.download(&parts, &mut target, self.timeout, self.on_download.as_ref());
            if download.await {
                return match self.store.keep(target.out, &relative) {
                    Ok(_) => Some(self.folder.join(relative)),
                    Err(error) => {
                        not_saved(error);
                        None
                    }
                };
            }
        }
        None
    }
}

/// Refuses what is not ELF, and what is too large.
struct DebugFile<W> {
    out: W,
    start: Vec<u8>,
    bytes: u64,
}

impl<W: Write> Write for DebugFile<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        const ELF: &[u8] = b"\x7fELF";
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        let missing = ELF.len() - self.start.len();
        self.start.extend(bytes.iter().take(missing));
        if !ELF.starts_with(&self.start) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not an ELF file"));
        }
        if self.bytes > MAX_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is larger than 16 GiB"));
        }
        self.out.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_lists_are_joined() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(of_the_system(&folder.path().join("missing")), "");
        for (name, text) in [
            ("b.urls", "https://b.example/ ima:enforcing\nftp://c.example\n"),
            ("a.urls", "https://a.example/"),
            ("a.certpath", "https://no.example"),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let list = of_the_system(folder.path());
        assert_eq!(servers(&list), ["https://a.example/", "https://b.example/"]);
    }
}
