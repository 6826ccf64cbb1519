//! The time range of a profile.

use crate::marker::fault;
use base::addr::Timestamp;
use fact::reduce::budget::Collected;
use fact::{Cause, Reason, RequestFact, Tables, WaitFact};

/// From the recording's start to its end, extended by facts outside.
pub fn range(tables: &Tables, collected: &Collected) -> (Timestamp, Timestamp) {
    let recording = &tables.recording;
    let mut range = (recording.start, recording.end);
    let mut take = |time: Timestamp| range = (range.0.min(time), range.1.max(time));
    for thread in &collected.threads {
        let samples = [thread.samples.first(), thread.samples.last()];
        samples.into_iter().flatten().for_each(|sample| take(sample.time));
        for mark in &thread.marks {
            [Some(mark.start), mark.end].into_iter().flatten().for_each(&mut take);
        }
        for fault in thread.faults.iter() {
            [Some(fault.start), fault::end(&fault)]
                .into_iter()
                .flatten()
                .for_each(&mut take);
        }
        thread.reads.iter().for_each(|read| take(read.time));
        thread.waits.iter().flat_map(of_wait).for_each(&mut take);
    }
    collected.folded_stacks.iter().for_each(|folded| take(folded.time));
    collected.folded_wait_stacks.iter().for_each(|folded| take(folded.time));
    collected.requests.iter().flat_map(of_request).for_each(&mut take);
    collected.causes.iter().flat_map(of_cause).for_each(take);
    range
}

fn of_wait(wait: &WaitFact) -> impl Iterator<Item = Timestamp> {
    let waker = wait.waker.as_ref().map(|waker| waker.time);
    [Some(wait.start), Some(wait.end), waker].into_iter().flatten()
}

fn of_request(request: &RequestFact) -> impl Iterator<Item = Timestamp> {
    let bios = request.bios.iter().map(|bio| bio.time);
    [request.start, request.end].into_iter().chain(bios)
}

fn of_cause(cause: &Cause) -> [Timestamp; 3] {
    let effect = cause.effect.start;
    match cause.reason {
        Reason::Request(request) => [effect, request.start, request.end],
        Reason::Holder(holder) => [effect, holder.effect.start, holder.end],
    }
}
