//! Reads the memory of processes: `smaps`, `smaps_rollup`, the page table and, with the permission,
//! how many processes map each page.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;

use anyhow::{Context, Result, bail};
use rustc_hash::FxHashMap;
use symbols::elf::ElfFile;

use crate::addr::{Avma, FileOffset};
use crate::capture::files::open;
use crate::capture::privilege::rights::Rights;
use crate::capture::proc::page_cache::page_size;
use crate::capture::proc::procfs;
use crate::event::{At, FileId, Mapping};
use crate::fact::fault::FileSection;
use crate::record::places::section;
use crate::report::smaps::pages::{Frame, Pages, split};
use crate::report::smaps::parse::{regions, rollup};
use crate::report::smaps::report::{Process, Sections};
use crate::report::smaps::{Amounts, Region};
use crate::report::text::escaped;

/// Maximum bytes of `smaps`: the kernel writes 800 for each region.
const MAX_TEXT: u64 = 1 << 30;
/// Maximum pages of a region to read one by one.
const MAX_PAGES: u64 = 1 << 20;
/// `KPF_DIRTY` of `include/uapi/linux/kernel-page-flags.h`.
const DIRTY: u64 = 1 << 4;
/// Maximum processes of a tree.
const MAX_PROCESSES: usize = 1 << 16;
/// How often to read a process that changes meanwhile.
const ATTEMPTS: u32 = 5;

/// Reads a process and its descendants. Descendants that end meanwhile are left out.
///
/// # Errors
/// The process does not exist, or permission is denied.
pub fn read(pid: u32, tree: bool) -> Result<Vec<Process>> {
    let mut reader = Reader {
        counts: File::open("/proc/kpagecount").ok(),
        flags: File::open("/proc/kpageflags").ok(),
        files: FxHashMap::default(),
    };
    let mut processes = vec![reader.process(pid)?];
    if tree {
        let children =
            procfs::descendants(&[pid], MAX_PROCESSES).context("cannot list the processes; is /proc mounted?")?;
        processes.extend(children.into_iter().filter_map(|child| reader.process(child).ok()));
    }
    Ok(processes)
}

/// Sections of a file, or the reason for none.
type FileSections = std::result::Result<Vec<FileSection>, String>;

struct Reader {
    /// How many processes map each page frame; root only.
    counts: Option<File>,
    /// The flags of each page frame; root only.
    flags: Option<File>,
    files: FxHashMap<FileId, FileSections>,
}

impl Reader {
    /// Reads the regions until they add up to the kernel's sums, if they ever do.
    fn process(&mut self, pid: u32) -> Result<Process> {
        let name = procfs::stat(pid, pid).map(|stat| escaped(&stat.name));
        let name = name
            .ok()
            .with_context(|| format!("no such process: {pid}; `pgrep -a NAME` lists running processes"))?;
        let mut left = ATTEMPTS;
        loop {
            let text = text(pid, "smaps")?;
            let regions = regions(&text).with_context(|| format!("/proc/{pid}/smaps"))?;
            if regions.is_empty() {
                bail!("{pid} has no memory: it is a kernel thread, or has ended");
            }
            let pages = File::open(format!("/proc/{pid}/pagemap"));
            let mut described = Vec::with_capacity(regions.len());
            for region in regions {
                let sections = self.sections(pid, &region, pages.as_ref());
                described.push((region, sections));
            }
            let rollup =
                rollup(&self::text(pid, "smaps_rollup")?).with_context(|| format!("/proc/{pid}/smaps_rollup"))?;
            let process = Process {
                pid,
                name: name.clone(),
                rollup,
                regions: described,
            };
            left -= 1;
            if left == 0 || process.agrees() {
                return Ok(process);
            }
        }
    }

