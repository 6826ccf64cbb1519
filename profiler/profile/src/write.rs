//! Writes facts as a profile: assembles its parts and streams them, one thread at a time.

mod cgroup;
mod companion;
mod counter;
mod device;
mod difference;
mod flows;
mod info;
mod libs;
mod markers;
mod path;
mod peaks;
mod sample;
mod skeleton;
mod timeline;
mod times;
mod track;
mod visible;

use std::io::{self, BufWriter, Write};

use fxprof_processed_profile::LibraryInfo;
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Value, json};

use self::cgroup::CgroupMarkers;
use self::companion::Companion;
use self::device::OperationNames;
pub use self::difference::{Difference, Weights};
use self::markers::{MarkerNames, Markers};
use self::path::PathRows;
pub use self::path::{PathLink, PathPiece, PathTrack};
use self::sample::SampleRows;
use self::skeleton::{Skeleton, ThreadRow};
use self::timeline::Waiting;
use crate::error::WriteError;
use crate::exact::wait::RawWait;
use crate::exact::{Exact, kernel};
use crate::gecko::tables as gecko;
use crate::shared::Shared;
use crate::shared::columns::{Seq, object};
use crate::shared::labels::Labels;
use base::addr::Timestamp;
use fact::reduce::budget::{Collected, KeptSample, ThreadFacts};
use fact::{DeviceId, Tables, ThreadId};

/// Size of the output buffer in bytes.
const BUFFER: usize = 64 << 10;

/// Size of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ProfileStats {
    /// Bytes before compression.
    pub bytes: u64,
    /// Samples in the profile.
    pub samples: u64,
    /// Marks in the profile.
    pub marks: u64,
    /// Page faults with individual markers.
    pub faults: u64,
    /// Reads with individual markers.
    pub reads: u64,
    /// Individual waits.
    pub waits: u64,
    /// Individual block requests.
    pub requests: u64,
    /// Number of threads.
    pub threads: u64,
    /// Number of processes.
    pub processes: u64,
    /// Number of distinct frames.
    pub frames: u64,
    /// Number of distinct stacks.
    pub stacks: u64,
}

/// Writes the profile as JSON; the caller compresses.
///
/// Fails if `out` fails, if there is no thread, or if a table is larger than the front end's 31-bit indices reach.
pub fn write(tables: &Tables, collected: &Collected, out: &mut dyn Write) -> Result<ProfileStats, WriteError> {
    write_with_path(tables, collected, None, out)
}

/// The same, with the track of a critical path.
///
/// # Errors
/// As [`write`].
pub fn write_with_path(
    tables: &Tables,
    collected: &Collected,
    path: Option<&PathTrack>,
    out: &mut dyn Write,
) -> Result<ProfileStats, WriteError> {
    if tables.threads.is_empty() {
        return Err(WriteError::Empty);
    }
    let (zero, end) = times::range(tables, collected);
    let mut shared = Shared::new(tables)?;
    let names = MarkerNames::new(tables, collected, &mut shared)?;
    let labels = Labels::new(collected, &mut shared)?;
    let operations = OperationNames::new(&mut shared)?;
    let cgroups = CgroupMarkers::new(tables, &mut shared)?;
    let rows = path.map(|path| PathRows::new(path, (tables, collected), (&mut shared, &names.flows), (zero, end)));
    let path_rows = rows.transpose()?;
    let mut skeleton = skeleton::build((tables, collected), path, (zero, end))?;
    skeleton
        .meta
        .insert("symbolicated".to_owned(), json!(!shared.left().any()));
    let profile = Whole {
        tables,
        collected,
        shared: &shared,
        names: &names,
        skeleton: &skeleton,
        labels: &labels,
        operations: &operations,
        cgroups: &cgroups,
        path: path_rows.as_ref(),
        waiting: Waiting::new(collected, &labels, (zero, end)),
        zero,
        end,
    };
    // The serializer writes a few bytes at a time.
    let mut buffered = BufWriter::with_capacity(BUFFER, Counted { out, bytes: 0 });
    serde_json::to_writer(&mut buffered, &profile).map_err(io::Error::from)?;
    let out = buffered.into_inner().map_err(io::IntoInnerError::into_error)?;
    let sum = |len: fn(&ThreadFacts) -> usize| collected.threads.iter().map(|thread| len(thread) as u64).sum();
    Ok(ProfileStats {
        bytes: out.bytes,
        samples: sum(|thread| thread.samples.len()),
        marks: sum(|thread| thread.marks.len()),
        faults: sum(|thread| thread.faults.len()),
        reads: sum(|thread| thread.reads.len()),
        waits: sum(|thread| thread.waits.len()),
        requests: collected.requests.len() as u64,
        threads: tables.threads.len() as u64,
        processes: tables.processes.len() as u64,
        frames: tables.frames.len() as u64,
        stacks: tables.stacks.len() as u64,
    })
}

/// A row of `libs`.
#[derive(Serialize)]
#[serde(untagged)]
enum Row {
    /// A module.
    Library(LibraryInfo),
    /// Its second row.
    Alias(Value),
}

/// The whole profile.
struct Whole<'a> {
    tables: &'a Tables,
    collected: &'a Collected,
    shared: &'a Shared<'a>,
    names: &'a MarkerNames<'a>,
    skeleton: &'a Skeleton,
    labels: &'a Labels,
    operations: &'a OperationNames,
    cgroups: &'a CgroupMarkers,
    path: Option<&'a PathRows<'a>>,
    waiting: Option<Waiting<'a>>,
    zero: Timestamp,
    end: Timestamp,
}

