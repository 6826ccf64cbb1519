//! Sums over parts of requests, and groups of them in the order of tables.

use serde::Serialize;

use crate::fact::RequestFact;
use crate::fact::request::Operation;
use crate::report::groups::{self, Ranked};

/// What a group of I/Os amounts to: an I/O is what was asked for at once, one of several that became one request, or a part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Tally {
    /// How many.
    pub ios: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Bytes that were read ahead: a part of those that were read.
    pub read_ahead_bytes: u64,
    /// From being queued to completion, in ns: the sum over all, of which many may have been under way at once.
    pub time_ns: u64,
    /// Failed.
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

    /// Adds another group.
    pub fn merge(&mut self, other: &Self) {
        self.ios += other.ios;
        self.read_bytes = self.read_bytes.saturating_add(other.read_bytes);
        self.written_bytes = self.written_bytes.saturating_add(other.written_bytes);
        self.read_ahead_bytes = self.read_ahead_bytes.saturating_add(other.read_ahead_bytes);
        self.time_ns = self.time_ns.saturating_add(other.time_ns);
        self.errors += other.errors;
    }

    /// Read and written.
    pub fn bytes(&self) -> u64 {
        self.read_bytes.saturating_add(self.written_bytes)
    }
}

impl Ranked for Tally {
    /// Those with the most bytes, then those with the most I/Os.
    fn rank(&self) -> (u64, u64) {
        (self.bytes(), self.ios)
    }
}

/// By a key.
pub type Groups<K> = groups::Groups<K, Tally>;
