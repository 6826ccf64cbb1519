//! Files that the recorded programs wrote about themselves: markers, perf maps, jitdumps.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustc_hash::FxHashSet;

use super::folders::Folders;
use crate::capture::wire::{Mapped, PerfMap};
use crate::event::{Attachment, AttachmentKind};

/// The largest file that is taken, in bytes; a larger one is named and left out.
const SIZE_LIMIT: u64 = 256 << 20;

/// What was collected, and what could not be.
#[derive(Debug, Default)]
pub struct Collected {
    /// The files.
    pub attachments: Vec<Attachment>,
    /// Sentences for the person.
    pub problems: Vec<String>,
    /// Device and inode of each.
    taken: FxHashSet<(u64, u64)>,
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
/// name, if they are no older than the recording.
pub fn collect(passed: Passed<'_>, folders: &Folders, began: SystemTime) -> Collected {
    let mut collected = Collected::default();
    for (mapping, file) in passed.mapped {
        let path = PathBuf::from(&mapping.path);
        if let (Some((kind, _)), Some(file)) = (kind_of(&path), file.as_ref())
            && kind != AttachmentKind::PerfMap
        {
            collected.take(kind, mapping.pid, &path, file);
        }
    }
    for (map, file) in passed.perf_maps {
        collected.take(AttachmentKind::PerfMap, map.pid, Path::new(&map.path), file);
    }
    let tmp = Path::new("/tmp");
    for folder in [tmp].into_iter().chain(folders.paths()) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            collected.find(&entry.path(), began, |kind| {
                kind == AttachmentKind::PerfMap || folder != tmp
            });
        }
    }
    if folders.wants_jit() && !collected.has(AttachmentKind::JitDump) {
        let problem = "no process wrote names of its JIT code: --firefox-jit needs a Firefox that was built with jitdump, as Mozilla's \
                       Nightly is (releases and Debian's are not); see docs/jit.md";
        collected.problems.push(problem.to_owned());
    }
    collected
}

impl Collected {
    fn has(&self, kind: AttachmentKind) -> bool {
        self.attachments.iter().any(|known| known.kind == kind)
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
        let is_known = self
            .attachments
            .iter()
            .any(|known| known.kind == kind && known.pid == pid)
            || id.is_some_and(|id| self.taken.contains(&id));
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
            Err(error) => self
                .problems
                .push(format!("{} could not be read: {error}", path.display())),
        }
    }

    fn take(&mut self, kind: AttachmentKind, pid: u32, path: &Path, mut file: &File) {
        use std::io::Seek;
        let mut bytes = Vec::new();
        let whole = file.metadata().and_then(|meta| {
            let small = meta.is_file() && meta.size() <= SIZE_LIMIT;
            if !small {
                return Ok(false);
            }
            self.taken.insert((meta.dev(), meta.ino()));
            file.rewind()?;
            file.take(SIZE_LIMIT).read_to_end(&mut bytes).map(|_| true)
        });
        match whole {
            Ok(true) => self.attachments.push(Attachment {
                kind,
                pid,
                path: path.as_os_str().as_bytes().to_vec(),
                bytes,
            }),
            Ok(false) => self.problems.push(format!(
                "{} is larger than 256 MiB or no file; left out",
                path.display()
            )),
            Err(error) => self
                .problems
                .push(format!("{} could not be read: {error}", path.display())),
        }
    }
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
    fn written(files: &[(&str, &[u8])], jit: bool, perf_maps: &[(PerfMap, File)]) -> Collected {
        let began = SystemTime::now() - std::time::Duration::from_secs(5);
        let folders = Folders::prepare(&mut Environment::new(), jit);
        let folder = folders.paths().last().unwrap();
        for (name, bytes) in files {
            fs::write(folder.join(name), bytes).unwrap();
        }
        let mapped = &mut [];
        collect(Passed { mapped, perf_maps }, &folders, began)
    }

    fn of_kind(collected: &Collected, kind: AttachmentKind) -> Vec<(u32, &[u8])> {
        let of_kind = collected
            .attachments
            .iter()
            .filter(|attachment| attachment.kind == kind);
        of_kind.map(|attachment| (attachment.pid, &*attachment.bytes)).collect()
    }

    #[test]
    fn markers_of_the_folder_are_taken() {
        let collected = written(&[("marker-42.txt", b"1 2 hello\n"), ("notes.txt", b"x")], false, &[]);
        assert_eq!(
            of_kind(&collected, AttachmentKind::Markers),
            [(42, &b"1 2 hello\n"[..])]
        );
    }

    #[test]
    fn jitdumps_that_were_asked_for_and_did_not_come_are_missed() {
        let collected = written(&[("jit-42.dump", b"DTiJ")], true, &[]);
        assert_eq!(of_kind(&collected, AttachmentKind::JitDump), [(42, &b"DTiJ"[..])]);
        assert!(collected.problems.is_empty(), "{:?}", collected.problems);
        let collected = written(&[], true, &[]);
        assert!(
            collected.problems[0].contains("--firefox-jit needs"),
            "{:?}",
            collected.problems
        );
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
        let collected = written(&[], false, &[(map, File::open(path).unwrap())]);
        fs::remove_file(path).unwrap();
        let found = of_kind(&collected, AttachmentKind::PerfMap);
        assert!(found.contains(&(4_000_000, b"1000 10 f\n")), "{found:?}");
        assert!(found.iter().all(|(pid, _)| *pid != 4_000_001), "{found:?}");
    }
}
