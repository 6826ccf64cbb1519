//! Patterns in the waits for a lock. docs/waits.md defines them.

use serde::Serialize;

use super::holds::Holder;
use crate::export::ns;
use base::addr::Timestamp;
use fact::ThreadId;
use rustc_hash::FxHashMap;

/// Hand-overs in a row from which on they are a convoy.
pub const CONVOY: u64 = 3;
/// Holders were preempted for at least one of this many parts of the blocked time.
const PREEMPTED_PART: u64 = 10;

/// A wait, as far as convoys need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The thread that waited.
    pub thread: ThreadId,
    /// Since when.
    pub start: Timestamp,
    /// When it was woken.
    pub woken: Timestamp,
    /// When it ran again, with the lock.
    pub end: Timestamp,
    /// The thread that woke it.
    pub by: Holder,
    /// Whether it counts; other waits only link those that do.
    pub is_selected: bool,
}

/// The convoys behind a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Convoy {
    /// Most hand-overs in a row; a convoy from [`CONVOY`] on.
    pub hand_overs: u64,
    /// Waits in convoys.
    pub waits: u64,
    /// Their blocked time, in ns.
    pub blocked_ns: u64,
}

impl Convoy {
    /// Whether there was one.
    pub fn is_named(&self) -> bool {
        self.hand_overs >= CONVOY && self.waits > 0
    }
}

/// Whether holders were preempted for long enough to say so.
pub fn is_preempted(preempted_ns: u64, blocked_ns: u64) -> bool {
    preempted_ns > 0 && preempted_ns >= blocked_ns / PREEMPTED_PART
}

/// The convoys of a lock's waits, in any order.
///
/// A wait is a hand-over if the thread that ended it had itself waited for the lock, and got it while this wait was
/// under way. Those in a row are a convoy.
pub fn convoy(turns: &[Turn]) -> Convoy {
    let mut order: Vec<&Turn> = turns.iter().collect();
    order.sort_unstable_by_key(|turn| (turn.woken, turn.end, turn.thread, turn.start, turn.by));
    let mut convoy = Convoy::default();
    // The last wait of each thread so far, and for each wait: its predecessor, its hand-overs, and whether it is in a
    // convoy.
    let mut last: FxHashMap<ThreadId, usize> = FxHashMap::default();
    let mut links: Vec<(Option<usize>, u64, bool)> = Vec::with_capacity(order.len());
    for (index, turn) in order.iter().enumerate() {
        let before = match turn.by {
            Holder::Thread(by) if by != turn.thread => last.get(&by).copied(),
            _ => None,
        };
        let got = |before: &usize| order.get(*before).map(|before| before.end);
        let before = before.filter(|before| got(before).is_some_and(|got| got > turn.start && got <= turn.woken));
        let hand_overs = before
            .and_then(|before| links.get(before))
            .map_or(0, |(_, before, _)| before + 1);
        links.push((before, hand_overs, false));
        last.insert(turn.thread, index);
        convoy.hand_overs = convoy.hand_overs.max(hand_overs);
        let mut next = (hand_overs >= CONVOY).then_some(index);
        while let Some(at) = next
            && let Some((before, _, is_in)) = links.get_mut(at).filter(|(.., is_in)| !is_in)
        {
            *is_in = true;
            next = *before;
        }
    }
    for (turn, (.., is_in)) in order.into_iter().zip(links) {
        if is_in && turn.is_selected {
            convoy.waits += 1;
            let blocked = ns(turn.woken.since(turn.start));
            convoy.blocked_ns = convoy.blocked_ns.saturating_add(blocked);
        }
    }
    convoy
}