    fn sections(&mut self, pid: u32, region: &Region, pages: std::result::Result<&File, &io::Error>) -> Sections {
        if region.file.inode == 0 {
            return Sections::NoFile;
        }
        if region.amounts == Amounts::default() {
            return Sections::Split(Vec::new());
        }
        let unknown = |why: &str| Sections::Unknown(why.to_owned());
        let known = self
            .files
            .entry(region.file)
            .or_insert_with(|| sections_of(pid, region));
        let sections = match known {
            // A file that is not a program has one section.
            Ok(sections) if sections.is_empty() => return Sections::Split(vec![(None, region.amounts)]),
            Ok(sections) => sections,
            Err(why) => return unknown(why),
        };
        let words = match pages.map(|pages| words(pages, region)) {
            Ok(Ok(words)) => words,
            Ok(Err(error)) => return unknown(&format!("cannot read the page table: {error}")),
            Err(error) => {
                return unknown(&format!(
                    "cannot read the page table: {error}; run ngmi as its user or as root"
                ));
            }
        };
        let pages = Pages {
            words: &words,
            size: page_size(),
        };
        let (counts, flags) = (self.counts.as_ref(), self.flags.as_ref());
        let mut look = |frame| Frame {
            mapped: counts.and_then(|counts| word(counts, frame)),
            dirty: flags
                .and_then(|flags| word(flags, frame))
                .map(|flags| flags & DIRTY != 0),
        };
        let parts = match split(region, pages, sections, &mut look) {
            Ok(parts) => parts,
            Err(why) => return unknown(&why.to_string()),
        };
        let named = |(index, amounts): (Option<usize>, Amounts)| {
            let section = index.and_then(|index| sections.get(index));
            (section.map(|section| section.name.clone()), amounts)
        };
        Sections::Split(parts.into_iter().map(named).collect())
    }
}

fn text(pid: u32, name: &str) -> Result<Vec<u8>> {
    let path = format!("/proc/{pid}/{name}");
    let mut text = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(MAX_TEXT).read_to_end(&mut text));
    match read.map_err(|error| (error.raw_os_error(), error)) {
        Ok(_) => Ok(text),
        Err((Some(libc::EACCES | libc::EPERM), _)) if nix::unistd::Uid::effective().is_root() => {
            bail!("permission denied for process {pid}, even for root: run ngmi outside the container")
        }
        Err((Some(libc::EACCES | libc::EPERM), _)) => {
            bail!("permission denied for process {pid}: try `sudo ngmi smaps {pid}`")
        }
        Err((Some(libc::ESRCH | libc::ENOENT), _)) => {
            bail!("{pid} has no memory: it is a kernel thread, or has ended")
        }
        Err((_, error)) => Err(error).with_context(|| format!("cannot read {path}")),
    }
}

/// The value of a page frame in a kernel file; frame 0 means that it is not visible to us.
fn word(file: &File, frame: u64) -> Option<u64> {
    let mut word = [0; 8];
    let at = frame.checked_mul(8).filter(|at| *at > 0)?;
    file.read_exact_at(&mut word, at).ok()?;
    Some(u64::from_ne_bytes(word))
}

/// The part of the page table for a region.
fn words(pages: &File, region: &Region) -> io::Result<Vec<u64>> {
    let page = page_size();
    let len = (region.end - region.start) / page;
    if len > MAX_PAGES {
        return Err(io::Error::other("it has more than a million pages"));
    }
    let mut bytes = vec![0; usize::try_from(len * 8).map_err(io::Error::other)?];
    pages.read_exact_at(&mut bytes, region.start / page * 8)?;
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
    Ok(bytes.chunks_exact(8).map(word).collect())
}

/// Opened by its mapping, so that a replaced or deleted file is the mapped one.
fn sections_of(pid: u32, region: &Region) -> FileSections {
    let mapping = Mapping {
        at: At { pid, ..At::default() },
        start: Avma(region.start),
        len: region.end - region.start,
        offset: FileOffset(region.offset),
        file: region.file,
        path: region.name.clone(),
        ..Mapping::default()
    };
    let own = Rights::own().map_err(|error| error.to_string())?;
    let (named, file) = open::mapped(&mapping, &own);
    let file = file.ok_or_else(|| named.problem.unwrap_or_default())?;
    // A file that is not ELF is known to have no sections.
    let elf = ElfFile::open(file.into());
    Ok(elf.map_or(Vec::new(), |elf| {
        elf.section_places().into_iter().map(section).collect()
    }))
}
