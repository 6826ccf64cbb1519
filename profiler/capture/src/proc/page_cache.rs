//! How much of a file is in the kernel's page cache: queried, never changed.
//!
//! cachestat(2) counts (Linux 6.5); mincore(2) is the fallback. For files of other users both answer only root:
//! cachestat refuses (6.14), mincore reports every page as resident (`mm/mincore.c`: `can_do_mincore`). For those
//! files single pages can be tried with [`is_resident`].

use std::ffi::{c_long, c_uint};
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::MetadataExt as _;

use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::statfs::{OVERLAYFS_SUPER_MAGIC, fstatfs};
use nix::unistd::{AccessFlags, Uid, faccessat};

/// The same number on every architecture but alpha.
const SYS_CACHESTAT: c_long = 451;
/// Bytes of a file that are mapped at once for mincore: a multiple of every page size.
const WINDOW: u64 = 1 << 30;

/// Larger files are not passed to mincore, whose work grows with the file and not with what is in memory.
const MINCORE_LIMIT: u64 = 1 << 40;

/// How much of a file is in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cached {
    /// Bytes, in whole pages.
    pub resident: u64,
    /// Bytes of it that are not on disk yet, in whole pages; also 0 where only mincore answers.
    pub unwritten: u64,
}

/// Which system call answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// cachestat(2)
    Cachestat,
    /// mincore(2)
    Mincore,
}

/// Why the state of a file is unknown.
#[derive(Debug, thiserror::Error)]
pub enum Unknown {
    /// The kernel answers only the file's owner, users who may write to it, and root.
    #[error("the kernel reports it only to the file's owner and to root")]
    NotReported,
    /// The kernel's query failed.
    #[error(transparent)]
    Failed(#[from] io::Error),
}

/// Bytes of a page.
pub fn page_size() -> u64 {
    let size = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
    size.and_then(|size| u64::try_from(size).ok()).unwrap_or(4096)
}

/// How much of a regular file is in memory.
///
/// # Errors
/// When the kernel does not report it, or fails.
pub fn cached(file: &File) -> Result<Cached, Unknown> {
    // An inode of an overlay has no pages itself: cachestat would report every file as cold. A mapping shows the
    // underlying file.
    let is_overlay = fstatfs(file).is_ok_and(|fs| fs.filesystem_type() == OVERLAYFS_SUPER_MAGIC);
    if is_overlay {
        return cached_by(Way::Mincore, file);
    }
    match cached_by(Way::Cachestat, file) {
        Err(Unknown::Failed(error)) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EOPNOTSUPP)) => {
            cached_by(Way::Mincore, file)
        }
        answer => answer,
    }
}

/// How much of a regular file is in memory, according to one system call.
///
/// # Errors
/// When the kernel does not report it, or fails.
pub fn cached_by(way: Way, file: &File) -> Result<Cached, Unknown> {
    match way {
        Way::Cachestat => cachestat(file, &Range { offset: 0, len: 0 }),
        Way::Mincore if is_mincore_truthful(file)? => Ok(Cached {
            resident: mincore(file)?,
            unwritten: 0,
        }),
        Way::Mincore => Err(Unknown::NotReported),
    }
}

/// How much of a part of a regular file, given in bytes, is in memory, where cachestat reports it.
///
/// # Errors
/// When the kernel does not report it, or fails.
pub fn cached_in(file: &File, offset: u64, len: u64) -> Result<Cached, Unknown> {
    let is_overlay = fstatfs(file).is_ok_and(|fs| fs.filesystem_type() == OVERLAYFS_SUPER_MAGIC);
    if is_overlay || len == 0 {
        return Err(Unknown::NotReported);
    }
    cachestat(file, &Range { offset, len })
}

/// `struct cachestat_range`, `include/uapi/linux/mman.h`; a length of 0: to the end.
#[repr(C)]
struct Range {
    offset: u64,
    len: u64,
}

/// `struct cachestat`, in pages.
#[repr(C)]
#[derive(Default)]
struct Counts {
    cache: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

fn cachestat(file: &File, range: &Range) -> Result<Cached, Unknown> {
    let mut counts = Counts::default();
    let flags: c_uint = 0;
    // SAFETY: the kernel reads `range` and writes `counts`, which live until it returns and are laid out as it expects.
    let result = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_raw_fd(),
            std::ptr::from_ref(range),
            &raw mut counts,
            flags,
        )
    };
    if result != 0 {
        let error = io::Error::last_os_error();
        return Err(match error.raw_os_error() {
            Some(libc::EPERM) => Unknown::NotReported,
            _ => Unknown::Failed(error),
        });
    }
    let page = page_size();
    Ok(Cached {
        resident: counts.cache.saturating_mul(page),
        unwritten: counts.dirty.saturating_add(counts.writeback).saturating_mul(page),
    })
}

/// Whether mincore reports the truth for this file: the kernel's `can_do_mincore`.
fn is_mincore_truthful(file: &File) -> io::Result<bool> {
    let me = Uid::effective();
    let may_write = || {
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        faccessat(AT_FDCWD, name.as_str(), AccessFlags::W_OK, AtFlags::AT_EACCESS).is_ok()
    };
    Ok(me.is_root() || file.metadata()?.uid() == me.as_raw() || may_write())
}

