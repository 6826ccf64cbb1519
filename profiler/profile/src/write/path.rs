//! The track of a critical path: a synthetic thread whose samples are the pieces of the path, weighed by their time. Its
//! call tree and flame graph show what the time of a thread consists of: which thread ran, in which functions, and what
//! was waited for. The longest links are markers, in the flow of the wait that they ended.

mod items;
mod stacks;

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, json};

use self::stacks::Stacks;
use super::Whole;
use super::flows::Flows;
use super::skeleton::ThreadRow;
use super::track::{Item, TrackMarker, TrackRow, TrackThread, Weight, lay_out};
use crate::error::WriteError;
use crate::marker::link::{LinkPayload, NAME};
use crate::shared::Shared;
use crate::shared::categories::Category;
use base::addr::{Timestamp, ns};
use fact::reduce::budget::Collected;
use fact::{StackId, Tables, ThreadId, WaitFact, WaitReason};

/// The critical path of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathTrack {
    /// The thread.
    pub thread: ThreadId,
    /// Adjacent pieces, by time.
    pub pieces: Vec<PathPiece>,
    /// The links to mark, by time.
    pub links: Vec<PathLink>,
}

/// A piece of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathPiece {
    /// Its start.
    pub start: Timestamp,
    /// Its end.
    pub end: Timestamp,
    /// The thread that would have had to be faster.
    pub thread: ThreadId,
    /// Where.
    pub stack: Option<StackId>,
    /// What was waited for, and whether within a page fault; `None`: the thread ran.
    pub wait: Option<(WaitReason, bool)>,
}

/// Adjacent pieces in the time of one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathLink {
    /// Its start.
    pub start: Timestamp,
    /// Its end.
    pub end: Timestamp,
    /// The thread on the path.
    pub thread: ThreadId,
    /// The reason of the wait that led there.
    pub via: Option<WaitReason>,
    /// What most of it is.
    pub part: String,
    /// A wait that the link is in or that it ended, by its thread and a moment in it.
    pub wait: Option<(ThreadId, Timestamp)>,
}

/// The row of `threads`, built from the row of the path's thread.
pub fn row(tables: &Tables, track: &PathTrack, of_thread: &Map<String, Value>) -> Map<String, Value> {
    let mut row = of_thread.clone();
    let text = |key: &str| of_thread.get(key).and_then(Value::as_str).unwrap_or_default();
    let thread = tables.threads.get(track.thread.index());
    let name = thread.map_or("", |thread| thread.name.as_str());
    for (key, value) in [
        ("name", json!(format!("critical path of {name}"))),
        ("tid", json!(format!("{}-path", text("pid")))),
        ("isMainThread", json!(false)),
        ("showMarkersInTimeline", json!(true)),
    ] {
        row.insert(key.into(), value);
    }
    row
}

/// The samples and markers of the track.
pub struct PathRows<'a> {
    track: &'a PathTrack,
    samples: Vec<TrackRow>,
    /// The flow of each link.
    flows: Vec<Option<u32>>,
    /// Index of the markers' name.
    name: u32,
}

impl<'a> PathRows<'a> {
    /// Adds the stacks and strings of the track; all other stacks are in the table already.
    pub fn new(
        track: &'a PathTrack,
        (tables, collected): (&'a Tables, &Collected),
        (shared, flows): (&mut Shared<'a>, &Flows<'_>),
        times: (Timestamp, Timestamp),
    ) -> Result<Self, WriteError> {
        let name = shared.string(Cow::Borrowed(NAME))?;
        let mut stacks = Stacks::new(tables, shared);
        let mut items: Vec<Item> = Vec::with_capacity(track.pieces.len());
        for piece in &track.pieces {
            items.push(Item {
                start: piece.start,
                end: piece.end,
                stack: Some(stacks.row(piece)?),
                weight: ns(piece.end.since(piece.start)),
            });
        }
        let of_wait = |link: &PathLink| flows.of_wait(wait_at(collected, link.wait?)?);
        Ok(Self {
            track,
            samples: lay_out(items::shown(items), times),
            flows: track.links.iter().map(of_wait).collect(),
            name,
        })
    }
}

/// The wait of a thread that contains a moment.
fn wait_at(collected: &Collected, (thread, time): (ThreadId, Timestamp)) -> Option<&WaitFact> {
    let waits = &collected.threads.get(thread.index())?.waits;
    let wait = waits.get(waits.partition_point(|wait| wait.end < time))?;
    (wait.start < time).then_some(wait)
}

/// The track.
pub fn thread<'a>(whole: &'a Whole<'a>, rows: &'a PathRows<'a>, row: &'a ThreadRow) -> impl Serialize {
    let marker = |(link, flow): (&'a PathLink, &Option<u32>)| TrackMarker {
        fact: (link, *flow),
        name: rows.name,
        start: link.start,
        end: Some(link.end),
    };
    TrackThread {
        row,
        samples: Cow::Borrowed(&rows.samples),
        weight: Weight::Time,
        markers: rows.track.links.iter().zip(&rows.flows).map(marker).collect(),
        category: Category::Other,
        payload: |(link, flow): &(&'a PathLink, Option<u32>)| {
            LinkPayload::new(whole.tables, link.thread, &link.part, (link.via, *flow))
        },
        shows: json!({"path": rows.track.thread}),
        zero: whole.zero,
    }
}
