//! The columns of disk reads and page reads, and which fault waited for which request.

use rustc_hash::FxHashMap;

use super::container::{Container, NONE};
use super::facts::Facts;
use super::faults::Shown;
use super::files::Files;
use super::thread_id;
use crate::export::ns;
use base::addr::Timestamp;
use fact::request::DeviceId;
use fact::{PagesBy, Tables};

/// Bits of the flag columns.
const IN_FAULT: u8 = 1;
const READ_AHEAD: u8 = 2;

/// Row numbers by what identifies a request: device, sector and end. A request for several files has its first row.
pub type Requests = FxHashMap<(DeviceId, u64, Timestamp), u32>;

/// Adds the columns of page reads and disk reads, each sorted by start.
pub fn columns(container: &mut Container, tables: &Tables, facts: &Facts, files: &mut Files) -> Requests {
    pages(container, tables, facts, files);
    requests(container, tables, facts, files)
}

fn requests(container: &mut Container, tables: &Tables, facts: &Facts, files: &mut Files) -> Requests {
    let since = |time: Timestamp| ns(time.since(tables.recording.start));
    let mut order: Vec<usize> = (0..facts.reads.len()).collect();
    order.sort_by_key(|&at| facts.reads[at].start);
    let sorted = || order.iter().map(|&at| &facts.reads[at]);
    let mut known = Requests::default();
    for (read, row) in sorted().zip(0..) {
        known.entry((read.device, read.sector, read.end)).or_insert(row);
    }
    container.ascending("request_start", sorted().map(|read| since(read.start)));
    container.wide("request_duration", sorted().map(|read| read.duration_ns));
    container.wide("request_queued", sorted().map(|read| read.queued_ns));
    container.wide("request_bytes", sorted().map(|read| Some(read.bytes)));
    container.wide("request_offset", sorted().map(|read| read.offset));
    let device = |read: &super::facts::Read| {
        let there = read.device.index() < tables.devices.len();
        if there { read.device.0 } else { NONE }
    };
    container.numbers("request_device", sorted().map(device));
    let file = sorted().map(|read| read.file.and_then(|file| files.id(file)).unwrap_or(NONE));
    container.numbers("request_file", file);
    container.numbers("request_thread", sorted().map(|read| thread_id(tables, read.thread)));
    let flags =
        sorted().map(|read| if read.in_fault { IN_FAULT } else { 0 } | if read.is_ahead { READ_AHEAD } else { 0 });
    container.numbers("request_flags", flags);
    known
}

fn pages(container: &mut Container, tables: &Tables, facts: &Facts, files: &mut Files) {
    let mut order: Vec<_> = facts.pages.iter().collect();
    order.sort_by_key(|read| read.time);
    let mut rows: Vec<(u64, [u32; 4], u8)> = Vec::new();
    for read in order {
        let (Some(file), Ok(first)) = (files.id(read.file), u32::try_from(read.pages.first)) else {
            continue;
        };
        let time = ns(read.time.since(tables.recording.start));
        let flags = if read.by == PagesBy::Fault { IN_FAULT } else { 0 };
        rows.push((
            time,
            [file, first, read.pages.count, thread_id(tables, Some(read.thread))],
            flags,
        ));
    }
    container.ascending("read_start", rows.iter().map(|(time, ..)| *time));
    for (name, place) in [
        ("read_file", 0),
        ("read_first", 1),
        ("read_count", 2),
        ("read_thread", 3),
    ] {
        container.numbers(name, rows.iter().map(|(_, row, _)| row[place]));
    }
    container.numbers("read_flags", rows.iter().map(|(.., flags)| *flags));
}

/// Adds the pairs of a fault and a request that it waited for, sorted by fault.
pub fn causes(container: &mut Container, facts: &Facts, shown: &Shown, requests: &Requests) {
    let mut pairs: Vec<(u32, u32)> = (facts.causes.iter())
        .filter_map(|cause| {
            let fault = shown.rows.get(&(cause.thread, cause.start))?;
            let request = requests.get(&(cause.device, cause.sector, cause.end))?;
            Some((*fault, *request))
        })
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    container.numbers("cause_fault", pairs.iter().map(|(fault, _)| *fault));
    container.numbers("cause_request", pairs.iter().map(|(_, request)| *request));
}
