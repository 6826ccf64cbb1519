//! The tables of `ngmi faults`: the selected faults by file, section, function, class, process, thread and phase. The rows of each table add
//! up to the totals.

use serde::Serialize;

use super::account::{AccountTotal, ThreadAccount, accounts, total};
use super::pages::{self, CopiesRow, PagesRow};
use super::phase::Phase;
use super::select::Selector;
use super::spots::{self, SpotRow};
use super::tally::{Folded, Groups, Tally, TimeParts};
use super::view::{View, path_of};
use crate::export::{hex, ns};
use crate::findings::{Finding, find};
use crate::functions::FunctionId;
use fact::fault::{FaultClass, MappedFileId};
use fact::{FaultFact, ProcessId, Recording, StackId, ThreadId, upwards};

/// All tables of `ngmi faults`; `--json` prints this.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FaultReport {
    /// Facts about the recording.
    pub recording: Recording,
    /// Faults in the input, selected or not.
    pub faults_in_file: u64,
    /// Sums over the selected faults.
    pub totals: Tally,
    /// How their time divides.
    pub time: TimeParts,
    /// What to look at first, for the whole recording; empty if only some of the faults are selected.
    pub findings: Vec<Finding>,
    /// By file; `None` collects memory of no file.
    pub by_file: Vec<FileRow>,
    /// By section of each file.
    pub by_section: Vec<SectionRow>,
    /// By function.
    pub by_function: Vec<FunctionRow>,
    /// By class.
    pub by_class: Vec<ClassRow>,
    /// By process.
    pub by_process: Vec<ProcessRow>,
    /// By thread.
    pub by_thread: Vec<ThreadRow>,
    /// By phase of the process.
    pub by_phase: Vec<PhaseRow>,
    /// The phases of the command's process, with the times at which it entered them.
    pub phases: Vec<PhaseStart>,
    /// Faults in mappings in which the kernel had stopped reading around faults, by file.
    pub read_around_off: Vec<FileRow>,
    /// The fate of the pages of the selected faults' files, in the whole recording.
    pub pages: Vec<PagesRow>,
    /// The cost of copying these pages, by relocations, other writes and `.bss`, in the whole recording.
    pub copies: Vec<CopiesRow>,
    /// `copies` covers all of `.bss`; otherwise only the part in the file's own pages, because a profile keeps no mappings.
    pub bss_is_whole: bool,
    /// Functions that faulted where the kernel had stopped reading around faults, by file, in the whole recording.
    pub read_around_spots: Vec<SpotRow>,
    /// Faults that the profile only has as aggregates; no table includes them.
    pub folded: Folded,
    /// The account of each thread that ended, selected or not.
    pub accounts: Vec<ThreadAccount>,
    /// The sum of all accounts.
    pub account: AccountTotal,
}

/// Faults of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileRow {
    /// Path as the process saw it; `None` for memory of no file.
    pub file: Option<String>,
    /// `major:minor`
    pub device: Option<String>,
    /// Inode number.
    pub inode: Option<u64>,
    /// Build id in hexadecimal digits.
    pub build_id: Option<String>,
    /// The sums of the row.
    #[serde(flatten)]
    pub tally: Tally,
    /// Index in the tables.
    #[serde(skip)]
    pub id: Option<MappedFileId>,
}

/// Faults of a section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SectionRow {
    /// Path of its file; `None` for memory of no file.
    pub file: Option<String>,
    /// Its name; `None` if the byte is in no section, or if the sections are unknown.
    pub section: Option<String>,
    /// The sums of the row.
    #[serde(flatten)]
    pub tally: Tally,
    /// Index of its file in the tables.
    #[serde(skip)]
    pub id: Option<MappedFileId>,
}

/// Faults of a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FunctionRow {
    /// Its name; `None` for faults without a function of the program on the stack.
    pub function: Option<String>,
    /// The module that contains it.
    pub module: Option<String>,
    /// Sums over its own faults, without those of its callees.
    #[serde(flatten)]
    pub tally: Tally,
    /// Its own faults and those of its callees.
    pub inclusive_faults: u64,
    /// Their time, in ns.
    pub inclusive_time_ns: u64,
}

