//! An unnamed file for rows that do not fit in memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anyhow::{Result, bail};
use symbols::Config;

use crate::report::sorted;
use crate::terminal::print_note;

/// Maximum bytes of rows of one kind in memory.
const LIMIT: usize = 64 << 20;
/// Maximum bytes of rows of all kinds in memory.
const LIMIT_OF_ALL: usize = 128 << 20;

/// Environment variable that sets another limit, in debug builds only, for tests of what happens
/// beyond it.
pub const LIMIT_VARIABLE: &str = "NGMI_ROWS_BYTES";

/// Created when the first rows are written; deleted when this value is dropped or the process ends.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
    limit: usize,
    file: OnceLock<File>,
    room: Mutex<Room>,
    /// The first error of reading rows back.
    unreadable: OnceLock<io::Error>,
}

/// The used part of the file.
#[derive(Debug, Default)]
struct Room {
    end: u64,
    last: u64,
}

impl Scratch {
    /// Scratch space for rows of one kind.
    pub fn new() -> Arc<Self> {
        Self::of_kinds(1)
    }

    /// Scratch space for rows of `kinds` kinds.
    pub fn of_kinds(kinds: usize) -> Arc<Self> {
        let limit = asked().unwrap_or_else(|| (LIMIT_OF_ALL / kinds).min(LIMIT));
        Self::of(Config::scratch_folder(), limit)
    }

    fn of(folder: PathBuf, limit: usize) -> Arc<Self> {
        Arc::new(Self {
            folder,
            limit,
            file: OnceLock::new(),
            room: Mutex::default(),
            unreadable: OnceLock::new(),
        })
    }

    /// The scratch space as reports use it.
    pub fn rows(self: &Arc<Self>) -> Arc<dyn sorted::Scratch> {
        Arc::clone(self) as Arc<dyn sorted::Scratch>
    }

    /// Checks that all rows were read; call it after the last row.
    ///
    /// # Errors
    /// Some rows could not be read back: the output is incomplete.
    pub fn was_whole(&self) -> Result<()> {
        let Some(error) = self.unreadable.get() else {
            return Ok(());
        };
        bail!(
            "cannot read back temporary data in {}: {error}; the output is incomplete; set TMPDIR to another folder",
            self.folder.display()
        );
    }

    fn file(&self) -> io::Result<&File> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let file = tempfile::tempfile_in(&self.folder)?;
        Ok(self.file.get_or_init(|| file))
    }

    /// Warns that rows stay in memory.
    fn refused(&self, error: &io::Error) {
        print_note(format_args!(
            "all rows stay in memory: cannot write to {}: {error}; set TMPDIR to another folder",
            self.folder.display()
        ));
    }
}

impl sorted::Scratch for Scratch {
    fn limit(&self) -> usize {
        self.limit
    }

    fn reserve(&self, bytes: u64) -> io::Result<u64> {
        self.file().inspect_err(|error| self.refused(error))?;
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        room.last = room.end;
        room.end += bytes;
        Ok(room.last)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let file = self.file()?;
        file.write_all_at(bytes, at).inspect_err(|error| {
            self.refused(error);
            // Give the space back: the disk is full.
            let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
            room.end = room.last;
            let _ = file.set_len(room.last);
        })
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        let read = self.file().and_then(|file| file.read_exact_at(into, at));
        read.map_err(|error| {
            let kind = error.kind();
            let _ = self.unreadable.set(error);
            kind.into()
        })
    }
}

fn asked() -> Option<usize> {
    let asked = cfg!(debug_assertions)
        .then(|| std::env::var(LIMIT_VARIABLE).ok())
        .flatten();
    asked.and_then(|bytes| bytes.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sorted::{Scratch as _, Sorted};

    use zerocopy::{FromBytes, Immutable, IntoBytes};

    #[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
    #[repr(C)]
    struct Number(u64);

    impl sorted::Row for Number {
        fn key(&self) -> u64 {
            self.0
        }
    }

    /// A thousand numbers in descending order.
    fn thousand(scratch: &Arc<Scratch>) -> Vec<u64> {
        let mut rows = Sorted::beyond_memory(&scratch.rows());
        for number in (0..1000).rev() {
            assert!(rows.push(Number(number)));
        }
        rows.ordered().iter().map(|row| row.0).collect()
    }

    #[test]
    fn rows_round_trip_through_an_unnamed_file() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::of(folder.path().to_owned(), 96);
        assert!(thousand(&scratch).into_iter().eq(0..1000));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let bytes = scratch.file.get().unwrap().metadata().unwrap().len();
        assert_eq!(bytes, 83 * 96, "the last four are in memory");
        scratch.was_whole().unwrap();
    }

    #[test]
    fn without_a_scratch_folder_rows_stay_in_memory() {
        let scratch = Scratch::of("/nonexistent/folder".into(), 96);
        assert!(thousand(&scratch).into_iter().eq(0..1000));
        assert!(scratch.file.get().is_none());
        scratch.was_whole().unwrap();
    }

    #[test]
    fn unreadable_rows_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::of(folder.path().to_owned(), 96);
        let at = scratch.reserve(8).unwrap();
        scratch.write_at(&[1; 8], at).unwrap();
        scratch.file.get().unwrap().set_len(4).unwrap();
        scratch.read_at(&mut [0; 8], at).unwrap_err();
        let error = scratch.was_whole().unwrap_err().to_string();
        assert!(error.contains("incomplete") && error.contains("TMPDIR"), "{error}");
    }

    #[test]
    fn a_full_disk_returns_the_unwritten_rows() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::of(folder.path().to_owned(), 96);
        // A file that can't be written simulates a full disk.
        let path = folder.path().join("file");
        std::fs::write(&path, [7; 96]).unwrap();
        scratch.file.set(File::open(&path).unwrap()).unwrap();
        assert_eq!(scratch.reserve(96).unwrap(), 0);
        scratch.write_at(&[1; 96], 0).unwrap_err();
        assert_eq!(scratch.reserve(96).unwrap(), 0, "the space is free again");
        assert!(thousand(&scratch).into_iter().eq(0..1000));
        scratch.was_whole().unwrap();
    }
}
