//! The files of the libraries in a profile, and the locations of their debug files. All names are
//! untrusted.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use samply_symbols::{
    CandidatePathInfo, CodeId, ElfBuildId, FileAndPathHelper, FileAndPathHelperResult, LibraryInfo,
    OptionallySendFuture,
};

use super::ServerConfig;
use super::libraries::LibraryKey;
use crate::contents::{Contents, Room};
use crate::elf::ElfFile;
use crate::symbolicator::debug_files::{self, Location, Read};
use crate::symbolicator::debuginfod::{Client, Kind};
use crate::symbolicator::locate::{SYSTEM_DEBUG_DIRECTORY, build_id_path};
use crate::symbolicator::symbol_servers;
use crate::vetted;

/// Finds and opens the files of libraries.
pub(super) struct LibraryFiles {
    known: Mutex<HashMap<LibraryKey, LibraryInfo>>,
    debuginfod: Option<Client>,
    symbol_servers: Option<symbol_servers::Client>,
    read: Read,
}

impl LibraryFiles {
    pub fn new(config: &ServerConfig) -> Self {
        let debuginfod = config.debuginfod.clone();
        Self {
            known: Mutex::default(),
            debuginfod: debuginfod.map(|servers| Client::new(servers, None)),
            symbol_servers: (config.symbol_servers.as_ref()).map(|servers| symbol_servers::Client::new(servers, None)),
            read: Read::default(),
        }
    }

    /// A library of the profile.
    pub fn add(&self, library: LibraryInfo) {
        if let (Some(name), Some(id)) = (&library.debug_name, library.debug_id) {
            let key = (name.clone(), id);
            self.known
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(key, library);
        }
    }

    /// Whether a file was truncated while it was read for a response.
    pub fn was_cut(&self) -> bool {
        self.read.was_cut()
    }

    /// Combines the profile's information about a library with the request's.
    fn known(&self, asked: &LibraryInfo) -> LibraryInfo {
        let mut info = asked.clone();
        if let (Some(name), Some(id)) = (&asked.debug_name, asked.debug_id)
            && let Some(known) = self
                .known
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get(&(name.clone(), id))
        {
            info.absorb(known);
        }
        info
    }

    fn downloads(&self, info: &LibraryInfo, kinds: &[Kind]) -> Vec<Location> {
        let Some(build_id) = build_id(info).filter(|_| self.debuginfod.is_some()) else {
            return Vec::new();
        };
        kinds
            .iter()
            .map(|kind| Location::Download(build_id.to_vec(), *kind))
            .collect()
    }

    async fn load(&self, location: Location) -> FileAndPathHelperResult<Contents> {
        let path = match &location {
            Location::First(path) | Location::At(path) => path.clone(),
            Location::Symbols(path, id) => {
                let client = self.symbol_servers.as_ref().ok_or("no symbol server is configured")?;
                let file = client.file(path, *id).await.ok_or("no symbol server has it")?;
                return self.read.plain(&file);
            }
            Location::Download(build_id, kind) => {
                let client = self.debuginfod.as_ref().ok_or("no debuginfod server is configured")?;
                client
                    .file(build_id, *kind)
                    .await
                    .ok_or("no debuginfod server has it")?
            }
        };
        self.read.open(&path, &Room::new())
    }
}

/// Whether the library contains its debug info, so that no server is asked.
fn has_debug_info(info: &LibraryInfo) -> bool {
    let open = |path: &String| ElfFile::open_debug(&vetted::open_stored(Path::new(path)).ok()?).ok();
    info.path
        .as_ref()
        .and_then(open)
        .is_some_and(|elf| elf.has_section(".debug_info"))
}

fn build_id(info: &LibraryInfo) -> Option<&[u8]> {
    match &info.code_id {
        Some(CodeId::ElfBuildId(id)) => Some(&id.0),
        _ => None,
    }
}

