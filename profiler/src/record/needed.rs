//! Predicts which files a command will map when it starts, to have their unwind tables ready.
//!
//! Follows the rules of ld.so(8): `DT_NEEDED`, breadth first, searched in `DT_RPATH`, `LD_LIBRARY_PATH`,
//! `DT_RUNPATH`, the cache, and the default folders. A file that is missed gets its table when it is mapped; an extra
//! one costs a little time. Not followed: libraries for certain processors (`glibc-hwcaps`), and `dlopen`, except
//! Firefox's own list.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustc_hash::{FxHashMap, FxHashSet};
use symbols::elf::{Arch, ElfFile};

use super::identity::Environment;
use super::loader_cache;
use crate::capture::files::open::open_regular;

/// Files that are listed, at most: Firefox maps two hundred.
const MAX_FILES: usize = 1024;
/// Depth of scripts whose interpreter is a script: the kernel follows five.
const MAX_SCRIPTS: usize = 5;
/// Bytes of a script that are searched for the program it starts.
const SCRIPT_SIZE: u64 = 64 << 10;
/// The folders that the loader searches last.
const DEFAULT_FOLDERS: [&str; 8] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];
/// File next to Firefox's program: the libraries that it loads itself before anything else.
const MOZILLA_LIST: &str = "dependentlibs.list";

/// The files that `command` will map when it starts in `environment`: the program, its interpreter, and their
/// libraries.
pub fn closure(command: &Path, environment: &Environment) -> Vec<PathBuf> {
    let mut loader = Loader::new(environment);
    for program in programs(command, environment) {
        loader.program(&program);
    }
    loader.found
}

/// The command itself, or its script's interpreter and the program that the script starts.
fn programs(command: &Path, environment: &Environment) -> Vec<PathBuf> {
    let mut programs = Vec::new();
    let mut open = vec![command.to_owned()];
    for _ in 0..MAX_SCRIPTS {
        for path in std::mem::take(&mut open) {
            let Some(text) = script(&path) else {
                programs.push(path);
                continue;
            };
            let mut lines = text.split(|byte| *byte == b'\n').map(words);
            let first = lines.next().unwrap_or_default();
            let Some((interpreter, arguments)) = first.split_first() else {
                continue;
            };
            open.push(PathBuf::from(interpreter));
            if Path::new(interpreter).file_name() == Some(OsStr::new("env")) {
                let is_option = |word: &OsStr| word.as_bytes().starts_with(b"-") || word.as_bytes().contains(&b'=');
                let started = arguments.iter().find(|word| !is_option(word));
                open.extend(started.and_then(|word| in_path(word, environment)));
            }
            // `exec firefox-esr "$@"`, as wrappers end.
            let started = lines.filter(|words| words.first().is_some_and(|word| *word == "exec"));
            open.extend(started.filter_map(|words| in_path(words.get(1)?, environment)));
        }
        open.truncate(16);
    }
    programs
}

/// The interpreter after `#!`, and the lines that follow; `None`: not a script.
fn script(path: &Path) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let file = open_regular(path).ok()?;
    file.take(SCRIPT_SIZE).read_to_end(&mut text).ok()?;
    text.strip_prefix(b"#!").map(<[u8]>::to_vec)
}

fn words(line: &[u8]) -> Vec<&OsStr> {
    line.split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .map(OsStr::from_bytes)
        .collect()
}

fn in_path(program: &OsStr, environment: &Environment) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    let path = environment.get(OsStr::new("PATH"))?;
    std::env::split_paths(path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// A file whose libraries have not been searched yet.
struct Object {
    /// `$ORIGIN`
    origin: PathBuf,
    needed: Vec<OsString>,
    /// `DT_RPATH` of it and of the files that need it; empty if it has `DT_RUNPATH`.
    rpath: Vec<PathBuf>,
    runpath: Vec<PathBuf>,
    /// The file that this name resolves to.
    soname: Option<OsString>,
}

/// The state of the search.
struct Loader<'e> {
    environment: &'e Environment,
    cache: FxHashMap<(Arch, Vec<u8>), PathBuf>,
    found: Vec<PathBuf>,
    seen: FxHashSet<PathBuf>,
}

impl<'e> Loader<'e> {
    fn new(environment: &'e Environment) -> Self {
        Self {
            environment,
            cache: loader_cache::read(Path::new("/etc/ld.so.cache")),
            found: Vec::new(),
            seen: FxHashSet::default(),
        }
    }

