//! Follows the critical path backwards, from the end of a time span to its start.
//!
//! The pieces of a path partition its span: they do not overlap, and their sum is the span to the nanosecond. Each step
//! either ends a piece at an earlier moment, where a thread began to run or to wait, or enters the thread that ended a
//! wait, which ran at that moment; only where the span ends, several threads may have waited for each other. So the
//! number of steps is linear in the number of waits.

use base::addr::Timestamp;
use fact::{DeviceId, MappedFileId, StackId, ThreadId, WaitReason};

use super::lanes::{Activity, EndedBy, Lanes};
use super::rules::{self, Step};
use super::split::split;

/// A time span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Its start.
    pub start: Timestamp,
    /// Its end.
    pub end: Timestamp,
}

/// How a piece of the path was spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// On a CPU.
    Cpu,
    /// Blocked in a page fault.
    Fault,
    /// Waiting for something that no recorded thread did, or nothing is known of; or for a CPU.
    Wait(WaitReason),
}

impl Kind {
    /// Number of kinds.
    pub const COUNT: usize = 2 + WaitReason::ALL.len();

    /// Every kind.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::Cpu, Self::Fault]
            .into_iter()
            .chain(WaitReason::ALL.into_iter().map(Self::Wait))
    }

    /// Its name: `cpu`, `fault`, or the reason of the wait.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Fault => "fault",
            Self::Wait(reason) => reason.name(),
        }
    }
}

/// What filled a piece of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    /// The thread that would have had to be faster: for [`WaitReason::RunQueue`] the one that had the CPU, if known.
    pub thread: ThreadId,
    /// How.
    pub kind: Kind,
    /// Where: in the samples of a thread that ran, else at the wait.
    pub stack: Option<StackId>,
    /// The file that was read, or that the system call was about.
    pub file: Option<MappedFileId>,
    /// The device that was waited for.
    pub device: Option<DeviceId>,
    /// What ended a wait that is not replaced.
    pub ended_by: EndedBy,
}

/// A piece of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Its start.
    pub start: Timestamp,
    /// Its end; after `start`.
    pub end: Timestamp,
    /// The thread in whose time it is: other than [`Spent::thread`] only while that one had the CPU.
    pub lane: ThreadId,
    /// The reason of the wait that led the path to this thread; `None` in the thread that the path is of.
    pub via: Option<WaitReason>,
    /// What filled it.
    pub spent: Spent,
}

/// A thread on the path: it is followed down to `floor`.
#[derive(Debug, Clone, Copy)]
struct Visit {
    thread: ThreadId,
    floor: Timestamp,
    via: Option<WaitReason>,
    next: Option<Next>,
}

/// A wait that was another thread's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Next {
    /// When it began.
    pub(super) start: Timestamp,
    /// The thread that the path was in then.
    pub(super) within: ThreadId,
    /// The thread that ended it.
    pub(super) ended_by: ThreadId,
}

/// The critical path of a thread through a time span, by time. Empty if the span is.
pub fn walk(lanes: &Lanes, thread: ThreadId, window: Window) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut visits = vec![Visit {
        thread,
        floor: window.start,
        via: None,
        next: None,
    }];
    let mut now = window.end;
    while let Some(visit) = visits.last().copied() {
        if now <= visit.floor {
            visits.pop();
            if let Some(outer) = visits.last_mut() {
                let inner = visit.next.filter(|next| next.start == now);
                outer.next = Some(Next {
                    start: now,
                    within: inner.map_or(visit.thread, |next| next.within),
                    ended_by: visit.thread,
                });
            }
            continue;
        }
        let (from, spent, lane) = match rules::step(lanes, visit.thread, visit.next, visit.floor, now) {
            Step::Spent(from, spent) => (from, spent, visit),
            Step::Enter { thread, via, floor } => {
                let via = Some(via);
                visits.push(Visit {
                    thread,
                    floor,
                    via,
                    next: None,
                });
                continue;
            }
            Step::CreatedBy(creator) => {
                // The creator takes the place of the thread.
                visits.pop();
                visits.push(Visit {
                    thread: creator,
                    ..visit
                });
                continue;
            }
            // Unknown: the path goes on in the thread that waited.
            Step::Lost => {
                if visits.len() > 1 {
                    visits.pop();
                }
                let waiting = visits.last().copied().unwrap_or(visit);
                (visit.floor, lost(lanes, waiting.thread, now), waiting)
            }
        };
        let piece = Piece {
            start: from,
            end: now,
            lane: lane.thread,
            via: lane.via,
            spent,
        };
        match lanes.get(lane.thread).filter(|_| spent.kind == Kind::Cpu) {
            Some(ran) => split(ran, &piece, &mut pieces),
            None => pieces.push(piece),
        }
        now = from;
    }
    pieces.reverse();
    pieces
}

/// What a thread did while the one that ended its wait did not exist yet.
fn lost(lanes: &Lanes, thread: ThreadId, now: Timestamp) -> Spent {
    match lanes.at(thread, now) {
        Activity::Waited(wait) => rules::blocked(thread, wait),
        _ => rules::unknown(thread),
    }
}
