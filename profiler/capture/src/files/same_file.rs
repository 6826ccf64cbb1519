//! Whether a file that was opened by its name is the one that a mapping shows.
//!
//! A mapping's device and inode are the kernel's own; `stat` shows others on btrfs (a device of the subvolume) and
//! overlayfs (synthetic numbers). So a file that differs is mapped here, inaccessibly, and the kernel's numbers of
//! that mapping are compared.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::sys::stat::{major, minor};
use nix::sys::statfs::{OVERLAYFS_SUPER_MAGIC, fstatfs};

use crate::hooks::perf::{self, Ring};
use crate::proc::{mounts, procfs};
use crate::space::mappings::{self, Record};
use crate::space::maps::{self, BuildIds};
use base::addr::Avma;
use base::event::{Device, FileId};

/// Fails unless `file` is the one that a mapping shows as `id`; its generation is not compared.
///
/// # Errors
/// `NotFound`: it is a different file. Otherwise the kernel's refusal.
pub fn require_same(file: &File, id: FileId) -> io::Result<()> {
    let metadata = file.metadata()?;
    let shown = (major(metadata.dev()), minor(metadata.dev()), metadata.ino());
    let is_same = shown == (u64::from(id.major), u64::from(id.minor), id.inode)
        || is_same(as_maps_show(file)?, id)
        // Linux 6.8 to 6.17: perf records still have the inode below the overlay, /proc/PID/maps has the overlay's.
        || is_on_overlay(file) && is_same(as_records_show(file)?, id);
    if is_same {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::NotFound,
            "another file has this name now",
        ))
    }
}

fn is_same(shown: Option<FileId>, id: FileId) -> bool {
    shown.is_some_and(|shown| (shown.major, shown.minor, shown.inode) == (id.major, id.minor, id.inode))
}

fn is_on_overlay(file: &File) -> bool {
    fstatfs(file).is_ok_and(|system| system.filesystem_type() == OVERLAYFS_SUPER_MAGIC)
}

/// The numbers that the kernel's own structures may have for a file.
///
/// # Errors
/// The kernel's refusal.
pub fn identities(file: &File) -> io::Result<Vec<FileId>> {
    let metadata = file.metadata()?;
    let number = |part: u64| u32::try_from(part).unwrap_or(u32::MAX);
    let mut found = vec![FileId {
        major: number(major(metadata.dev())),
        minor: number(minor(metadata.dev())),
        inode: metadata.ino(),
        ..FileId::default()
    }];
    let records = is_on_overlay(file)
        .then(|| as_records_show(file))
        .transpose()?
        .flatten();
    let others = as_maps_show(file)?
        .into_iter()
        .chain(records)
        .chain(as_mounts_show(file));
    for other in others.map(|other| FileId { generation: 0, ..other }) {
        if !found.contains(&other) {
            found.push(other);
        }
    }
    Ok(found)
}

/// The file in the form that `/proc/PID/maps` and `PROCMAP_QUERY` show.
fn as_maps_show(file: &File) -> io::Result<Option<FileId>> {
    let mapped = Unreadable::map(file)?;
    let mut space = maps::open(std::process::id(), None, BuildIds::Unwanted)?;
    let found = space.covering(&[mapped.address()])?.pop().flatten();
    Ok(found.map(|mapping| mapping.file))
}

/// The file in the form that `PERF_RECORD_MMAP2` shows.
fn as_records_show(file: &File) -> io::Result<Option<FileId>> {
    let mut ring = Ring::new(perf::open_own_mappings()?, 16 << 10)?;
    perf::enable(ring.as_fd())?;
    let mapped = Unreadable::map(file)?;
    perf::disable(ring.as_fd())?;
    let mut found = None;
    ring.drain(|kind, misc, record| {
        if let Some(Record::Mapping(mapping)) = mappings::parse(kind, misc, record)
            && mapping.start == mapped.address()
        {
            found = Some(mapping.file);
        }
    });
    Ok(found)
}

/// The file in the form that `/proc/PID/fdinfo` (Linux 5.14) and the list of mounts show. In an overlay over several file systems these are the
/// numbers of a program's inode, which 6.1 shows nowhere else.
fn as_mounts_show(file: &File) -> Option<FileId> {
    let [mount, inode] = ["mnt_id:", "ino:"].map(|name| procfs::fdinfo(file, name));
    let Device { major, minor } = mounts::device_of(mount?)?;
    let inode = inode?;
    Some(FileId {
        major,
        minor,
        inode,
        ..FileId::default()
    })
}

/// The first page of a file, mapped without any access to it.
struct Unreadable(NonNull<libc::c_void>);

impl Unreadable {
    fn map(file: &File) -> io::Result<Self> {
        // SAFETY: a new mapping at an address that the kernel chooses, which can't be read, written or executed.
        let address = unsafe {
            mmap(
                None,
                NonZeroUsize::MIN,
                ProtFlags::PROT_NONE,
                MapFlags::MAP_PRIVATE,
                file.as_fd(),
                0,
            )?
        };
        Ok(Self(address))
    }

    fn address(&self) -> Avma {
        Avma(self.0.as_ptr() as u64)
    }
}

impl Drop for Unreadable {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`, with no references to it.
        let _ = unsafe { munmap(self.0, 1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_show_the_same_file() {
        let file = tempfile::tempfile().unwrap();
        let shown = as_maps_show(&file).unwrap().unwrap();
        require_same(&file, shown).unwrap();
        let other = FileId {
            inode: shown.inode + 1,
            ..shown
        };
        assert_eq!(require_same(&file, other).unwrap_err().kind(), io::ErrorKind::NotFound);
        let elsewhere = FileId {
            minor: shown.minor + 1,
            ..shown
        };
        assert_eq!(
            require_same(&file, elsewhere).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        assert!(is_on_overlay(&file) || is_same(as_mounts_show(&file), shown));
        match as_records_show(&file) {
            Ok(recorded) => assert!(is_same(recorded, shown), "{recorded:?}, not {shown:?}"),
            Err(why) => println!("skipped: no records of this process's mappings: {why}"),
        }
    }
}
