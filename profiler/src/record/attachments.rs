//! Files that the recorded programs wrote about themselves: markers, perf maps, jitdumps.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustc_hash::FxHashSet;

use super::folders::Folders;
use crate::capture::wire::{Mapped, PerfMap};
use crate::event::{Attachment, AttachmentKind};
use crate::report::text::bytes;

/// The largest file that is taken, in bytes; a larger one is named and left out.
const SIZE_LIMIT: u64 = 256 << 20;

/// Bytes of all files that are taken; those that don't fit any more are counted and left out.
const TOTAL_LIMIT: u64 = 1 << 30;

/// What came of the search.
#[derive(Debug)]
pub struct Collected {
    /// Sentences for the person.
    pub problems: Vec<String>,
    /// The error with which keeping them ended.
    pub kept: io::Result<()>,
}

/// What capture passed on.
#[derive(Debug)]
pub struct Passed<'p> {
    /// Mapped files, jitdumps among them.
    pub mapped: &'p mut [(Mapped, Option<File>)],
    /// Perf maps, from wherever the processes wrote them.
    pub perf_maps: &'p [(PerfMap, File)],
}

/// Collects the files: through their descriptors if capture passed them on; others from `/tmp` and the program's folders by
/// name, if they are no older than the recording. `keep` has each before the next one is read: one at a time is in memory.
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
    let tmp = Path::new("/tmp");
    for folder in [tmp].into_iter().chain(folders.paths()) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            collector.find(&entry.path(), began, |kind| {
                kind == AttachmentKind::PerfMap || folder != tmp
            });
        }
    }
    if folders.wants_jit() && !collector.has(AttachmentKind::JitDump) {
        let problem = "no process wrote names of its JIT code: --firefox-jit needs a Firefox that was built with jitdump, as Mozilla's \
                       Nightly is (releases and Debian's are not); see docs/jit.md";
        collector.problems.push(problem.to_owned());
    }
    collector.finish()
}

/// Takes one file after the other.
struct Collector<'k> {
    keep: &'k mut dyn FnMut(Attachment) -> io::Result<()>,
    kept: io::Result<()>,
    /// Bytes that may still be taken.
    room: u64,
    /// Kind and process of each file so far.
    known: Vec<(AttachmentKind, u32)>,
    /// Device and inode of each.
    taken: FxHashSet<(u64, u64)>,
    left_out: LeftOut,
    problems: Vec<String>,
}

/// Files that there was no room for.
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

    /// Takes a file of a wanted kind that was written since, unless it was passed on.
    fn find(&mut self, path: &Path, began: SystemTime, is_wanted: impl Fn(AttachmentKind) -> bool) {
        let Some((kind, pid)) = kind_of(path).filter(|(kind, _)| is_wanted(*kind)) else {
            return;
        };
        let options = File::options()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path);
        let metadata = options.as_ref().ok().and_then(|file| file.metadata().ok());
        let id = metadata.as_ref().map(|metadata| (metadata.dev(), metadata.ino()));
        let is_known = self.known.contains(&(kind, pid)) || id.is_some_and(|id| self.taken.contains(&id));
        // In a folder that is everybody's, another person's word on our code counts for nothing.
        let user = nix::unistd::geteuid();
        let is_foreign = metadata
            .as_ref()
            .is_some_and(|metadata| !user.is_root() && metadata.uid() != user.as_raw());
        // A file that can't be opened is worth a word only if it is of this recording.
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
            return; // nowhere to put it
        }
        let metadata = match file.metadata() {
            Ok(metadata) => metadata,
            Err(error) => return self.unreadable(path, &error),
        };
        self.taken.insert((metadata.dev(), metadata.ino()));
        let size = metadata.size();
        if !metadata.is_file() || size > SIZE_LIMIT {
            self.problems.push(format!(
                "{} is larger than 256 MiB or no file; left out",
                path.display()
            ));
            return;
        }
        if size > self.room {
            self.known.push((kind, pid));
            self.left_out.add(path, size);
            return;
        }
        match read(file, size) {
            Ok(bytes) => {
                self.known.push((kind, pid));
                self.room -= bytes.len() as u64;
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
                "perf maps, jitdumps and markers that are left out: {} ({}), {} the first; no more than {} GiB are taken, \
                 and what only the others name has no names. A shorter recording helps (-d), or one while fewer programs write such files",
                self.files,
                bytes(self.bytes),
                self.first.display(),
                TOTAL_LIMIT >> 30
            )
        })
    }
}

