//! Merges sorted runs into one sequence.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use zerocopy::IntoBytes as _;

use super::{Row, Run, Scratch, Sorted};

/// Maximum size of a read buffer, in bytes.
const READ: usize = 1 << 18;
/// Total size of the read buffers of many runs, in bytes.
const READ_ALL: usize = 1 << 25;
/// Minimum size of a read buffer, in bytes.
const READ_LEAST: usize = 1 << 13;

/// Iterator over rows sorted by key.
#[derive(Debug)]
pub struct Merge<'r, T> {
    rows: &'r Sorted<T>,
    /// Indices of the remaining rows in memory.
    order: &'r [u32],
    runs: Vec<Reader<T>>,
    /// Number of rows per read of a run.
    batch: usize,
    /// Next key and index of each run; memory has the last index. Of equal keys, the earlier run comes first.
    next: BinaryHeap<Reverse<(u64, usize)>>,
}

/// Remaining rows of a run.
#[derive(Debug)]
struct Reader<T> {
    at: u64,
    left: usize,
    buffer: Vec<T>,
    /// Number of rows already taken from the buffer.
    taken: usize,
}

impl<'r, T: Row> Merge<'r, T> {
    pub(super) fn new(rows: &'r Sorted<T>, order: &'r [u32]) -> Self {
        let bytes = (READ_ALL / rows.runs.len().max(1)).clamp(READ_LEAST, READ);
        let mut merge = Self {
            rows,
            order,
            runs: rows.runs.iter().map(Reader::new).collect(),
            batch: (bytes / size_of::<T>()).max(1),
            next: BinaryHeap::new(),
        };
        let keys = rows.runs.iter().map(|run| run.first_key);
        merge.next = keys.zip(0..).map(Reverse).collect();
        let memory = merge.key_in_memory().map(|key| Reverse((key, rows.runs.len())));
        merge.next.extend(memory);
        merge
    }

    fn key_in_memory(&self) -> Option<u64> {
        self.rows.get(*self.order.first()?).map(Row::key)
    }
}

impl<T: Row> Iterator for Merge<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        loop {
            let mut first = self.next.peek_mut()?;
            let run = first.0.1;
            let (row, key) = if let Some(reader) = self.runs.get_mut(run) {
                let scratch = self.rows.scratch.as_deref();
                (reader.take(scratch, self.batch), reader.key(scratch, self.batch))
            } else {
                let row = self.order.split_off_first().and_then(|&number| self.rows.get(number));
                let next = self.order.first().and_then(|&number| self.rows.get(number));
                (row.copied(), next.map(Row::key))
            };
            if let Some(key) = key {
                first.0.0 = key;
            } else {
                PeekMut::pop(first);
            }
            // Without a row, the run can no longer be read.
            if row.is_some() {
                return row;
            }
        }
    }
}

impl<T: Row> Reader<T> {
    fn new(run: &Run) -> Self {
        Self {
            at: run.at,
            left: run.rows,
            buffer: Vec::new(),
            taken: 0,
        }
    }

    fn take(&mut self, scratch: Option<&dyn Scratch>, batch: usize) -> Option<T> {
        let row = *self.peek(scratch, batch)?;
        self.taken += 1;
        Some(row)
    }

    fn key(&mut self, scratch: Option<&dyn Scratch>, batch: usize) -> Option<u64> {
        self.peek(scratch, batch).map(Row::key)
    }

    fn peek(&mut self, scratch: Option<&dyn Scratch>, batch: usize) -> Option<&T> {
        if self.taken == self.buffer.len() {
            self.read(scratch?, batch);
        }
        self.buffer.get(self.taken)
    }

    fn read(&mut self, scratch: &dyn Scratch, batch: usize) {
        let rows = self.left.min(batch);
        self.taken = 0;
        if self.buffer.len() != rows {
            // At the end of the run, this frees the memory.
            self.buffer = vec![T::new_zeroed(); rows];
        }
        if rows == 0 {
            return;
        }
        if scratch
            .read_at(self.buffer.as_mut_slice().as_mut_bytes(), self.at)
            .is_err()
        {
            self.buffer = Vec::new();
            self.left = 0;
            return;
        }
        self.at += (rows * size_of::<T>()) as u64;
        self.left -= rows;
    }
}
