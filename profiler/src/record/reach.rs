//! What the process that builds a profile may read: the mapped files, their debug info in other files, and nothing
//! else. Each file is allowed separately, without the folder around it, since the recorded program chooses where its
//! files are and what their debug info names.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::mem;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use nix::unistd::Uid;
use rustc_hash::FxHashSet;
use symbols::Config;
use symbols::elf::ElfFile;
use symbols::patience::{Progress, patiently, sharing_a_thread};

use super::advice;
use super::finish::Plan;
use crate::capture::files::open::open_regular;
use crate::capture::socket::wire::Mapped;

/// Where packages install debug info; it is public.
const SYSTEM_DEBUG: &str = "/usr/lib/debug";
/// Files that resolve a server's address.
const RESOLVER: [&str; 12] = [
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl",
    "/lib",
    "/run/systemd/resolve",
    "/usr/lib",
    "/usr/share/ca-certificates",
];
/// File extensions of split DWARF.
const SPLIT: [&str; 3] = ["dwo", "dwp", "o"];
/// Folder entries that are examined for split DWARF, in one recording.
const ENTRIES: usize = 1 << 16;
/// Depth of the search below the folder where it begins.
const DEPTH: usize = 8;
/// Files that are allowed, at most.
const FILES: usize = 1 << 16;
/// Longest name of a debug file.
const NAME: usize = 255;

/// The files and folders that may be read.
#[derive(Debug, Default)]
pub struct Reach {
    /// Opened files, since their names may refer to others by the time that they are allowed.
    pub files: Vec<File>,
    /// Folders with everything below. Missing ones are left out.
    pub folders: Vec<PathBuf>,
    search: Search,
}

impl Reach {
    /// What the profile of these files needs.
    pub fn of(mapped: &[(Mapped, Option<File>)], plan: &Plan) -> Self {
        let mut reach = Self {
            folders: [SYSTEM_DEBUG]
                .into_iter()
                .chain(advice::READS)
                .map(PathBuf::from)
                .collect(),
            ..Self::default()
        };
        reach
            .folders
            .extend(Some(Config::scratch_folder()).filter(|folder| is_private(folder)));
        if plan.this_boot {
            reach.folders.push("/proc/kallsyms".into());
        }
        if let Some(places) = &plan.sources {
            reach.folders.extend(places.roots().readable());
        }
        let caches = plan.servers.caches();
        if !caches.is_empty() {
            reach.folders.extend(caches);
            reach.folders.extend(RESOLVER.map(PathBuf::from));
        }
        sharing_a_thread(|| {
            for (mapping, file) in mapped {
                let path = Path::new(&mapping.path);
                match file {
                    Some(file) => file.try_clone().into_iter().for_each(|file| reach.binary(path, file)),
                    None => by_name(mapping).into_iter().for_each(|file| reach.binary(path, file)),
                }
            }
        });
        reach
    }

    /// Allows a mapped file and its debug info. A file is left out if its file system, which may be the recorded
    /// program's, does not answer: even allowing it queries its type.
    fn binary(&mut self, path: &Path, file: File) {
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        let (mut search, own) = (mem::take(&mut self.search), path.to_owned());
        // Descriptors may be scarce: it is passed back.
        let found = patiently(Path::new(&name), move |progress| {
            let found = search.around(&own, &file, progress);
            Ok((search, file, found))
        });
        if let Ok((search, file, found)) = found {
            self.search = search;
            self.add(file);
            for file in found {
                self.add(file);
            }
        }
    }

    fn add(&mut self, file: File) {
        if self.files.len() < FILES {
            self.files.push(file);
        }
    }
}

/// A search for debug info in other files.
#[derive(Debug, Default)]
struct Search {
    searched: FxHashSet<PathBuf>,
    entries: usize,
}

