//! The kept parts of the recording, its processes and threads.

use super::{Cut, Renumbering, new_number, renumber};
use crate::reduce::budget::Collected;
use crate::{ProcessId, Recording, Tables, ThreadId, owner, usage};
use base::addr::Timestamp;

/// New tables, and the new numbers of processes and threads. Frames, stacks and modules are the old ones.
pub fn of(whole: &Tables, cut: &Cut) -> (Tables, Renumbering, Renumbering) {
    let lives = |start: Timestamp, end: Option<Timestamp>| {
        cut.to.is_none_or(|to| start < to) && cut.from.is_none_or(|from| end.is_none_or(|end| end >= from))
    };
    let wanted = |index: usize| {
        cut.processes
            .as_ref()
            .is_none_or(|wanted| wanted.get(index) == Some(&true))
    };
    let processes = whole.processes.iter().enumerate();
    let processes: Vec<bool> = processes
        .map(|(index, process)| wanted(index) && lives(process.start, process.end))
        .collect();
    let threads = whole.threads.iter().map(|thread| {
        let of_kept = processes.get(thread.process.index()) == Some(&true);
        of_kept && lives(thread.start, thread.end)
    });
    let threads = renumber(&threads.collect::<Vec<_>>());
    let processes = renumber(&processes);
    let mut tables = Tables {
        recording: whole.recording.clone(),
        modules: whole.modules.clone(),
        frames: whole.frames.clone(),
        stacks: whole.stacks.clone(),
        files: whole.files.clone(),
        devices: whole.devices.clone(),
        names: whole.names.clone(),
        sources: whole.sources.clone(),
        ..Tables::default()
    };
    add_processes(&mut tables, whole, cut, (&processes, &threads));
    owner::drop_unused(&mut tables);
    if cut.processes.is_some() {
        usage::drop_unused(&mut tables);
    }
    usage::cut_time(&mut tables.recording.cgroup_usage, cut.from, cut.to);
    add_threads(&mut tables, whole, cut, (&processes, &threads));
    recording(&mut tables.recording, cut, &threads);
    counters(&mut tables.recording, cut, &processes);
    (tables, processes, threads)
}

fn add_processes(tables: &mut Tables, whole: &Tables, cut: &Cut, (processes, threads): (&Renumbering, &Renumbering)) {
    for (process, _) in whole.processes.iter().zip(processes).filter(|(_, kept)| kept.is_some()) {
        let mut process = process.clone();
        let parent = process.parent.and_then(|parent| new_number(processes, parent.index()));
        process.parent = parent.map(ProcessId);
        let main = process.main_thread.and_then(|main| new_number(threads, main.index()));
        process.main_thread = main.map(ThreadId);
        if let Some(from) = cut.from.filter(|from| process.start < *from) {
            (process.start, process.existed) = (from, true);
        }
        if outlives(process.end, cut) {
            (process.end, process.exit_code) = (None, None);
        }
        tables.processes.push(process);
    }
}

fn add_threads(tables: &mut Tables, whole: &Tables, cut: &Cut, (processes, threads): (&Renumbering, &Renumbering)) {
    for (thread, kept) in whole.threads.iter().zip(threads) {
        let Some((_, process)) = kept.zip(new_number(processes, thread.process.index())) else {
            continue;
        };
        let mut thread = thread.clone();
        thread.process = ProcessId(process);
        let is_cut = cut.from.is_some_and(|from| thread.start < from) || outlives(thread.end, cut);
        if let Some(from) = cut.from {
            thread.start = thread.start.max(from);
        }
        if outlives(thread.end, cut) {
            thread.end = None;
        }
        if is_cut {
            // The kernel's counts cover whole lifetimes.
            thread.sum_exec_runtime = None;
            (thread.minor_faults, thread.major_faults, thread.faults) = (None, None, None);
        }
        tables.threads.push(thread);
    }
}

fn outlives(end: Option<Timestamp>, cut: &Cut) -> bool {
    end.zip(cut.to).is_some_and(|(end, to)| end >= to)
}

