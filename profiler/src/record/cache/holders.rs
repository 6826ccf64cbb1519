//! The processes that keep a file in memory by mapping it.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::{Entry, Why};
use crate::capture::proc::procfs::processes;

/// Bytes of one process's list of mappings that are read, at most.
const MAPS_LIMIT: u64 = 16 << 20;
/// Time limit for all lists.
const PATIENCE: Duration = Duration::from_secs(2);

/// The processes that have a file mapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holders {
    /// Their number, among those whose mappings may be seen.
    pub count: u32,
    /// These are all of them.
    pub is_all: bool,
    /// The pid of one of them.
    pub pid: u32,
    /// Its name.
    pub name: String,
}

/// Notes for each entry that stays in memory which processes have it mapped; returns whether every process could be
/// checked.
pub fn find(entries: &mut [Entry]) -> bool {
    let left: Vec<usize> = (0..entries.len()).filter(|&at| entries[at].is_left()).collect();
    let mut by_inode = FxHashMap::default();
    let mut by_path = FxHashMap::default();
    for &at in &left {
        let (device, inode) = entries[at].id;
        by_inode.insert((libc::major(device), libc::minor(device), inode), at);
        // On overlayfs and btrfs mappings show another device.
        if let Ok(real) = fs::canonicalize(&entries[at].path) {
            by_path.insert(real, at);
        }
    }
    let deadline = Instant::now() + PATIENCE;
    let mut holders: FxHashMap<usize, Holders> = FxHashMap::default();
    let mut is_all = true;
    for pid in processes().unwrap_or_default() {
        if left.is_empty() || Instant::now() > deadline {
            is_all = false;
            break;
        }
        let text = maps(pid);
        is_all &= text.is_some();
        let mut mapped: Vec<usize> = text
            .unwrap_or_default()
            .split(|byte| *byte == b'\n')
            .filter_map(|line| {
                let (inode, path) = mapping(line)?;
                by_inode.get(&inode).or_else(|| by_path.get(path)).copied()
            })
            .collect();
        mapped.sort_unstable();
        mapped.dedup();
        for at in mapped {
            let first = || Holders {
                count: 0,
                is_all: true,
                pid,
                name: name(pid),
            };
            holders.entry(at).or_insert_with(first).count += 1;
        }
    }
    for (at, mut holders) in holders {
        holders.is_all = is_all;
        entries[at].why = Some(Why::Mapped(holders));
    }
    is_all
}

/// Device, inode and path of the files that a process has mapped.
pub fn files_of(pid: u32) -> Vec<((u32, u32, u64), PathBuf)> {
    let text = maps(pid).unwrap_or_default();
    let files = text.split(|byte| *byte == b'\n').filter_map(mapping);
    files.map(|(id, path)| (id, path.to_owned())).collect()
}

/// The text of a process's mappings, empty if it is gone; `None`: access is denied.
fn maps(pid: u32) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    match File::open(format!("/proc/{pid}/maps")) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return None,
        // What was read until the process ended counts.
        opened => drop(opened.and_then(|file| file.take(MAPS_LIMIT).read_to_end(&mut text))),
    }
    Some(text)
}

/// Device, inode and path of a line: `start-end perms offset major:minor inode   path`.
fn mapping(line: &[u8]) -> Option<((u32, u32, u64), &Path)> {
    use std::os::unix::ffi::OsStrExt as _;
    let mut fields = line.splitn(6, |byte| *byte == b' ').skip(3);
    let device = str::from_utf8(fields.next()?).ok()?;
    let (major, minor) = device.split_once(':')?;
    let inode: u64 = str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let path = fields.next().unwrap_or_default().trim_ascii_start();
    let number = |text| u32::from_str_radix(text, 16).ok();
    (inode != 0).then_some((
        (number(major)?, number(minor)?, inode),
        Path::new(std::ffi::OsStr::from_bytes(path)),
    ))
}

fn name(pid: u32) -> String {
    fs::read(format!("/proc/{pid}/comm")).map_or_else(
        |_| "a process".to_owned(),
        |name| super::report::printable(&String::from_utf8_lossy(name.trim_ascii_end())),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_files_are_read_and_others_are_not() {
        let line = b"7f00-7f10 r-xp 00001000 fd:0a 4711                      /a folder/lib.so";
        assert_eq!(mapping(line), Some(((0xfd, 0xa, 4711), Path::new("/a folder/lib.so"))));
        for line in [
            &b"7f00-7f10 rw-p 00000000 00:00 0 [heap]"[..],
            b"",
            b"x y z",
            b"1-2 r 0 1 2 /x",
            b"1-2 r 0 x:y 2 /x",
        ] {
            assert_eq!(mapping(line), None);
        }
    }
}