/// Faults of a class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClassRow {
    /// The class.
    pub class: FaultClass,
    /// The sums of the row.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Faults of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessRow {
    /// Its id.
    pub pid: u32,
    /// Its name.
    pub process: String,
    /// The sums of the row.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Faults of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadRow {
    /// Id of its process.
    pub pid: u32,
    /// Its id.
    pub tid: u32,
    /// Name of its process.
    pub process: String,
    /// Its name.
    pub thread: String,
    /// The sums of the row.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Faults of a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PhaseRow {
    /// The phase; `None` if unknown.
    pub phase: Option<Phase>,
    /// The sums of the row.
    #[serde(flatten)]
    pub tally: Tally,
}

/// The time at which a process entered a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PhaseStart {
    /// Time since the recording's start, in ns.
    pub time_ns: u64,
    /// The phase.
    pub phase: Phase,
}

/// All sums while faults are added.
#[derive(Default)]
struct Sums<'a> {
    totals: Tally,
    time: TimeParts,
    files: Groups<Option<MappedFileId>>,
    read_around_off: Groups<Option<MappedFileId>>,
    sections: Groups<(Option<MappedFileId>, Option<&'a str>)>,
    functions: Groups<Option<FunctionId>>,
    stacks: Groups<StackId>,
    classes: Groups<FaultClass>,
    processes: Groups<Option<ProcessId>>,
    threads: Groups<ThreadId>,
    phases: Groups<Option<Phase>>,
}

impl<'a> Sums<'a> {
    fn add(&mut self, view: &View<'a>, fault: &FaultFact) {
        self.totals.add(fault);
        self.time.add(fault);
        let file = fault.place.map(|place| place.file);
        self.files.of(file).add(fault);
        if fault.read_around_off {
            self.read_around_off.of(file).add(fault);
        }
        self.sections.of((file, view.section(fault))).add(fault);
        self.functions.of(view.function(fault)).add(fault);
        if let Some(stack) = fault.stack {
            self.stacks.of(stack).add(fault);
        }
        self.classes.of(fault.class).add(fault);
        self.processes
            .of(view.thread(fault).map(|thread| thread.process))
            .add(fault);
        self.threads.of(fault.thread).add(fault);
        self.phases.of(view.phase(fault)).add(fault);
    }
}

impl FaultReport {
    /// Builds the tables of the selected faults.
    pub fn new(view: &View<'_>, selector: &Selector) -> Self {
        let mut sums = Sums::default();
        for fault in view.faults().filter(|fault| selector.takes(view, fault)) {
            sums.add(view, &fault);
        }
        let tables = view.tables;
        let accounts = accounts(tables);
        let files = |groups: Groups<_>| -> Vec<FileRow> {
            groups.sorted().into_iter().map(|group| file_row(view, group)).collect()
        };
        let is_all = sums.totals.faults == view.len() as u64;
        let (by_file, read_around_off) = (files(sums.files), files(sums.read_around_off));
        Self {
            copies: pages::copies(view, view.dirtied(), &by_file),
            bss_is_whole: view.knows_bss(),
            read_around_spots: spots::rows(view, &read_around_off),
            folded: Folded::of(&tables.recording),
            pages: pages::rows(view, view.pages(), &by_file),
            recording: tables.recording.clone(),
            faults_in_file: view.len() as u64,
            totals: sums.totals,
            time: sums.time,
            findings: if is_all {
                let mut inputs = view.inputs();
                // In a profile that aggregates some faults, the pages of these faults look untouched.
                if !tables.recording.folded_faults.is_empty() {
                    inputs.wasted.clear();
                }
                find(tables, &inputs)
            } else {
                Vec::new()
            },
            by_file,
            read_around_off,
            by_section: sections(view, sums.sections),
            by_function: functions(view, sums.functions, sums.stacks),
            by_class: (sums.classes.sorted().into_iter())
                .map(|(class, tally)| ClassRow { class, tally })
                .collect(),
            by_process: processes(view, sums.processes),
            by_thread: threads(view, sums.threads),
            by_phase: (sums.phases.sorted().into_iter())
                .map(|(phase, tally)| PhaseRow { phase, tally })
                .collect(),
            phases: phases(view),
            account: total(&accounts),
            accounts,
        }
    }
}

fn path(view: &View<'_>, id: Option<MappedFileId>) -> Option<String> {
    id.map(|id| {
        view.tables
            .files
            .get(id.index())
            .map_or_else(|| "[unknown]".to_owned(), path_of)
    })
}

