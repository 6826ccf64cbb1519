//! Recently completed requests, by submitter and by file.

use std::collections::VecDeque;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::ns;
use crate::cause::RequestRef;
use crate::request::{BioFact, BioSource, RequestCoverage, RequestFact};
use crate::{MappedFileId, Tables, ThreadId};
use base::addr::Timestamp;
use base::event::FileId;

/// Maximum number of requests: one followed by this many completions did not just wake a thread.
const MAX_REQUESTS: usize = 1 << 14;
/// Maximum number of parts of one request.
const MAX_PARTS: usize = 1 << 8;
/// Maximum number of requests examined for one fault or wait.
const MAX_LOOKED_AT: usize = 1 << 10;

/// A time interval, ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub start: Timestamp,
    pub end: Timestamp,
}

impl Span {
    pub fn lasting(start: Timestamp, time: Duration) -> Self {
        let end = Timestamp(start.0.saturating_add(ns(time)));
        Self { start, end }
    }

    pub fn holds(self, time: Timestamp) -> bool {
        (self.start..=self.end).contains(&time)
    }

    /// The last part of the interval, at most this long.
    pub fn last(self, time: Duration) -> Self {
        let start = Timestamp(self.end.0.saturating_sub(ns(time))).max(self.start);
        Self { start, ..self }
    }

    pub fn overlap(self, other: Self) -> Duration {
        self.end.min(other.end).since(self.start.max(other.start))
    }
}

/// A part of a request.
#[derive(Debug)]
pub struct Part {
    pub time: Timestamp,
    pub thread: Option<ThreadId>,
    file: Option<(MappedFileId, FileId)>,
    /// First byte in the file, if it goes through the page cache.
    offset: Option<u64>,
    cached: bool,
    bytes: u32,
}

impl Part {
    fn new(tables: &Tables, bio: &BioFact) -> Self {
        let file = bio
            .file
            .and_then(|file| Some((file, tables.files.get(file.index())?.id)));
        Self {
            time: bio.time,
            thread: bio.thread,
            file,
            offset: bio.offset,
            cached: bio.source == BioSource::Cache,
            bytes: bio.bytes,
        }
    }

    fn is_of(&self, file: FileId) -> bool {
        self.cached && self.file.is_some_and(|(_, id)| id == file)
    }

    fn holds(&self, (file, byte): (FileId, u64)) -> bool {
        let inside = |offset: u64| {
            byte.checked_sub(offset)
                .is_some_and(|skipped| skipped < u64::from(self.bytes))
        };
        self.is_of(file) && self.offset.is_some_and(inside)
    }
}

/// A completed request.
#[derive(Debug)]
pub struct Done {
    /// Describes the first part; submitter and file offset differ by part.
    request: RequestRef,
    pub parts: Vec<Part>,
}

impl Done {
    /// The request as a thread held up by this part describes it.
    pub fn seen_by(&self, thread: ThreadId, part: &Part) -> RequestRef {
        RequestRef {
            own: part.thread == Some(thread),
            by: part.thread,
            file: part.file.map(|(file, _)| file),
            offset: part.offset,
            ..self.request
        }
    }
}

/// A kept part of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    pub request: u64,
    part: usize,
}

/// Requests by consecutive numbers.
#[derive(Debug, Default)]
pub struct Recent {
    kept: VecDeque<Arc<Done>>,
    first: u64,
    by_thread: Index<ThreadId>,
    by_file: Index<FileId>,
}

impl Recent {
    /// Keeps a completed request; `None` if its submitters are unknown.
    pub fn push(&mut self, tables: &Tables, request: &RequestFact) -> Option<Arc<Done>> {
        if request.bios.is_empty() || request.coverage == RequestCoverage::EndMissed {
            return None;
        }
        if self.kept.len() >= MAX_REQUESTS {
            self.pop();
        }
        let bios = request.bios.iter().take(MAX_PARTS);
        let done = Arc::new(Done {
            request: RequestRef {
                own: false,
                by: None,
                device: request.device,
                sector: request.sector,
                start: request.start,
                end: request.end,
                operation: request.operation,
                kind: request.kind,
                bytes: request.bytes,
                file: None,
                offset: None,
            },
            parts: bios.map(|bio| Part::new(tables, bio)).collect(),
        });
        let number = self.first + self.kept.len() as u64;
        for part in &done.parts {
            if let Some(thread) = part.thread {
                self.by_thread.push(thread, number);
            }
            if let Some((_, file)) = part.file.filter(|_| part.cached) {
                self.by_file.push(file, number);
            }
        }
        self.kept.push_back(Arc::clone(&done));
        Some(done)
    }