fn recording(recording: &mut Recording, cut: &Cut, threads: &Renumbering) {
    let whole = (recording.start, recording.end);
    if let Some(from) = cut.from {
        recording.start = from.max(whole.0).min(whole.1);
        let later = recording.start.since(whole.0).as_millis();
        recording.start_unix_ms = (recording.start_unix_ms).saturating_add(u64::try_from(later).unwrap_or(u64::MAX));
    }
    if let Some(to) = cut.to.filter(|to| *to < whole.1) {
        recording.end = to.max(recording.start);
        recording.end_reason = Some("trimmed".to_owned());
    }
    let sums = recording.folded_faults.len()
        + recording.folded_reads.len()
        + recording.folded_waits.len()
        + recording.folded_requests.len();
    if cut.is_in_time() {
        recording.folded_faults.clear();
        recording.folded_waits.clear();
    }
    let kept = |thread: &mut ThreadId| match new_number(threads, thread.index()) {
        Some(new) => {
            *thread = ThreadId(new);
            true
        }
        None => false,
    };
    recording.folded_faults.retain_mut(|folded| kept(&mut folded.thread));
    recording.folded_waits.retain_mut(|folded| kept(&mut folded.thread));
    recording.merged_threads.retain_mut(|merged| kept(&mut merged.thread));
    if cut.is_in_time() || cut.processes.is_some() {
        recording.folded_reads.clear();
        recording.folded_requests.clear();
        recording.notes.push(note(recording, whole, cut, sums > 0));
    }
}

/// Cuts the counters of kept processes.
fn counters(recording: &mut Recording, cut: &Cut, processes: &Renumbering) {
    let Some(gecko) = &mut recording.gecko else { return };
    gecko.counters.retain_mut(|counter| {
        let Some(process) = new_number(processes, counter.process.index()) else {
            return false;
        };
        counter.process = ProcessId(process);
        counter
            .values
            .retain(|(time, ..)| cut.from.is_none_or(|from| *time >= from) && cut.to.is_none_or(|to| *time < to));
        !counter.values.is_empty()
    });
}

/// Notes what was done, and what is no longer known.
fn note(recording: &Recording, whole: (Timestamp, Timestamp), cut: &Cut, sums: bool) -> String {
    let seconds = |time: Timestamp| time.since(whole.0).as_secs_f64();
    let stretch = if cut.is_in_time() {
        format!(
            " to {:.3} s – {:.3} s of the recording",
            seconds(recording.start),
            seconds(recording.end)
        )
    } else {
        String::new()
    };
    let some = if cut.processes.is_some() {
        ", with some of its processes"
    } else {
        ""
    };
    let lost = if sums {
        "; sums without times are dropped: to keep their facts, convert the event log with a larger --max-samples and trim \
         that profile"
    } else {
        ""
    };
    format!(
        "trimmed by `ngmi trim`{stretch}{some}{lost}. Losses and shares of complete stacks apply to the whole recording."
    )
}

/// Recounts what is left, including sums that stay.
pub fn count(tables: &mut Tables, collected: &Collected) {
    let samples = || collected.threads.iter().flat_map(|thread| &thread.samples);
    let waits = collected.threads.iter().flat_map(|thread| &thread.waits);
    let after = tables.threads.iter().map(|thread| thread.cpu_time_after_last_sample);
    let cpu_time = total(samples().map(|sample| sample.cpu_time).chain(after));
    let recording = &mut tables.recording;
    let folded_faults = recording.folded_faults.iter().map(|folded| folded.faults);
    let folded_waits = recording.folded_waits.iter().map(|folded| folded.waits);
    let folded_requests = recording.folded_requests.iter().map(|folded| folded.requests);
    recording.faults_seen = total(folded_faults.chain([collected.faults.faults]));
    recording.waits_seen = total(waits.map(|wait| u64::from(wait.count)).chain(folded_waits));
    recording.requests_seen = total(folded_requests.chain([collected.requests.len() as u64]));
    recording.samples_seen = total(samples().map(|sample| sample.weight));
    recording.cpu_time_seen = cpu_time;
}

fn total(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}