fn single(locations: impl IntoIterator<Item = Location>) -> Vec<CandidatePathInfo<Location>> {
    locations.into_iter().map(CandidatePathInfo::SingleFile).collect()
}

impl FileAndPathHelper for LibraryFiles {
    type F = Contents;
    type FL = Location;

    fn get_candidate_paths_for_debug_file(
        &self,
        asked: &LibraryInfo,
    ) -> FileAndPathHelperResult<Vec<CandidatePathInfo<Location>>> {
        let info = self.known(asked);
        let mut paths: Vec<PathBuf> = Vec::new();
        let debug_path = info.debug_path.as_ref();
        let debug_path =
            debug_path.filter(|path| Path::new(path).extension().is_some_and(|extension| extension == "so"));
        paths.extend(debug_path.map(|path| format!("{path}.dbg").into()));
        if let (Some(path), Some(debug_name)) = (&info.path, &info.debug_name)
            && info.name.as_ref() != Some(debug_name)
        {
            paths.extend(Path::new(path).parent().map(|folder| folder.join(debug_name)));
        }
        let by_build_id = build_id(&info).and_then(build_id_path);
        paths.extend(by_build_id.map(|relative| Path::new(SYSTEM_DEBUG_DIRECTORY).join(relative)));
        let mut locations: Vec<Location> = paths.into_iter().map(Location::At).collect();
        locations.extend(self.downloads(&info, &[Kind::DebugInfo]));
        if let Some(id) = info
            .debug_id
            .filter(|_| self.symbol_servers.is_some() && !has_debug_info(&info))
        {
            let name = info.path.as_ref().or(info.debug_name.as_ref());
            locations.extend(name.map(|path| Location::Symbols(path.into(), id)));
        }
        locations.extend(info.path.map(|path| Location::At(path.into())));
        Ok(single(locations))
    }

    fn get_candidate_paths_for_gnu_debug_link_dest(
        &self,
        first: &Location,
        name: &str,
    ) -> FileAndPathHelperResult<Vec<Location>> {
        let path = first.path().ok_or("only files of this machine have one")?;
        // A name that contains folders could lead anywhere.
        if Path::new(name).file_name() != Some(name.as_ref()) {
            return Err("it is not a file name".into());
        }
        let folder = path.parent().ok_or("it is in no folder")?.canonicalize()?;
        let below = folder.strip_prefix("/").unwrap_or(&folder);
        let folders = [
            folder.clone(),
            folder.join(".debug"),
            Path::new(SYSTEM_DEBUG_DIRECTORY).join(below),
        ];
        Ok(folders.map(|folder| Location::At(folder.join(name))).into())
    }

    fn get_candidate_paths_for_binary(
        &self,
        asked: &LibraryInfo,
    ) -> FileAndPathHelperResult<Vec<CandidatePathInfo<Location>>> {
        let info = self.known(asked);
        let path = info.path.clone().map(|path| Location::At(path.into()));
        let downloads = self.downloads(&info, &[Kind::Executable, Kind::DebugInfo]);
        Ok(single(path.into_iter().chain(downloads)))
    }

    fn get_dyld_shared_cache_paths(&self, _: Option<&str>) -> FileAndPathHelperResult<Vec<Location>> {
        Ok(Vec::new())
    }

    fn get_candidate_paths_for_supplementary_debug_file(
        &self,
        first: &Location,
        name: &str,
        build_id: &ElfBuildId,
    ) -> FileAndPathHelperResult<Vec<Location>> {
        let mut locations = debug_files::supplementary(first, name, build_id);
        if self.debuginfod.is_some() {
            locations.push(Location::Download(build_id.0.clone(), Kind::DebugInfo));
        }
        Ok(locations)
    }

    fn load_file(
        &self,
        location: Location,
    ) -> Pin<Box<dyn OptionallySendFuture<Output = FileAndPathHelperResult<Contents>> + '_>> {
        Box::pin(self.load(location))
    }
}
