//! Computes metrics: adds every fact to the places it belongs to, by ID at first; IDs become names at the end.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::alike::{module_path, namesakes, same_paths, sections_in, values_of};
use super::gather::Facts;
use super::known::unknown;
use super::names::Pids;
use super::{Metric, MetricValues, Metrics, Place};
use crate::faults::phase::Phase;
use crate::faults::view::path_of;
use crate::functions::{FunctionId, Functions};
use crate::io::Asked;
use crate::lifetime::life;
use crate::select::Span;
use crate::{faults, io, waits};
use base::addr::{PAGE, Timestamp, ns};
use base::plural;
use fact::About;
use fact::fault::{FaultClass, FaultFact, MappedFile, MappedFileId};
use fact::reduce::pages::FilePages;
use fact::request::{Operation, RequestCoverage};
use fact::{ModuleId, ProcessId, SampleFact, StackId, Tables, ThreadId, WaitFact};

/// A place by ID; several IDs may share a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Total,
    Phase(Phase),
    File(MappedFileId),
    Path(String),
    Module(ModuleId),
    Section(MappedFileId, usize),
    Function(FunctionId),
    Thread(ThreadId),
}

/// By thread, the end and the file of its latest fault in a file: finds the fault that a wait was in.
type InFaults = FxHashMap<ThreadId, (Timestamp, MappedFileId)>;

struct Views<'a> {
    tables: &'a Tables,
    faults: faults::View<'a>,
    waits: waits::View<'a>,
    requests: io::View<'a>,
    /// By thread: the first thread with the same names.
    threads: Vec<ThreadId>,
    /// By file: the first file with the same path. There can be hundreds of thousands of shared memory files with a few names.
    files: Vec<MappedFileId>,
    /// Only what began then; `None`: everything.
    span: Option<Span>,
}

#[derive(Default)]
struct Sums(FxHashMap<Key, MetricValues>);

impl Metrics {
    /// Computes the metrics of a recording, or only of what began within a time range, as the reports of events select it. Of
    /// its length, `wall_ms` is the part in the lifetime.
    pub fn within(tables: &Tables, facts: &Facts, span: Option<Span>) -> Self {
        let functions = Arc::new(Functions::new(tables));
        let views = Views {
            tables,
            faults: faults::View::sharing(tables, &facts.faults, &functions),
            waits: waits::View::sharing(tables, &facts.waits, &functions),
            requests: io::View::sharing(tables, &facts.requests, &functions),
            threads: namesakes(tables),
            files: same_paths(tables),
            span,
        };
        let mut sums = Sums::default();
        views.wall(&mut sums);
        views.samples(facts, &mut sums);
        views.faults_and_waits(&mut sums);
        if span.is_none() {
            views.folded(&mut sums);
        }
        views.pages(&mut sums);
        views.copies(facts, &mut sums);
        views.all_requests(&mut sums);
        let mut warnings = Vec::new();
        for (loss, lost) in &tables.recording.losses {
            warnings.push(format!(
                "events lost ({}): metrics that count such events are too low",
                plural::loss(loss, *lost)
            ));
        }
        Self {
            warnings,
            places: views.named(&sums),
            unknown: unknown(tables, facts, span.is_some()),
            paths: None,
            windows: BTreeMap::new(),
        }
    }
}

impl Sums {
    fn add(&mut self, keys: impl IntoIterator<Item = Key>, values: &[(Metric, u64)]) {
        for key in keys {
            let sums = self.0.entry(key).or_default();
            for (metric, more) in values {
                sums.add(*metric, *more);
            }
        }
    }
}

