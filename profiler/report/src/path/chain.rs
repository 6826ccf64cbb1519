//! The links of a path's chain: where it enters and leaves threads.

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::report::part_text;
use super::view::{Part, PathView};
use super::walk::{Kind, Piece};
use crate::export::ns;
use crate::lookup::Lookup as _;
use base::addr::Timestamp;
use fact::{ThreadId, WaitReason};

/// Number of links in a report.
pub const LINKS: usize = 100;

/// A link as a report has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Link {
    /// Its start, in ns since the start of the recording.
    pub start_ns: u64,
    /// Its duration, in ns.
    pub time_ns: u64,
    /// Thread id.
    pub tid: u32,
    /// The reason of the wait that led to this thread; `None` in the path's own thread.
    pub via: Option<&'static str>,
    /// Thread, reason and place of most of it, as a table shows them.
    pub part: String,
}

/// Adjacent pieces in the time of one thread: running or waiting for a CPU, or one wait that is not replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkSpan {
    /// Its start.
    pub start: Timestamp,
    /// Its end.
    pub end: Timestamp,
    /// The thread on the path.
    pub lane: ThreadId,
    /// The reason of the wait that led to this thread; `None` in the path's own thread.
    pub via: Option<WaitReason>,
    /// Whether it is a wait that is not replaced.
    pub is_wait: bool,
    /// What most of it is.
    pub part: Part,
}

impl LinkSpan {
    fn time(&self) -> u64 {
        ns(self.end.since(self.start))
    }

    /// The link with names.
    pub fn shown(&self, view: &PathView<'_>) -> Link {
        Link {
            start_ns: view.tables.time_ns(self.start),
            time_ns: self.time(),
            tid: view.tables.thread(self.lane).map_or(0, |thread| thread.tid),
            via: self.via.map(WaitReason::name),
            part: part_text(view, self.part),
        }
    }
}

/// A link while pieces are added to it.
struct OpenLink {
    piece: Piece,
    /// The part of a wait that is not replaced.
    blocked: Option<Part>,
    parts: FxHashMap<Part, u64>,
}

/// The longest links, at most `most`, by time.
pub fn longest(view: &PathView<'_>, most: usize) -> Vec<LinkSpan> {
    let mut links: Vec<LinkSpan> = Vec::new();
    let mut open: Option<OpenLink> = None;
    for piece in &view.pieces {
        let part = view.part(piece);
        let is_running = matches!(part.kind, Kind::Cpu | Kind::Wait(WaitReason::RunQueue));
        let blocked = (!is_running).then_some(part);
        let is_same =
            |link: &&mut OpenLink| (link.piece.lane, link.piece.via, link.blocked) == (piece.lane, piece.via, blocked);
        let time = ns(piece.end.since(piece.start));
        if let Some(link) = open.as_mut().filter(is_same) {
            link.piece.end = piece.end;
            *link.parts.entry(part).or_default() += time;
        } else {
            let next = OpenLink {
                piece: *piece,
                blocked,
                parts: std::iter::once((part, time)).collect(),
            };
            links.extend(open.replace(next).map(|done| done.closed(view)));
            if links.len() >= 2 * most.max(1) {
                keep_longest(&mut links, most);
            }
        }
    }
    links.extend(open.map(|last| last.closed(view)));
    keep_longest(&mut links, most);
    links.sort_by_key(|link| link.start);
    links
}

fn keep_longest(links: &mut Vec<LinkSpan>, most: usize) {
    links.sort_by_key(|link| std::cmp::Reverse(link.time()));
    links.truncate(most);
}

impl OpenLink {
    fn closed(&self, view: &PathView<'_>) -> LinkSpan {
        let piece = &self.piece;
        let parts = self.parts.iter();
        let most = parts.max_by_key(|(part, time)| (**time, std::cmp::Reverse(**part)));
        LinkSpan {
            start: piece.start,
            end: piece.end,
            lane: piece.lane,
            via: piece.via,
            is_wait: self.blocked.is_some(),
            part: most.map_or_else(|| view.part(piece), |(part, _)| *part),
        }
    }
}
