//! Rows that come in nearly the order of their keys and are wanted in it, however many there are: what is beyond a limit of memory goes to a file in
//! sorted runs, which are merged when they are read. Every run is written and read from its begin to its end, so no order has to be kept, and nothing
//! is sought.

mod beside;
mod merge;

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use zerocopy::{FromBytes, Immutable, IntoBytes};

pub use beside::Beside;
pub use merge::Merge;

/// Rows of a block of memory.
const BLOCK: usize = 1 << 15;
/// Bytes that are written at once.
const WRITE: usize = 1 << 18;

/// A row: plain data, which may lie in a file.
pub trait Row: Copy + FromBytes + IntoBytes + Immutable {
    /// What they are ordered by.
    fn key(&self) -> u64;
}

/// Where rows go that memory has no room for. Whoever makes one answers for its failures: a write that fails leaves the rows in memory, a read
/// that fails ends what is read.
pub trait Scratch: Debug + Send + Sync {
    /// Bytes of the rows of one kind that stay in memory.
    fn limit(&self) -> usize;

    /// Makes room for so many bytes, and says where it begins.
    ///
    /// # Errors
    /// When there is none.
    fn reserve(&self, bytes: u64) -> io::Result<u64>;

    /// Writes all of it.
    ///
    /// # Errors
    /// When the disk is full or failed; the room that was reserved last is given up then.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Reads as much as there is room for.
    ///
    /// # Errors
    /// When the disk failed, or there is less.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<()>;
}

/// Fewer than [`u32::MAX`] rows.
#[derive(Debug)]
pub struct Sorted<T> {
    /// The latest ones, in the order in which they came; blocks are never moved, so that growing does not need twice the memory.
    blocks: Vec<Vec<T>>,
    in_memory: usize,
    /// Rows in memory, at most.
    room: usize,
    len: u32,
    /// The earlier ones.
    runs: Vec<Run>,
    scratch: Option<Arc<dyn Scratch>>,
}

/// Sorted rows in a file.
#[derive(Debug, Clone, Copy)]
struct Run {
    at: u64,
    rows: usize,
    first_key: u64,
}

impl<T> Default for Sorted<T> {
    /// All of them in memory.
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
    /// In memory up to the limit, and beyond it there.
    pub fn beyond_memory(scratch: &Arc<dyn Scratch>) -> Self {
        Self {
            room: (scratch.limit() / size_of::<T>()).max(1),
            scratch: Some(Arc::clone(scratch)),
            ..Self::default()
        }
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// There is room for no more.
    pub fn is_full(&self) -> bool {
        self.len == u32::MAX
    }

    /// Bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(Vec::capacity).sum::<usize>() * size_of::<T>()
    }

    /// Keeps a row. False: there are four thousand million already.
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

    /// All of them by their keys, and as they came where these are the same.
    pub fn ordered(&self) -> Ordered<'_, T> {
        Ordered {
            order: self.order(),
            rows: self,
        }
    }

    /// The numbers of those in memory.
    fn order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..).take(self.in_memory).collect();
        // Stable, and fast where nearly all of it is in order.
        order.sort_by_key(|&number| self.get(number).map(Row::key));
        order
    }

    /// Of those in memory.
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

    /// Writes what is in memory.
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

/// Rows in the order of their keys.
#[derive(Debug)]
pub struct Ordered<'r, T> {
    rows: &'r Sorted<T>,
    /// Of those in memory.
    order: Vec<u32>,
}

impl<T: Row> Ordered<'_, T> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.rows.len() as usize
    }

    /// All of them, once more from the first.
    pub fn iter(&self) -> Merge<'_, T> {
        Merge::new(self.rows, &self.order)
    }
}

#[cfg(test)]
mod tests;
