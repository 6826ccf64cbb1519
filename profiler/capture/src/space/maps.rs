//! The address space of a running process: what is mapped where, and which byte of which file an address shows.
//!
//! One interface, [`AddressSpace`], with two implementations: the ioctl `PROCMAP_QUERY` (`query`, Linux 6.11 and
//! later), which answers a single question without a walk over all mappings and reports build ids, and the text of
//! `/proc/PID/maps` (`text`) for older kernels. Both give the same answers; docs/measurements.md lists their costs.
//!
//! Nothing here parses a file of the process. With the text, a build id needs the file itself, so [`BuildIds::Read`]
//! takes a reader, and only unprivileged subcommands pass one in.

mod query;
pub mod text;

use std::fs::File;
use std::io;
use std::sync::OnceLock;

use base::addr::{Avma, FileOffset};
use base::event::{At, Mapping, PROT_EXEC};

/// Mappings of one process, at most: far above `vm.max_map_count` (65,530), which an administrator may raise.
const MAPPINGS_LIMIT: usize = 1 << 20;
/// `PATH_MAX`: both ways leave out a longer name.
const NAME_LIMIT: usize = 4096;

/// How mappings are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The ioctl `PROCMAP_QUERY`.
    Query,
    /// The text of `/proc/PID/maps`.
    Text,
}

/// Which mappings are requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Every one.
    All,
    /// Executable ones.
    Executable,
}

/// Reads the build id of the file of a mapping, whose [`At`] has its process; empty if there is none.
pub type BuildIdReader = dyn Fn(&Mapping) -> Vec<u8>;

/// Where build ids come from.
#[derive(Clone, Copy)]
pub enum BuildIds<'r> {
    /// Nowhere: they stay empty.
    Unwanted,
    /// The kernel, which only [`Way::Query`] can ask.
    OfKernel,
    /// The kernel, or with [`Way::Text`] this reader, called once per file.
    Read(&'r BuildIdReader),
}

/// The mappings of one process; each answer is as of its request. The [`At`] of a mapping keeps its default.
pub trait AddressSpace {
    /// The way in use.
    fn way(&self) -> Way;

    /// Passes mappings to the callback, addresses ascending.
    ///
    /// # Errors
    /// `ESRCH`: the process ended, before the first mapping or later. Otherwise the kernel's refusal.
    fn visit(&mut self, which: Which, take: &mut dyn FnMut(Mapping)) -> io::Result<()>;

    /// The mapping that covers each address, in the order of the addresses.
    ///
    /// # Errors
    /// As for [`AddressSpace::visit`].
    fn covering(&mut self, addresses: &[Avma]) -> io::Result<Vec<Option<Mapping>>>;

    /// The mappings of [`AddressSpace::visit`] as a list.
    ///
    /// # Errors
    /// As for [`AddressSpace::visit`]; also when there are more than a million mappings.
    fn mappings(&mut self, which: Which) -> io::Result<Vec<Mapping>> {
        let mut mappings = Vec::new();
        let mut too_many = false;
        self.visit(which, &mut |mapping| {
            if mappings.len() < MAPPINGS_LIMIT {
                mappings.push(mapping);
            } else {
                too_many = true;
            }
        })?;
        if too_many {
            return Err(io::Error::other("more than a million mappings"));
        }
        Ok(mappings)
    }
}

/// Opens the address space of a process, or of the process of a thread; through the ioctl if the kernel has it,
/// unless a way is given.
///
/// # Errors
/// `ENOENT` or `ESRCH`: no such process, or one without memory. `EACCES`: not permitted. `ENOTTY`: the kernel does
/// not have the ioctl.
pub fn open(pid: u32, way: Option<Way>, build_ids: BuildIds<'_>) -> io::Result<Box<dyn AddressSpace + '_>> {
    let has_query = has_query();
    let way = way.unwrap_or(if has_query { Way::Query } else { Way::Text });
    let file = File::open(format!("/proc/{pid}/maps"))?;
    match way {
        Way::Query if !has_query => Err(io::Error::from_raw_os_error(libc::ENOTTY)),
        Way::Query => Ok(Box::new(query::Query::new(file, build_ids))),
        Way::Text => Ok(Box::new(text::Text::new(pid, file, build_ids))),
    }
}

/// The file offset of the byte that a mapping shows at an address. `None`: it shows no file, or does not cover the
/// address. With the file's segments the offset gives the svma.
pub fn file_offset(mapping: &Mapping, address: Avma) -> Option<FileOffset> {
    let inside = address.0.checked_sub(mapping.start.0).filter(|&at| at < mapping.len)?;
    (mapping.file.inode != 0).then_some(FileOffset(mapping.offset.0.checked_add(inside)?))
}

/// Reads every current mapping of a process, through the ioctl if the kernel has it. The mappings get `at`. If the
/// process ends meanwhile, what was read is kept.
pub fn read(at: At) -> io::Result<Vec<Mapping>> {
    let mut space = open(at.pid, None, BuildIds::OfKernel)?;
    let mut mappings = Vec::new();
    let ended = space.visit(Which::All, &mut |mapping| {
        if mappings.len() < MAPPINGS_LIMIT {
            mappings.push(Mapping { at, ..mapping });
        }
    });
    match ended {
        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => Err(error),
        _ => Ok(mappings),
    }
}

/// The mapping that covers an address now.
pub fn at(at: At, address: u64) -> io::Result<Option<Mapping>> {
    let mut found = open(at.pid, None, BuildIds::OfKernel)?.covering(&[Avma(address)])?;
    Ok(found.pop().flatten().map(|mapping| Mapping { at, ..mapping }))
}

/// Whether the kernel has `PROCMAP_QUERY` (6.11 and later), tried on our own mappings.
pub fn kernel_has_query() -> io::Result<bool> {
    Ok(query::answers(&File::open("/proc/self/maps")?))
}

/// [`kernel_has_query`], with the answer cached.
fn has_query() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| kernel_has_query().unwrap_or(false))
}

fn is_wanted(mapping: &Mapping, which: Which) -> bool {
    which == Which::All || mapping.protection & PROT_EXEC != 0
}

fn flags(shared: bool) -> u32 {
    if shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE }.unsigned_abs()
}

#[cfg(test)]
mod tests;
