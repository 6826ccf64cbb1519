//! The mounts that the recorder keeps busy anyway: an open file on one of them keeps no other file system from being unmounted.

use std::fs::File;

use rustc_hash::FxHashSet;

use crate::capture::files::detached::{anchors, mount_of};

/// The mounts of the root folder, the working directory, ngmi itself, and the files that are written during the recording.
#[derive(Debug, Default)]
pub struct Anchors(FxHashSet<u64>);

impl Anchors {
    /// The mounts of this process, which keeps `files` open.
    pub fn new(files: &[&File]) -> Self {
        let of_files = files.iter().filter_map(|file| mount_of(file));
        Self(anchors().iter().copied().chain(of_files).collect())
    }

    /// Whether the mount of an open file stays busy even if the file is closed.
    pub fn hold(&self, file: &File) -> bool {
        mount_of(file).is_some_and(|mount| self.0.contains(&mount))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_system_is_not_held() {
        let anchors = Anchors::new(&[]);
        assert!(anchors.hold(&File::open("/proc/self/exe").unwrap()));
        let elsewhere = File::open("/proc/self/stat").unwrap();
        assert!(!anchors.hold(&elsewhere));
        assert!(Anchors::new(&[&elsewhere]).hold(&elsewhere));
    }
}
