//! Requests and bios of block devices.

use core::ffi::{c_long, c_void};

use aya_ebpf::helpers::generated::bpf_loop;

use super::{Dentry, Inode, fields};
use crate::arch;
use crate::maps::config;
use crate::read::{load, probe};

/// The lowest bits of `page.mapping`: anonymous memory, or not a file's.
const NO_FILE: u64 = 3;
const ANONYMOUS: u64 = 1;
/// How many bios of a request are counted at most.
const MERGES_LIMIT: u32 = 64;

/// `struct request *`
#[derive(Clone, Copy)]
pub struct Request(*const c_void);

/// `struct bio *`
#[derive(Clone, Copy)]
pub struct Bio(*const c_void);

/// Whose memory a bio reads or writes.
pub enum Pages {
    /// A file's page cache, from this page on.
    Cached(Inode, u64),
    /// A program's own memory.
    Anonymous,
    /// On its way from swap, or to it.
    Swapped,
    /// The kernel's memory, or none.
    Other,
}

impl Request {
    /// From a tracepoint's argument.
    #[inline(always)]
    pub fn new(pointer: *const c_void) -> Self {
        Self(pointer)
    }

    /// Its address, which identifies it among the requests under way.
    #[inline(always)]
    pub fn key(self) -> u64 {
        self.0 as u64
    }

    fields! {
        sector: u64 = request_sector;
        /// Bytes that remain to be done.
        bytes: u32 = request_bytes;
        /// Operation and flags.
        flags: u32 = request_flags;
    }

    /// The kernel counts it in the device's statistics.
    #[inline(always)]
    pub fn is_counted(self) -> bool {
        probe(self.key(), config!(request_part)).is_some_and(|part: u64| part != 0)
    }

    /// The whole disk: major << 20 | minor.
    #[inline(always)]
    pub fn device(self) -> u32 {
        let disk = probe(self.key(), config!(request_queue)).and_then(|queue| probe(queue, config!(queue_disk)));
        disk.map_or(0, device_of)
    }

    /// Bios beyond its first.
    #[inline(always)]
    pub fn merges(self) -> u32 {
        let mut chain = Chain {
            bio: probe(self.key(), config!(request_bio)).unwrap_or(0),
            next: 0,
        };
        // SAFETY: the loop gets its own variable.
        unsafe { bpf_loop(MERGES_LIMIT, next_bio as *mut c_void, (&raw mut chain).cast(), 0) };
        chain.next as u32
    }
}

/// The bios of a request that have been counted.
#[repr(C)]
struct Chain {
    /// The last one of them; 0: there is none.
    bio: u64,
    /// How many are behind the first one.
    next: u64,
}

/// Counts the next bio of a request. 1: there is none. A static function, for the reason in [`crate::walk`].
unsafe extern "C" fn next_bio(_: u32, chain: *mut c_void) -> c_long {
    // SAFETY: `merges` passes its own variable.
    let chain = unsafe { &mut *chain.cast::<Chain>() };
    if chain.bio == 0 {
        return 1;
    }
    chain.bio = probe(chain.bio, config!(bio_next)).unwrap_or(0);
    if chain.bio == 0 {
        return 1;
    }
    chain.next += 1;
    0
}

impl Bio {
    /// From a tracepoint's argument.
    #[inline(always)]
    pub fn new(pointer: *const c_void) -> Self {
        Self(pointer)
    }

    /// Its address, which identifies it among the bios under way.
    #[inline(always)]
    pub fn key(self) -> u64 {
        self.0 as u64
    }

    fields! {
        sector: u64 = bio_sector;
        bytes: u32 = bio_bytes;
        /// Operation and flags.
        flags: u32 = bio_flags;
    }

    /// `blk_status_t`; 0: no error.
    #[inline(always)]
    pub fn status(self) -> i32 {
        i32::from(load::<u8>(self.0, config!(bio_status)).unwrap_or(0))
    }

    /// The whole disk, as [`Request::device`].
    #[inline(always)]
    pub fn device(self) -> u32 {
        self.disk().map_or(0, device_of)
    }

    /// The device takes bios, not requests.
    #[inline(always)]
    pub fn has_no_request(self) -> bool {
        let queue: Option<u64> = self.disk().and_then(|disk| probe(disk, config!(disk_queue)));
        let operations: Option<u64> = queue.and_then(|queue| probe(queue, config!(queue_mq_ops)));
        operations == Some(0)
    }

