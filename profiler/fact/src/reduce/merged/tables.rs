//! Processes and threads after threads were merged.

use rustc_hash::FxHashSet;

use super::{Group, MergedThreads, Plan, Process, ProcessId, Tables, Thread, ThreadId, number};
use crate::FaultAccount;
use crate::reduce::budget::Collected;
use base::addr::Timestamp;
use base::plural::{count, counted};

/// Replaces the old processes and threads by the new ones, and notes in the recording which rows are merged.
pub fn gather(tables: &mut Tables, plan: &Plan, collected: &Collected) {
    let rows_of = || (plan.members.iter().zip(plan.singles..)).map(|(members, row)| (members, ThreadId(number(row))));
    let merged_threads: Vec<MergedThreads> = rows_of()
        .map(|((group, members), row)| merged(tables, collected, (group, members), row))
        .collect();
    let rows: Vec<Thread> = (plan.members.iter())
        .map(|(group, members)| thread(tables, plan, group, members))
        .collect();
    let programs: Vec<Process> = rows_of()
        .filter_map(|((group, members), row)| match group {
            Group::Rest(_) => None,
            Group::Program(name) => Some(process(tables, name, members, row)),
        })
        .collect();
    let mut old = std::mem::take(&mut tables.processes);
    let mut stays = plan.stays.iter();
    old.retain(|_| stays.next() == Some(&true));
    for process in &mut old {
        // A merged parent is not a particular process.
        process.parent = process
            .parent
            .filter(|parent| plan.stays.get(parent.index()) == Some(&true));
        process.parent = process.parent.map(|parent| plan.process(parent));
        process.main_thread = process.main_thread.map(|main| plan.thread(main));
    }
    tables.processes = old;
    tables.processes.extend(programs);
    let mut old = (0..).map(ThreadId);
    tables
        .threads
        .retain(|_| old.next().is_some_and(|old| !plan.is_gathered(old)));
    for thread in &mut tables.threads {
        thread.process = plan.process(thread.process);
        thread.creator = thread.creator.filter(|creator| !plan.is_gathered(*creator));
        thread.creator = thread.creator.map(|creator| plan.thread(creator));
    }
    tables.threads.extend(rows);
    for frame in &mut tables.frames {
        if let (_, Some(process)) = frame.location.ids_mut() {
            *process = plan.process(*process);
        }
    }
    for counter in tables.recording.gecko.iter_mut().flat_map(|gecko| &mut gecko.counters) {
        counter.process = plan.process(counter.process);
    }
    tables.recording.notes.push(note(&merged_threads));
    tables.recording.merged_threads = merged_threads;
}

fn merged(
    tables: &Tables,
    collected: &Collected,
    (group, members): (&Group, &[ThreadId]),
    row: ThreadId,
) -> MergedThreads {
    let ran = members.iter().filter(|member| {
        let facts = collected.threads.get(member.index());
        facts.is_some_and(|facts| !facts.samples.is_empty())
    });
    let processes: FxHashSet<ProcessId> = (ran.clone())
        .filter_map(|member| Some(tables.threads.get(member.index())?.process))
        .collect();
    MergedThreads {
        thread: row,
        threads: members.len() as u64,
        ran: ran.count() as u64,
        processes_ran: match group {
            Group::Rest(_) => 0,
            Group::Program(_) => processes.len() as u64,
        },
    }
}

/// The row of merged threads: it begins with the first of them and ends with the last.
fn thread(tables: &Tables, plan: &Plan, group: &Group, members: &[ThreadId]) -> Thread {
    let all = || members.iter().filter_map(|member| tables.threads.get(member.index()));
    let first = all().next();
    let old = first.map_or(ProcessId(0), |thread| thread.process);
    let name = match group {
        Group::Rest(_) => counted(members.len() as u64, "other thread"),
        Group::Program(_) => {
            let processes: FxHashSet<ProcessId> = all().map(|thread| thread.process).collect();
            let threads = counted(members.len() as u64, "thread");
            format!("{threads} of {}", counted(processes.len() as u64, "process"))
        }
    };
    let start = all().map(|thread| thread.start).min().unwrap_or_default();
    let mut row = Thread::born(plan.process(old), first.map_or(0, |thread| thread.tid), name, start);
    row.is_main = all().any(|thread| thread.is_main);
    row.end = last(all().map(|thread| thread.end));
    for thread in all() {
        let after = thread.cpu_time_after_last_sample;
        row.cpu_time_after_last_sample = row.cpu_time_after_last_sample.saturating_add(after);
        row.sum_exec_runtime = sum(row.sum_exec_runtime, thread.sum_exec_runtime);
        add_account(&mut row, thread);
    }
    row
}

/// Adds a thread's account, if it has one: the others can't be checked, single or merged.
fn add_account(row: &mut Thread, thread: &Thread) {
    let (Some(account), Some(minor), Some(major)) = (thread.faults, thread.minor_faults, thread.major_faults) else {
        return;
    };
    // Without a traced fault, all faults happened before.
    let account = FaultAccount {
        before: account.before.or(Some(minor.saturating_add(major))),
        ..account
    };
    row.faults = Some(row.faults.map_or(account, |sum| sum.with(account)));
    row.minor_faults = sum(row.minor_faults, Some(minor));
    row.major_faults = sum(row.major_faults, Some(major));
}

/// The process of a program's row.
fn process(tables: &Tables, name: &str, members: &[ThreadId], row: ThreadId) -> Process {
    let all = || {
        let threads = members.iter().filter_map(|member| tables.threads.get(member.index()));
        threads.filter_map(|thread| tables.processes.get(thread.process.index()))
    };
    let start = all().map(|process| process.start).min().unwrap_or_default();
    let pid = all().next().map_or(0, |first| first.pid);
    let mut paths = all().map(|process| &*process.path);
    let path = paths.next().unwrap_or_default();
    let same_path = paths.all(|other| other == path);
    let mut cgroups = all().map(|process| &process.cgroup);
    let cgroup = cgroups.next().filter(|first| cgroups.all(|other| other == *first));
    Process {
        path: if same_path { path } else { "" }.to_owned(),
        cgroup: cgroup.cloned().flatten(),
        cgroup_inherited: all().any(|process| process.cgroup_inherited),
        existed: all().any(|process| process.existed),
        end: last(all().map(|process| process.end)),
        main_thread: Some(row),
        ..Process::born(pid, name.to_owned(), start)
    }
}

/// The last end, if all have ended.
fn last(mut ends: impl Iterator<Item = Option<Timestamp>>) -> Option<Timestamp> {
    ends.try_fold(Timestamp(0), |last, end| Some(last.max(end?)))
}

fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        (one, other) => one.or(other),
    }
}

fn note(merged_threads: &[MergedThreads]) -> String {
    let threads = merged_threads
        .iter()
        .fold(0u64, |sum, merged| sum.saturating_add(merged.threads));
    format!(
        "the {} least active threads are merged into {} by program; their waits are aggregated by stack; keep all with \
         --keep-events.",
        count(threads),
        counted(merged_threads.len() as u64, "row")
    )
}
