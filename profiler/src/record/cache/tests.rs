//! Files that are actually evicted and read, compared with what mincore reports to the test.

use std::fs::{self, File};
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;

use nix::sys::mman::{MapFlags, ProtFlags, mlock, mmap, munmap};
use nix::sys::statfs::{FUSE_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC};
use tempfile::TempDir;

use super::*;

const MIB: usize = 1 << 20;
static QUIET: AtomicBool = AtomicBool::new(false);

/// The number of a file's bytes in memory, as queried by the test.
fn in_memory(path: &Path) -> usize {
    let file = File::open(path).unwrap();
    let len = usize::try_from(file.metadata().unwrap().len()).unwrap();
    let size = NonZeroUsize::new(len).unwrap();
    let page = usize::try_from(capture::proc::page_cache::page_size()).unwrap();
    let mut pages = vec![0u8; len.div_ceil(page)];
    // SAFETY: a new mapping that is never read through.
    let address = unsafe { mmap(None, size, ProtFlags::PROT_NONE, MapFlags::MAP_SHARED, file.as_fd(), 0).unwrap() };
    // SAFETY: the range is that mapping, with a byte for each page.
    assert_eq!(unsafe { libc::mincore(address.as_ptr(), len, pages.as_mut_ptr()) }, 0);
    // SAFETY: there is no reference to the mapping.
    unsafe { munmap(address, len).unwrap() };
    pages.iter().filter(|page| **page & 1 != 0).count() * page
}

/// A folder on disk; `None`, with a message, if temporary files are in memory.
fn on_disk() -> Option<TempDir> {
    let folder = tempfile::tempdir().unwrap();
    let place = File::open(folder.path()).unwrap();
    // The upper folder of an overlay is often in memory, as in the guests of scripts/vm; FUSE drops
    // a file's pages when it is opened.
    let kind = nix::sys::statfs::fstatfs(&place).unwrap().filesystem_type();
    if evict::memory(&place).is_some() || [OVERLAYFS_SUPER_MAGIC, FUSE_SUPER_MAGIC].contains(&kind) {
        println!("skipped: the folder for temporary files is not a plain folder on a disk");
        return None;
    }
    Some(folder)
}

/// A file of `mib` MiB, on disk and in memory.
fn warm_file(folder: &TempDir, name: &str, mib: usize) -> PathBuf {
    let path = folder.path().join(name);
    let mut file = File::create(&path).unwrap();
    for number in 0..mib {
        file.write_all(&vec![u8::try_from(number % 256).unwrap(); MIB]).unwrap();
    }
    file.sync_all().unwrap();
    // Not every file system keeps written pages in memory.
    assert_eq!(fs::read(&path).unwrap().len(), mib * MIB);
    path
}

fn entries(paths: &[&Path]) -> Vec<Entry> {
    paths
        .iter()
        .map(|path| Entry::new(path, &fs::metadata(path).unwrap(), false))
        .collect()
}

fn evict(entries: &mut Vec<Entry>) {
    evict::evict(entries, &mut Progress::new("", 0, &QUIET)).unwrap();
}

fn warm(entries: &mut Vec<Entry>) {
    warm::warm(entries, &mut Progress::new("", 0, &QUIET)).unwrap();
}

#[test]
fn files_become_cold_and_warm_again() {
    let Some(folder) = on_disk() else { return };
    let path = warm_file(&folder, "large", 64);
    let mut files = entries(&[&path]);
    evict(&mut files);
    assert_eq!(in_memory(&path), 0);
    assert_eq!((files[0].before, files[0].after), (Some(64 << 20), Some(0)));
    let mut files = entries(&[&path]);
    warm(&mut files);
    assert_eq!(in_memory(&path), 64 * MIB);
    assert_eq!((files[0].before, files[0].after), (Some(0), Some(64 << 20)));
}

#[test]
fn dirty_pages_are_written_and_dropped() {
    let Some(folder) = on_disk() else { return };
    let path = folder.path().join("dirty");
    fs::write(&path, vec![1; 3 * MIB]).unwrap();
    let mut files = entries(&[&path]);
    evict(&mut files);
    assert_eq!((in_memory(&path), files[0].after), (0, Some(0)));
    assert_eq!(fs::read(&path).unwrap(), vec![1; 3 * MIB]);
}

