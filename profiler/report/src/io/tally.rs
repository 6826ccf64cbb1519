//! The values of a group of I/Os, and the columns that show them.

use serde::Serialize;

use crate::grid::{Column, Grid, Measure};
use crate::text::{count, duration, percent, size};
use fact::RequestFact;
use fact::request::Operation;

/// Sums of a group of I/Os. An I/O is a bio: a whole request, one of several merged into a request, or a part of a split bio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct IoTally {
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

impl IoTally {
    /// The values of an I/O of a request.
    pub(crate) fn of(request: &RequestFact, bytes: u64, time_ns: u64) -> Self {
        let of = |operation| if request.operation == operation { bytes } else { 0 };
        let read_bytes = of(Operation::Read);
        Self {
            ios: 1,
            read_bytes,
            written_bytes: of(Operation::Write),
            read_ahead_bytes: if request.kind.read_ahead { read_bytes } else { 0 },
            time_ns,
            errors: u64::from(request.error != 0),
        }
    }

    /// Bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.read_bytes.saturating_add(self.written_bytes)
    }
}

impl Measure for IoTally {
    const GRID: Grid<Self> = Grid {
        name: 35,
        gap: 0,
        columns: &[
            Column("I/Os", 10, |row, _| count(row.ios)),
            Column("read", 9, |row, _| size(row.read_bytes)),
            Column("written", 9, |row, _| size(row.written_bytes)),
            Column("share", 9, share),
            Column("time", 8, |row, _| duration(row.time_ns)),
        ],
    };

    fn merge(&mut self, other: &Self) {
        self.ios += other.ios;
        self.read_bytes = self.read_bytes.saturating_add(other.read_bytes);
        self.written_bytes = self.written_bytes.saturating_add(other.written_bytes);
        self.read_ahead_bytes = self.read_ahead_bytes.saturating_add(other.read_ahead_bytes);
        self.time_ns = self.time_ns.saturating_add(other.time_ns);
        self.errors += other.errors;
    }

    /// Most bytes first, then most I/Os.
    fn rank(&self) -> (u64, u64) {
        (self.bytes(), self.ios)
    }
}

/// The share of bytes, or of I/Os if no bytes were transferred.
fn share(row: &IoTally, all: &IoTally) -> String {
    if all.bytes() > 0 {
        percent(row.bytes(), all.bytes())
    } else {
        percent(row.ios, all.ios)
    }
}