/// So many bytes of a file, from its beginning; it may grow meanwhile.
fn read(mut file: &File, size: u64) -> io::Result<Vec<u8>> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(size).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// `marker-PID.txt`, `perf-PID.map`, `jit-PID.dump`: the kind and the pid in the name.
fn kind_of(path: &Path) -> Option<(AttachmentKind, u32)> {
    let name = path.file_name()?.to_str()?.trim_end_matches(" (deleted)");
    for (prefix, suffix, kind) in [
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
mod tests {
    use super::*;
    use crate::record::identity::Environment;

    #[test]
    fn names_tell_kind_and_pid() {
        assert_eq!(
            kind_of(Path::new("/tmp/perf-12.map")),
            Some((AttachmentKind::PerfMap, 12))
        );
        assert_eq!(
            kind_of(Path::new("/x/jit-7.dump (deleted)")),
            Some((AttachmentKind::JitDump, 7))
        );
        assert_eq!(kind_of(Path::new("marker-9-1.txt")), Some((AttachmentKind::Markers, 9)));
        assert_eq!(kind_of(Path::new("perf-x.map")), None);
        assert_eq!(kind_of(Path::new("perf-99999999999.map")), None);
    }

    /// What is collected of a program that wrote these files to the folder that it was told, and was passed on nothing else.
    fn written(files: &[(&str, &[u8])], jit: bool, perf_maps: &[(PerfMap, File)]) -> (Vec<Attachment>, Vec<String>) {
        let began = SystemTime::now() - std::time::Duration::from_secs(5);
        let folders = Folders::prepare(&mut Environment::new(), jit);
        let folder = folders.paths().last().unwrap();
        for (name, bytes) in files {
            fs::write(folder.join(name), bytes).unwrap();
        }
        let (mapped, mut attachments) = (&mut [], Vec::new());
        let collected = collect(Passed { mapped, perf_maps }, &folders, began, |attachment| {
            attachments.push(attachment);
            Ok(())
        });
        collected.kept.unwrap();
        (attachments, collected.problems)
    }

    fn of_kind(attachments: &[Attachment], kind: AttachmentKind) -> Vec<(u32, &[u8])> {
        let of_kind = attachments.iter().filter(|attachment| attachment.kind == kind);
        of_kind.map(|attachment| (attachment.pid, &*attachment.bytes)).collect()
    }

    #[test]
    fn markers_of_the_folder_are_taken() {
        let files = [("marker-42.txt", &b"1 2 hello\n"[..]), ("notes.txt", b"x")];
        let (attachments, _) = written(&files, false, &[]);
        assert_eq!(
            of_kind(&attachments, AttachmentKind::Markers),
            [(42, &b"1 2 hello\n"[..])]
        );
    }

    #[test]
    fn jitdumps_that_were_asked_for_and_did_not_come_are_missed() {
        let (attachments, problems) = written(&[("jit-42.dump", b"DTiJ")], true, &[]);
        assert_eq!(of_kind(&attachments, AttachmentKind::JitDump), [(42, &b"DTiJ"[..])]);
        assert!(problems.is_empty(), "{problems:?}");
        let (_, problems) = written(&[], true, &[]);
        assert!(problems[0].contains("--firefox-jit needs"), "{problems:?}");
    }

    #[test]
    fn a_perf_map_of_another_pid_namespace_is_taken_once() {
        // Process 4000000 is 4000001 to itself, and writes to the /tmp that is ours too.
        let path = "/tmp/perf-4000001.map";
        fs::write(path, "1000 10 f\n").unwrap();
        let map = PerfMap {
            pid: 4_000_000,
            path: path.to_owned(),
        };
        let (attachments, _) = written(&[], false, &[(map, File::open(path).unwrap())]);
        fs::remove_file(path).unwrap();
        let found = of_kind(&attachments, AttachmentKind::PerfMap);
        assert!(found.contains(&(4_000_000, b"1000 10 f\n")), "{found:?}");
        assert!(found.iter().all(|(pid, _)| *pid != 4_000_001), "{found:?}");
    }

    /// Takes perf maps of so many bytes each, of processes 0, 1, ..., as long as there is room for `room` bytes and `keep` says yes.
    fn take_all(room: u64, sizes: &[usize], keep: &mut dyn FnMut(Attachment) -> io::Result<()>) -> Collected {
        let dir = tempfile::tempdir().unwrap();
        let mut collector = Collector::new(room, keep);
        for (pid, size) in (0..).zip(sizes) {
            let path = dir.path().join(format!("perf-{pid}.map"));
            fs::write(&path, vec![b'x'; *size]).unwrap();
            collector.take(AttachmentKind::PerfMap, pid, &path, &File::open(&path).unwrap());
        }
        collector.finish()
    }

    #[test]
    fn what_there_is_no_room_for_is_left_out_and_counted() {
        let mut taken = Vec::new();
        let collected = take_all(1000, &[600, 500, 400, 2000], &mut |attachment| {
            taken.push((attachment.pid, attachment.bytes.len()));
            Ok(())
        });
        assert_eq!(taken, [(0, 600), (2, 400)]);
        let [told] = &*collected.problems else {
            panic!("{:?}", collected.problems);
        };
        for word in ["2 (2.50 kB)", "perf-1.map the first", "1 GiB", "-d"] {
            assert!(told.contains(word), "{word}: {told}");
        }
    }

    #[test]
    fn nothing_is_read_once_nothing_can_be_kept() {
        let mut asked = 0;
        let collected = take_all(1000, &[1, 1], &mut |_| {
            asked += 1;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(asked, 1);
        assert_eq!(collected.kept.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
