//! The libraries of a profile, by the ids that requests use.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::str::FromStr as _;

use samply_api::Api;
use samply_symbols::debugid::DebugId;
use samply_symbols::{CodeId, LibraryInfo, SymbolManager, SymbolMap};

use super::ServerConfig;
use super::files::LibraryFiles;
use crate::vetted::{self, Vetted};

/// A library in the profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Library {
    /// Base name.
    pub name: String,
    /// Its path.
    pub path: String,
    /// Base name of its debug file, or of the library itself.
    pub debug_name: String,
    /// Path of its debug file, or of the library itself.
    pub debug_path: String,
    /// Breakpad id.
    pub breakpad_id: String,
    /// Build id in hexadecimal.
    pub code_id: Option<String>,
    /// Architecture, as `uname -m` prints it.
    pub arch: Option<String>,
}

/// The id of a library in a request.
pub(super) type LibraryKey = (String, DebugId);

/// The libraries, and their symbols.
pub(super) struct Libraries {
    /// Finds the symbols of libraries.
    pub manager: SymbolManager<LibraryFiles>,
    by_debug_id: HashMap<LibraryKey, Entry>,
    by_code_id: HashMap<String, LibraryKey>,
}

/// Properties of a library for reading its symbols.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub key: LibraryKey,
    pub name: String,
    pub path: String,
    /// Its path, if it may be opened.
    pub usable: Option<String>,
    pub code_id: Option<String>,
}

/// The library id of a request.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Asked<'q> {
    pub debug_name: Option<&'q str>,
    pub debug_id: Option<&'q str>,
    pub code_id: Option<&'q str>,
}

impl Libraries {
    pub fn new(libraries: &[Library], config: &ServerConfig) -> Self {
        let mut all = Self {
            manager: SymbolManager::with_helper(LibraryFiles::new(config)),
            by_debug_id: HashMap::new(),
            by_code_id: HashMap::new(),
        };
        let contested = contested(libraries);
        for library in libraries {
            all.add(library, &contested);
        }
        all
    }

    /// The response of samply.
    pub async fn query(&self, path: &str, question: &str) -> String {
        Api::new(&self.manager).query_api(path, question).await
    }

    /// Loads the symbols of a library.
    ///
    /// # Errors
    /// There are no symbols; the reason is a sentence for the user.
    pub async fn symbols(&self, key: &LibraryKey) -> Result<SymbolMap<LibraryFiles>, String> {
        let info = LibraryInfo {
            debug_name: Some(key.0.clone()),
            debug_id: Some(key.1),
            ..LibraryInfo::default()
        };
        let map = self.manager.load_symbol_map(&info).await;
        map.map_err(|error| format!("Could not obtain symbols for the requested library: {error}"))
    }

    fn add(&mut self, library: &Library, contested: &HashSet<DebugId>) {
        // Without an id, it is unknown whether the file is still the one that ran.
        let Some(debug_id) = debug_id(&library.breakpad_id) else {
            return;
        };
        // A path that may not be opened is skipped: symbols may come from a debug file.
        let is_usable = |path: &str| !contested.contains(&debug_id) && vetted::is_library(Path::new(path));
        let usable = |path: &str| is_usable(path).then(|| path.to_owned());
        let key = (library.debug_name.clone(), debug_id);
        let code_id = library.code_id.clone().map(|id| id.to_ascii_lowercase());
        self.manager.helper().add(LibraryInfo {
            debug_name: Some(library.debug_name.clone()),
            debug_id: Some(debug_id),
            debug_path: usable(&library.debug_path),
            name: Some(library.name.clone()),
            code_id: code_id.as_deref().and_then(|id| CodeId::from_str(id).ok()),
            path: usable(&library.path),
            arch: library.arch.clone(),
        });
        if let Some(code_id) = &code_id {
            self.by_code_id.insert(code_id.clone(), key.clone());
        }
        let entry = Entry {
            key: key.clone(),
            name: library.name.clone(),
            path: library.path.clone(),
            usable: usable(&library.path),
            code_id,
        };
        self.by_debug_id.insert(key, entry);
    }

    /// The library of a request, if it is in the profile.
    pub fn find(&self, asked: Asked<'_>) -> Result<&Entry, String> {
        let by_debug_id = || {
            let key = (asked.debug_name?.to_owned(), debug_id(asked.debug_id?)?);
            self.by_debug_id.get(&key)
        };
        let by_code_id = || {
            let key = self.by_code_id.get(&asked.code_id?.to_ascii_lowercase())?;
            self.by_debug_id.get(key)
        };
        // How the profile refers to the library for functions with names (docs/profile.md).
        let by_alias = || {
            let id = asked.debug_name.filter(|_| asked.debug_id == Some(""))?;
            self.by_debug_id.get(self.by_code_id.get(&id.to_ascii_lowercase())?)
        };
        by_debug_id()
            .or_else(by_code_id)
            .or_else(by_alias)
            .ok_or_else(|| "there is no such library in the profile".to_owned())
    }
}

/// Ids that files with different contents claim: a forged file could answer for the other. For
/// these, no file of the profile is opened.
fn contested(libraries: &[Library]) -> HashSet<DebugId> {
    let mut paths: HashMap<DebugId, Vec<&str>> = HashMap::new();
    for library in libraries {
        if let Some(id) = debug_id(&library.breakpad_id) {
            let known = paths.entry(id).or_default();
            if !known.contains(&library.path.as_str()) {
                known.push(&library.path);
            }
        }
    }
    let is_contested = |paths: &[&str]| {
        paths
            .windows(2)
            .any(|two| !is_same(Path::new(two[0]), Path::new(two[1])))
    };
    paths
        .into_iter()
        .filter(|(_, paths)| is_contested(paths))
        .map(|(id, _)| id)
        .collect()
}

/// Whether both files exist, with the same contents.
fn is_same(one: &Path, other: &Path) -> bool {
    let vetted = |path: &Path| path.is_absolute().then(|| Vetted::new(path).ok())?;
    let (Some(one), Some(other)) = (vetted(one), vetted(other)) else {
        return false;
    };
    one.is(&other) || one.has_contents_of(other).unwrap_or(false)
}

fn debug_id(breakpad: &str) -> Option<DebugId> {
    DebugId::from_breakpad(breakpad).ok().filter(|id| !id.is_nil())
}
