//! Finds the separate debug file of a binary by `.gnu_debuglink` and build-id directories, like
//! gdb. <https://sourceware.org/gdb/current/onlinedocs/gdb.html/Separate-Debug-Files.html>

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use object::Object as _;

use crate::elf::{ElfError, ElfFile};
use crate::vetted;

/// Folders in which the system's debug packages install their files.
pub(crate) const SYSTEM_DEBUG_DIRECTORY: &str = "/usr/lib/debug";

/// An opened file.
pub(super) struct Opened {
    pub elf: ElfFile,
    /// Its path, or its path in the process that ran it: the base for the files that it names.
    pub path: PathBuf,
    file: File,
    /// Its state when it was opened.
    stamp: Option<Stamp>,
}

/// Size, and time of the last change of the contents.
type Stamp = (u64, i64, i64);

fn stamp(file: &File) -> Option<Stamp> {
    let metadata = file.metadata().ok()?;
    Some((metadata.size(), metadata.mtime(), metadata.mtime_nsec()))
}

impl Opened {
    /// Reads the headers of a file with `open`.
    pub(super) fn new(
        file: File,
        path: &Path,
        open: impl FnOnce(&File) -> Result<ElfFile, ElfError>,
    ) -> Result<Self, ElfError> {
        let stamp = stamp(&file);
        Ok(Self {
            elf: open(&file)?,
            path: path.to_owned(),
            file,
            stamp,
        })
    }

    /// Whether the file was changed or truncated since it was opened: the results may be wrong.
    pub(super) fn was_changed(&self) -> bool {
        self.elf.was_cut() || stamp(&self.file) != self.stamp
    }

    /// Whether the file has functions or lines.
    fn is_useful(&self) -> bool {
        self.elf.has_section(".symtab") || self.elf.has_section(".debug_info")
    }
}

/// The debug file of `binary`, which the process saw at `path`. Only a file with the same build id
/// is accepted; for binaries without one, a file with the checksum in the debug link.
pub(super) fn debug_file(binary: &ElfFile, path: &Path, extra_directories: &[PathBuf]) -> Option<Opened> {
    let link = debug_link(binary);
    let name = link.as_ref().map(|(name, _)| name.as_path());
    let mut candidates = Vec::new();
    if let (Some(directory), Some(name)) = (path.parent(), name) {
        candidates.push(directory.join(name));
        candidates.push(directory.join(".debug").join(name));
        if let Ok(inside) = directory.strip_prefix("/") {
            candidates.push(Path::new(SYSTEM_DEBUG_DIRECTORY).join(inside).join(name));
        }
    }
    let by_build_id = build_id_path(binary.build_id());
    candidates.extend(
        by_build_id
            .as_ref()
            .map(|relative| Path::new(SYSTEM_DEBUG_DIRECTORY).join(relative)),
    );
    for directory in extra_directories {
        let file_names = path.file_name().into_iter().flat_map(|name| {
            let mut with_suffix = name.to_os_string();
            with_suffix.push(".debug");
            [PathBuf::from(name), PathBuf::from(with_suffix)]
        });
        let relative = by_build_id
            .iter()
            .cloned()
            .chain(name.map(Path::to_path_buf))
            .chain(file_names);
        candidates.extend(relative.map(|relative| directory.join(relative)));
    }
    let checksum = link.map(|(_, checksum)| checksum);
    candidates
        .iter()
        .find_map(|candidate| open_if_same(candidate, binary, checksum))
}

/// Opens `candidate` if it is a debug file of `binary`.
pub(super) fn open_if_same(candidate: &Path, binary: &ElfFile, checksum: Option<u32>) -> Option<Opened> {
    let file = vetted::open_stored(candidate).ok()?;
    let opened = Opened::new(file, candidate, ElfFile::open_debug).ok()?;
    let elf = &opened.elf;
    let same = if binary.build_id().is_empty() {
        checksum.is_some_and(|checksum| checksum == crc32fast::hash(elf.bytes()))
    } else {
        elf.build_id() == binary.build_id()
    };
    (same && opened.is_useful()).then_some(opened)
}

/// The plain file name in `.gnu_debuglink`, and the checksum of that file.
fn debug_link(binary: &ElfFile) -> Option<(PathBuf, u32)> {
    let object = binary.object().ok()?;
    let (name, checksum) = object.gnu_debuglink().ok().flatten()?;
    let name = Path::new(OsStr::from_bytes(name));
    // A name that contains directories could lead anywhere.
    (name.file_name() == Some(name.as_os_str())).then(|| (name.to_path_buf(), checksum))
}

/// `.build-id/ab/cdef….debug`.
pub(crate) fn build_id_path(build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first()?;
    (!rest.is_empty()).then(|| PathBuf::from(format!(".build-id/{first:02x}/{}.debug", super::hex(rest))))
}
