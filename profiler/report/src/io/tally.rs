//! Sums over parts of requests, grouped and ranked for tables.

use serde::Serialize;

use crate::groups::{self, Ranked};
use fact::RequestFact;
use fact::request::Operation;

/// Sums of a group of I/Os. An I/O is a bio: a whole request, one of several merged into a request, or a part of a split bio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Tally {
    /// Number of I/Os.
    pub ios: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes read ahead, included in `read_bytes`.
    pub read_ahead_bytes: u64,
    /// Sum of the times from queueing to completion, in ns; many of them may overlap.
    pub time_ns: u64,
    /// Failed I/Os.
    pub errors: u64,
}

impl Tally {
    /// Counts an I/O of a request.
    pub fn add(&mut self, request: &RequestFact, bytes: u64, time_ns: u64) {
        self.ios += 1;
        match request.operation {
            Operation::Read => {
                self.read_bytes = self.read_bytes.saturating_add(bytes);
                if request.kind.read_ahead {
                    self.read_ahead_bytes = self.read_ahead_bytes.saturating_add(bytes);
                }
            }
            Operation::Write => self.written_bytes = self.written_bytes.saturating_add(bytes),
            _ => {}
        }
        self.time_ns = self.time_ns.saturating_add(time_ns);
        self.errors += u64::from(request.error != 0);
    }

    /// Adds the sums of another group.
    pub fn merge(&mut self, other: &Self) {
        self.ios += other.ios;
        self.read_bytes = self.read_bytes.saturating_add(other.read_bytes);
        self.written_bytes = self.written_bytes.saturating_add(other.written_bytes);
        self.read_ahead_bytes = self.read_ahead_bytes.saturating_add(other.read_ahead_bytes);
        self.time_ns = self.time_ns.saturating_add(other.time_ns);
        self.errors += other.errors;
    }

    /// Bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.read_bytes.saturating_add(self.written_bytes)
    }
}

impl Ranked for Tally {
    /// Most bytes first, then most I/Os.
    fn rank(&self) -> (u64, u64) {
        (self.bytes(), self.ios)
    }
}

/// Tallies by key.
pub type Groups<K> = groups::Groups<K, Tally>;
