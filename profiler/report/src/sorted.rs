//! External merge sort for rows that arrive almost in the order of their keys. Rows beyond a memory limit are written to a file
//! as sorted runs, which are merged on reading. Every run is written and read sequentially, so there is no index and no seek.

mod merge;
mod side_table;

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use zerocopy::{FromBytes, Immutable, IntoBytes};

pub use merge::Merge;
pub use side_table::SideTable;

/// Number of rows in a block of memory.
const BLOCK: usize = 1 << 15;
/// Size of a write, in bytes.
const WRITE: usize = 1 << 18;

/// A row: plain data that can be stored in a file.
pub trait Row: Copy + FromBytes + IntoBytes + Immutable {
    /// Sort key.
    fn key(&self) -> u64;
}

/// Storage for rows that exceed the memory limit. The implementation reports its failures: after a failed write, the rows stay
/// in memory; after a failed read, the run ends.
pub trait Scratch: Debug + Send + Sync {
    /// Memory limit in bytes for the rows of one kind.
    fn limit(&self) -> usize;

    /// Reserves space for `bytes` bytes and returns its offset.
    ///
    /// # Errors
    /// When there is not enough space.
    fn reserve(&self, bytes: u64) -> io::Result<u64>;

    /// Writes all bytes at an offset.
    ///
    /// # Errors
    /// When the disk is full or failed; the last reserved space is then abandoned.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Fills `into` from an offset.
    ///
    /// # Errors
    /// When the disk failed, or there is too little data.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<()>;
}

/// Collects up to [`u32::MAX`] rows and returns them sorted.
#[derive(Debug)]
pub struct Sorted<T> {
    /// The latest rows, in insertion order. Blocks are never moved, since growing a vector would need twice the memory.
    blocks: Vec<Vec<T>>,
    in_memory: usize,
    /// Maximum number of rows in memory.
    room: usize,
    len: u32,
    /// Earlier rows, in the file.
    runs: Vec<Run>,
    scratch: Option<Arc<dyn Scratch>>,
}

/// A sequence of sorted rows in a file.
#[derive(Debug, Clone, Copy)]
struct Run {
    at: u64,
    rows: usize,
    first_key: u64,
}

impl<T> Default for Sorted<T> {
    /// Keeps all rows in memory.
    fn default() -> Self {
        Self {
            blocks: Vec::new(),
            in_memory: 0,
            room: usize::MAX,
            len: 0,
            runs: Vec::new(),
            scratch: None,
        }
    }
}

impl<T: Row> Sorted<T> {
    /// Keeps rows in memory up to a limit and the rest in `scratch`.
    pub fn beyond_memory(scratch: &Arc<dyn Scratch>) -> Self {
        Self {
            room: (scratch.limit() / size_of::<T>()).max(1),
            scratch: Some(Arc::clone(scratch)),
            ..Self::default()
        }
    }

    /// Number of rows.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the maximum number of rows is reached.
    pub fn is_full(&self) -> bool {
        self.len == u32::MAX
    }

    /// Allocated memory in bytes.
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(Vec::capacity).sum::<usize>() * size_of::<T>()
    }

    /// Adds a row. Returns false if the maximum of 2^32 - 1 rows is reached.
    pub fn push(&mut self, row: T) -> bool {
        if self.is_full() {
            return false;
        }
        if self.in_memory >= self.room {
            self.move_out();
        }
        if self.blocks.last().is_none_or(|block| block.len() >= BLOCK) {
            self.blocks.push(Vec::with_capacity(BLOCK.min(self.room)));
        }
        if let Some(block) = self.blocks.last_mut() {
            block.push(row);
        }
        self.in_memory += 1;
        self.len += 1;
        true
    }

    /// All rows sorted by key; rows with the same key keep their insertion order.
    pub fn ordered(&self) -> Ordered<'_, T> {
        Ordered {
            order: self.order(),
            rows: self,
        }
    }

    /// Indices of the rows in memory, in sorted order.
    fn order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..).take(self.in_memory).collect();
        // A stable sort, which is fast on almost sorted input.
        order.sort_by_key(|&number| self.get(number).map(Row::key));
        order
    }

    /// A row in memory, by index.
    fn get(&self, number: u32) -> Option<&T> {
        let index = number as usize;
        self.blocks.get(index / BLOCK)?.get(index % BLOCK)
    }

    fn move_out(&mut self) {
        let Some(scratch) = &self.scratch else { return };
        if let Ok(run) = self.write(&**scratch) {
            self.runs.push(run);
            self.blocks.clear();
            self.in_memory = 0;
        } else {
            self.room = usize::MAX;
        }
    }

    /// Writes the rows in memory as a sorted run.
    fn write(&self, scratch: &dyn Scratch) -> io::Result<Run> {
        let order = self.order();
        let begin = scratch.reserve((self.in_memory * size_of::<T>()) as u64)?;
        let mut at = begin;
        let mut buffer: Vec<T> = Vec::with_capacity((WRITE / size_of::<T>()).max(1));
        for numbers in order.chunks(buffer.capacity()) {
            buffer.clear();
            buffer.extend(numbers.iter().filter_map(|&number| self.get(number)));
            let bytes = buffer.as_slice().as_bytes();
            scratch.write_at(bytes, at)?;
            at += bytes.len() as u64;
        }
        let first = order.first().and_then(|&number| self.get(number));
        Ok(Run {
            at: begin,
            rows: self.in_memory,
            first_key: first.map_or(0, Row::key),
        })
    }
}

/// Rows sorted by key.
#[derive(Debug)]
pub struct Ordered<'r, T> {
    rows: &'r Sorted<T>,
    /// Indices of the rows in memory, in sorted order.
    order: Vec<u32>,
}

impl<T: Row> Ordered<'_, T> {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len() as usize
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Iterates over all rows from the first; can be called repeatedly.
    pub fn iter(&self) -> Merge<'_, T> {
        Merge::new(self.rows, &self.order)
    }
}

impl<'r, T: Row> IntoIterator for &'r Ordered<'_, T> {
    type Item = T;
    type IntoIter = Merge<'r, T>;

    fn into_iter(self) -> Merge<'r, T> {
        self.iter()
    }
}

#[cfg(test)]
mod tests;
