//! The reader: converts a profile back into the facts that it was written from. The input is
//! untrusted.

mod lanes;
mod markers;
mod named;
mod tables;

use std::io::Read;
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;

use self::lanes::Lane;
pub use self::named::named;
use crate::error::ReadError;
use crate::exact::references::{References, StackRows};
use crate::format::{FORMAT_VERSION, RawProfile, RawSamples, RawThread};
use crate::gecko::payload::Texts;
use crate::units::advance;
use crate::{exact, input};
use base::addr::Timestamp;
use fact::{Cause, FactSink, FactSource, RequestFact, SampleFact, Tables, ThreadId, WaitFact};

/// Whether the table's weights are times.
const TIMED: &str = "tracing-ms";

/// A profile that ngmi wrote, as a source of facts.
#[derive(Debug)]
pub struct ProfileSource {
    tables: Tables,
    lanes: Vec<Lane>,
    requests: Vec<RequestFact>,
    causes: Vec<Cause>,
}

/// Distinguishes our profiles from others before their contents are read.
#[derive(Deserialize)]
struct Probe {
    meta: Option<ProbeMeta>,
    ngmi: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct ProbeMeta {
    #[serde(rename = "preprocessedProfileVersion")]
    version: Option<u32>,
}

impl ProfileSource {
    /// Reads a profile, compressed or not.
    ///
    /// Fails if the input fails, is not a profile of this version of ngmi, or is inconsistent.
    pub fn new(mut input: impl Read) -> Result<Self, ReadError> {
        Self::in_json(&input::read_all(&mut input, input::LIMIT)?)
    }

    fn in_json(bytes: &[u8]) -> Result<Self, ReadError> {
        let probe: Probe = serde_json::from_slice(bytes)?;
        if probe.ngmi.is_none() {
            return Err(ReadError::Foreign);
        }
        let format = probe.meta.and_then(|meta| meta.version).unwrap_or(0);
        if format != FORMAT_VERSION {
            return Err(ReadError::Version { format, section: None });
        }
        let profile: RawProfile = serde_json::from_slice(bytes)?;
        let section = profile.ngmi.as_ref().ok_or(ReadError::Foreign)?;
        if section.version != exact::VERSION {
            return Err(ReadError::Version {
                format,
                section: Some(section.version),
            });
        }
        let zero = Timestamp(section.zero.parse().map_err(|_| ReadError::Damaged("time 0"))?);
        let (tables, rows) = tables::tables(&profile)?;
        let to = References {
            tables: &tables,
            rows: &rows,
            zero,
            list: "list of files",
        };
        let mut texts = Texts::new(&profile.shared.string_array, &tables);
        let mut lanes = Vec::with_capacity(profile.threads.len());
        for thread in profile.threads.iter().filter(|thread| thread.companion.is_none()) {
            lanes.push(lane(thread, &mut texts, to)?);
        }
        let requests = section
            .requests
            .iter()
            .map(|raw| raw.fact(to.in_list("list of requests")));
        let requests: Vec<RequestFact> = requests.collect::<Result<_, _>>()?;
        let causes = section.causes.iter().map(|raw| raw.fact(to.in_list("list of causes")));
        Ok(Self {
            causes: causes.collect::<Result<_, _>>()?,
            requests,
            tables,
            lanes,
        })
    }

    /// For reports: merges all unnamed code in anonymous memory under one name.
    pub fn merge_anonymous(&mut self) {
        for frame in &mut self.tables.frames {
            if let Some(merged) = frame.location.without_anonymous_address() {
                frame.location = merged;
            }
        }
    }
}

impl FactSource for ProfileSource {
    fn replay(&mut self, sink: &mut dyn FactSink) -> anyhow::Result<Tables> {
        lanes::replay(&self.lanes, &self.tables, sink);
        self.requests
            .iter()
            .for_each(|request| sink.request(&self.tables, request));
        self.causes.iter().for_each(|cause| sink.joined(&self.tables, cause));
        Ok(self.tables.clone())
    }
}

fn lane(raw: &RawThread<'_>, texts: &mut Texts<'_>, to: References<'_>) -> Result<Lane, ReadError> {
    let exact = raw
        .ngmi
        .as_ref()
        .ok_or(ReadError::Damaged("thread without its number"))?;
    let thread = ThreadId(exact.thread);
    if thread.index() >= to.tables.threads.len() {
        return Err(ReadError::Damaged("thread number"));
    }
    let mut samples = samples(&raw.samples, thread, to.zero, to.rows)?;
    if samples.len() < usize::from(exact.lead) + usize::from(exact.trail) {
        return Err(ReadError::Damaged("number of samples"));
    }
    samples.truncate(samples.len() - usize::from(exact.trail));
    samples.drain(..usize::from(exact.lead));
    for sample in &mut samples {
        sample.in_kernel = exact::kernel::leaf_is_kernel(to.tables, sample.stack);
    }
    for index in &exact.in_kernel_exceptions {
        let sample = samples.get_mut(*index).ok_or(ReadError::Damaged("sample number"))?;
        sample.in_kernel = !sample.in_kernel;
    }
    if raw.samples.weight_type == TIMED && !exact.weights.is_empty() {
        if exact.weights.len() != samples.len() {
            return Err(ReadError::Damaged("list of weights"));
        }
        for (sample, weight) in samples.iter_mut().zip(&exact.weights) {
            sample.weight = *weight;
        }
    }
    let waits = exact
        .waits
        .iter()
        .map(|raw| raw.fact(thread, to.in_list("list of waits")));
    let mut waits: Vec<WaitFact> = waits.collect::<Result<_, _>>()?;
    waits.sort_by_key(|wait| wait.end);
    Ok(Lane {
        samples,
        waits,
        marked: markers::marked(&raw.markers, texts, thread, to)?,
    })
}

fn samples(
    raw: &RawSamples,
    thread: ThreadId,
    zero: Timestamp,
    rows: &StackRows,
) -> Result<Vec<SampleFact>, ReadError> {
    let len = raw.length;
    let weights_fit = raw.weight.as_ref().is_none_or(|weight| weight.len() == len);
    if [raw.stack.len(), raw.time_deltas.len(), raw.thread_cpu_delta.len()] != [len; 3] || !weights_fit {
        return Err(ReadError::Damaged("samples table"));
    }
    let mut time = zero;
    let mut samples = Vec::with_capacity(len);
    // CPU time before a wait belongs to the next sample.
    let mut cpu_time = 0u64;
    for row in 0..len {
        time = advance(time, raw.time_deltas[row])?;
        cpu_time = cpu_time.saturating_add(raw.thread_cpu_delta[row].unwrap_or(0));
        if rows.is_labelled(raw.stack[row]) {
            continue;
        }
        let weight = match &raw.weight {
            Some(weight) if raw.weight_type != TIMED => whole(weight[row])?,
            _ => 1,
        };
        samples.push(SampleFact {
            time,
            thread,
            stack: rows.stack(raw.stack[row])?,
            cpu_time: Duration::from_nanos(std::mem::take(&mut cpu_time)),
            in_kernel: false,
            weight,
        });
    }
    Ok(samples)
}

/// Converts to a number of samples.
fn whole(weight: f64) -> Result<u32, ReadError> {
    // NaN fails this comparison.
    if weight.fract() != 0.0 || !(0.0..=f64::from(u32::MAX)).contains(&weight) {
        return Err(ReadError::Damaged("sample's weight"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    let weight = weight as u32;
    Ok(weight)
}