fn file_row(view: &View<'_>, (id, tally): (Option<MappedFileId>, Tally)) -> FileRow {
    let file = id.and_then(|id| view.tables.files.get(id.index()));
    FileRow {
        file: path(view, id),
        device: file.map(|file| format!("{}:{}", file.id.major, file.id.minor)),
        inode: file.map(|file| file.id.inode),
        build_id: file.map(|file| hex(&file.build_id)).filter(|id| !id.is_empty()),
        tally,
        id,
    }
}

fn sections(view: &View<'_>, groups: Groups<(Option<MappedFileId>, Option<&str>)>) -> Vec<SectionRow> {
    let row = |((id, section), tally): ((_, Option<&str>), _)| SectionRow {
        file: path(view, id),
        section: section.map(str::to_owned),
        tally,
        id,
    };
    groups.sorted().into_iter().map(row).collect()
}

/// The rows of functions: their own faults, and inclusive ones. A fault counts once even if the function is on the stack several times.
fn functions(view: &View<'_>, own: Groups<Option<FunctionId>>, stacks: Groups<StackId>) -> Vec<FunctionRow> {
    let mut inclusive = vec![(0_u64, 0_u64); view.functions.all.len()];
    let mut last_seen = vec![None; inclusive.len()];
    for (stack, tally) in stacks.sorted() {
        for frame in upwards(view.tables, stack) {
            for id in view.functions.of_frame(frame).iter().map(|id| id.0 as usize) {
                if let (Some(sum), Some(seen)) = (inclusive.get_mut(id), last_seen.get_mut(id))
                    && *seen != Some(stack)
                {
                    *seen = Some(stack);
                    *sum = (sum.0 + tally.faults, sum.1.saturating_add(tally.time_ns));
                }
            }
        }
    }
    let mut rows = Vec::new();
    let mut row = |id: Option<FunctionId>, tally: Tally, (inclusive_faults, inclusive_time_ns)| {
        let function = id.and_then(|id| view.functions.get(id));
        rows.push(FunctionRow {
            function: function.map(|function| function.name.clone()),
            module: function.and_then(|function| Some(view.tables.module_name(function.module?).to_owned())),
            tally,
            inclusive_faults,
            inclusive_time_ns,
        });
    };
    for (id, tally) in own.sorted() {
        let inclusive = id.and_then(|id| inclusive.get_mut(id.0 as usize));
        row(
            id,
            tally,
            inclusive.map_or((tally.faults, tally.time_ns), std::mem::take),
        );
    }
    // Functions that have no faults themselves, only callees with faults.
    let mut callers: Vec<_> = (0..)
        .map(FunctionId)
        .zip(inclusive)
        .filter(|(_, sum)| sum.0 > 0)
        .collect();
    callers.sort_unstable_by_key(|(id, (faults, time))| (std::cmp::Reverse((*time, *faults)), *id));
    for (id, sum) in callers {
        row(Some(id), Tally::default(), sum);
    }
    rows
}

fn processes(view: &View<'_>, groups: Groups<Option<ProcessId>>) -> Vec<ProcessRow> {
    let row = |(id, tally): (Option<ProcessId>, _)| {
        let process = id.and_then(|id| view.tables.processes.get(id.index()));
        ProcessRow {
            pid: process.map_or(0, |process| process.pid),
            process: process.map_or_else(String::new, |process| process.name.clone()),
            tally,
        }
    };
    groups.sorted().into_iter().map(row).collect()
}

fn threads(view: &View<'_>, groups: Groups<ThreadId>) -> Vec<ThreadRow> {
    let row = |(id, tally): (ThreadId, _)| {
        let thread = view.tables.threads.get(id.index());
        let process = thread.and_then(|thread| view.tables.processes.get(thread.process.index()));
        ThreadRow {
            pid: process.map_or(0, |process| process.pid),
            tid: thread.map_or(0, |thread| thread.tid),
            process: process.map_or_else(String::new, |process| process.name.clone()),
            thread: thread.map_or_else(String::new, |thread| thread.name.clone()),
            tally,
        }
    };
    groups.sorted().into_iter().map(row).collect()
}

fn phases(view: &View<'_>) -> Vec<PhaseStart> {
    let start = view.tables.recording.start;
    let of = view.tables.command_process().map(|process| view.phases.of(process));
    of.unwrap_or_default()
        .iter()
        .map(|(time, phase)| PhaseStart {
            time_ns: ns(time.since(start)),
            phase: *phase,
        })
        .collect()
}