    /// Direct I/O through `iomap` (ext4, XFS, ...), whichever thread queues it: the file, its name, and the bio's first offset in it.
    #[inline(always)]
    pub fn direct(self) -> Option<(Inode, Dentry, u64)> {
        let operation: u64 = probe(self.key(), config!(bio_private))?;
        let device: u64 = probe(self.key(), config!(bio_device))?;
        if is_direct_operation(operation, device) == 0 {
            return None;
        }
        let call: u64 = probe(operation, config!(dio_iocb))?;
        let file: u64 = probe(call, config!(iocb_file))?;
        let inode = Inode::at(probe(file, config!(file_inode))?)?;
        // The call's position stays until it is complete; `size` is what was queued for it, with or without this bio (fs/iomap/direct-io.c).
        let position: u64 = probe(call, config!(iocb_position)).unwrap_or(0);
        let queued: u64 = probe(operation, config!(dio_size)).unwrap_or(0);
        let included = if config!(dio_size_is_before) == 0 {
            self.bytes()
        } else {
            0
        };
        let offset = position.wrapping_add(queued).wrapping_sub(u64::from(included));
        Some((inode, Dentry::of_file(file), offset))
    }

    #[inline(always)]
    fn disk(self) -> Option<u64> {
        let device: u64 = probe(self.key(), config!(bio_device))?;
        probe(device, config!(block_device_disk))
    }

    /// Whose memory the bio reads or writes, by its first page.
    #[inline(always)]
    pub fn pages(self) -> Pages {
        first_page(self.0 as u64).unwrap_or(Pages::Other)
    }
}

/// Whether a bio's `bi_private` is a `struct iomap_dio`; others keep something else there, but only an operation on a file leads back to the device
/// of the bio.
///
/// Exported, so that the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn is_direct_operation(operation: u64, device: u64) -> u32 {
    let back = || -> Option<u64> {
        let call: u64 = probe(operation, config!(dio_iocb))?;
        let file: u64 = probe(call, config!(iocb_file))?;
        let inode: u64 = probe(file, config!(file_inode))?;
        let superblock: u64 = probe(inode, config!(inode_sb))?;
        probe(superblock, config!(sb_bdev))
    };
    u32::from(device != 0 && back() == Some(device))
}

#[inline(always)]
fn device_of(disk: u64) -> u32 {
    let major: u32 = probe(disk, config!(disk_major)).unwrap_or(0);
    let minor: u32 = probe(disk, config!(disk_first_minor)).unwrap_or(0);
    major << 20 | minor
}

/// What `compound_head()` of include/linux/page-flags.h finds: a page after a folio's first one has bit 0 set in `head`. The rest is the first one's address,
/// or (7.2) the bits to keep of this page's address to get it: ones, with zeroes below them.
#[inline(always)]
fn folio_of(page: u64, head: u64) -> u64 {
    if head & 1 == 0 {
        return page;
    }
    let head = head - 1;
    let is_mask = !head & (!head).wrapping_add(1) == 0;
    if is_mask { page & head } else { head }
}

#[inline(always)]
fn first_page(bio: u64) -> Option<Pages> {
    let vectors: u64 = probe(bio, config!(bio_vector))?;
    if vectors == 0 {
        return None;
    }
    let index: u32 = probe(bio, config!(bio_index))?;
    // sizeof(struct bio_vec) on 64-bit machines: page, length, offset.
    let vector = vectors.wrapping_add(u64::from(index).wrapping_mul(16));
    let page: u64 = probe(vector, config!(vector_page))?;
    let folio = folio_of(page, probe(page, config!(page_head_of))?);
    let mapping: u64 = probe(folio, config!(folio_mapping))?;
    if mapping & NO_FILE != 0 {
        return Some(if mapping & NO_FILE == ANONYMOUS {
            Pages::Anonymous
        } else {
            Pages::Other
        });
    }
    if mapping == 0 {
        // A page from swap has no mapping yet, and a tmpfs page on its way there no longer has one.
        let flags: u64 = probe(folio, config!(folio_flags))?;
        let bit = config!(page_swapbacked);
        return (bit < u64::BITS && flags >> bit & 1 != 0).then_some(Pages::Swapped);
    }
    let inode = Inode::at(probe(mapping, config!(mapping_host))?)?;
    let first: u64 = probe(folio, config!(folio_index))?;
    // Pages of a folio are neighbours in the kernel's array of `struct page`, of 64 bytes each.
    let number = first.wrapping_add(page.wrapping_sub(folio) / 64);
    // Records count pages of 4 KiB, and a bio may begin at any block of a larger one.
    let more = arch::page_shift().saturating_sub(12);
    let within = if more == 0 {
        0
    } else {
        probe::<u32>(vector.wrapping_add(12), 0).unwrap_or(0) >> 12
    };
    Some(Pages::Cached(inode, (number << more).wrapping_add(u64::from(within))))
}
