//! Files that the recorded programs wrote about themselves: markers, perf maps, jitdumps.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::unistd::{Whence, geteuid, lseek};
use rustc_hash::{FxHashMap, FxHashSet};

use super::folders::Folders;
use super::gecko;
use crate::capture::socket::wire::{Mapped, PerfMap};
use crate::event::{Attachment, AttachmentKind};
use crate::report::text::bytes;

/// The largest file that is taken, in bytes; a larger one is reported and left out.
pub const SIZE_LIMIT: u64 = 256 << 20;

/// Maximum bytes of all files; those that no longer fit are counted and left out.
const TOTAL_LIMIT: u64 = 1 << 30;

/// Maximum bytes of the files of any one other user, to leave capacity for those of all others.
const USER_LIMIT: u64 = 256 << 20;

/// Bytes that are read at once.
const PIECE: u64 = 1 << 20;

/// Magic number of a jitdump, in both byte orders.
const JITDUMP: [&[u8]; 2] = [b"JiTD", b"DTiJ"];

/// The result of the search.
#[derive(Debug)]
pub struct Collected {
    /// Messages for the user.
    pub problems: Vec<String>,
    /// The error that ended the search, if any.
    pub kept: io::Result<()>,
}

/// The files that the privileged helper passed on.
#[derive(Debug)]
pub struct Passed<'p> {
    /// Mapped files, jitdumps among them.
    pub mapped: &'p mut [(Mapped, Option<File>)],
    /// Perf maps, from wherever the processes wrote them.
    pub perf_maps: &'p [(PerfMap, File)],
}

/// Collects the files: through the descriptors that the privileged helper passed on; and markers and jitdumps by name from the folders that the program was given, if
/// they are ours and no older than the recording. `keep` gets each before the next one is read: one at a time is in memory.
pub fn collect(
    passed: Passed<'_>,
    folders: &Folders,
    began: SystemTime,
    mut keep: impl FnMut(Attachment) -> io::Result<()>,
) -> Collected {
    let mut collector = Collector::new(TOTAL_LIMIT, &mut keep);
    for (mapping, file) in passed.mapped {
        let path = PathBuf::from(&mapping.path);
        if let (Some((kind, _)), Some(file)) = (kind_of(&path), file.as_ref())
            && kind != AttachmentKind::PerfMap
        {
            collector.take(kind, mapping.pid, &path, file);
        }
    }
    for (map, file) in passed.perf_maps {
        collector.take(AttachmentKind::PerfMap, map.pid, Path::new(&map.path), file);
    }
    for folder in folders.paths() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            collector.find(&entry.path(), began);
        }
    }
    if folders.wants_jit() && !collector.has(AttachmentKind::JitDump) {
        let problem = "no process wrote names of its JIT code: --firefox-jit needs a Firefox that was built with jitdump, as Mozilla's \
                       Nightly is (releases and Debian's are not); see docs/jit.md";
        collector.problems.push(problem.to_owned());
    }
    if folders.expects_gecko() && !collector.has(AttachmentKind::Gecko) {
        let problem = "Firefox wrote no markers of its own: it does so when it exits by itself, or, from about version 140 on, when the recording \
                       ends before it (-d); not if a signal ends it. --gecko=off turns them off";
        collector.problems.push(problem.to_owned());
    }
    collector.finish()
}

/// Takes one file at a time.
struct Collector<'k> {
    keep: &'k mut dyn FnMut(Attachment) -> io::Result<()>,
    kept: io::Result<()>,
    /// Bytes that may still be taken.
    room: u64,
    /// Bytes taken so far of each other user's files.
    of_users: FxHashMap<u32, u64>,
    /// Kind and process of each file taken so far.
    known: Vec<(AttachmentKind, u32)>,
    /// Device and inode of each file taken so far.
    taken: FxHashSet<(u64, u64)>,
    left_out: LeftOut,
    problems: Vec<String>,
}

/// Files for which there was no capacity.
#[derive(Debug, Default)]
struct LeftOut {
    files: u64,
    bytes: u64,
    first: PathBuf,
}

impl<'k> Collector<'k> {
    fn new(room: u64, keep: &'k mut dyn FnMut(Attachment) -> io::Result<()>) -> Self {
        Self {
            keep,
            kept: Ok(()),
            room,
            of_users: FxHashMap::default(),
            known: Vec::new(),
            taken: FxHashSet::default(),
            left_out: LeftOut::default(),
            problems: Vec::new(),
        }
    }

    fn finish(mut self) -> Collected {
        self.problems.extend(self.left_out.sentence());
        Collected {
            problems: self.problems,
            kept: self.kept,
        }
    }

    fn has(&self, kind: AttachmentKind) -> bool {
        self.known.iter().any(|(known, _)| *known == kind)
    }

