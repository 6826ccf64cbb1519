//! Which servers may be asked for the names of functions: they learn which builds of which files were recorded.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use symbols::{Config, Debuginfod, OnDownload, SymbolServers, home, mozilla, server_url};

/// Addresses of symbol servers, separated by spaces.
pub const VARIABLE: &str = "NGMI_SYMBOL_SERVER";
/// Folders that are searched for builds from Mozilla, at most.
const FOLDERS: usize = 4096;

/// The servers, in a form for another process with the same environment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameServers {
    /// Addresses of symbol servers, which are asked about every file with nameless functions.
    pub urls: Vec<String>,
    /// Whether Mozilla's server is asked about builds from Mozilla.
    pub mozilla: bool,
    /// The folders of these builds, if they are known.
    pub mozilla_folders: Option<Vec<PathBuf>>,
    /// No server is asked.
    pub offline: bool,
}

impl NameServers {
    /// The servers in the environment, for subcommands without options for them.
    pub fn from_env() -> Self {
        let urls = env::var(VARIABLE).unwrap_or_default();
        Self {
            urls: urls
                .split_ascii_whitespace()
                .filter_map(|url| server_url(url).ok())
                .collect(),
            ..Self::default()
        }
    }

    /// The servers for a recording of these files: Mozilla's only if a build from Mozilla is among them.
    #[must_use]
    pub fn for_files<'p>(&self, files: impl Iterator<Item = &'p Path>) -> Self {
        let mut folders: FxHashSet<&Path> = FxHashSet::default();
        let found: Vec<PathBuf> = (files.filter(|_| self.mozilla))
            .filter_map(|path| Some((path, path.parent()?)))
            .filter(|(_, folder)| folders.insert(folder))
            .take(FOLDERS)
            .filter(|(path, _)| mozilla::is_build(path))
            .map(|(_, folder)| folder.to_owned())
            .collect();
        Self {
            mozilla: !found.is_empty() && !self.offline,
            mozilla_folders: Some(found),
            ..self.clone()
        }
    }

    /// Whether a file is of a build from Mozilla.
    pub fn is_mozillas(&self, path: &Path) -> bool {
        match &self.mozilla_folders {
            Some(folders) => folders.iter().any(|folder| path.parent() == Some(folder)),
            None => mozilla::is_build(path),
        }
    }

    /// Why no server can be asked, although one is to be: there is no folder for its answers.
    pub fn without_cache(&self) -> Option<String> {
        let is_named = || {
            let builds = self.mozilla_folders.as_ref();
            !self.urls.is_empty()
                || builds.is_some_and(|folders| !folders.is_empty())
                || !Debuginfod::named(|name| env::var_os(name)).is_empty()
        };
        let note = "no server was asked for names: XDG_CACHE_HOME, or else HOME, is missing or belongs to another user; \
                    set XDG_CACHE_HOME to a folder of yours";
        (!self.offline && home::cache_folder().is_none() && is_named()).then(|| note.to_owned())
    }

    /// Without Mozilla's server, which is not asked about files that only a foreign recording names.
    #[must_use]
    pub fn without_mozilla(self) -> Self {
        Self { mozilla: false, ..self }
    }

    /// debuginfod servers, if any may be asked.
    pub fn debuginfod(&self) -> Option<Debuginfod> {
        Debuginfod::from_env().filter(|_| !self.offline)
    }

    /// Symbol servers, if any may be asked.
    pub fn symbol_servers(&self) -> Option<SymbolServers> {
        let servers = SymbolServers::new(&self.urls, self.mozilla).filter(|_| !self.offline)?;
        Some(SymbolServers {
            mozilla_folders: self.mozilla_folders.clone(),
            ..servers
        })
    }

    /// Where to look for names.
    pub fn config(&self, on_download: Option<OnDownload>) -> Config {
        Config {
            debuginfod: self.debuginfod(),
            symbol_servers: self.symbol_servers(),
            on_download,
            ..Config::default()
        }
    }

    /// Whether any server may be asked in this environment.
    pub fn may_ask(&self, variable: impl Fn(&str) -> Option<OsString>) -> bool {
        let is_named = || self.mozilla || !self.urls.is_empty() || !Debuginfod::named(variable).is_empty();
        !self.offline && is_named()
    }

    /// All servers that could be asked in this environment.
    pub fn any() -> Self {
        Self {
            mozilla: true,
            ..Self::default()
        }
    }

    /// The cache folders of the servers that may be asked; without any, no connection is needed.
    pub fn caches(&self) -> Vec<PathBuf> {
        let debuginfod = self.debuginfod().map(|servers| servers.cache_directory);
        let symbols = self.symbol_servers().map(|servers| servers.cache_directory);
        debuginfod.into_iter().chain(symbols).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mozillas_server_is_for_builds_from_mozilla() {
        let place = tempfile::tempdir().unwrap();
        let folders = ["theirs", "other"].map(|name| place.path().join(name));
        for (folder, source) in folders.iter().zip(["https://hg.mozilla.org/mozilla-central", ""]) {
            std::fs::create_dir(folder).unwrap();
            let text = format!("[App]\nSourceRepository={source}\n");
            std::fs::write(folder.join(mozilla::APPLICATION), text).unwrap();
        }
        let files = folders.each_ref().map(|folder| folder.join("libxul.so"));
        let servers = NameServers {
            mozilla: true,
            ..NameServers::default()
        };
        let both = servers.for_files(files.iter().map(PathBuf::as_path));
        assert_eq!(both.mozilla_folders.as_deref(), Some(&folders[..1]));
        assert!(
            both.mozilla
                && both
                    .symbol_servers()
                    .is_some_and(|servers| servers.for_mozilla.is_some())
        );
        assert!(!servers.for_files(files[1..].iter().map(PathBuf::as_path)).mozilla);
        let offline = NameServers {
            offline: true,
            urls: vec!["https://symbols.example".to_owned()],
            ..servers
        };
        assert!(offline.caches().is_empty());
        let offline = offline.for_files(files.iter().map(PathBuf::as_path));
        assert!(!offline.mozilla && offline.is_mozillas(&files[0]) && !offline.is_mozillas(&files[1]));
    }
}
