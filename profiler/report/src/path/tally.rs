//! The values of a part of a path, and the columns that show them.

use serde::Serialize;

use super::walk::Piece;
use crate::export::ns;
use crate::grid::{Column, Grid, Measure};
use crate::text::{count, duration, percent};

/// Sums of pieces of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct PathTally {
    /// Their time, in ns.
    pub time_ns: u64,
    /// Number of pieces.
    pub pieces: u64,
    /// Longest piece, in ns.
    pub longest_ns: u64,
    /// By how much the time span would be shorter without them, in ns: an estimate; `None`: not computed.
    pub saves_ns: Option<u64>,
}

impl PathTally {
    /// The values of one piece.
    pub(super) fn of(piece: &Piece) -> Self {
        let time = ns(piece.end.since(piece.start));
        Self {
            time_ns: time,
            pieces: 1,
            longest_ns: time,
            saves_ns: None,
        }
    }
}

impl Measure for PathTally {
    const GRID: Grid<Self> = Grid {
        name: 42,
        gap: 0,
        columns: &[
            Column("time", 9, |row, _| duration(row.time_ns)),
            Column("share", 8, |row, all| percent(row.time_ns, all.time_ns)),
            Column("pieces", 10, |row, _| count(row.pieces)),
            Column("saves ~", 11, |row, _| row.saves_ns.map_or_else(String::new, duration)),
        ],
    };

    fn merge(&mut self, other: &Self) {
        self.time_ns = self.time_ns.saturating_add(other.time_ns);
        self.pieces = self.pieces.saturating_add(other.pieces);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        // What is saved without both is not the sum.
        self.saves_ns = None;
    }

    fn rank(&self) -> (u64, u64) {
        (self.time_ns, self.longest_ns)
    }
}