    /// Takes a file that was written since `began`, unless it was passed on. Perf maps are taken only if the privileged helper passed them on: it knows which processes
    /// are recorded, and their users.
    fn find(&mut self, path: &Path, began: SystemTime) {
        let Some((kind, pid)) = kind_of(path).filter(|(kind, _)| *kind != AttachmentKind::PerfMap) else {
            return;
        };
        let options = File::options()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path);
        let metadata = options.as_ref().ok().and_then(|file| file.metadata().ok());
        let id = metadata.as_ref().map(|metadata| (metadata.dev(), metadata.ino()));
        let is_known = self.known.contains(&(kind, pid)) || id.is_some_and(|id| self.taken.contains(&id));
        // Any user may write to the folder if the user named it: another user's files about our code are not trusted.
        let is_foreign = metadata
            .as_ref()
            .is_some_and(|metadata| metadata.uid() != geteuid().as_raw());
        // A file that can't be opened is worth reporting only if it belongs to this recording.
        let written = metadata
            .or_else(|| path.symlink_metadata().ok())
            .and_then(|metadata| metadata.modified().ok());
        if is_known || is_foreign || written.is_none_or(|written| written < began) {
            return;
        }
        match options {
            Ok(file) => self.take(kind, pid, path, &file),
            Err(error) => self.unreadable(path, &error),
        }
    }

    fn take(&mut self, kind: AttachmentKind, pid: u32, path: &Path, file: &File) {
        if self.kept.is_err() {
            return; // the log takes no more
        }
        let metadata = match file.metadata() {
            Ok(metadata) => metadata,
            Err(error) => return self.unreadable(path, &error),
        };
        self.taken.insert((metadata.dev(), metadata.ino()));
        let size = filled(file, metadata.size());
        if !metadata.is_file() || size > SIZE_LIMIT {
            self.problems.push(format!(
                "{} is larger than 256 MiB or not a file; left out",
                path.display()
            ));
            return;
        }
        let is_ours = metadata.uid() == geteuid().as_raw();
        let of_user = self.of_users.get(&metadata.uid()).copied().unwrap_or(0);
        if size > self.room || (!is_ours && size > USER_LIMIT - of_user) {
            self.known.push((kind, pid));
            self.left_out.add(path, size);
            return;
        }
        match read(kind, file, size) {
            Ok(bytes) => {
                self.known.push((kind, pid));
                self.room -= bytes.len() as u64;
                if !is_ours {
                    self.of_users.insert(metadata.uid(), of_user + bytes.len() as u64);
                }
                let path = path.as_os_str().as_bytes().to_vec();
                self.kept = (self.keep)(Attachment { kind, pid, path, bytes });
            }
            Err(error) => self.unreadable(path, &error),
        }
    }

    fn unreadable(&mut self, path: &Path, error: &io::Error) {
        self.problems
            .push(format!("{} could not be read: {error}", path.display()));
    }
}

impl LeftOut {
    fn add(&mut self, path: &Path, bytes: u64) {
        if self.files == 0 {
            path.clone_into(&mut self.first);
        }
        self.files += 1;
        self.bytes += bytes;
    }

    fn sentence(&self) -> Option<String> {
        (self.files > 0).then(|| {
            format!(
                "perf maps, jitdumps and markers left out: {} ({}), the first is {}. At most {} GiB are taken, \
                 of which {} MiB per other user; code that only the rest names has no names. Record for a shorter time (-d), or while fewer programs write such files",
                self.files,
                bytes(self.bytes),
                self.first.display(),
                TOTAL_LIMIT >> 30,
                USER_LIMIT >> 20
            )
        })
    }
}

/// Bytes up to the first hole, where nothing was written, whatever the file's size is.
fn filled(file: &File, size: u64) -> u64 {
    let hole = lseek(file, 0, Whence::SeekHole)
        .ok()
        .and_then(|at| u64::try_from(at).ok());
    hole.map_or(size, |hole| hole.min(size))
}

/// Reads at most `size` bytes from the start of a file, which may grow meanwhile. Text ends at a NUL; a jitdump must begin with its magic number.
fn read(kind: AttachmentKind, mut file: &File, size: u64) -> io::Result<Vec<u8>> {
    file.rewind()?;
    let mut bytes = Vec::new();
    loop {
        let before = bytes.len();
        let left = size.saturating_sub(before as u64).min(PIECE);
        if file.take(left).read_to_end(&mut bytes)? == 0 {
            return Ok(bytes);
        }
        if kind == AttachmentKind::JitDump {
            if !JITDUMP.iter().any(|magic| bytes.starts_with(magic)) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "not a jitdump"));
            }
        } else if let Some(end) = bytes[before..].iter().position(|byte| *byte == 0) {
            bytes.truncate(before + end);
            return Ok(bytes);
        }
    }
}

/// Copies what was written to a file. Keeps its owner if we may, since the files of each user have a limit.
///
/// # Errors
/// The file is too large, or can't be read.
pub fn copy(mut from: &File, mut to: File) -> io::Result<File> {
    let metadata = from.metadata()?;
    let size = filled(from, metadata.size());
    if size > SIZE_LIMIT {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    from.rewind()?;
    io::copy(&mut from.take(size), &mut to)?;
    let _ = fchown(&to, Some(metadata.uid()), None); // only root can; without it, the copy is our own
    Ok(to)
}

/// Whether the file's name is one that programs use for files about themselves.
pub fn is_written(path: &Path) -> bool {
    matches!(
        kind_of(path),
        Some((AttachmentKind::JitDump | AttachmentKind::Markers, _))
    )
}

/// `marker-PID.txt`, `perf-PID.map`, `jit-PID.dump`: the kind and the pid in the name.
fn kind_of(path: &Path) -> Option<(AttachmentKind, u32)> {
    let name = path.file_name()?.to_str()?.trim_end_matches(" (deleted)");
    let [at_exit, on_signal] = gecko::FILES.map(|(prefix, suffix)| (prefix, suffix, AttachmentKind::Gecko));
    for (prefix, suffix, kind) in [
        at_exit,
        on_signal,
        ("marker-", ".txt", AttachmentKind::Markers),
        ("perf-", ".map", AttachmentKind::PerfMap),
        ("jit-", ".dump", AttachmentKind::JitDump),
    ] {
        if let Some(middle) = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(suffix)) {
            // Firefox has written marker-PID-N.txt as well.
            let pid = middle.split('-').next()?.parse().ok()?;
            return Some((kind, pid));
        }
    }
    None
}

#[cfg(test)]
#[path = "attachments_tests.rs"]
mod tests;
