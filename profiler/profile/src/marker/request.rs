//! Block requests as the payloads of markers, on their device's track and on the threads that
//! submitted them. They are for display only: the reader takes requests from the `ngmi` section.

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::words;
use crate::units::milliseconds;
use base::addr::Timestamp;
use fact::request::{BioSource, Operation, RequestCoverage};
use fact::{BioFact, RequestFact, Tables, ThreadId};

/// Payload type of a request on its device's track.
pub const REQUEST: &str = "BlockRequest";
/// Payload type of a request on a thread that submitted part of it.
pub const DISK_REQUEST: &str = "DiskRequest";

/// The part of a request that a thread submitted.
#[derive(Debug, Clone, Copy)]
pub struct RequestPart<'a> {
    /// The request.
    pub request: &'a RequestFact,
    /// The first piece that the thread submitted.
    pub first: &'a BioFact,
    /// Bytes that it submitted.
    bytes: u64,
}

impl RequestPart<'_> {
    /// When the thread submitted it.
    pub fn start(&self) -> Timestamp {
        self.first.time.min(self.request.end)
    }
}

/// The requests of each thread, starts ascending.
pub fn by_thread(requests: &[RequestFact]) -> FxHashMap<ThreadId, Vec<RequestPart<'_>>> {
    let mut threads: FxHashMap<ThreadId, Vec<RequestPart<'_>>> = FxHashMap::default();
    for request in requests {
        let mut of_request: Vec<(ThreadId, RequestPart<'_>)> = Vec::new();
        for bio in &request.bios {
            let Some(thread) = bio.thread else { continue };
            match of_request.iter_mut().find(|(of, _)| *of == thread) {
                Some((_, part)) => {
                    part.bytes = part.bytes.saturating_add(u64::from(bio.bytes));
                    if bio.time < part.first.time {
                        part.first = bio;
                    }
                }
                None => of_request.push((
                    thread,
                    RequestPart {
                        request,
                        first: bio,
                        bytes: u64::from(bio.bytes),
                    },
                )),
            }
        }
        for (thread, part) in of_request {
            threads.entry(thread).or_default().push(part);
        }
    }
    threads
}

/// The marker name of a thread's request.
pub fn disk_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "DiskRead",
        Operation::Write => "DiskWrite",
        Operation::Flush => "DiskFlush",
        Operation::Discard => "DiskDiscard",
        Operation::WriteZeroes => "DiskWriteZeroes",
        Operation::Other => "DiskOther",
    }
}

/// Payload of a request.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestPayload {
    r#type: &'static str,
    device: String,
    operation: &'static str,
    size: String,
    bytes: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    own: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<String>,
    sector: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    submitter: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queued: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    depth: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requeues: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remarks: Option<String>,
    /// Index of its flow's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<u32>,
}

impl RequestPayload {
    /// The payload on the track of its device.
    pub fn of_device(request: &RequestFact, tables: &Tables) -> Self {
        Self::new(request, request.bios.first(), tables)
    }

    /// The payload on a thread that submitted part of it.
    pub fn of_thread(part: &RequestPart<'_>, tables: &Tables) -> Self {
        Self {
            r#type: DISK_REQUEST,
            size: words::size(part.bytes),
            own: (part.bytes != u64::from(part.request.bytes)).then_some(part.bytes),
            ..Self::new(part.request, Some(part.first), tables)
        }
    }

    fn new(request: &RequestFact, bio: Option<&BioFact>, tables: &Tables) -> Self {
        let file = bio.and_then(|bio| tables.files.get(bio.file?.index()));
        Self {
            r#type: REQUEST,
            device: words::device(tables, request.device),
            operation: request.operation.name(),
            size: words::size(u64::from(request.bytes)),
            bytes: request.bytes,
            own: None,
            place: bio.and_then(|bio| words::place(tables, bio.file, bio.offset)),
            path: file.map(fact::MappedFile::display_path),
            offset: bio.and_then(|bio| bio.offset).map(|offset| format!("{offset:#x}")),
            sector: request.sector.to_string(),
            submitter: bio.map(|bio| words::submitter(tables, bio)),
            function: bio.and_then(|bio| words::functions(tables, bio.stack)),
            source: bio.map(|bio| source(bio.source)),
            queued: request.queued.map(milliseconds),
            service: request.service.map(milliseconds),
            depth: (request.depth > 0).then_some(request.depth),
            parts: (request.bios.len() > 1).then_some(request.bios.len()),
            requeues: (request.requeues > 0).then_some(request.requeues),
            remarks: remarks(request, bio),
            flow: None,
        }
    }
}

fn source(source: BioSource) -> &'static str {
    match source {
        BioSource::Cache => "the page cache",
        BioSource::Direct => "the program's memory (O_DIRECT)",
        BioSource::Metadata => "the device's page cache (metadata)",
        BioSource::Swap => "swapped memory",
        BioSource::Nothing => "nothing",
        BioSource::Unknown => "unknown memory",
    }
}

fn remarks(request: &RequestFact, bio: Option<&BioFact>) -> Option<String> {
    let kind = &request.kind;
    let flags = [
        (request.error != 0, format!("failed: error {}", request.error)),
        (kind.read_ahead, "read ahead".to_owned()),
        (kind.sync, "sync".to_owned()),
        (kind.metadata, "metadata".to_owned()),
        (kind.fua, "through the device's cache".to_owned()),
        (request.scheduled, "through a scheduler's queue".to_owned()),
        (request.bio_only, "a bio of a device without requests".to_owned()),
        (bio.is_some_and(|bio| bio.in_fault), "in a page fault".to_owned()),
        (bio.is_none(), "unknown submitter".to_owned()),
        (
            request.coverage == RequestCoverage::StartMissed,
            "under way when the recording began".to_owned(),
        ),
        (
            request.coverage == RequestCoverage::EndMissed,
            "under way when the recording ended".to_owned(),
        ),
    ];
    let words: Vec<String> = flags.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect();
    (!words.is_empty()).then(|| words.join("; "))
}
