//! Events become marks: starts find their ends.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::value::RawValue;

use super::event::{Event, Phase};
use super::limits::{self, short};
use super::payload;
use crate::gecko::merge::Merge;
use crate::marker::SCREENSHOT;
use base::addr::Timestamp;
use fact::{GeckoMark, Mark, MarkKind, Recording, ThreadId};

/// Category of pictures of pages.
const SCREENSHOTS: &str = "devtools.screenshot";
/// Number of starts with the same id among which an end finds its own: all of them would take quadratic time.
const NEAREST: usize = 64;

/// A start without its end.
type Open<'a> = (Event<'a>, ThreadId);
/// The result so far, and what was recorded.
type Into<'m> = (&'m mut Merge, &'m Recording);

/// Starts that have no end yet.
#[derive(Default)]
pub struct Pairs<'a> {
    /// By thread.
    nested: FxHashMap<ThreadId, Vec<Open<'a>>>,
    /// By category and id.
    by_id: FxHashMap<(String, String), Vec<Open<'a>>>,
}

impl<'a> Pairs<'a> {
    /// Takes the next event, by time.
    pub fn event(&mut self, event: Event<'a>, thread: ThreadId, into: Into<'_>) {
        let key = |event: &Event<'_>| (event.category.clone().into_owned(), event.id.clone());
        match event.phase {
            Phase::Begin => self.nested.entry(thread).or_default().push((event, thread)),
            Phase::AsyncBegin => self.by_id.entry(key(&event)).or_default().push((event, thread)),
            Phase::End => {
                let open = self.nested.get_mut(&thread).and_then(Vec::pop);
                end(open, &event, into);
            }
            Phase::AsyncEnd => {
                let key = key(&event);
                let open = self.by_id.get_mut(&key).and_then(|open| {
                    let before = open.len().saturating_sub(NEAREST);
                    let same = open[before..].iter().rposition(|(first, _)| first.name == event.name);
                    let place = same.map(|place| before + place).or(open.len().checked_sub(1));
                    place.map(|place| open.remove(place))
                });
                if self.by_id.get(&key).is_some_and(Vec::is_empty) {
                    self.by_id.remove(&key);
                }
                end(open, &event, into);
            }
            _ => {
                let times = (event.start, event.end);
                mark(&event, thread, times, None, into);
            }
        }
    }

    /// Ends what had not ended at the end of the trace, `last`.
    pub fn finish(self, last: Timestamp, (merge, recording): Into<'_>) {
        let mut rest: Vec<Open<'_>> = self
            .nested
            .into_values()
            .chain(self.by_id.into_values())
            .flatten()
            .collect();
        rest.sort_by(|(one, _), (other, _)| (one.start, &one.name).cmp(&(other.start, &other.name)));
        for (event, thread) in rest {
            let times = (event.start, Some(last.min(recording.end).max(event.start)));
            mark(&event, thread, times, None, (merge, recording));
        }
    }
}

/// An end without a start began before the trace, at a time that is unknown.
fn end(open: Option<Open<'_>>, last: &Event<'_>, into: Into<'_>) {
    match open {
        Some((first, thread)) => mark(&first, thread, (first.start, Some(last.start)), last.args, into),
        None => into.0.merged.left.unopened += 1,
    }
}

fn mark(
    event: &Event<'_>,
    thread: ThreadId,
    (start, end): (Timestamp, Option<Timestamp>),
    args_of_end: Option<&RawValue>,
    (merge, recording): Into<'_>,
) {
    if end.unwrap_or(start) < recording.start || start > recording.end {
        merge.merged.left.outside += 1;
        return;
    }
    if event.category.contains(SCREENSHOTS) {
        merge.merged.left.screenshots += 1;
        return;
    }
    // The front end expects a picture in such a marker.
    if event.name == SCREENSHOT || event.name.is_empty() {
        merge.merged.left.damaged += 1;
        return;
    }
    let name = short(&event.name, limits::TEXT);
    let data = payload::of(event, [event.args, args_of_end], merge);
    let category = merge.category(event.category.split(',').next().unwrap_or_default(), "");
    let mark = GeckoMark {
        name: Arc::clone(merge.texts.entry(name.to_owned()).or_insert_with(|| name.into())),
        category,
        data,
        times: Box::default(),
        image: None,
        flows: Box::default(),
    };
    merge.marks.push(Mark {
        start: start.max(recording.start),
        end,
        thread,
        stack: None,
        kind: MarkKind::Gecko(Arc::new(mark)),
    });
}
