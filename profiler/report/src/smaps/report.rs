//! Memory footprint by process, file and section. Every table adds up to the kernel's own sums.

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use super::known::Known;
use super::parse::{Amounts, Region};
use super::touchers::Touchers;
use crate::export::columns;
use base::event::FileId;

/// Section data of a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sections {
    /// The region maps no file.
    NoFile,
    /// The sections are unknown, for this reason.
    Unknown(String),
    /// Amounts by section; `None`: outside of sections.
    Split(Vec<(Option<String>, Amounts)>),
}

/// Memory of a process as read from the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Process ID.
    pub pid: u32,
    /// Process name.
    pub name: String,
    /// The kernel's own sums.
    pub rollup: Amounts,
    /// Regions with their sections.
    pub regions: Vec<(Region, Sections)>,
}

impl Process {
    /// Whether the regions add up to the kernel's sums, except for the PSS, which is rounded per region.
    pub fn agrees(&self) -> bool {
        let mut sum = Amounts::default();
        self.regions.iter().for_each(|(region, _)| sum += region.amounts);
        sum.agrees(&self.rollup)
    }
}

/// Memory footprint of processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Footprint {
    /// The kernel's sums over all processes. RSS counts a shared page once per process, PSS once in total.
    pub totals: Amounts,
    /// PSS lost by rounding each region down to a kB. The tables plus this are the totals.
    pub pss_rounding_bytes: u64,
    /// Processes that changed while they were read: their rows and sums are from different moments.
    pub changed: Vec<u32>,
    /// Rows by process.
    pub by_process: Vec<ProcessRow>,
    /// Rows by file.
    pub by_file: Vec<FileRow>,
    /// Rows by process, file and section.
    pub by_section: Vec<SectionRow>,
}

/// The kernel's sums of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessRow {
    /// Process ID.
    pub pid: u32,
    /// Process name.
    pub process: String,
    /// Amounts of memory.
    #[serde(flatten)]
    pub amounts: Amounts,
}

/// A file's memory over all processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileRow {
    /// Path, or a pseudo name: `[heap]`, `[stack]`, `[anonymous]`.
    pub file: String,
    /// Number of processes that map the file.
    pub processes: u64,
    /// Amounts of memory.
    #[serde(flatten)]
    pub amounts: Amounts,
}

/// A section's memory in a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SectionRow {
    /// Process ID.
    pub pid: u32,
    /// Process name.
    pub process: String,
    /// Path of the file, or a pseudo name.
    pub file: String,
    /// `major:minor` of the file's device; `None`: no file.
    pub device: Option<String>,
    /// Inode number; `None`: no file.
    pub inode: Option<u64>,
    /// Section name; `None`: outside of sections, or unknown.
    pub section: Option<String>,
    /// Why the section is unknown.
    pub unknown: Option<String>,
    /// Amounts of memory.
    #[serde(flatten)]
    pub amounts: Amounts,
    /// Bytes of pages that the process touched in a recording; `None` if unknown.
    pub touched_bytes: Option<u64>,
    /// Functions that touched the pages first.
    pub touched_by: Touchers,
}

impl Footprint {
    /// Footprint of these processes, with the touches of a recording.
    pub fn new(processes: &[Process], known: Option<&Known>) -> Self {
        let mut totals = Amounts::default();
        let mut files: FxHashMap<String, (Amounts, FxHashSet<u32>)> = FxHashMap::default();
        let mut by_section = Vec::new();
        for process in processes {
            totals += process.rollup;
            for (region, _) in &process.regions {
                let (amounts, of) = files.entry(name(region)).or_default();
                *amounts += region.amounts;
                of.insert(process.pid);
            }
            by_section.extend(sections(process, known));
        }
        let mut by_file: Vec<FileRow> = (files.into_iter())
            .map(|(file, (amounts, of))| FileRow {
                file,
                processes: of.len() as u64,
                amounts,
            })
            .collect();
        by_file.sort_by(|a, b| (rank(&b.amounts), &a.file).cmp(&(rank(&a.amounts), &b.file)));
        by_section.sort_by(|a: &SectionRow, b: &SectionRow| {
            let key = |row: &SectionRow| (row.file.clone(), row.section.clone(), row.pid);
            rank(&b.amounts)
                .cmp(&rank(&a.amounts))
                .then_with(|| key(a).cmp(&key(b)))
        });
        let listed = by_file
            .iter()
            .fold(0_u64, |sum, row| sum.saturating_add(row.amounts.pss.unwrap_or(0)));
        let row = |process: &Process| ProcessRow {
            pid: process.pid,
            process: process.name.clone(),
            amounts: process.rollup,
        };
        Self {
            pss_rounding_bytes: totals.pss.unwrap_or(0).saturating_sub(listed),
            totals,
            changed: (processes.iter())
                .filter(|process| !process.agrees())
                .map(|process| process.pid)
                .collect(),
            by_process: processes.iter().map(row).collect(),
            by_file,
            by_section,
        }
    }
}