    /// Number of kept requests, and of their numbers in the indices.
    #[cfg(test)]
    pub fn len(&self) -> (usize, usize) {
        let threads = self.by_thread.0.values().map(VecDeque::len);
        let files = self.by_file.0.values().map(VecDeque::len);
        (self.kept.len(), threads.chain(files).sum())
    }

    /// Requests that a thread submitted within a fault, by completion.
    pub fn asked_within(&self, thread: ThreadId, span: Span) -> Vec<Link> {
        let since = Span {
            end: Timestamp(u64::MAX),
            ..span
        };
        let mine = |part: &Part| part.thread == Some(thread) && span.holds(part.time);
        let mut links: Vec<Link> = self.find(self.by_thread.latest(&thread), since, mine).collect();
        links.reverse();
        links
    }

    /// The request that read a page of a file within this time.
    pub fn brought(&self, page: (FileId, u64), span: Span) -> Option<Link> {
        self.find(self.by_file.latest(&page.0), span, |part| part.holds(page))
            .next()
    }

    /// The latest of a thread's own requests that completed within this time.
    pub fn completed(&self, thread: ThreadId, span: Span) -> Option<Link> {
        let mine = |part: &Part| part.thread == Some(thread);
        self.find(self.by_thread.latest(&thread), span, mine).next()
    }

    /// The latest request that read pages of a file within this time.
    pub fn of_file(&self, file: FileId, span: Span) -> Option<Link> {
        self.find(self.by_file.latest(&file), span, |part| part.is_of(file))
            .next()
    }

    /// The request of a link, as a thread that it held up describes it.
    pub fn describe(&self, thread: ThreadId, link: Link) -> Option<RequestRef> {
        let done = self.get(link.request)?;
        Some(done.seen_by(thread, done.parts.get(link.part)?))
    }

    /// Of these numbers, latest first, the requests that completed in this time and have such a part.
    fn find<'r>(
        &'r self,
        numbers: impl Iterator<Item = u64> + 'r,
        span: Span,
        wanted: impl Fn(&Part) -> bool + 'r,
    ) -> impl Iterator<Item = Link> + 'r {
        let complete = numbers.filter_map(|number| Some((number, self.get(number)?)));
        complete
            .skip_while(move |(_, done)| done.request.end > span.end)
            .take_while(move |(_, done)| done.request.end >= span.start)
            .take(MAX_LOOKED_AT)
            .filter_map(move |(request, done)| {
                let part = done.parts.iter().position(&wanted)?;
                Some(Link { request, part })
            })
    }

    fn get(&self, number: u64) -> Option<&Done> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.kept.get(place).map(|done| &**done)
    }

    fn pop(&mut self) {
        let Some(done) = self.kept.pop_front() else { return };
        for part in &done.parts {
            if let Some(thread) = &part.thread {
                self.by_thread.pop(thread, self.first);
            }
            if let Some((_, file)) = &part.file {
                self.by_file.pop(file, self.first);
            }
        }
        self.first += 1;
    }
}

/// Numbers of requests, ascending, by a key.
#[derive(Debug)]
struct Index<K>(FxHashMap<K, VecDeque<u64>>);

impl<K> Default for Index<K> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<K: Hash + Eq> Index<K> {
    fn push(&mut self, key: K, number: u64) {
        let numbers = self.0.entry(key).or_default();
        if numbers.back() != Some(&number) {
            numbers.push_back(number);
        }
    }

    fn pop(&mut self, key: &K, number: u64) {
        let Some(numbers) = self.0.get_mut(key) else { return };
        if numbers.front() == Some(&number) {
            numbers.pop_front();
        }
        if numbers.is_empty() {
            self.0.remove(key);
        }
    }

    /// Numbers with the key, latest first.
    fn latest(&self, key: &K) -> impl Iterator<Item = u64> + '_ {
        self.0
            .get(key)
            .into_iter()
            .flat_map(|numbers| numbers.iter().rev().copied())
    }
}