impl Search {
    /// The files with the debug info of a binary.
    fn around(&mut self, path: &Path, binary: &File, progress: &Progress) -> Vec<File> {
        let mut found = Vec::new();
        let owner = binary.metadata().map_or(0, |meta| meta.uid());
        let (Some(elf), Some(folder)) = (elf(binary), path.parent().filter(|_| path.is_absolute())) else {
            return found;
        };
        let mut is_split = has_split_dwarf(&elf);
        if let Some(name) = debug_link(&elf, binary) {
            for candidate in [folder.join(&name), folder.join(".debug").join(&name)] {
                if let Some((file, elf)) = debug_file(&candidate, owner) {
                    is_split |= has_split_dwarf(&elf);
                    found.push(file);
                }
            }
        }
        if is_split {
            // Objects are below the program (CMake, Meson, cargo), or below its parent folder.
            for start in [Some(folder), folder.parent()].into_iter().flatten() {
                self.below(start, owner, progress, &mut found);
            }
        }
        found
    }

    /// Adds the files of split DWARF in and below `start`, nearest first.
    fn below(&mut self, start: &Path, owner: u32, progress: &Progress, found: &mut Vec<File>) {
        if start.parent().is_none() {
            return;
        }
        let mut folders = VecDeque::from([(start.to_owned(), 0)]);
        while let Some((folder, depth)) = folders.pop_front() {
            if !self.searched.insert(folder.clone()) {
                continue;
            }
            progress.is_made();
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                self.entries += 1;
                if self.entries > ENTRIES {
                    return;
                }
                let (path, Ok(kind)) = (entry.path(), entry.file_type()) else {
                    continue;
                };
                let is_hidden = entry.file_name().as_bytes().starts_with(b".");
                let is_split = path
                    .extension()
                    .is_some_and(|end| SPLIT.iter().any(|split| end == *split));
                if kind.is_dir() && depth < DEPTH && !is_hidden {
                    folders.push_back((path, depth + 1));
                } else if kind.is_file() && is_split && found.len() < FILES {
                    found.extend(debug_file(&path, owner).map(|(file, _)| file));
                }
            }
        }
    }
}

/// Whether a folder is ours and not even readable by others; `/tmp` contains anything.
fn is_private(folder: &Path) -> bool {
    fs::metadata(folder).is_ok_and(|meta| meta.uid() == Uid::effective().as_raw() && meta.mode() & 0o777 == 0o700)
}

/// Opens a file by its name, if it is still the mapped one. The name is from the program's own file systems, and may
/// refer to anything here.
fn by_name(mapping: &Mapped) -> Option<File> {
    let (path, inode) = (PathBuf::from(&mapping.path), mapping.file.inode);
    let found = patiently(Path::new(&mapping.path), move |_| {
        let file = open_regular(&path)?;
        let is_it = file.metadata()?.ino() == inode && elf(&file).is_some();
        Ok(is_it.then_some(file))
    });
    found.ok().flatten()
}

/// Opens an ELF file that belongs to root, to us, or to the binary's owner: another user's file is not trusted.
fn debug_file(path: &Path, owner: u32) -> Option<(File, ElfFile)> {
    let file = open_regular(path).ok()?;
    let uid = file.metadata().ok()?.uid();
    let is_trusted = [0, Uid::effective().as_raw(), owner].contains(&uid);
    let elf = elf(&file).filter(|_| is_trusted)?;
    Some((file, elf))
}

fn elf(file: &File) -> Option<ElfFile> {
    let mut start = [0; 4];
    file.read_exact_at(&mut start, 0).ok()?;
    if start != *b"\x7fELF" {
        return None;
    }
    ElfFile::open_sparingly(file.try_clone().ok()?).ok()
}

/// Whether its DWARF refers to other files (`-gsplit-dwarf`).
fn has_split_dwarf(elf: &ElfFile) -> bool {
    elf.section_places().iter().any(|place| place.name == ".debug_addr")
}

/// The name of the file with the debug info, without a folder.
fn debug_link(elf: &ElfFile, file: &File) -> Option<PathBuf> {
    let places = elf.section_places();
    let section = places.iter().find(|place| place.name == ".gnu_debuglink")?;
    let mut bytes = [0; NAME + 1];
    let len = file.read_at(&mut bytes, section.offset).ok()?;
    let end = bytes[..len].iter().position(|byte| *byte == 0)?;
    let name = Path::new(OsStr::from_bytes(&bytes[..end]));
    (name.file_name() == Some(name.as_os_str())).then(|| name.to_owned())
}