impl Views<'_> {
    fn process(&self, thread: ThreadId) -> Option<ProcessId> {
        self.tables.threads.get(thread.index()).map(|thread| thread.process)
    }

    fn thread(&self, thread: ThreadId) -> Key {
        Key::Thread(self.threads.get(thread.index()).copied().unwrap_or(thread))
    }

    fn file(&self, file: MappedFileId) -> Key {
        Key::File(self.files.get(file.index()).copied().unwrap_or(file))
    }

    fn phase(&self, thread: ThreadId, time: Timestamp) -> Option<Key> {
        let phases = &self.faults.phases;
        phases.at(self.tables, self.process(thread)?, time).map(Key::Phase)
    }

    fn has(&self, time: Timestamp) -> bool {
        let since = time.since(self.tables.recording.start);
        self.span.is_none_or(|span| span.has(since))
    }

    fn wall(&self, sums: &mut Sums) {
        let recording = &self.tables.recording;
        let process = self
            .tables
            .command_process()
            .and_then(|id| self.tables.processes.get(id.index()));
        let main = process.and_then(|process| self.tables.threads.get(process.main_thread?.index()));
        let (start, end) = main.map_or((recording.start, recording.end), |main| life(recording, main));
        let since = |time: Timestamp| time.since(recording.start);
        let wall = self.span.unwrap_or_default().overlap(since(start), since(end));
        sums.add([Key::Total], &[(Metric::Wall, ns(wall))]);
    }

    fn samples(&self, facts: &Facts, sums: &mut Sums) {
        let samples = facts.samples.ordered();
        let samples = samples.iter().map(SampleFact::from);
        for sample in samples.filter(|sample| self.has(sample.time)) {
            let function = self.faults.functions.innermost(sample.stack);
            let module = function.and_then(|id| self.faults.functions.get(id)?.module);
            let phase = self.phase(sample.thread, sample.time);
            let keys = [Key::Total, self.thread(sample.thread)].into_iter();
            let keys = keys.chain(function.map(Key::Function)).chain(module.map(Key::Module));
            sums.add(keys.chain(phase), &[(Metric::Cpu, ns(sample.cpu_time))]);
        }
        for (thread, id) in self.tables.threads.iter().zip((0..).map(ThreadId)) {
            if !self.has(thread.end.unwrap_or(self.tables.recording.end)) {
                continue;
            }
            let rest = thread.cpu_time_after_last_sample;
            sums.add([Key::Total, self.thread(id)], &[(Metric::Cpu, rest)]);
        }
    }

    /// Merges faults and waits by start time: the fault that a wait was in then precedes it.
    fn faults_and_waits(&self, sums: &mut Sums) {
        let mut latest = InFaults::default();
        let mut faults = self.faults.faults().filter(|fault| fault.failed.is_none()).peekable();
        for wait in self.waits.waits() {
            while let Some(fault) = faults.next_if(|fault| fault.start <= wait.start) {
                self.fault(&fault, sums);
                if let Some(place) = fault.place {
                    let end = Timestamp(fault.start.0.saturating_add(ns(fault.time())));
                    latest.insert(fault.thread, (end, place.file));
                }
            }
            let in_fault = latest.get(&wait.thread).filter(|(end, _)| wait.start <= *end);
            self.wait(&wait, in_fault.map(|(_, file)| *file), sums);
        }
        faults.for_each(|fault| self.fault(&fault, sums));
    }

    fn fault(&self, fault: &FaultFact, sums: &mut Sums) {
        if !self.has(fault.start) {
            return;
        }
        let place = fault.place;
        let function = self.faults.function(fault);
        let phase = self.phase(fault.thread, fault.start);
        let section = place.and_then(|place| {
            let section = self.faults.file(place)?.section_index(place.byte)?;
            Some(Key::Section(place.file, section))
        });
        let keys = [Key::Total, self.thread(fault.thread)].into_iter();
        let keys = keys.chain(place.map(|place| self.file(place.file))).chain(section);
        let keys = keys.chain(function.map(Key::Function)).chain(phase);
        let values = values_of(fault.class, fault.major, fault.count(), ns(fault.total_time()));
        sums.add(keys, &values);
    }

    fn wait(&self, wait: &WaitFact, in_fault: Option<MappedFileId>, sums: &mut Sums) {
        if !self.has(wait.start) {
            return;
        }
        let function = self.waits.function(wait.stack);
        let phase = self.phase(wait.thread, wait.start);
        let file = if wait.in_fault {
            in_fault.map(|file| self.file(file))
        } else {
            About::of(wait).map(|about| match about {
                About::File(file) => self.file(file),
                About::Path(path) => Key::Path(path.to_owned()),
            })
        };
        let keys = [Key::Total, self.thread(wait.thread)].into_iter();
        let keys = keys.chain(function.map(Key::Function)).chain(phase).chain(file);
        let values: Vec<_> = (wait.parts().map(|(reason, time)| (Metric::Wait(reason), ns(time)))).collect();
        sums.add(keys, &values);
    }

    /// Adds what exceeded the profile's capacity; it is known by thread and class.
    fn folded(&self, sums: &mut Sums) {
        for folded in &self.tables.recording.folded_faults {
            if folded.class != FaultClass::Error {
                let values = values_of(folded.class, folded.major, folded.faults, folded.time);
                sums.add([Key::Total, self.thread(folded.thread)], &values);
            }
        }
        for folded in &self.tables.recording.folded_waits {
            let parts = folded.parts();
            let values: Vec<_> = parts.map(|(reason, time)| (Metric::Wait(reason), ns(time))).collect();
            sums.add([Key::Total, self.thread(folded.thread)], &values);
        }
    }

    fn pages(&self, sums: &mut Sums) {
        // A file with several names is counted once, under its first name.
        let mut seen = rustc_hash::FxHashSet::default();
        for (file, id) in self.tables.files.iter().zip((0..).map(MappedFileId)) {
            if let (true, Some(pages)) = (seen.insert(file.id), self.faults.pages().of(self.tables, id)) {
                self.wasted(file, id, pages, sums);
            }
        }
    }

    fn copies(&self, facts: &Facts, sums: &mut Sums) {
        if self.span.is_none() {
            for cost in self.faults.dirtied().finish(self.tables) {
                let values = [(Metric::RelocatedPages, cost.relocations.pages)];
                sums.add([Key::Total, self.file(cost.file)], &values);
            }
        }
        let copies = facts.copies.ordered();
        let copies = copies.iter().map(|row| row.copy());
        let copies = copies.filter(|copy| self.has(copy.time));
        for copy in copies.filter(|copy| self.faults.dirtied().is_relocation(self.tables, copy)) {
            if self.span.is_some() {
                let keys = [Key::Total, self.file(copy.place.file)];
                sums.add(keys, &[(Metric::RelocatedPages, 1)]);
            }
            let section = self
                .faults
                .file(copy.place)
                .and_then(|file| file.section_index(copy.place.byte));
            let section = section.map(|section| Key::Section(copy.place.file, section));
            let whose = self.whose(copy.thread, Some(copy.stack), copy.time);
            sums.add(
                whose.into_iter().flatten().chain(section),
                &[(Metric::RelocatedPages, 1)],
            );
        }
    }

    /// Adds the wasted reads of a file. A page counts for the section that covers most of it, and for the fault that read it.
    fn wasted(&self, file: &MappedFile, id: MappedFileId, pages: &FilePages, sums: &mut Sums) {
        let values = |pages: u64| [(Metric::WastedReadahead, pages.saturating_mul(PAGE))];
        let all = [Key::Total, self.file(id)];
        if self.span.is_none() {
            let wasted = pages.wasted().unwrap_or_default();
            sums.add(all.clone(), &values(wasted.len()));
            for page in wasted.iter().filter(|_| !file.sections.is_empty()) {
                let there = sections_in(file, page.saturating_mul(PAGE), PAGE);
                let most = there.max_by_key(|(section, bytes)| (*bytes, Reverse(*section)));
                sums.add(most.map(|(section, _)| Key::Section(id, section)), &values(1));
            }
        }
        for (read, wasted) in pages.wasted_reads().filter(|(read, _)| self.has(read.time)) {
            if self.span.is_some() {
                sums.add(all.clone(), &values(wasted));
            }
            let whose = self.whose(read.thread, read.stack, read.time);
            sums.add(whose.into_iter().flatten(), &values(wasted));
        }
    }

    /// Keys of the thread, function and phase of an event.
    fn whose(&self, thread: ThreadId, stack: Option<StackId>, time: Timestamp) -> [Option<Key>; 3] {
        let function = self.faults.functions.innermost(stack).map(Key::Function);
        [Some(self.thread(thread)), function, self.phase(thread, time)]
    }

    fn all_requests(&self, sums: &mut Sums) {
        let Ok(selector) = io::Selector::new(&self.requests, &io::Selection::default()) else {
            return;
        };
        let reads = || {
            let all = self.requests.requests();
            all.filter(|Asked { request, .. }| {
                request.operation == Operation::Read && request.coverage != RequestCoverage::EndMissed
            })
        };
        let is_recorded = |asked: &Asked| asked.parts.iter().any(|part| part.thread.is_some());
        // For an encrypted disk, a kernel worker submits the requests to the disk below.
        let below = reads().filter(is_recorded).any(|asked| selector.counts(&asked.request));
        let counted = reads().filter(|asked| self.has(asked.request.start));
        let counted = counted.filter(|asked| !below || selector.counts(&asked.request));
        for part in counted.flat_map(|asked| asked.parts) {
            let Some(thread) = part.thread else { continue };
            let function = self.requests.functions.innermost(part.stack).map(Key::Function);
            let phase = self.phase(thread, part.time);
            let keys = [Key::Total, self.thread(thread)].into_iter();
            let keys = keys
                .chain(part.file.map(|file| self.file(file)))
                .chain(function)
                .chain(phase);
            let bytes = u64::from(part.bytes);
            sums.add(keys, &[(Metric::BytesRead, bytes)]);
            if let (Some(id), Some(offset)) = (part.file, part.offset)
                && let Some(file) = self.tables.files.get(id.index())
            {
                for (section, bytes) in sections_in(file, offset, bytes) {
                    sums.add([Key::Section(id, section)], &[(Metric::BytesRead, bytes)]);
                }
            }
        }
    }

    /// Merges the sums by name.
    fn named(&self, sums: &Sums) -> BTreeMap<Place, MetricValues> {
        let mut places: BTreeMap<Place, MetricValues> = BTreeMap::new();
        let pids = Pids::of(self.tables);
        for (key, values) in &sums.0 {
            if let Some(place) = self.name(key, &pids) {
                places.entry(place).or_default().merge(values);
            }
        }
        places
    }

    fn name(&self, key: &Key, pids: &Pids) -> Option<Place> {
        let tables = self.tables;
        let path = |id: &MappedFileId| tables.files.get(id.index()).map(path_of);
        Some(match key {
            Key::Total => Place::Total,
            Key::Phase(phase) => Place::Phase(*phase),
            Key::File(id) => Place::File(path(id)?),
            Key::Path(path) => Place::File(path.clone()),
            Key::Module(id) => Place::File(module_path(tables, *id)),
            Key::Section(id, section) => {
                let section = tables.files.get(id.index())?.sections.get(*section)?;
                Place::Section(path(id)?, section.name.clone())
            }
            Key::Function(id) => {
                let function = self.faults.functions.get(*id)?;
                let module = function.module.map_or("", |module| tables.module_name(module));
                Place::Function(function.name.clone(), module.to_owned())
            }
            Key::Thread(id) => {
                let thread = tables.threads.get(id.index())?;
                let process = tables.processes.get(thread.process.index())?;
                Place::Thread(pids.taken_out(&process.name), pids.taken_out(&thread.name))
            }
        })
    }
}
