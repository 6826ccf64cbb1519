//! The parts of a profile that `fxprof-processed-profile` builds: metadata, marker schemas,
//! processes and threads in the front end's order with distinct pids and tids, and the counters.
//! See docs/decisions/0001-profile-tables.md.

mod parts;

use std::time::Duration;

use fxprof_processed_profile::{
    ProcessHandle, Profile, ReferenceTimestamp, SamplingInterval, ThreadHandle, Timestamp as FxTimestamp,
};
use serde_json::{Map, Value, json};

use self::parts::Parts;
pub use self::parts::ThreadRow;
use super::companion::{self, Companion};
use super::path::{self, PathTrack};
use super::visible::{self, Visible};
use super::{cgroup, counter, device, info};
use crate::error::WriteError;
use crate::format::FORMAT_VERSION;
use crate::gecko::{counters, tables as gecko};
use crate::marker::{mark, schema};
use crate::shared::categories;
use crate::units::ms;
use base::addr::Timestamp;
use fact::owner::Owners;
use fact::reduce::budget::Collected;
use fact::{DeviceId, Process, ProcessId, Tables, ThreadId};

/// The small parts of a profile.
#[derive(Debug)]
pub struct Skeleton {
    /// `meta`
    pub meta: Map<String, Value>,
    /// Rows of `threads` without tables, in the profile's order.
    pub threads: Vec<(ThreadId, ThreadRow)>,
    /// Companion tracks, which follow the threads.
    pub companions: Vec<(Companion, ThreadRow)>,
    /// Tracks of block devices, which follow the companions.
    pub devices: Vec<(DeviceId, ThreadRow)>,
    /// Tracks of cgroups, by their places in the tables, which follow the devices.
    pub cgroups: Vec<(usize, ThreadRow)>,
    /// The track of a critical path, which is the last one.
    pub path: Option<ThreadRow>,
    /// `counters`
    pub counters: Vec<Value>,
}

/// Builds these parts. The profile's times are relative to `zero`.
pub fn build(
    (tables, collected): (&Tables, &Collected),
    path: Option<&PathTrack>,
    (zero, end): (Timestamp, Timestamp),
) -> Result<Skeleton, WriteError> {
    let visible = visible::choose(tables, collected, (zero, end));
    let mut profile = new_profile(tables, zero);
    categories::add_to(&mut profile);
    add_schemas(&mut profile, tables);
    let processes = add_processes(&mut profile, tables, zero);
    let threads = add_threads(&mut profile, tables, &processes, zero)?;
    counter::add_to(
        &mut profile,
        &processes,
        (tables, collected),
        (zero, end),
        &visible.shown,
    );
    // The library sorts threads and reveals their positions only in this list: all are "shown"
    // first, and `meta` is corrected below.
    for thread in &threads {
        profile.add_initial_visible_thread(*thread);
    }

    let Parts {
        mut meta,
        threads: rows,
        mut counters,
    } = Parts::of(&profile)?;
    drop(profile);
    let places: Vec<usize> = serde_json::from_value(meta.remove("initialVisibleThreads").unwrap_or_else(|| json!([])))
        .map_err(std::io::Error::from)?;
    let mut threads: Vec<(usize, ThreadId)> = places.iter().copied().zip((0..).map(ThreadId)).collect();
    threads.sort_unstable();
    if !threads.iter().map(|(place, _)| *place).eq(0..rows.len()) {
        return Err(WriteError::Inconsistent("the order of threads"));
    }
    let companions = companion::all(tables, collected);
    let companion = companion::shown(tables, &companions).map(|index| rows.len() + index);
    let companions = companions.into_iter().filter_map(|companion| {
        let of_process = |(place, id): &&(usize, ThreadId)| {
            let thread = tables.threads.get(id.index());
            *place < rows.len() && thread.is_some_and(|thread| thread.process == companion.process)
        };
        let (place, _) = threads.iter().find(of_process)?;
        let row = companion.row(&rows[*place].fields());
        Some((companion, ThreadRow::new(row)))
    });
    let companions: Vec<_> = companions.collect();
    let devices = device::all(collected);
    let first_device = rows.len() + companions.len();
    let of_thread = rows.first().map(ThreadRow::fields).unwrap_or_default();
    let device_row = |device: &DeviceId| (*device, ThreadRow::new(device::row(tables, *device, &of_thread)));
    let device_rows = devices.iter().map(device_row).collect();
    let first_cgroup = first_device + devices.len();
    let cgroup_names = cgroup::names(tables);
    let cgroups = cgroup::rows(&cgroup_names, &of_thread);
    let path_row = |track: &PathTrack| {
        let of_thread = rows.get(*places.get(track.thread.index())?)?.fields();
        Some(ThreadRow::new(path::row(tables, track, &of_thread)))
    };
    let path = path.and_then(path_row);
    let threads: Vec<_> = threads.into_iter().map(|(_, id)| id).zip(rows).collect();
    complete_meta(&mut meta, tables, &visible, &places, zero);
    show(&mut meta, companion);
    for index in 0..device::shown(devices.len()) {
        show(&mut meta, Some(first_device + index));
    }
    for index in cgroup::shown(tables) {
        show(&mut meta, Some(first_cgroup + index));
    }
    show(&mut meta, path.is_some().then_some(first_cgroup + cgroups.len()));
    let schemas = meta.get_mut("markerSchema").and_then(Value::as_array_mut);
    schemas.into_iter().flatten().for_each(schema::complete);
    gecko::describe(&mut meta, tables);
    meta.insert("extra".into(), info::sections(tables, collected));
    counters.iter_mut().for_each(counter::display);
    counters.extend(device::counter::all(tables, collected, &devices, first_device, zero));
    counters.extend(cgroup::counter::all(tables, &cgroup_names, first_cgroup, (zero, end)));
    counters.extend(gecko_counters(tables, &threads, zero));
    Ok(Skeleton {
        meta,
        threads,
        companions,
        devices: device_rows,
        cgroups,
        path,
        counters,
    })
}

