//! Files that a program mapped last time although they were not predicted (dlopen): the next cold start includes
//! them.
//!
//! One list per program, in the user's cache folder next to the unwind tables. It only names files to advise the
//! kernel about: a wrong one costs nothing.

use std::fs::{self, DirBuilder};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::evict::open_regular;
use crate::record::identity::Environment;
use crate::record::tables::TableCache;

/// Files of one program, and bytes of their list, at most.
const FILES_LIMIT: usize = 1024;
const LIST_LIMIT: u64 = 1 << 20;

/// The list of one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    place: PathBuf,
    /// Files that exist.
    pub files: Vec<PathBuf>,
}

impl Remembered {
    /// The list of `program`, which is empty the first time; `None`: the user has no cache folder.
    pub fn of(program: &Path, environment: &Environment) -> Option<Self> {
        Self::within(
            &TableCache::default_folder(environment)?.with_file_name("mapped"),
            program,
        )
    }

    fn within(folder: &Path, program: &Path) -> Option<Self> {
        let program = fs::canonicalize(program).ok()?;
        let name = program.file_name()?.to_string_lossy();
        let name: String = name.chars().take(64).collect();
        let place = folder.join(format!(
            "{name}-{:08x}",
            crc32fast::hash(program.as_os_str().as_bytes())
        ));
        let mut text = Vec::new();
        if let Ok(file) = open_regular(&place) {
            let _ = file.take(LIST_LIMIT).read_to_end(&mut text); // a partial list is better than none
        }
        let paths = text
            .split(|byte| *byte == b'\n')
            .map(|line| Path::new(std::ffi::OsStr::from_bytes(line)));
        let files = paths
            .filter(|path| path.is_absolute() && path.is_file())
            .take(FILES_LIMIT);
        Some(Self {
            files: files.map(Path::to_owned).collect(),
            place,
        })
    }

    /// Adds files to the list on disk.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn add(&self, files: &[&Path]) -> io::Result<()> {
        let folder = self.place.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut list = tempfile::NamedTempFile::new_in(folder)?;
        let known = self.files.iter().map(PathBuf::as_path);
        for path in known.chain(files.iter().copied()).take(FILES_LIMIT) {
            let line = path.as_os_str().as_bytes();
            if !line.contains(&b'\n') {
                list.write_all(line)?;
                list.write_all(b"\n")?;
            }
        }
        list.persist(&self.place)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_files_are_remembered_while_they_exist() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("a lib\u{e9}.so");
        fs::write(&library, "x").unwrap();
        let of = |program: &str| Remembered::within(&folder.path().join("lists"), Path::new(program)).unwrap();
        let first = of("/bin/sh");
        assert!(first.files.is_empty());
        first
            .add(&[&library, Path::new("/no/such"), Path::new("/with\nnewline")])
            .unwrap();
        assert_eq!(of("/bin/sh").files, [library]);
        assert!(of("/bin/ls").files.is_empty());
    }

    #[test]
    fn an_invalid_list_names_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let list = Remembered::within(folder.path(), Path::new("/bin/sh")).unwrap();
        fs::write(&list.place, b"\xff\xfe\n\0\nrelative\n/dev/zero\n/\n").unwrap();
        assert!(
            Remembered::within(folder.path(), Path::new("/bin/sh"))
                .unwrap()
                .files
                .is_empty()
        );
    }
}