/// Sort key: the process's own share of memory, then RSS.
pub(super) fn rank(amounts: &Amounts) -> (u64, u64) {
    (
        amounts.pss.unwrap_or(amounts.rss).saturating_add(amounts.swap),
        amounts.rss,
    )
}

/// Display name of a region.
fn name(region: &Region) -> String {
    match &region.name[..] {
        [] => "[anonymous]".to_owned(),
        name => String::from_utf8_lossy(name).into_owned(),
    }
}

/// Rows of a process by section; regions of the same file are merged.
fn sections(process: &Process, known: Option<&Known>) -> Vec<SectionRow> {
    let mut sums: FxHashMap<(String, FileId, Option<String>, Option<String>), Amounts> = FxHashMap::default();
    for (region, sections) in &process.regions {
        let mut add = |section: Option<String>, unknown: Option<&str>, amounts| {
            let key = (name(region), region.file, section, unknown.map(str::to_owned));
            *sums.entry(key).or_default() += amounts;
        };
        match sections {
            Sections::NoFile => add(None, None, region.amounts),
            Sections::Unknown(why) => add(None, Some(why), region.amounts),
            Sections::Split(parts) => parts
                .iter()
                .for_each(|(section, amounts)| add(section.clone(), None, *amounts)),
        }
    }
    let row = |((file, id, section, unknown), amounts): ((String, FileId, Option<String>, Option<String>), Amounts)| {
        let touched = known.and_then(|known| known.of(process.pid, id, &file, section.as_deref()));
        let touched = touched.filter(|_| id.inode != 0);
        SectionRow {
            pid: process.pid,
            process: process.name.clone(),
            device: (id.inode != 0).then(|| format!("{}:{}", id.major, id.minor)),
            inode: (id.inode != 0).then_some(id.inode),
            touched_bytes: touched.as_ref().map(|known| known.touched_bytes),
            touched_by: touched.map(|known| known.functions).unwrap_or_default(),
            file,
            section,
            unknown,
            amounts,
        }
    };
    sums.into_iter().map(row).collect()
}

columns! {
    /// The cells of a section, in the order of [`COLUMNS`]; only the first toucher is included.
    pub fn cells<'r>(row: &'r SectionRow);
    "pid": Number = row.pid;
    "process": Text = row.process.as_str();
    "file": Text = row.file.as_str();
    "section": Text = row.section.as_deref();
    "unknown": Text = row.unknown.as_deref();
    "rss_bytes": Number = row.amounts.rss;
    "pss_bytes": Number = row.amounts.pss;
    "shared_clean_bytes": Number = row.amounts.shared_clean;
    "shared_dirty_bytes": Number = row.amounts.shared_dirty;
    "private_clean_bytes": Number = row.amounts.private_clean;
    "private_dirty_bytes": Number = row.amounts.private_dirty;
    "anonymous_bytes": Number = row.amounts.anonymous;
    "swap_bytes": Number = row.amounts.swap;
    "hugetlb_bytes": Number = row.amounts.hugetlb;
    "device": Text = row.device.as_deref();
    "inode": Id = row.inode;
    "touched_bytes": Number = row.touched_bytes;
    "touched_by": Text = row.touched_by.first().and_then(|toucher| toucher.function);
}
