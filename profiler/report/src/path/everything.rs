//! What every thread did in a time span, on the path or not: if a function, a file or a thread took no time, it would
//! take none in parallel to the path either.

use base::addr::Timestamp;
use fact::ThreadId;

use super::lanes::{Activity, Lanes};
use super::rules::{self, Step};
use super::split::split;
use super::walk::{Kind, Piece, Window};
use super::what_if::Removed;

/// Most parts that are kept: some 200 MB.
const MAX_PARTS: usize = 1 << 21;

/// A part of a thread's time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// What it did.
    pub piece: Piece,
    /// Until when the thread would save time without it: a thread that is not blocked does not wait for a CPU either.
    pub until: Timestamp,
}

impl From<&Part> for Removed {
    fn from(part: &Part) -> Self {
        Self {
            end: part.until,
            ..Self::from(&part.piece)
        }
    }
}

/// The parts of each thread's own time, without the waits that other threads ended. `None`: too many.
pub(super) fn everything(lanes: &Lanes, window: Window) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    for (thread, _) in lanes.all() {
        of_thread(lanes, thread, window, &mut parts);
        if parts.len() > MAX_PARTS {
            return None;
        }
    }
    Some(parts)
}

/// One thread's parts, the last one first.
fn of_thread(lanes: &Lanes, thread: ThreadId, window: Window, parts: &mut Vec<Part>) {
    let Some(lane) = lanes.get(thread) else { return };
    let mut now = lane.last().map_or(window.end, |end| end.min(window.end));
    let mut ran = Vec::new();
    while now > window.start && parts.len() <= MAX_PARTS {
        let (from, spent) = match rules::step(lanes, thread, None, window.start, now) {
            Step::Spent(from, spent) => (from, spent),
            Step::Enter { floor, .. } => {
                now = floor;
                continue;
            }
            Step::CreatedBy(_) | Step::Lost => return,
        };
        let piece = Piece {
            start: from,
            end: now,
            lane: thread,
            via: None,
            spent,
        };
        if spent.kind == Kind::Cpu {
            split(lane, &piece, &mut ran);
            let alone = |piece: Piece| Part {
                piece,
                until: piece.end,
            };
            parts.extend(ran.drain(..).map(alone));
        } else {
            let until = until(lane.at(now), &piece).min(window.end);
            parts.push(Part { piece, until });
        }
        now = from;
    }
}

/// Until when a thread would save time without a piece in which it did not run: if it is all that blocked the thread,
/// until it ran again.
fn until(activity: Activity<'_>, piece: &Piece) -> Timestamp {
    match activity {
        Activity::Waited(wait) if piece.end == wait.woken && piece.start <= wait.start => wait.end,
        _ => piece.end,
    }
}
