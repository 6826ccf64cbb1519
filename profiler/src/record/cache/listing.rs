//! Predicts which files a command will use: those that it maps, those named in its arguments, those installed with
//! it, and those that the user names. Nothing is opened here; docs/cold.md explains the rules.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use rustc_hash::FxHashSet;

use super::Entry;
use super::report::shown;
use crate::record::identity::Environment;

/// Files that are listed, at most.
const FILES_LIMIT: usize = 20_000;
/// Names that are examined in folders, at most.
const NAMES_LIMIT: usize = 500_000;
/// Depth to which folders are searched.
const DEPTH_LIMIT: usize = 32;
/// Arguments that are examined, at most.
const ARGUMENTS_LIMIT: usize = 4096;
/// The file that every dynamic program reads first.
const LOADER_CACHE: &str = "/etc/ld.so.cache";
/// Folders of many programs: their content is not related to this one.
const SHARED: [&str; 46] = [
    "/",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/gnu",
    "/gnu/store",
    "/home",
    "/lib",
    "/lib32",
    "/lib64",
    "/libexec",
    "/media",
    "/mnt",
    "/nix",
    "/nix/store",
    "/opt",
    "/opt/bin",
    "/opt/lib",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/snap",
    "/snap/bin",
    "/srv",
    "/sys",
    "/tmp",
    "/usr",
    "/usr/bin",
    "/usr/games",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local",
    "/usr/local/bin",
    "/usr/local/lib",
    "/usr/local/sbin",
    "/usr/sbin",
    "/usr/share",
    "/var",
    "/var/cache",
    "/var/lib",
    "/var/tmp",
    "/data",
];
/// The same, relative to a home.
const SHARED_AT_HOME: [&str; 9] = [
    "bin",
    ".bin",
    ".local",
    ".local/bin",
    ".local/lib",
    ".local/share",
    ".cargo/bin",
    ".cache",
    ".config",
];

/// What is known of a command's files.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// The command, resolved.
    pub program: &'a Path,
    /// The files that it maps when it starts.
    pub mapped: &'a [PathBuf],
    /// The command line, as typed.
    pub command: &'a [OsString],
    /// The paths that the user named.
    pub also: &'a [PathBuf],
    /// The command's environment.
    pub environment: &'a Environment,
}

/// The files, and what could not be listed.
#[derive(Debug, Default)]
pub struct Listing {
    /// Regular files, each once.
    pub entries: Vec<Entry>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Folders that can't be read.
    pub unreadable: Vec<PathBuf>,
    seen: FxHashSet<(u64, u64)>,
    walked: Vec<PathBuf>,
    names: usize,
    limit: usize,
    is_full: bool,
}

/// Lists the files, the most certain ones first.
///
/// # Errors
/// When a path that the user named does not exist.
pub fn list(sources: Sources<'_>) -> Result<Listing> {
    up_to(FILES_LIMIT, sources)
}

fn up_to(limit: usize, sources: Sources<'_>) -> Result<Listing> {
    let mut listing = Listing {
        limit,
        ..Listing::default()
    };
    let folders = Folders::new(sources.environment);
    for path in [sources.program]
        .into_iter()
        .chain(sources.mapped.iter().map(PathBuf::as_path))
    {
        listing.file(path, true);
    }
    listing.file(Path::new(LOADER_CACHE), false);
    for path in sources.also {
        let metadata = fs::metadata(path).with_context(|| format!("--cold-file {}", shown(path)))?;
        if metadata.is_dir() {
            listing.folder(path, DEPTH_LIMIT);
        } else if metadata.is_file() {
            listing.file(path, false);
        } else {
            bail!(
                "--cold-file {} is neither a file nor a folder: it has no pages to drop",
                shown(path)
            );
        }
    }
    for argument in sources.command.iter().skip(1).take(ARGUMENTS_LIMIT) {
        for path in named_by(argument) {
            listing.argument(&path, &folders);
        }
    }
    for path in [sources.program]
        .into_iter()
        .chain(sources.mapped.iter().map(PathBuf::as_path))
    {
        for (folder, depth) in folders.installed_with(path) {
            listing.folder(&folder, depth);
        }
    }
    Ok(listing)
}

/// Paths that an argument may mean: the whole argument, the part after its `=`, and a `file://` address.
fn named_by(argument: &OsStr) -> impl Iterator<Item = PathBuf> {
    let bytes = argument.as_bytes();
    let value = bytes.iter().position(|byte| *byte == b'=').map(|at| &bytes[at + 1..]);
    [Some(bytes), value].into_iter().flatten().map(|text| {
        let text = text.strip_prefix(b"file://").unwrap_or(text);
        PathBuf::from(OsStr::from_bytes(text))
    })
}

