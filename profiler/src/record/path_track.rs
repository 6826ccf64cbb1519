//! The critical path of the command's first thread, for its track in the profile.

use crate::fact::reduce::budget::Collected;
use crate::fact::{Tables, WaitReason};
use crate::profile::{PathLink, PathPiece, PathTrack};
use crate::report::path::PathView;
use crate::report::path::chain::{LinkSpan, longest};
use crate::report::path::kept;
use crate::report::path::report::part_text;
use crate::report::path::walk::{Kind, Piece};
use crate::report::text::fit;

/// Number of links with markers.
const LINKS: usize = 500;
/// Columns of what a link is.
const PART: usize = 160;

/// The path; `None`: it leads to no other thread, or the profile does not have every wait.
pub fn path_track(tables: &Tables, collected: &Collected) -> Option<PathTrack> {
    let view = kept::path(tables, collected)?;
    Some(PathTrack {
        thread: view.chosen.thread,
        pieces: view.pieces.iter().map(piece).collect(),
        links: longest(&view, LINKS).iter().map(|span| link(&view, span)).collect(),
    })
}

fn piece(piece: &Piece) -> PathPiece {
    PathPiece {
        start: piece.start,
        end: piece.end,
        thread: piece.spent.thread,
        stack: piece.spent.stack,
        wait: match piece.spent.kind {
            Kind::Cpu => None,
            Kind::Fault => Some((WaitReason::Unknown, true)),
            Kind::Wait(reason) => Some((reason, false)),
        },
    }
}

fn link(view: &PathView<'_>, span: &LinkSpan) -> PathLink {
    // What follows is in the thread that the link woke.
    let next = view.pieces.partition_point(|piece| piece.start < span.end);
    let woken = view.pieces.get(next).filter(|next| next.lane != span.lane);
    let wait = match woken {
        _ if span.is_wait => Some((span.lane, span.end)),
        Some(woken) if span.via.is_some() => Some((woken.lane, span.end)),
        _ => None,
    };
    PathLink {
        start: span.start,
        end: span.end,
        thread: span.lane,
        via: span.via,
        part: fit(&part_text(view, span.part), PART),
        wait,
    }
}
