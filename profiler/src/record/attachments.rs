//! Files that the recorded programs wrote about themselves: markers, perf maps, jitdumps.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::TempDir;

use super::identity::Environment;
use crate::capture::wire::Mapped;
use crate::event::{Attachment, AttachmentKind};

/// The largest file that is taken, in bytes; a larger one is named and left out.
const SIZE_LIMIT: u64 = 256 << 20;

/// Tells Firefox to write its own markers, unless the person set the variables.
const MARKER_SWITCH: &str = "MOZ_USE_PERFORMANCE_MARKER_FILE";
/// Where Firefox writes them.
const MARKER_FOLDER: &str = "MOZ_PERFORMANCE_MARKER_DIR";

/// A folder for the program's markers, gone when the recording is finished.
#[derive(Debug)]
pub struct MarkerFolder {
    path: PathBuf,
    /// Removes the folder when it is dropped; `None`: the folder is the person's.
    own: Option<TempDir>,
}

impl MarkerFolder {
    /// Adds the variables to the program's environment; a value that the person set wins.
    pub fn prepare(environment: &mut Environment) -> Option<Self> {
        environment.entry(MARKER_SWITCH.into()).or_insert_with(|| "1".into());
        if let Some(theirs) = environment.get(std::ffi::OsStr::new(MARKER_FOLDER)) {
            return Some(Self {
                path: theirs.into(),
                own: None,
            });
        }
        let own = tempfile::Builder::new().prefix("ngmi-markers-").tempdir().ok()?;
        environment.insert(MARKER_FOLDER.into(), own.path().into());
        Some(Self {
            path: own.path().to_owned(),
            own: Some(own),
        })
    }
}

impl MarkerFolder {
    /// Where our own folder is; `None`: it is the person's, and stays.
    pub fn own(&self) -> Option<PathBuf> {
        self.own.as_ref().map(|folder| folder.path().to_owned())
    }
}

/// What was collected, and what could not be.
#[derive(Debug, Default)]
pub struct Collected {
    /// The files.
    pub attachments: Vec<Attachment>,
    /// Sentences for the person.
    pub problems: Vec<String>,
}

/// Collects the files: mapped ones through their descriptors, others by name, if they are no older than the recording.
pub fn collect(mapped: &mut [(Mapped, Option<File>)], markers: Option<&MarkerFolder>, began: SystemTime) -> Collected {
    let mut collected = Collected::default();
    for (mapping, file) in mapped {
        let path = PathBuf::from(&mapping.path);
        if let (Some((kind, _)), Some(file)) = (kind_of(&path), file.as_ref())
            && kind != AttachmentKind::PerfMap
        {
            collected.take(kind, mapping.pid, &path, file);
        }
    }
    let folders = [Some(Path::new("/tmp")), markers.map(|folder| folder.path.as_path())];
    for entry in folders
        .into_iter()
        .flatten()
        .flat_map(|folder| fs::read_dir(folder).into_iter().flatten())
        .flatten()
    {
        let path = entry.path();
        let Some((kind, pid)) = kind_of(&path) else { continue };
        let wanted = kind == AttachmentKind::PerfMap || markers.is_some_and(|folder| path.starts_with(&folder.path));
        let known = collected
            .attachments
            .iter()
            .any(|known| known.kind == kind && known.pid == pid);
        let fresh = entry
            .metadata()
            .and_then(|meta| meta.modified())
            .is_ok_and(|time| time >= began);
        if !wanted || known || !fresh {
            continue;
        }
        let options = File::options()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&path);
        match options {
            Ok(file) => collected.take(kind, pid, &path, &file),
            Err(error) => collected
                .problems
                .push(format!("{} could not be read: {error}", path.display())),
        }
    }
    collected
}

impl Collected {
    fn take(&mut self, kind: AttachmentKind, pid: u32, path: &Path, mut file: &File) {
        use std::io::Seek;
        let mut bytes = Vec::new();
        let whole = file.metadata().and_then(|meta| {
            let small = meta.is_file() && meta.size() <= SIZE_LIMIT;
            if !small {
                return Ok(false);
            }
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

    #[test]
    fn a_value_that_the_person_set_wins() {
        let mut environment = Environment::new();
        environment.insert(MARKER_SWITCH.into(), "0".into());
        environment.insert(MARKER_FOLDER.into(), "/theirs".into());
        let folder = MarkerFolder::prepare(&mut environment).unwrap();
        assert_eq!(
            (folder.path.as_path(), folder.own.is_none()),
            (Path::new("/theirs"), true)
        );
        assert_eq!(environment[std::ffi::OsStr::new(MARKER_SWITCH)], "0");
    }

    #[test]
    fn markers_of_the_folder_are_taken() {
        let mut environment = Environment::new();
        let began = SystemTime::now() - std::time::Duration::from_secs(5);
        let folder = MarkerFolder::prepare(&mut environment).unwrap();
        fs::write(folder.path.join("marker-42.txt"), "1 2 hello\n").unwrap();
        let collected = collect(&mut [], Some(&folder), began);
        let markers: Vec<_> = collected
            .attachments
            .iter()
            .filter(|a| a.kind == AttachmentKind::Markers)
            .collect();
        assert_eq!(markers.len(), 1);
        assert_eq!(
            (markers[0].pid, markers[0].bytes.as_slice()),
            (42, b"1 2 hello\n".as_slice())
        );
    }
}