/// Bytes in memory.
fn mincore(file: &File) -> io::Result<u64> {
    let (len, page) = (file.metadata()?.len(), page_size());
    if len > MINCORE_LIMIT {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    let mut resident = 0u64;
    let mut offset = 0;
    while offset < len {
        resident = resident.saturating_add(mincore_window(file, offset, WINDOW.min(len - offset), page)?);
        offset = offset.saturating_add(WINDOW);
    }
    Ok(resident)
}

fn mincore_window(file: &File, offset: u64, len: u64, page: u64) -> io::Result<u64> {
    let too_large = |_| io::Error::from_raw_os_error(libc::EFBIG);
    let bytes = usize::try_from(len).map_err(too_large)?;
    let start = i64::try_from(offset).map_err(too_large)?;
    let Some(size) = NonZeroUsize::new(bytes) else {
        return Ok(0);
    };
    let mut pages = vec![0u8; usize::try_from(len.div_ceil(page)).map_err(too_large)?];
    // SAFETY: a new mapping at an address that the kernel chooses; it is never read through.
    let address = unsafe {
        mmap(
            None,
            size,
            ProtFlags::PROT_READ,
            MapFlags::MAP_SHARED,
            file.as_fd(),
            start,
        )?
    };
    // SAFETY: the range is the mapping above, and `pages` has a byte for each of its pages.
    let result = unsafe { libc::mincore(address.as_ptr(), bytes, pages.as_mut_ptr()) };
    let answer = if result == 0 {
        Ok(pages.iter().filter(|page| **page & 1 != 0).count() as u64 * page)
    } else {
        Err(io::Error::last_os_error())
    };
    // SAFETY: exactly the mapping above, and there are no references into it.
    unsafe { munmap(address, bytes)? };
    answer
}

/// Whether the page at `offset` is in memory, found by trying to read it without waiting: any user who may read the
/// file can do this. The kernel begins to read a missing page (`mm/filemap.c`: `filemap_get_pages`), and some around
/// it unless the file was advised for random access. A fast disk may deliver it before the kernel looks again: then
/// this thread's count of blocks read shows it (`submit_bio` counts them).
///
/// # Errors
/// When the file system can't read without waiting, or reading fails.
pub fn is_resident(file: &File, offset: u64) -> io::Result<bool> {
    let mut byte = [0u8; 1];
    let buffer = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: byte.len(),
    };
    let offset = i64::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    let before = blocks_read();
    // SAFETY: one buffer, which lives until the call returns and is as long as it says.
    let read = unsafe { libc::preadv2(file.as_raw_fd(), &raw const buffer, 1, offset, libc::RWF_NOWAIT) };
    if read >= 0 {
        return Ok(blocks_read() == before);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN) => Ok(false),
        _ => Err(error),
    }
}

/// Blocks that this thread has had a device read; always 0 where the kernel does not count them.
fn blocks_read() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.block_reads())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

    use super::*;

    /// 300 pages on disk, all in memory.
    fn file() -> File {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&vec![7; 300 * usize::try_from(page_size()).unwrap()], 0)
            .unwrap();
        file.sync_all().unwrap();
        // Not every file system keeps written pages in memory.
        let mut page = [0; 4096];
        (0..300 * page_size())
            .step_by(4096)
            .for_each(|at| file.read_exact_at(&mut page, at).unwrap());
        file
    }

    fn advise(file: &File, advice: PosixFadviseAdvice) {
        posix_fadvise(file, 0, 0, advice).unwrap();
    }

    fn is_memory(file: &File) -> bool {
        // The upper folder of an overlay is often in memory.
        let kind = fstatfs(file).unwrap().filesystem_type();
        let memory = [nix::sys::statfs::TMPFS_MAGIC, OVERLAYFS_SUPER_MAGIC].contains(&kind);
        if memory {
            println!("skipped: the folder for temporary files is, or may be, in memory");
        }
        memory
    }

    #[test]
    fn both_ways_count_the_same_pages() {
        let file = file();
        let all = 300 * page_size();
        let answers = || [Way::Cachestat, Way::Mincore].map(|way| cached_by(way, &file));
        for (way, answer) in [Way::Cachestat, Way::Mincore].into_iter().zip(answers()) {
            match answer {
                Ok(cached) => assert_eq!(cached.resident, all, "{way:?}"),
                Err(why) => println!("skipped: {way:?}: {why}"),
            }
        }
        if is_memory(&file) {
            return;
        }
        advise(&file, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
        advise(&file, PosixFadviseAdvice::POSIX_FADV_RANDOM);
        // Three separate pages, read by this process.
        for page in [0, 100, 299] {
            file.read_exact_at(&mut [0], page * page_size()).unwrap();
        }
        for (way, answer) in [Way::Cachestat, Way::Mincore].into_iter().zip(answers()) {
            if let Ok(cached) = answer {
                assert_eq!(cached.resident, 3 * page_size(), "{way:?}");
            }
        }
    }

    #[test]
    fn a_single_page_can_be_tried() {
        let file = file();
        if is_memory(&file) {
            return;
        }
        match is_resident(&file, 0) {
            Err(why) if why.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                return println!("skipped: this file system can't read without waiting");
            }
            answer => assert!(answer.unwrap()),
        }
        advise(&file, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
        advise(&file, PosixFadviseAdvice::POSIX_FADV_RANDOM);
        assert!(!is_resident(&file, 5 * page_size()).unwrap());
    }

    #[test]
    fn dirty_pages_are_counted() {
        let file = tempfile::tempfile().unwrap();
        if is_memory(&file) {
            return;
        }
        file.write_all_at(&[1; 10], 0).unwrap();
        match cached_by(Way::Cachestat, &file) {
            Ok(cached) if cached.unwritten == 0 => println!("skipped: this file system writes immediately"),
            Ok(cached) => assert_eq!((cached.resident, cached.unwritten), (page_size(), page_size())),
            Err(why) => println!("skipped: {why}"),
        }
    }

    #[test]
    fn an_empty_file_has_no_cached_pages() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(cached(&file).unwrap(), Cached::default());
    }
}