    fn program(&mut self, program: &Path) {
        // The kernel resolves where a program really is.
        let Ok(program) = fs::canonicalize(program) else { return };
        let Some((arch, mut object, interpreter)) = self.open(&program, &[]) else {
            return;
        };
        let mut names = FxHashSet::default();
        if let Some(interpreter) = interpreter {
            let path = PathBuf::from(interpreter);
            names.extend(path.file_name().map(OsStr::to_owned));
            self.open(&path, &[]);
        }
        let preload = self.environment.get(OsStr::new("LD_PRELOAD"));
        let preload = preload.map(|list| split(list, b" :\t\n")).unwrap_or_default();
        object.needed.splice(0..0, preload);
        object.needed.extend(mozilla(&object.origin));
        let mut queue = VecDeque::from([object]);
        while let Some(object) = queue.pop_front() {
            for name in &object.needed {
                if !names.insert(name.clone()) {
                    continue;
                }
                let (candidates, parent) = (self.candidates(arch, name, &object), object.rpath.clone());
                let library = candidates.iter().find_map(|path| {
                    let (found, library, _) = self.open(path, &parent)?;
                    (found == arch).then_some(library)
                });
                names.extend(library.as_ref().and_then(|library| library.soname.clone()));
                queue.extend(library);
            }
        }
    }

    /// Opens a file and lists it, if it is an ELF file.
    fn open(&mut self, path: &Path, parent_rpath: &[PathBuf]) -> Option<(Arch, Object, Option<OsString>)> {
        if self.found.len() >= MAX_FILES {
            return None;
        }
        let elf = ElfFile::open_sparingly(open_regular(path).ok()?).ok()?;
        if self.seen.insert(path.to_owned()) {
            self.found.push(path.to_owned());
        }
        let dynamic = elf.dynamic();
        let origin = std::path::absolute(path).ok()?.parent()?.to_owned();
        let folders = |list: Option<OsString>| -> Vec<PathBuf> {
            let list = list.map(|list| split(&list, b":")).unwrap_or_default();
            list.iter().filter_map(|folder| expand(folder, &origin)).collect()
        };
        let rpath = if dynamic.runpath.is_some() {
            Vec::new()
        } else {
            [folders(dynamic.rpath), parent_rpath.to_vec()].concat()
        };
        let object = Object {
            rpath,
            runpath: folders(dynamic.runpath),
            needed: dynamic.needed,
            soname: dynamic.soname,
            origin,
        };
        Some((elf.arch(), object, dynamic.interpreter))
    }

    /// Where the library may be, best first.
    fn candidates(&self, arch: Arch, name: &OsStr, object: &Object) -> Vec<PathBuf> {
        if name.as_bytes().contains(&b'/') {
            return expand(name, &object.origin).into_iter().collect();
        }
        let library_path = self.environment.get(OsStr::new("LD_LIBRARY_PATH"));
        let library_path = library_path.map(|list| split(list, b":;")).unwrap_or_default();
        let mut folders = object.rpath.clone();
        folders.extend(library_path.iter().filter_map(|folder| expand(folder, &object.origin)));
        folders.extend(object.runpath.iter().cloned());
        let mut candidates: Vec<PathBuf> = folders.iter().map(|folder| folder.join(name)).collect();
        candidates.extend(self.cache.get(&(arch, name.as_bytes().to_vec())).cloned());
        candidates.extend(DEFAULT_FOLDERS.iter().map(|folder| Path::new(folder).join(name)));
        candidates
    }
}

fn split(list: &OsStr, separators: &[u8]) -> Vec<OsString> {
    list.as_bytes()
        .split(|byte| separators.contains(byte))
        .filter(|part| !part.is_empty())
        .map(|part| OsStr::from_bytes(part).to_owned())
        .collect()
}

/// The path with `$ORIGIN` replaced; `None`: it has another variable.
fn expand(path: &OsStr, origin: &Path) -> Option<PathBuf> {
    let bytes = path.as_bytes();
    let rest = [&b"$ORIGIN"[..], b"${ORIGIN}"]
        .iter()
        .find_map(|variable| bytes.strip_prefix(*variable));
    let expanded = match rest {
        Some(rest) => [origin.as_os_str().as_bytes(), rest].concat(),
        None => bytes.to_vec(),
    };
    (!expanded.contains(&b'$')).then(|| PathBuf::from(OsString::from_vec(expanded)))
}

/// The libraries that Firefox loads from its own folder.
fn mozilla(folder: &Path) -> Vec<OsString> {
    let mut list = Vec::new();
    let read = open_regular(&folder.join(MOZILLA_LIST)).and_then(|file| file.take(1 << 14).read_to_end(&mut list));
    if read.is_err() {
        return Vec::new();
    }
    list.split(|byte| *byte == b'\n')
        .filter(|name| !name.is_empty() && !name.contains(&b'/'))
        .map(|name| folder.join(OsStr::from_bytes(name)).into_os_string())
        .collect()
}

#[cfg(test)]
#[path = "needed_tests.rs"]
mod tests;
