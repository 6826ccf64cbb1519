//! Tables of values by instruction: pairs of differences, of the value (zigzag) and of the address, as varints.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rustc_hash::FxHashMap;

/// Maximum number of pairs that are read of one table: the largest functions have some ten thousand.
const MAX_PAIRS: usize = 1 << 20;
/// Maximum number of pairs that are kept; beyond it the earlier ones are dropped.
const MAX_KEPT: usize = 1 << 22;
/// Maximum number of pairs that are read of one file. Tables of a damaged file may overlap.
const MAX_READ: usize = 1 << 28;

/// The end of a range of instructions, as an offset in the function, and the value in it.
type Pair = (u32, i32);

/// Tables that were read, by their offset.
pub(super) struct PcValues {
    tables: RefCell<FxHashMap<u32, Rc<[Pair]>>>,
    kept: Cell<usize>,
    /// Pairs left of [`MAX_READ`].
    left: Cell<usize>,
}

impl Default for PcValues {
    fn default() -> Self {
        Self {
            tables: RefCell::default(),
            kept: Cell::new(0),
            left: Cell::new(MAX_READ),
        }
    }
}

impl PcValues {
    /// The value at `offset` in the function, of the table that starts with `bytes` and is known by `key`.
    pub(super) fn at(&self, bytes: &[u8], key: u32, quantum: u32, offset: u32) -> Option<i32> {
        let pairs = self.table(bytes, key, quantum);
        let index = pairs.partition_point(|(end, _)| *end <= offset);
        pairs.get(index).map(|(_, value)| *value)
    }

    /// The size of the code that the table covers, in bytes.
    pub(super) fn end(&self, bytes: &[u8], key: u32, quantum: u32) -> Option<u32> {
        self.table(bytes, key, quantum).last().map(|(end, _)| *end)
    }

    fn table(&self, bytes: &[u8], key: u32, quantum: u32) -> Rc<[Pair]> {
        let mut tables = self.tables.borrow_mut();
        if let Some(known) = tables.get(&key) {
            return Rc::clone(known);
        }
        let pairs: Rc<[Pair]> = read(bytes, quantum, self.left.get().min(MAX_PAIRS)).into();
        self.left.set(self.left.get().saturating_sub(pairs.len()));
        let mut kept = self.kept.get() + pairs.len();
        if kept > MAX_KEPT {
            tables.clear();
            kept = pairs.len();
        }
        self.kept.set(kept);
        tables.insert(key, Rc::clone(&pairs));
        pairs
    }
}

/// Reads a table up to its end, or to where it is damaged.
fn read(mut bytes: &[u8], quantum: u32, limit: usize) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let (mut end, mut value) = (0_u32, -1_i32);
    while pairs.len() < limit {
        let Some(change) = varint(&mut bytes) else { break };
        if change == 0 && !pairs.is_empty() {
            break;
        }
        let next = varint(&mut bytes)
            .and_then(|size| size.checked_mul(quantum))
            .and_then(|size| end.checked_add(size));
        let Some(next) = next else { break };
        end = next;
        value = value.wrapping_add((change >> 1).cast_signed() ^ -(change & 1).cast_signed());
        pairs.push((end, value));
    }
    pairs
}

/// Seven bits a byte, the lowest first; the last byte has the highest bit clear.
fn varint(bytes: &mut &[u8]) -> Option<u32> {
    let mut value = 0;
    for shift in (0..u32::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Overlapping tables can't cost more than the limit, however many functions have them.
    #[test]
    fn reading_is_limited() {
        // Four pairs: each adds one to the value, and one byte of code.
        let bytes = [2, 1, 2, 1, 2, 1, 2, 1, 0];
        let values = PcValues {
            left: Cell::new(6),
            ..PcValues::default()
        };
        let end = |key: usize| values.end(&bytes[2 * key..], u32::try_from(key).unwrap(), 1);
        assert_eq!([end(0), end(0), end(1), end(2)], [Some(4), Some(4), Some(2), None]);
        assert_eq!(values.at(&bytes, 0, 1, 3), Some(3));
    }
}