impl Listing {
    fn argument(&mut self, path: &Path, folders: &Folders) {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => self.add(path, &metadata, false),
            Ok(metadata) if metadata.is_dir() => {
                if fs::canonicalize(path).is_ok_and(|real| folders.is_shared(&real)) {
                    self.notes.push(format!(
                        "{path} is a folder of many programs and is left unchanged; use --cold-file {path} to include all of it",
                        path = shown(path)
                    ));
                } else {
                    self.folder(path, DEPTH_LIMIT);
                }
            }
            _ => {} // not a path
        }
    }

    fn file(&mut self, path: &Path, starts: bool) {
        // A file that has been removed again needs no page.
        if let Ok(metadata) = fs::metadata(path) {
            self.add(path, &metadata, starts);
        }
    }

    fn add(&mut self, path: &Path, metadata: &fs::Metadata, starts: bool) {
        if !metadata.is_file() || metadata.len() == 0 || self.seen.contains(&(metadata.dev(), metadata.ino())) {
            return;
        }
        if self.entries.len() >= self.limit {
            self.fill(path);
            return;
        }
        self.seen.insert((metadata.dev(), metadata.ino()));
        self.entries.push(Entry::new(path, metadata, starts));
    }

    fn fill(&mut self, path: &Path) {
        if !std::mem::replace(&mut self.is_full, true) {
            self.notes.push(format!(
                "more than {} files: {} and those after it are left unchanged; name what matters with --cold-file",
                self.limit,
                shown(path)
            ));
        }
    }

    /// The regular files in a folder and `depth` levels below, within its file system. Links to files are followed,
    /// links to folders are not, which avoids loops.
    fn folder(&mut self, folder: &Path, depth: usize) {
        let Ok((real, metadata)) =
            fs::canonicalize(folder).and_then(|real| fs::metadata(&real).map(|meta| (real, meta)))
        else {
            return;
        };
        if self.walked.iter().any(|walked| real.starts_with(walked)) {
            return;
        }
        if depth == DEPTH_LIMIT {
            self.walked.push(real);
        }
        let mut open = vec![(folder.to_owned(), 0)];
        while let Some((folder, level)) = open.pop() {
            let names = match fs::read_dir(&folder) {
                Ok(names) => names,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(_) => {
                    self.unreadable.push(folder);
                    continue;
                }
            };
            for name in names.flatten() {
                self.names += 1;
                if self.is_full || self.names > NAMES_LIMIT {
                    self.fill(&name.path());
                    return;
                }
                let is_folder = name.file_type().is_ok_and(|kind| kind.is_dir());
                if !is_folder {
                    self.file(&name.path(), false);
                } else if level < depth && name.metadata().is_ok_and(|inner| inner.dev() == metadata.dev()) {
                    open.push((name.path(), level + 1));
                }
            }
        }
    }
}

/// Decides which folders belong to one program.
struct Folders {
    home: Option<PathBuf>,
}

impl Folders {
    fn new(environment: &Environment) -> Self {
        let home = environment.get(OsStr::new("HOME")).map(PathBuf::from);
        let home = home.filter(|home| home.is_absolute());
        Self {
            home: home.map(|home| fs::canonicalize(&home).unwrap_or(home)),
        }
    }

    /// Whether many programs have files in this folder, or it contains such folders. `folder` has no links in it.
    fn is_shared(&self, folder: &Path) -> bool {
        let of_architecture = || {
            // /usr/lib/x86_64-linux-gnu
            let parent = folder.parent().and_then(Path::file_name);
            let name = folder.file_name().map(OsStr::to_string_lossy);
            parent == Some(OsStr::new("lib")) && name.is_some_and(|name| name.contains("-linux-"))
        };
        let at_home = || {
            self.home.as_deref().is_some_and(|home| {
                home.starts_with(folder) || SHARED_AT_HOME.iter().any(|below| folder == home.join(below))
            })
        };
        SHARED.iter().any(|shared| folder == Path::new(shared)) || of_architecture() || at_home()
    }

    /// The folder that a program or library is installed in, along with the files it loads later, and how deep to
    /// search.
    fn installed_with(&self, file: &Path) -> Vec<(PathBuf, usize)> {
        let by_name = file.parent().and_then(|folder| fs::canonicalize(folder).ok());
        let by_place = fs::canonicalize(file)
            .ok()
            .and_then(|real| Some(real.parent()?.to_owned()));
        let mut found = Vec::new();
        for folder in [by_place, by_name].into_iter().flatten() {
            let folder = match folder.parent() {
                // An installation with bin next to lib, as of Java or in a Python environment.
                Some(above)
                    if folder.file_name() == Some(OsStr::new("bin"))
                        && !self.is_shared(above)
                        && ["lib", "lib64", "share"]
                            .iter()
                            .any(|sibling| above.join(sibling).is_dir()) =>
                {
                    above.to_owned()
                }
                _ => folder,
            };
            if !self.is_shared(&folder) && !found.iter().any(|(known, _)| *known == folder) {
                let depth = if is_workplace(&folder) { 0 } else { DEPTH_LIMIT };
                found.push((folder, depth));
            }
        }
        found
    }
}

/// Whether it is a source or build folder: there, a program is next to many files that it never opens.
fn is_workplace(folder: &Path) -> bool {
    let is_repository = [".git", ".hg", ".svn"].iter().any(|name| folder.join(name).exists());
    is_repository
        || folder
            .ancestors()
            .take(4)
            .any(|above| above.join("CACHEDIR.TAG").exists())
}

#[cfg(test)]
#[path = "listing_tests.rs"]
mod tests;
