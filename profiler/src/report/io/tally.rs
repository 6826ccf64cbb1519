//! Sums over parts of requests, and groups of them in the order of tables.

use std::hash::Hash;

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::fact::RequestFact;
use crate::fact::request::Operation;

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

/// Groups by a key.
#[derive(Debug)]
pub struct Groups<K>(FxHashMap<K, Tally>);

impl<K> Default for Groups<K> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<K: Hash + Ord + Copy> Groups<K> {
    /// The group.
    pub fn of(&mut self, key: K) -> &mut Tally {
        self.0.entry(key).or_default()
    }

    /// Those with the most bytes first, then those with the most I/Os.
    pub fn sorted(self) -> Vec<(K, Tally)> {
        let mut groups: Vec<(K, Tally)> = self.0.into_iter().collect();
        groups
            .sort_unstable_by(|(a, left), (b, right)| (right.bytes(), right.ios, a).cmp(&(left.bytes(), left.ios, b)));
        groups
    }
}