/// Registers the payload types of markers.
fn add_schemas(profile: &mut Profile, tables: &Tables) {
    mark::add_schemas(profile);
    schema::fault::add_to(profile);
    schema::wait::add_to(profile);
    schema::peak::add_to(profile);
    schema::link::add_to(profile);
    if !tables.recording.cgroup_usage.is_empty() {
        schema::limit::add_to(profile);
    }
}

/// Counters of Firefox's profiler.
fn gecko_counters(tables: &Tables, threads: &[(ThreadId, ThreadRow)], zero: Timestamp) -> Vec<Value> {
    counters::rows(tables, zero, |process| {
        let main = tables.processes.get(process.index())?.main_thread;
        let is_main = |(id, _): &(ThreadId, ThreadRow)| Some(*id) == main;
        let place = threads.iter().position(is_main)?;
        Some((place, threads[place].1.fields().remove("pid")?))
    })
}

fn new_profile(tables: &Tables, zero: Timestamp) -> Profile {
    let recording = &tables.recording;
    let start = Duration::from_millis(recording.start_unix_ms).saturating_sub(recording.start.since(zero));
    let interval = SamplingInterval::from_nanos(1_000_000_000 / u64::from(recording.sample_hz.max(1)));
    let command = tables
        .command_process()
        .map(|process| tables.processes[process.index()].name.as_str());
    let product = command.unwrap_or("ngmi");
    let mut profile = Profile::new(
        product,
        ReferenceTimestamp::from_duration_since_unix_epoch(start),
        interval,
    );
    profile.set_os_name(&format!("Linux {} {}", recording.kernel, recording.arch));
    profile
}

fn add_processes(profile: &mut Profile, tables: &Tables, zero: Timestamp) -> Vec<ProcessHandle> {
    let owners = Owners::new(tables);
    let add = |(id, process): (ProcessId, &Process)| {
        let name = process_name(tables, process) + &owner_name(&owners, id, process);
        let handle = profile.add_process(&name, process.pid, relative(process.start, zero));
        if let Some(end) = process.end {
            profile.set_process_end_time(handle, relative(end, zero));
        }
        handle
    };
    (0..).map(ProcessId).zip(&tables.processes).map(add).collect()
}