#[test]
fn locked_pages_stay_and_the_process_is_named() {
    let Some(folder) = on_disk() else { return };
    let path = warm_file(&folder, "locked", 8);
    let file = File::open(&path).unwrap();
    let size = NonZeroUsize::new(MIB).unwrap();
    // SAFETY: a new mapping of a file that is not truncated.
    let address = unsafe { mmap(None, size, ProtFlags::PROT_READ, MapFlags::MAP_SHARED, file.as_fd(), 0).unwrap() };
    // SAFETY: exactly that mapping.
    if let Err(why) = unsafe { mlock(address, MIB) } {
        println!("skipped: this process may not lock memory: {why}");
        return;
    }
    let mut files = entries(&[&path]);
    evict(&mut files);
    assert_eq!(files[0].after, Some(1 << 20));
    let Some(Why::Mapped(holders)) = &files[0].why else {
        panic!("{:?}", files[0].why)
    };
    assert_eq!((holders.count, holders.pid), (1, std::process::id()));
    // SAFETY: there is no reference to the mapping.
    unsafe { munmap(address, MIB).unwrap() };
    evict::evict_again(&mut files);
    assert_eq!((in_memory(&path), files[0].after), (0, Some(0)));
}

#[test]
fn memory_only_files_are_reported_as_staying() {
    let folder = match tempfile::tempdir_in("/dev/shm") {
        Ok(folder) if evict::memory(&File::open(folder.path()).unwrap()) == Some("tmpfs") => folder,
        _ => return println!("skipped: /dev/shm is not a writable tmpfs"),
    };
    let path = folder.path().join("model");
    fs::write(&path, vec![3; MIB]).unwrap();
    let mut files = entries(&[&path]);
    evict(&mut files);
    assert_eq!(
        (files[0].after, &files[0].why),
        (Some(1 << 20), &Some(Why::Memory("tmpfs")))
    );
    assert_eq!(fs::read(&path).unwrap(), vec![3; MIB]);
    let mut files = entries(&[&path]);
    warm(&mut files);
    assert_eq!(files[0].after, Some(1 << 20));
}

#[test]
fn missing_files_and_pipes_are_skipped() {
    let Some(folder) = on_disk() else { return };
    let [gone, pipe, last] = ["gone", "pipe", "last"].map(|name| warm_file(&folder, name, 1));
    let listed = entries(&[&gone, &pipe, &last]);
    fs::remove_file(&gone).unwrap();
    fs::remove_file(&pipe).unwrap();
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for work in [evict as fn(&mut Vec<Entry>), warm] {
        let mut files = listed.clone();
        work(&mut files);
        let left: Vec<(&PathBuf, bool)> = files.iter().map(|entry| (&entry.path, entry.unreadable)).collect();
        assert_eq!(left, [(&pipe, true), (&last, false)]);
    }
}

#[test]
fn the_holes_of_a_sparse_file_are_not_read() {
    let Some(folder) = on_disk() else { return };
    let path = folder.path().join("sparse");
    let file = File::create(&path).unwrap();
    file.write_all_at(&vec![1; MIB], 1 << 40).unwrap();
    file.set_len(1 << 41).unwrap();
    file.sync_all().unwrap();
    let mut files = entries(&[&path]);
    warm(&mut files);
    assert_eq!((files[0].len, files[0].after), (1 << 20, Some(1 << 20)));
}

#[test]
fn a_sample_estimates_the_share_in_memory() {
    let Some(folder) = on_disk() else { return };
    let path = warm_file(&folder, "sampled", 16);
    let share = || evict::sample(&File::open(&path).unwrap(), 64);
    assert_eq!(share(), Some(1.0));
    evict(&mut entries(&[&path]));
    // A quarter of the file is read again from the start, without read-ahead.
    let file = File::open(&path).unwrap();
    nix::fcntl::posix_fadvise(&file, 0, 0, nix::fcntl::PosixFadviseAdvice::POSIX_FADV_RANDOM).unwrap();
    file.read_exact_at(&mut vec![0; 4 * MIB], 0).unwrap();
    let resident = in_memory(&path) as f64 / (16 * MIB) as f64;
    assert!((share().unwrap() - resident).abs() <= 1.0 / 64.0, "{resident}");
}

#[test]
fn it_can_be_interrupted() {
    let Some(folder) = on_disk() else { return };
    let path = warm_file(&folder, "file", 1);
    let stop = AtomicBool::new(true);
    let mut files = entries(&[&path]);
    assert!(evict::evict(&mut files, &mut Progress::new("", 0, &stop)).is_err());
    assert!(warm::warm(&mut files, &mut Progress::new("", 0, &stop)).is_err());
    assert_eq!(in_memory(&path), MIB);
}
