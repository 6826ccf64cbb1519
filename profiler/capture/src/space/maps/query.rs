//! Mappings from the ioctl `PROCMAP_QUERY` (`fs/proc/task_mmu.c`, `do_procmap_query`): binary, with build ids and
//! unescaped names.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

use super::{AddressSpace, BuildIds, NAME_LIMIT, Way, Which, flags};
use base::addr::{Avma, FileOffset};
use base::event::{At, FileId, Mapping};

/// The longest build id that the kernel reads (`BUILD_ID_SIZE_MAX`).
const BUILD_ID_LIMIT: usize = 20;

/// `struct procmap_query` of include/uapi/linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct ProcmapQuery {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

const PROCMAP_QUERY_SIZE: u64 = size_of::<ProcmapQuery>() as u64;
const _: () = assert!(PROCMAP_QUERY_SIZE == 104);
/// `_IOWR('f', 17, struct procmap_query)`
const PROCMAP_QUERY: libc::c_ulong = 0xc068_6611;
/// `PROCMAP_QUERY_VMA_EXECUTABLE` and `_SHARED`: filters in a query, and flags in the answer's `vma_flags`.
const EXECUTABLE: u64 = 4;
const SHARED: u64 = 8;
/// `PROCMAP_QUERY_COVERING_OR_NEXT_VMA`
const COVERING_OR_NEXT: u64 = 0x10;

/// Whether the kernel knows the ioctl.
pub fn answers(file: &File) -> bool {
    let mut query = ProcmapQuery {
        size: PROCMAP_QUERY_SIZE,
        query_flags: COVERING_OR_NEXT,
        ..ProcmapQuery::default()
    };
    // SAFETY: the kernel writes only into the struct, whose size it is given; the struct names no buffers.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), PROCMAP_QUERY, &raw mut query) };
    result == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ENOTTY)
}

/// Queries one mapping at a time.
pub struct Query {
    file: File,
    wants_build_ids: bool,
    /// Where the kernel writes names.
    name: Box<[u8; NAME_LIMIT]>,
}

impl Query {
    /// Queries an open `/proc/PID/maps`.
    pub fn new(file: File, build_ids: BuildIds<'_>) -> Self {
        Self {
            file,
            wants_build_ids: !matches!(build_ids, BuildIds::Unwanted),
            name: Box::new([0; NAME_LIMIT]),
        }
    }

    /// The mapping that covers an address, or with [`COVERING_OR_NEXT`] the next one that matches the other flags.
    fn ask(&mut self, address: u64, query_flags: u64) -> io::Result<Option<Mapping>> {
        match self.ask_with_name(address, query_flags, NAME_LIMIT) {
            // A name longer than any path that can be opened.
            Err(error) if error.raw_os_error() == Some(libc::ENAMETOOLONG) => {
                self.ask_with_name(address, query_flags, 0)
            }
            answer => answer,
        }
    }

    fn ask_with_name(&mut self, address: u64, query_flags: u64, room: usize) -> io::Result<Option<Mapping>> {
        let mut build_id = [0_u8; BUILD_ID_LIMIT];
        let build_id_room = if self.wants_build_ids { BUILD_ID_LIMIT } else { 0 };
        let mut query = ProcmapQuery {
            size: PROCMAP_QUERY_SIZE,
            query_flags,
            query_addr: address,
            vma_name_size: u32::try_from(room.min(NAME_LIMIT)).unwrap_or(0),
            vma_name_addr: if room > 0 { self.name.as_mut_ptr() as u64 } else { 0 },
            build_id_size: u32::try_from(build_id_room).unwrap_or(0),
            build_id_addr: if build_id_room > 0 {
                build_id.as_mut_ptr() as u64
            } else {
                0
            },
            ..ProcmapQuery::default()
        };
        // SAFETY: the buffers named in the struct live through the call and are at least as long as it says.
        if unsafe { libc::ioctl(self.file.as_raw_fd(), PROCMAP_QUERY, &raw mut query) } != 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::ENOENT) => Ok(None),
                _ => Err(error),
            };
        }
        let name = self
            .name
            .get(..(query.vma_name_size as usize).saturating_sub(1))
            .unwrap_or_default();
        Ok(Some(Mapping {
            at: At::default(),
            start: Avma(query.vma_start),
            len: query.vma_end.saturating_sub(query.vma_start),
            offset: FileOffset(query.vma_offset),
            file: FileId {
                major: query.dev_major,
                minor: query.dev_minor,
                inode: query.inode,
                generation: 0,
            },
            protection: (query.vma_flags & 7) as u32,
            flags: flags(query.vma_flags & SHARED != 0),
            path: name.to_vec(),
            build_id: build_id
                .get(..query.build_id_size as usize)
                .unwrap_or_default()
                .to_vec(),
        }))
    }
}

impl AddressSpace for Query {
    fn way(&self) -> Way {
        Way::Query
    }

    fn visit(&mut self, which: Which, take: &mut dyn FnMut(Mapping)) -> io::Result<()> {
        let wanted = match which {
            Which::All => 0,
            Which::Executable => EXECUTABLE,
        };
        let mut from = 0;
        while let Some(mapping) = self.ask(from, COVERING_OR_NEXT | wanted)? {
            let end = mapping.start.0.saturating_add(mapping.len);
            if end <= from {
                break; // never seen: the query is for what covers or follows
            }
            from = end;
            take(mapping);
        }
        Ok(())
    }

    fn covering(&mut self, addresses: &[Avma]) -> io::Result<Vec<Option<Mapping>>> {
        addresses.iter().map(|address| self.ask(address.0, 0)).collect()
    }
}