/// ` [OWNER]`: the container, or the unit unless its name is the program's; nothing if all processes are in one unit.
fn owner_name(owners: &Owners, id: ProcessId, process: &Process) -> String {
    let Some(owner) = owners.of(id) else {
        return String::new();
    };
    let is_shown = match (&owner.container_id, &owner.pod_uid, &owner.unit) {
        (None, None, None) => false,
        (None, None, Some(unit)) => {
            owners.list.len() > 1 && unit.strip_suffix(".service").unwrap_or(unit) != process.name
        }
        _ => true,
    };
    if is_shown {
        format!(" [{}]", owner.label())
    } else {
        String::new()
    }
}

/// The program name, and the main thread's name if it differs: the processes of a browser differ
/// only in that.
fn process_name(tables: &Tables, process: &Process) -> String {
    let main = process
        .main_thread
        .and_then(|thread| tables.threads.get(thread.index()));
    match main {
        // Thread names are cut after 15 bytes.
        Some(main) if !main.name.is_empty() && !process.name.starts_with(&main.name) => {
            format!("{} ({})", process.name, main.name)
        }
        _ => process.name.clone(),
    }
}

fn add_threads(
    profile: &mut Profile,
    tables: &Tables,
    processes: &[ProcessHandle],
    zero: Timestamp,
) -> Result<Vec<ThreadHandle>, WriteError> {
    let mut handles = Vec::with_capacity(tables.threads.len());
    for thread in &tables.threads {
        let process = processes
            .get(thread.process.index())
            .ok_or(WriteError::Inconsistent("a thread's process"))?;
        let handle = profile.add_thread(*process, thread.tid, relative(thread.start, zero), thread.is_main);
        profile.set_thread_name(handle, &thread.name);
        profile.set_thread_show_markers_in_timeline(handle, true);
        if let Some(end) = thread.end {
            profile.set_thread_end_time(handle, relative(end, zero));
        }
        handles.push(handle);
    }
    Ok(handles)
}

fn complete_meta(meta: &mut Map<String, Value>, tables: &Tables, visible: &Visible, places: &[usize], zero: Timestamp) {
    let recording = &tables.recording;
    let place = |id: &ThreadId| places.get(id.index()).copied();
    let shown: Vec<usize> = visible.shown.iter().filter_map(place).collect();
    let selected: Vec<usize> = visible.selected.iter().filter_map(place).collect();
    let units = json!({"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"});
    let fields = [
        ("preprocessedProfileVersion", json!(FORMAT_VERSION)),
        ("sampleUnits", units),
        ("stackwalk", json!(1)),
        ("logicalCPUs", json!(recording.cpus)),
        ("profilingStartTime", json!(ms(recording.start, zero))),
        // The front end hides what is after this time, and many waits end with the recording.
        (
            "profilingEndTime",
            json!(ms(Timestamp(recording.end.0.saturating_add(1)), zero)),
        ),
        // As Firefox has it: lets others put their times on the same time line.
        ("startTimeAsClockMonotonicNanosecondsSinceBoot", json!(zero.0)),
        ("initialVisibleThreads", json!(shown)),
        ("initialSelectedThreads", json!(selected)),
    ];
    meta.extend(fields.map(|(key, value)| (key.to_owned(), value)));
}

/// Makes one more track visible.
fn show(meta: &mut Map<String, Value>, place: Option<usize>) {
    if let Some(shown) = meta.get_mut("initialVisibleThreads").and_then(Value::as_array_mut) {
        shown.extend(place.map(|place| json!(place)));
    }
}

fn relative(time: Timestamp, zero: Timestamp) -> FxTimestamp {
    FxTimestamp::from_nanos_since_reference(time.0.saturating_sub(zero.0))
}
