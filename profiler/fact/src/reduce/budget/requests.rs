//! Block requests within a budget: beyond it the smallest are folded into exact sums by device and operation.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::load::Load;
use crate::prune::{Visit, visit_bios};
use crate::reduce::sums::{KeyedSums, summed};
use crate::request::{Operation, RequestCoverage};
use crate::{DeviceId, FoldedRequests, Recording, RequestFact};
use base::addr::{Timestamp, ns};

/// Exact sums of one device's requests, folded or not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceTotals {
    /// Number of completed requests; the sums cover these.
    pub requests: u64,
    /// Number of requests in flight when the recording ended.
    pub unfinished: u64,
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Sum of the times from queueing to completion, in ns.
    pub time: u64,
    /// Number of requests that ended with an error.
    pub errors: u64,
    /// The device's load over time, unfinished requests included.
    pub load: Load,
}

/// Exact sums of all requests.
pub type RequestTotals = BTreeMap<DeviceId, DeviceTotals>;

/// Requests while they arrive.
#[derive(Debug, Default)]
pub struct Requests {
    budget: usize,
    kept: Vec<RequestFact>,
    /// Number of markers that they need.
    cost: usize,
    totals: RequestTotals,
    folded: KeyedSums<FoldedRequests>,
}

/// One marker on the device's track, and at most one for each part.
fn cost(request: &RequestFact) -> usize {
    1 + request.bios.len()
}

/// When the device had the request, as far as known.
fn in_device(request: &RequestFact) -> (Timestamp, Timestamp) {
    let service = request.service.map(ns);
    let begin = service.map_or(request.start, |service| {
        Timestamp(request.end.0.saturating_sub(service))
    });
    (begin.min(request.end), request.end)
}

impl DeviceTotals {
    fn add(&mut self, request: &RequestFact) {
        let moves_bytes = request.operation.moves_bytes();
        let moved = if moves_bytes { request.bytes } else { 0 };
        // As `ngmi io` counts: whether it succeeded, and how long it took, is unknown.
        if request.coverage == RequestCoverage::EndMissed {
            self.unfinished += 1;
            self.load.add_unfinished(in_device(request), moved);
            return;
        }
        let bytes = u64::from(request.bytes);
        self.requests += 1;
        match request.operation {
            Operation::Read => self.read = self.read.saturating_add(bytes),
            Operation::Write => self.written = self.written.saturating_add(bytes),
            _ => {}
        }
        self.time = self.time.saturating_add(time(request));
        self.errors += u64::from(request.error != 0);
        self.load.add(in_device(request), moved);
    }
}

impl Requests {
    /// An empty collection whose requests need at most `budget` markers in the end.
    pub fn new(budget: usize) -> Self {
        Self {
            budget,
            ..Self::default()
        }
    }

    /// Adds a request.
    pub fn add(&mut self, request: &RequestFact) {
        self.totals.entry(request.device).or_default().add(request);
        self.cost += cost(request);
        self.kept.push(request.clone());
        if self.cost > self.budget.saturating_add(self.budget / 4) {
            self.fit();
        }
    }

    /// Visits the stacks that it keeps.
    pub fn visit(&mut self, visit: &mut dyn Visit) {
        visit_bios(self.kept.iter_mut().flat_map(|request| &mut request.bios), visit);
    }

    /// Lowers the budget.
    pub fn shrink(&mut self, budget: usize) {
        self.budget = budget;
        self.fit();
        self.kept.shrink_to(budget);
    }

    /// Folds down to the budget: the smallest first, the quickest and latest of equal ones. Returns how many markers
    /// remain.
    pub fn fit(&mut self) -> usize {
        if self.cost <= self.budget {
            return self.cost;
        }
        let key = |request: &RequestFact| {
            (
                Reverse(request.bytes),
                Reverse(time(request)),
                request.start,
                request.sector,
            )
        };
        self.kept.sort_by_key(key);
        let mut room = self.budget;
        let kept = self.kept.iter().take_while(|request| {
            let fits = cost(request) <= room;
            room = room.saturating_sub(cost(request));
            fits
        });
        let kept = kept.count();
        for request in self.kept.split_off(kept) {
            self.cost -= cost(&request);
            self.folded.add(FoldedRequests {
                device: request.device,
                operation: request.operation,
                requests: 1,
                bytes: u64::from(request.bytes),
                time: time(&request),
            });
        }
        self.cost
    }

    /// Returns the remaining requests in order of completion, and notes in the recording which were folded.
    pub fn finish(mut self, recording: &mut Recording) -> (RequestTotals, Vec<RequestFact>) {
        self.fit();
        for folded in std::mem::take(&mut recording.folded_requests) {
            self.folded.add(folded);
        }
        let seen = self.totals.values().fold(0, |sum: u64, of| {
            sum.saturating_add(of.requests).saturating_add(of.unfinished)
        });
        recording.requests_seen = recording.requests_seen.max(seen);
        recording.folded_requests = self.folded.into_sorted();
        self.kept
            .sort_by_key(|request| (request.end, request.start, request.device, request.sector));
        (self.totals, self.kept)
    }
}

/// From queueing to completion, in ns.
fn time(request: &RequestFact) -> u64 {
    request.end.0.saturating_sub(request.start.0)
}

summed!(FoldedRequests, by device: DeviceId, operation: Operation; add requests, bytes, time);
