//! Divides time on a CPU among functions, by the samples of the thread.

use super::lanes::{Activity, Lane};
use super::walk::Piece;

/// Appends a piece on a CPU in parts, the last one first: each moment belongs to the next sample of the same stretch on
/// the CPU, else to its last one. A stretch without samples belongs to where the wait began that ended it.
pub(super) fn split(lane: &Lane, piece: &Piece, to: &mut Vec<Piece>) {
    let Activity::Ran(since) = lane.at(piece.end) else {
        to.push(*piece);
        return;
    };
    let next = lane.next(piece.end);
    let samples = lane.samples();
    let first = samples.partition_point(|sample| sample.time <= since);
    let after = samples.partition_point(|sample| next.is_none_or(|next| sample.time <= next.start));
    let samples = samples.get(first..after).unwrap_or_default();
    let Some(last) = samples.last() else {
        let mut piece = *piece;
        piece.spent.stack = next.and_then(|next| next.stack);
        to.push(piece);
        return;
    };
    // The first sample at or after the end of the piece.
    let mut index = samples
        .partition_point(|sample| sample.time < piece.end)
        .min(samples.len() - 1);
    let (mut end, mut stack) = (piece.end, samples.get(index).unwrap_or(last).stack);
    loop {
        let before = index.checked_sub(1).and_then(|before| samples.get(before));
        let before = before.filter(|before| before.time > piece.start);
        if before.is_none_or(|before| before.stack != stack) {
            let start = before.map_or(piece.start, |before| before.time.min(end));
            if start < end {
                let mut part = Piece { start, end, ..*piece };
                part.spent.stack = stack;
                to.push(part);
            }
            end = start;
        }
        let Some(before) = before else { break };
        stack = before.stack;
        index -= 1;
    }
}
