//! The files with the DWARF of one binary: the binary itself, or its debug file, and the `.dwo`,
//! `.dwp` and `.gnu_debugaltlink` files that those name. An untrusted binary may name any file.

use std::fmt;
use std::fs::File;
use std::future::ready;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use samply_symbols::debugid::DebugId;
use samply_symbols::{
    CandidatePathInfo, ElfBuildId, FileAndPathHelper, FileAndPathHelperResult, FileLocation, LibraryInfo,
    OptionallySendFuture,
};

use super::debuginfod::Kind;
use super::locate::SYSTEM_DEBUG_DIRECTORY;
use crate::contents::{Contents, Room};
use crate::elf::{self, ElfBytes, ElfFile};
use crate::vetted;

/// Identifies a file for samply-symbols.
#[derive(Clone)]
pub(crate) enum Location {
    /// The file that is already open; its path is only the base for other paths.
    First(PathBuf),
    /// Another file.
    At(PathBuf),
    /// A file from a debuginfod server for the build with this id. Paths in it are from the machine
    /// that built it.
    Download(Vec<u8>, Kind),
    /// The symbol file of a build of the binary at this path.
    Symbols(PathBuf, DebugId),
}

impl Location {
    /// Its path, if it is on this machine.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::First(path) | Self::At(path) => Some(path),
            Self::Download(..) | Self::Symbols(..) => None,
        }
    }

    /// A path relative to the same folder, unless `path` is absolute.
    fn sibling(&self, path: impl AsRef<Path>) -> Option<Self> {
        Some(Self::At(self.path()?.parent()?.join(path)))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First(path) | Self::At(path) => path.display().fmt(f),
            Self::Download(build_id, _) => write!(f, "build {} from a debuginfod server", super::hex(build_id)),
            Self::Symbols(path, id) => write!(f, "symbols of {}, {}", path.display(), id.breakpad()),
        }
    }
}

impl FileLocation for Location {
    fn location_for_dyld_subcache(&self, _: &str) -> Option<Self> {
        None
    }

    fn location_for_external_object_file(&self, _: &str) -> Option<Self> {
        None
    }

    fn location_for_pdb_from_binary(&self, _: &str) -> Option<Self> {
        None
    }

    fn location_for_source_file(&self, _: &str) -> Option<Self> {
        None
    }

    fn location_for_breakpad_symindex(&self) -> Option<Self> {
        None
    }

    fn location_for_dwo(&self, comp_dir: &str, path: &str) -> Option<Self> {
        self.sibling(Path::new(comp_dir).join(path))
    }

    fn location_for_dwp(&self) -> Option<Self> {
        let mut name = self.path()?.file_name()?.to_owned();
        name.push(".dwp");
        self.sibling(name)
    }
}

/// Location of the second file of a `.gnu_debugaltlink`.
pub(crate) fn supplementary(first: &Location, name: &str, build_id: &ElfBuildId) -> Vec<Location> {
    let by_build_id = super::locate::build_id_path(&build_id.0)
        .map(|relative| Location::At(Path::new(SYSTEM_DEBUG_DIRECTORY).join(relative)));
    first.sibling(name).into_iter().chain(by_build_id).collect()
}

/// The files that were read, to check whether one of them was truncated.
#[derive(Default)]
pub(crate) struct Read(Mutex<Vec<ElfBytes>>);

impl Read {
    /// Opens a file that an untrusted file may have named.
    pub(crate) fn open(&self, path: &Path, room: &Room) -> FileAndPathHelperResult<Contents> {
        self.contents(&ElfFile::open_debug(&vetted::open_stored(path)?)?, room)
    }

    /// Opens a symbol file, which is not ELF.
    pub(crate) fn plain(&self, file: &File) -> FileAndPathHelperResult<Contents> {
        let bytes = elf::map(file, elf::Reading::Around)?;
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.push(bytes.clone());
        Ok(Contents::plain(bytes))
    }

    fn contents(&self, elf: &ElfFile, room: &Room) -> FileAndPathHelperResult<Contents> {
        let contents = Contents::of(elf, room).ok_or("its debug information is damaged, or too large")?;
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.push(elf.bytes().clone());
        Ok(contents)
    }

    /// Whether a file was truncated. Files that are no longer in use are removed.
    pub(crate) fn was_cut(&self) -> bool {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let was_cut = files.iter().any(ElfBytes::was_cut);
        files.retain(ElfBytes::is_shared);
        was_cut
    }
}

/// Opens debug files.
pub(super) struct DebugFiles {
    first: Mutex<Option<Contents>>,
    room: Room,
    read: Read,
}

impl DebugFiles {
    /// `None`: the debug information of `elf` is damaged or implausibly large.
    pub(super) fn new(elf: &ElfFile) -> Option<Self> {
        let (room, read) = (Room::new(), Read::default());
        let first = read.contents(elf, &room).ok()?;
        Some(Self {
            first: Mutex::new(Some(first)),
            room,
            read,
        })
    }

    /// For a symbol file without ELF. `None`: it is empty or too large.
    pub(super) fn of_symbols(file: &File) -> Option<Self> {
        let (room, read) = (Room::new(), Read::default());
        let first = read.plain(file).ok()?;
        Some(Self {
            first: Mutex::new(Some(first)),
            room,
            read,
        })
    }

    /// Whether a file was truncated while it was read.
    pub(super) fn was_cut(&self) -> bool {
        self.read.was_cut()
    }

    fn load(&self, location: &Location) -> FileAndPathHelperResult<Contents> {
        match location {
            Location::First(_) => {
                let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(first.take().ok_or("it was read before")?)
            }
            Location::At(path) => self.read.open(path, &self.room),
            Location::Download(..) | Location::Symbols(..) => Err("it is not on this machine".into()),
        }
    }
}

impl FileAndPathHelper for DebugFiles {
    type F = Contents;
    type FL = Location;

    fn get_candidate_paths_for_debug_file(
        &self,
        _: &LibraryInfo,
    ) -> FileAndPathHelperResult<Vec<CandidatePathInfo<Location>>> {
        Ok(Vec::new())
    }

    fn get_candidate_paths_for_binary(
        &self,
        _: &LibraryInfo,
    ) -> FileAndPathHelperResult<Vec<CandidatePathInfo<Location>>> {
        Ok(Vec::new())
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
        Ok(supplementary(first, name, build_id))
    }

    fn load_file(
        &self,
        location: Location,
    ) -> Pin<Box<dyn OptionallySendFuture<Output = FileAndPathHelperResult<Contents>> + '_>> {
        Box::pin(ready(self.load(&location)))
    }
}
