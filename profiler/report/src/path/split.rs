//! Divides time on a CPU among functions, by the samples of the thread, and finds the files that it read in page faults.

use super::lanes::{Activity, Lane};
use super::walk::Piece;
use base::addr::Timestamp;
use fact::MappedFileId;

/// Appends a piece on a CPU in parts, the last one first.
pub(super) fn split(lane: &Lane, piece: &Piece, to: &mut Vec<Piece>) {
    let first = to.len();
    by_function(lane, piece, to);
    if !lane.reads().is_empty() {
        for part in to.split_off(first) {
            by_file(lane, &part, to);
        }
    }
}

/// Time on a CPU within a page fault that read a file is for that file: it would take none if the file were in memory.
fn by_file(lane: &Lane, part: &Piece, to: &mut Vec<Piece>) {
    let mut end = part.end;
    let mut push = |start: Timestamp, end: Timestamp, file: Option<MappedFileId>| {
        if start < end {
            let mut piece = Piece { start, end, ..*part };
            piece.spent.file = file;
            to.push(piece);
        }
    };
    let before = lane.reads().partition_point(|read| read.start < part.end);
    let reads = lane.reads()[..before].iter().rev();
    for read in reads.take_while(|read| read.end > part.start) {
        let (from, until) = (read.start.max(part.start), read.end.min(end));
        push(until, end, None);
        push(from, until, Some(read.file));
        end = from;
    }
    push(part.start, end, None);
}

/// Each moment belongs to the next sample of the same stretch on the CPU, else to its last one. A stretch without
/// samples belongs to where the wait began that ended it.
fn by_function(lane: &Lane, piece: &Piece, to: &mut Vec<Piece>) {
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
