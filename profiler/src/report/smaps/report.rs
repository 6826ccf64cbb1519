//! The footprint of processes: each one's, and by file and section over all. Every table adds up to the kernel's own sums.

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use super::known::Known;
use super::parse::{Amounts, Region};
use super::touchers::Touchers;
use crate::event::FileId;
use crate::report::export::Cell;

/// What is known of a region's sections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sections {
    /// It is no file's.
    NoFile,
    /// They can't be told, and why.
    Unknown(String),
    /// Its amounts by section; `None`: in no section.
    Split(Vec<(Option<String>, Amounts)>),
}

/// A process as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// The kernel's own sums.
    pub rollup: Amounts,
    /// Its regions.
    pub regions: Vec<(Region, Sections)>,
}

impl Process {
    /// The kernel's sums are those of the regions, but for the PSS, which is rounded for each.
    pub fn agrees(&self) -> bool {
        let mut sum = Amounts::default();
        self.regions.iter().for_each(|(region, _)| sum += region.amounts);
        sum.agrees(&self.rollup)
    }
}

/// Memory of processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Footprint {
    /// By the kernel's sums; of several processes RSS counts a shared page in each, PSS once.
    pub totals: Amounts,
    /// What rounding the PSS of each region down to a kB took away: the tables and this are the totals.
    pub pss_rounding_bytes: u64,
    /// Processes that changed while they were read: their rows and sums are of different moments.
    pub changed: Vec<u32>,
    /// Each process.
    pub by_process: Vec<ProcessRow>,
    /// By file.
    pub by_file: Vec<FileRow>,
    /// By process, file and section.
    pub by_section: Vec<SectionRow>,
}

/// A process's sums, as the kernel has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessRow {
    /// Its id.
    pub pid: u32,
    /// Its name.
    pub process: String,
    /// Sums.
    #[serde(flatten)]
    pub amounts: Amounts,
}

/// A file's memory over all processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileRow {
    /// Its path; `[heap]`, `[stack]`, `[anonymous]`.
    pub file: String,
    /// How many processes have it mapped.
    pub processes: u64,
    /// Sums.
    #[serde(flatten)]
    pub amounts: Amounts,
}

/// A section's memory in a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SectionRow {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub process: String,
    /// Path of the file.
    pub file: String,
    /// `major:minor`; `None`: no file.
    pub device: Option<String>,
    /// Inode; `None`: no file.
    pub inode: Option<u64>,
    /// The section; `None`: none, or not known.
    pub section: Option<String>,
    /// Why it is not known.
    pub unknown: Option<String>,
    /// Sums.
    #[serde(flatten)]
    pub amounts: Amounts,
    /// Bytes of pages that a recording saw touched; `None`: it does not know.
    pub touched_bytes: Option<u64>,
    /// Who touched them first.
    pub touched_by: Touchers,
}

impl Footprint {
    /// Of these processes, with what a recording knows.
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
        let told = by_file
            .iter()
            .fold(0_u64, |sum, row| sum.saturating_add(row.amounts.pss.unwrap_or(0)));
        let row = |process: &Process| ProcessRow {
            pid: process.pid,
            process: process.name.clone(),
            amounts: process.rollup,
        };
        Self {
            pss_rounding_bytes: totals.pss.unwrap_or(0).saturating_sub(told),
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

/// Those with the most memory of their own share come first.
pub(super) fn rank(amounts: &Amounts) -> (u64, u64) {
    (
        amounts.pss.unwrap_or(amounts.rss).saturating_add(amounts.swap),
        amounts.rss,
    )
}

/// How a region is called.
fn name(region: &Region) -> String {
    match &region.name[..] {
        [] => "[anonymous]".to_owned(),
        name => String::from_utf8_lossy(name).into_owned(),
    }
}

/// The sections of a process's files: regions of one file together.
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

/// Columns of a row a section; new ones come at the end.
pub const COLUMNS: [&str; 18] = [
    "pid",
    "process",
    "file",
    "section",
    "unknown",
    "rss_bytes",
    "pss_bytes",
    "shared_clean_bytes",
    "shared_dirty_bytes",
    "private_clean_bytes",
    "private_dirty_bytes",
    "anonymous_bytes",
    "swap_bytes",
    "hugetlb_bytes",
    "device",
    "inode",
    "touched_bytes",
    "touched_by",
];

impl SectionRow {
    /// In the order of [`COLUMNS`]; of those who touched it, the first.
    pub fn cells(&self) -> [Cell<'_>; COLUMNS.len()] {
        let amounts = &self.amounts;
        let first = self.touched_by.first().and_then(|toucher| toucher.function);
        [
            Cell::Number(u64::from(self.pid)),
            Cell::text(Some(&self.process)),
            Cell::text(Some(&self.file)),
            Cell::text(self.section.as_deref()),
            Cell::text(self.unknown.as_deref()),
            Cell::Number(amounts.rss),
            Cell::number(amounts.pss),
            Cell::Number(amounts.shared_clean),
            Cell::Number(amounts.shared_dirty),
            Cell::Number(amounts.private_clean),
            Cell::Number(amounts.private_dirty),
            Cell::Number(amounts.anonymous),
            Cell::Number(amounts.swap),
            Cell::Number(amounts.hugetlb),
            Cell::text(self.device.as_deref()),
            Cell::number(self.inode),
            Cell::number(self.touched_bytes),
            Cell::text(first),
        ]
    }
}
