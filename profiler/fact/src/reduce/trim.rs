//! Cuts a recording to an interval or to some processes. What remains is renumbered, the rest is removed.
//!
//! A fact that overlaps the interval is kept. Waits and marks are cut to it, since both may be as long as the
//! recording; so is the CPU time of a sample, which counts from the sample before. Faults and requests stay whole.

mod compact;
mod filter;
mod tables;

use anyhow::Result;
use rustc_hash::FxHashSet;

use self::filter::{Filter, RequestKey};
use crate::reduce::budget::{Budget, Collected, Collector};
use crate::{
    Cause, FactSink, FactSource, FaultFact, MappedFileId, Mark, PagesReadFact, Reason, RequestFact, SampleFact, Tables,
    WaitFact,
};
use base::addr::Timestamp;

/// What is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Start; `None` for the recording's start.
    pub from: Option<Timestamp>,
    /// End, exclusive; `None` for the recording's end.
    pub to: Option<Timestamp>,
    /// Processes to keep, by number; `None` for all.
    pub processes: Option<Vec<bool>>,
}

impl Cut {
    fn is_in_time(&self) -> bool {
        self.from.is_some() || self.to.is_some()
    }
}

/// A new number for each old one; `None` if removed.
type Renumbering = Vec<Option<u32>>;

/// Cuts the facts of `source`. They must already be within a profile's budget.
///
/// # Errors
/// If the source can't be read.
pub fn trim(source: &mut dyn FactSource, cut: &Cut) -> Result<(Tables, Collected)> {
    let whole = source.replay(&mut Nothing)?;
    let (mut tables, processes, threads) = tables::of(&whole, cut);
    let mut survey = Survey {
        filter: Filter::new(cut, &threads),
        files: vec![false; whole.files.len()],
        requests: FxHashSet::default(),
    };
    for folded in &tables.recording.folded_reads {
        survey.used(Some(folded.file));
    }
    source.replay(&mut survey)?;
    let Survey { files, requests, .. } = survey;
    let files = renumber(&files);
    compact::files(&mut tables, &files);
    let everything = Budget {
        samples: usize::MAX,
        marks: usize::MAX,
    };
    let mut cutter = Cutter {
        filter: Filter::new(cut, &threads).with_requests(requests),
        files: &files,
        collector: Collector::new(everything),
        tables,
    };
    source.replay(&mut cutter)?;
    let Cutter {
        filter,
        collector,
        mut tables,
        ..
    } = cutter;
    filter.settle(&whole, &mut tables);
    let mut collected = collector.finish(&mut tables);
    tables::count(&mut tables, &collected);
    compact::stacks(&mut tables, &mut collected, &processes);
    Ok((tables, collected))
}

fn renumber(used: &[bool]) -> Renumbering {
    let mut next = 0;
    let number = |&used: &bool| {
        used.then(|| {
            next += 1;
            next - 1
        })
    };
    used.iter().map(number).collect()
}

fn new_number(kept: &Renumbering, old: usize) -> Option<u32> {
    kept.get(old).copied().flatten()
}

/// Reads only the tables.
struct Nothing;

impl FactSink for Nothing {
    fn sample(&mut self, _: &Tables, _: &SampleFact) {}
    fn mark(&mut self, _: &Tables, _: &Mark) {}
}

/// Finds the files and requests that kept facts refer to.
struct Survey<'a> {
    filter: Filter<'a>,
    files: Vec<bool>,
    requests: FxHashSet<RequestKey>,
}

impl Survey<'_> {
    fn used(&mut self, file: Option<MappedFileId>) {
        if let Some(used) = file.and_then(|file| self.files.get_mut(file.index())) {
            *used = true;
        }
    }
}

impl FactSink for Survey<'_> {
    fn sample(&mut self, _: &Tables, _: &SampleFact) {}

    fn mark(&mut self, _: &Tables, _: &Mark) {}

    fn fault(&mut self, _: &Tables, fault: &FaultFact) {
        if let Some(fault) = self.filter.fault(fault) {
            self.used(fault.place.map(|place| place.file));
        }
    }

    fn pages_read(&mut self, _: &Tables, read: &PagesReadFact) {
        if let Some(read) = self.filter.read(read) {
            self.used(Some(read.file));
        }
    }

    fn wait(&mut self, _: &Tables, wait: &WaitFact) {
        if let Some(wait) = self.filter.wait(wait) {
            self.used(wait.call.and_then(|call| call.file));
            self.used(wait.futex.and_then(|futex| Some(futex.place?.0)));
        }
    }

    // A request may be kept because of a cause, and causes arrive last: the files of all requests in the interval stay.
    fn request(&mut self, _: &Tables, request: &RequestFact) {
        if self.filter.is_in_time(request.start, request.end) {
            request.bios.iter().for_each(|bio| self.used(bio.file));
        }
    }

    fn joined(&mut self, _: &Tables, cause: &Cause) {
        if let Some(cause) = self.filter.cause(cause)
            && let Reason::Request(request) = cause.reason
        {
            self.used(request.file);
            self.requests.insert(filter::key_of(&request));
        }
    }
}

/// Keeps matching facts, with new numbers.
struct Cutter<'a> {
    filter: Filter<'a>,
    files: &'a Renumbering,
    collector: Collector,
    /// The new tables.
    tables: Tables,
}

impl Cutter<'_> {
    fn file(&self, file: MappedFileId) -> Option<MappedFileId> {
        new_number(self.files, file.index()).map(MappedFileId)
    }
}

impl FactSink for Cutter<'_> {
    fn sample(&mut self, _: &Tables, sample: &SampleFact) {
        if let Some(sample) = self.filter.sample(sample) {
            self.collector.sample(&self.tables, &sample);
        }
    }

    fn mark(&mut self, _: &Tables, mark: &Mark) {
        if let Some(mark) = self.filter.mark(mark) {
            self.collector.mark(&self.tables, &mark);
        }
    }

    fn fault(&mut self, _: &Tables, fault: &FaultFact) {
        let Some(mut fault) = self.filter.fault(fault) else {
            return;
        };
        fault.place = fault.place.and_then(|mut place| {
            place.file = self.file(place.file)?;
            Some(place)
        });
        self.collector.fault(&self.tables, &fault);
    }

    fn pages_read(&mut self, _: &Tables, read: &PagesReadFact) {
        let Some(mut read) = self.filter.read(read) else { return };
        if let Some(file) = self.file(read.file) {
            read.file = file;
            self.collector.pages_read(&self.tables, &read);
        }
    }

    fn wait(&mut self, _: &Tables, wait: &WaitFact) {
        let Some(mut wait) = self.filter.wait(wait) else { return };
        if let Some(call) = &mut wait.call {
            call.file = call.file.and_then(|file| self.file(file));
        }
        if let Some(futex) = &mut wait.futex {
            futex.place = futex.place.and_then(|(file, offset)| Some((self.file(file)?, offset)));
        }
        self.collector.wait(&self.tables, &wait);
    }

    fn request(&mut self, _: &Tables, request: &RequestFact) {
        let Some(mut request) = self.filter.request(request) else {
            return;
        };
        for bio in &mut request.bios {
            bio.file = bio.file.and_then(|file| self.file(file));
        }
        self.collector.request(&self.tables, &request);
    }

    fn joined(&mut self, _: &Tables, cause: &Cause) {
        let Some(mut cause) = self.filter.cause(cause) else {
            return;
        };
        if let Reason::Request(request) = &mut cause.reason {
            request.file = request.file.and_then(|file| self.file(file));
        }
        self.collector.joined(&self.tables, &cause);
    }
}
