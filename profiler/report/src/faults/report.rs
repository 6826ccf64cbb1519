//! The tables of `ngmi faults`: the selected faults by file, section, function, class, process, thread and phase. The rows of each table add
//! up to the totals.

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::account::{AccountTotal, ThreadAccount, accounts, total};
use super::pages::{self, CopiesRow, PagesRow};
use super::phase::Phase;
use super::select::Selector;
use super::spots::{self, SpotRow};
use super::tally::{FaultTally, Folded, TimeParts};
use super::view::{View, path_of};
use crate::findings::{Finding, find};
use crate::functions::FunctionId;
use crate::grid::{
    GroupName, GroupRow, GroupTable, GroupTables, Grouping, Groupings, Measure as _, by, by_parts, ranked,
};
use crate::lookup::{Lookup as _, process_name, thread_name};
use crate::owner::{by_cgroup, cgroup_name};
use base::hex::hex;
use fact::fault::MappedFileId;
use fact::{FaultFact, Recording, StackId, upwards};

/// All tables of `ngmi faults`; `--json` prints this.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FaultReport {
    /// Facts about the recording.
    pub recording: Recording,
    /// Faults in the input, selected or not.
    pub faults_in_file: u64,
    /// Sums over the selected faults.
    pub totals: FaultTally,
    /// How their time divides.
    pub time: TimeParts,
    /// What to look at first, for the whole recording; empty if only some of the faults are selected.
    pub findings: Vec<Finding>,
    /// The tables: `by_file`, `by_section`, and so on.
    #[serde(flatten)]
    pub tables: GroupTables<FaultTally>,
    /// The phases of the command's process, with the times at which it entered them.
    pub phases: Vec<PhaseStart>,
    /// Faults in mappings in which the kernel had stopped reading around faults, by file.
    pub read_around_off: GroupTable<FaultTally>,
    /// The fate of the pages of the selected faults' files, in the whole recording.
    pub pages: Vec<PagesRow>,
    /// The cost of copying these pages, by relocations, other writes and `.bss`, in the whole recording.
    pub copies: Vec<CopiesRow>,
    /// `copies` covers all of `.bss`; otherwise only the part in the file's own pages, because a profile keeps no mappings.
    pub bss_is_whole: bool,
    /// First writes to `.bss` are sampled: `copies` has the pages of those that were recorded.
    pub bss_is_sampled: bool,
    /// Functions that faulted where the kernel had stopped reading around faults, by file, in the whole recording.
    pub read_around_spots: Vec<SpotRow>,
    /// Faults that the profile only has as aggregates; no table includes them.
    pub folded: Folded,
    /// The account of each thread that ended, selected or not.
    pub accounts: Vec<ThreadAccount>,
    /// The sum of all accounts.
    pub account: AccountTotal,
}

/// The time at which a process entered a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PhaseStart {
    /// Time since the recording's start, in ns.
    pub time_ns: u64,
    /// The phase.
    pub phase: Phase,
}

impl FaultReport {
    /// Builds the tables of the selected faults.
    pub fn new(view: &View<'_>, selector: &Selector) -> Self {
        let mut groupings = groupings(view);
        let mut off = by_file(view, "read_around_off");
        let mut time = TimeParts::default();
        for fault in view.faults().filter(|fault| selector.takes(view, fault)) {
            let tally = FaultTally::of(&fault);
            time.add(&fault);
            groupings.add(&fault, &tally);
            if fault.read_around_off {
                off.add(&fault, &tally);
            }
        }
        let tables = view.tables;
        let accounts = accounts(tables);
        let (totals, groups) = groupings.finish();
        let read_around_off = off.finish();
        let is_all = totals.faults == view.count();
        Self {
            copies: pages::copies(view, view.dirtied(), groups.rows("by_file")),
            bss_is_whole: view.knows_bss(),
            bss_is_sampled: view.count() > view.len() as u64,
            read_around_spots: spots::rows(view, &read_around_off.rows),
            folded: Folded::of(&tables.recording),
            pages: pages::rows(view, selector, groups.rows("by_file")),
            recording: tables.recording.without_usage(),
            faults_in_file: view.count(),
            totals,
            time,
            findings: if is_all { findings(view) } else { Vec::new() },
            tables: groups,
            read_around_off,
            phases: phases(view),
            account: total(&accounts),
            accounts,
        }
    }
}

type FaultGrouping<'v> = Box<dyn Grouping<FaultFact, FaultTally> + 'v>;

