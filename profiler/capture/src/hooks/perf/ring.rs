//! The ring into which the kernel writes an event's records.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use crate::proc::page_cache::page_size;

/// Offsets of the heads in the ring's first page (`struct perf_event_mmap_page`).
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

/// An event with its ring of records.
pub struct Ring {
    event: OwnedFd,
    memory: NonNull<u8>,
    page: usize,
    /// Bytes for records, a power of two.
    size: usize,
    scratch: Vec<u8>,
}

// SAFETY: the mapping belongs to this value alone.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps a ring of `bytes` (a power of two) for records, or of a page if that is more.
    pub fn new(event: OwnedFd, bytes: usize) -> io::Result<Self> {
        Self::with_pages(event, bytes, page_size())
    }

    /// The same on a machine with pages of this size.
    fn with_pages(event: OwnedFd, bytes: usize, page: u64) -> io::Result<Self> {
        let page = usize::try_from(page).map_err(io::Error::other)?;
        let size = bytes.max(page);
        let length = NonZeroUsize::new(size + page).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let memory = unsafe {
            mmap(
                None,
                length,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_SHARED,
                event.as_fd(),
                0,
            )?
        };
        Ok(Self {
            event,
            memory: memory.cast(),
            page,
            size,
            scratch: Vec::new(),
        })
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: an aligned u64 in the first page, which both sides access atomically.
        unsafe { self.memory.add(offset).cast::<AtomicU64>().as_ref() }
    }

    /// Bytes of pending records.
    fn pending(&self) -> u64 {
        self.position(DATA_HEAD)
            .load(Ordering::Acquire)
            .wrapping_sub(self.position(DATA_TAIL).load(Ordering::Relaxed))
    }

    /// Passes every pending record to `each`: its type, its `misc` bits, and what follows its header.
    pub fn drain(&mut self, mut each: impl FnMut(u32, u16, &[u8])) {
        let mut tail = self.position(DATA_TAIL).load(Ordering::Relaxed);
        let head = tail.wrapping_add(self.pending());
        while head.wrapping_sub(tail) >= 8 {
            let mut header = [0; 8];
            self.copy(tail, &mut header);
            let [k0, k1, k2, k3, m0, m1, s0, s1] = header;
            let size = u64::from(u16::from_ne_bytes([s0, s1]));
            if size < 8 || size > head.wrapping_sub(tail) {
                tail = head; // never seen: the kernel writes whole records
                break;
            }
            let mut record = std::mem::take(&mut self.scratch);
            record.resize(usize::try_from(size - 8).unwrap_or(0), 0);
            self.copy(tail.wrapping_add(8), &mut record);
            each(
                u32::from_ne_bytes([k0, k1, k2, k3]),
                u16::from_ne_bytes([m0, m1]),
                &record,
            );
            self.scratch = record;
            tail = tail.wrapping_add(size);
        }
        self.position(DATA_TAIL).store(tail, Ordering::Release);
    }

    /// Copies bytes that the kernel has published, which may wrap around the ring's end.
    fn copy(&self, from: u64, to: &mut [u8]) {
        let start = usize::try_from(from % self.size as u64).unwrap_or(0);
        let first = to.len().min(self.size - start);
        let (to_first, to_rest) = to.split_at_mut(first);
        // SAFETY: both parts lie in the ring, and the kernel does not write to them before the tail moves on.
        unsafe {
            let data = self.memory.add(self.page);
            data.add(start)
                .copy_to_nonoverlapping(NonNull::from(to_first).cast(), first);
            data.copy_to_nonoverlapping(NonNull::from(&mut *to_rest).cast(), to_rest.len().min(start));
        }
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, with no references left. On failure it stays mapped.
        let _ = unsafe { munmap(self.memory.cast(), self.size + self.page) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::super::{enable, open_mappings};
    use super::*;

    /// The kernel's part is a file here: the positions in the first page, the records from the second one on.
    #[test]
    fn records_are_behind_the_first_page_of_every_size() {
        for page in [0x1000, 0x4000, 0x1_0000] {
            let file = tempfile::tempfile().unwrap();
            file.set_len(2 * page).unwrap();
            // The second record wraps around the ring's end.
            let (tail, head) = (3 * page - 24, 3 * page + 8);
            let record = |kind: u32, body: u64| {
                let size = 16_u16.to_ne_bytes();
                [&kind.to_ne_bytes()[..], &[0; 2], &size, &body.to_ne_bytes()].concat()
            };
            let records = [record(1, 5), record(2, 6)].concat();
            let (before, after) = records.split_at(24);
            file.write_all_at(before, 2 * page - 24).unwrap();
            file.write_all_at(after, page).unwrap();
            file.write_all_at(&head.to_ne_bytes(), DATA_HEAD as u64).unwrap();
            file.write_all_at(&tail.to_ne_bytes(), DATA_TAIL as u64).unwrap();
            // At least a page, whatever is wanted.
            let mut ring = Ring::with_pages(file.into(), 1024, page).unwrap();
            let mut found = Vec::new();
            ring.drain(|kind, _, record| found.push((kind, u64::from_ne_bytes(record.try_into().unwrap()))));
            assert_eq!((found, ring.pending()), (vec![(1, 5), (2, 6)], 0), "{page}");
        }
    }

    /// Otherwise a program that maps much would fill it between two cycles.
    #[test]
    fn wakes_its_reader_when_much_was_written() {
        const WAKEUP: usize = 1 << 14;
        let rings = rings_of_all_cpus(WAKEUP);
        let Some(rings) = rings else { return };
        let are_readable = || {
            let mut all: Vec<_> = rings
                .iter()
                .map(|ring| PollFd::new(ring.as_fd(), PollFlags::POLLIN))
                .collect();
            poll(&mut all, PollTimeout::ZERO).unwrap() > 0
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 12).unwrap();
        // A record takes at least 72 bytes without its name; whatever else runs maps files, too, so only the end is certain.
        let enough = rings.len() * WAKEUP / 72 + 1;
        let woken = (0..enough).any(|_| {
            // SAFETY: the file does not change.
            drop(unsafe { memmap2::Mmap::map(file.as_file()) }.unwrap());
            are_readable()
        });
        assert!(woken, "{enough} mappings");
    }

    /// `None`: not allowed here, which is printed.
    fn rings_of_all_cpus(wakeup: usize) -> Option<Vec<Ring>> {
        let cpus = aya::util::online_cpus().unwrap();
        let wakeup = u32::try_from(wakeup).unwrap();
        let rings: io::Result<Vec<Ring>> = cpus
            .iter()
            .map(|&cpu| Ring::new(open_mappings(cpu, wakeup)?, 16 << 12))
            .collect();
        let Ok(rings) = rings else {
            println!("skipped: needs root");
            return None;
        };
        for ring in &rings {
            enable(ring.as_fd()).unwrap();
        }
        Some(rings)
    }

    #[test]
    fn reports_our_own_mappings() {
        let Some(mut rings) = rings_of_all_cpus(1 << 14) else {
            return;
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(3 << 12).unwrap();
        // Many more than fit into the ring at once, to make records wrap around.
        let mut names = 0;
        for _ in 0..2000 {
            // SAFETY: the file does not change.
            let map = unsafe { memmap2::Mmap::map(file.as_file()) }.unwrap();
            for ring in &mut rings {
                ring.drain(|kind, _, record| {
                    let record = crate::space::mappings::parse(kind, 0, record);
                    if let Some(crate::space::mappings::Record::Mapping(mapping)) = record {
                        names += usize::from(mapping.path == file.path().as_os_str().as_encoded_bytes());
                    }
                });
            }
            drop(map);
        }
        assert_eq!(names, 2000);
    }
}