impl Serialize for Whole<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self {
            tables,
            collected,
            shared,
            skeleton,
            zero,
            ..
        } = *self;
        let arch = &tables.recording.arch;
        let libraries = tables.modules.iter().map(|module| libs::library(module, arch));
        let aliases = tables.modules.iter().filter(|_| shared.left().any());
        let libraries = libraries.map(Row::Library);
        let libraries = libraries.chain(aliases.map(|module| Row::Alias(libs::alias(module, arch))));
        let threads = skeleton.threads.iter().map(|(id, row)| Track::Thread(self, *id, row));
        let companions = skeleton.companions.iter();
        let threads = threads.chain(companions.map(|(companion, row)| Track::Companion(self, companion, row)));
        let devices = skeleton.devices.iter();
        let threads = threads.chain(devices.map(|(device, row)| Track::Device(self, *device, row)));
        let cgroups = skeleton.cgroups.iter();
        let threads = threads.chain(cgroups.map(|(index, row)| Track::Cgroup(self, *index, row)));
        let path = self.path.iter().copied().zip(&skeleton.path);
        let threads = threads.chain(path.map(|(rows, row)| Track::Path(self, rows, row)));
        let profile = object! {
            "meta": &skeleton.meta,
            "libs": Seq(libraries),
            "pages": gecko::pages(tables),
            "counters": &skeleton.counters,
            "shared": shared,
            "threads": Seq(threads),
            "ngmi": Exact {
                tables,
                shared,
                collected,
                labels: self.labels.first,
                zero,
            },
        };
        profile.serialize(serializer)
    }
}

/// A row of `threads` with its tables.
enum Track<'a> {
    Thread(&'a Whole<'a>, ThreadId, &'a ThreadRow),
    Companion(&'a Whole<'a>, &'a Companion, &'a ThreadRow),
    Device(&'a Whole<'a>, DeviceId, &'a ThreadRow),
    Cgroup(&'a Whole<'a>, usize, &'a ThreadRow),
    Path(&'a Whole<'a>, &'a PathRows<'a>, &'a ThreadRow),
}

impl Serialize for Track<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Thread(whole, id, row) => Thread { whole, id, row }.serialize(serializer),
            Self::Companion(whole, companion, row) => companion::thread(whole, companion, row).serialize(serializer),
            Self::Device(whole, device, row) => device::thread(whole, device, row).serialize(serializer),
            Self::Cgroup(whole, index, row) => cgroup::thread(whole, index, row).serialize(serializer),
            Self::Path(whole, rows, row) => path::thread(whole, rows, row).serialize(serializer),
        }
    }
}

/// One thread with its tables.
struct Thread<'a> {
    whole: &'a Whole<'a>,
    id: ThreadId,
    row: &'a ThreadRow,
}

/// The thread's data for the reader.
#[derive(Serialize)]
struct ThreadExact {
    thread: ThreadId,
    /// The first row is not a sample.
    lead: bool,
    /// The last row is not a sample.
    trail: bool,
    #[serde(rename = "inKernelExceptions")]
    in_kernel_exceptions: Vec<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    weights: Vec<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waits: Vec<RawWait>,
}

impl Serialize for Thread<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Whole {
            tables,
            collected,
            shared,
            names,
            zero,
            end,
            ..
        } = *self.whole;
        let waiting = self.whole.waiting.as_ref();
        let none = ThreadFacts::default();
        let facts = collected.threads.get(self.id.index()).unwrap_or(&none);
        let samples = &facts.samples;
        let mut thread = serializer.serialize_map(None)?;
        for (key, value) in self.row.fields() {
            thread.serialize_entry(&key, &value)?;
        }
        let mut rows = SampleRows::new(&tables.threads[self.id.index()], samples, (zero, end));
        if let Some(waiting) = waiting {
            let rows = waiting.rows(&mut rows, (self.id, facts), shared);
            thread.serialize_entry("samples", &timeline::table(&rows, zero))?;
        } else {
            thread.serialize_entry("samples", &sample::table(&rows, shared, zero))?;
        }
        let markers = Markers::new((self.id, facts), names, shared, zero);
        thread.serialize_entry("markers", &markers)?;
        let exact = ThreadExact {
            thread: self.id,
            lead: rows.lead.is_some(),
            trail: rows.trail.is_some(),
            in_kernel_exceptions: kernel::exceptions(tables, samples),
            weights: weights(samples, waiting.is_some()),
            waits: facts
                .waits
                .iter()
                .map(|wait| RawWait::new(wait, shared, zero))
                .collect(),
        };
        thread.serialize_entry("ngmi", &exact)?;
        thread.end()
    }
}

/// Number of samples that each row represents, if the table weighs time and a row represents more
/// than one.
fn weights(samples: &[KeptSample], timed: bool) -> Vec<u64> {
    if timed && samples.iter().any(|sample| sample.weight != 1) {
        samples.iter().map(|sample| sample.weight).collect()
    } else {
        Vec::new()
    }
}

/// Counts the bytes written.
struct Counted<'a> {
    out: &'a mut dyn Write,
    bytes: u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let written = self.out.write(buf)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