fn groupings<'v, 'a>(view: &'v View<'a>) -> Groupings<'v, FaultFact, FaultTally> {
    let tables = view.tables;
    let file_of = |fault: &FaultFact| fault.place.map(|place| place.file);
    Groupings::new(vec![
        by_file(view, "by_file"),
        by(
            ("by_section", ""),
            move |fault: &FaultFact| (file_of(fault), view.section(fault)),
            |(id, section): (_, Option<&'a str>)| {
                GroupName::new(section.unwrap_or("(none or unknown)"))
                    .field("file", path(view, id))
                    .field("section", section.map(str::to_owned))
                    .of_file(id)
            },
        ),
        by_parts(
            ("by_function", "by function, own faults"),
            |fault: &FaultFact| fault.stack,
            |stacks| functions(view, &stacks),
        ),
        by(
            ("by_class", "by class"),
            |fault: &FaultFact| fault.class,
            |class| GroupName::new(class.name()).field("class", class.name()),
        ),
        by(
            ("by_process", "by process"),
            |fault: &FaultFact| tables.thread(fault.thread).map(|thread| thread.process),
            |id| process_name(tables, id),
        ),
        by(
            by_cgroup(&view.owners),
            |fault: &FaultFact| view.owners.place_of_thread(tables, fault.thread),
            |place| cgroup_name(&view.owners, place),
        ),
        by(
            ("by_thread", "by thread"),
            |fault: &FaultFact| fault.thread,
            |id| {
                let process = tables.process(id).map_or("", |process| &process.name);
                thread_name(tables, id, Some(process.to_owned()))
            },
        ),
        by(
            ("by_phase", "by phase"),
            |fault: &FaultFact| view.phase(fault),
            |phase: Option<Phase>| {
                let name = phase.map(Phase::name);
                GroupName::new(name.unwrap_or("(unknown)")).field("phase", name)
            },
        ),
    ])
}

/// A table with a row for each file, and one for memory of no file.
fn by_file<'v>(view: &'v View<'_>, key: &'static str) -> FaultGrouping<'v> {
    by(
        (key, "by file"),
        |fault: &FaultFact| fault.place.map(|place| place.file),
        |id| {
            let file = id.and_then(|id: MappedFileId| view.tables.files.get(id.index()));
            let path = path(view, id);
            GroupName::path(path.as_deref().unwrap_or("(no file)"))
                .field("file", path)
                .field(
                    "device",
                    file.map(|file| format!("{}:{}", file.id.major, file.id.minor)),
                )
                .field("inode", file.map(|file| file.id.inode))
                .field(
                    "build_id",
                    file.map(|file| hex(&file.build_id)).filter(|id| !id.is_empty()),
                )
                .of_file(id)
        },
    )
}

fn path(view: &View<'_>, id: Option<MappedFileId>) -> Option<String> {
    let file = view.tables.files.get(id?.index());
    Some(file.map_or_else(|| "[unknown]".to_owned(), path_of))
}

fn findings(view: &View<'_>) -> Vec<Finding> {
    let mut inputs = view.inputs();
    // In a profile that aggregates some faults, the pages of these faults look untouched.
    if !view.tables.recording.folded_faults.is_empty() {
        inputs.wasted.clear();
    }
    find(view.tables, &inputs)
}

/// The rows of functions: their own faults, and inclusive ones. A fault counts once even if the function is on the stack several times.
fn functions(view: &View<'_>, stacks: &[(Option<StackId>, FaultTally)]) -> Vec<GroupRow<FaultTally>> {
    let mut own: FxHashMap<Option<FunctionId>, FaultTally> = FxHashMap::default();
    let mut inclusive = vec![(0_u64, 0_u64); view.functions.all.len()];
    let mut last_seen = vec![None; inclusive.len()];
    for (stack, tally) in stacks {
        own.entry(view.functions.innermost(*stack)).or_default().merge(tally);
        let frames = stack.iter().flat_map(|stack| upwards(view.tables, *stack));
        for id in frames.flat_map(|frame| view.functions.of_frame(frame)) {
            if let (Some(sum), Some(seen)) = (inclusive.get_mut(id.0 as usize), last_seen.get_mut(id.0 as usize))
                && *seen != *stack
            {
                *seen = *stack;
                *sum = (sum.0 + tally.faults, sum.1.saturating_add(tally.time_ns));
            }
        }
    }
    let row = |id, tally, (faults, time_ns): (u64, u64)| {
        let name = view.functions.group_name(view.tables, id);
        let name = name.after("inclusive_faults", faults);
        GroupRow::new(name.after("inclusive_time_ns", time_ns), tally)
    };
    let mut rows = Vec::new();
    for (id, tally) in ranked(own) {
        let inclusive = id.and_then(|id| inclusive.get_mut(id.0 as usize));
        let sum = inclusive.map_or((tally.faults, tally.time_ns), std::mem::take);
        rows.push(row(id, tally, sum));
    }
    // Functions that have no faults themselves, only callees with faults.
    let callers = (0..).map(FunctionId).zip(inclusive);
    let mut callers: Vec<_> = callers.filter(|(_, sum)| sum.0 > 0).collect();
    callers.sort_unstable_by_key(|(id, (faults, time))| (std::cmp::Reverse((*time, *faults)), *id));
    let callers = callers.into_iter();
    rows.extend(callers.map(|(id, sum)| row(Some(id), FaultTally::default(), sum)));
    rows
}

fn phases(view: &View<'_>) -> Vec<PhaseStart> {
    let of = view.tables.command_process().map(|process| view.phases.of(process));
    let start = |(time, phase): &(_, _)| PhaseStart {
        time_ns: view.tables.time_ns(*time),
        phase: *phase,
    };
    of.unwrap_or_default().iter().map(start).collect()
}
