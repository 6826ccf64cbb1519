//! Rows in blocks that are never moved, so that growing does not need twice the memory.

/// Rows of a block.
const BLOCK: usize = 1 << 15;

/// Rows in the order in which they came, with numbers below [`u32::MAX`].
#[derive(Debug)]
pub struct Blocks<T> {
    blocks: Vec<Vec<T>>,
    len: u32,
}

impl<T> Default for Blocks<T> {
    fn default() -> Self {
        Self {
            blocks: Vec::new(),
            len: 0,
        }
    }
}

impl<T> Blocks<T> {
    /// How many there are: the number of the next.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// There is no number left.
    pub fn is_full(&self) -> bool {
        self.len == u32::MAX
    }

    /// Bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(Vec::capacity).sum::<usize>() * size_of::<T>()
    }

    /// Keeps a row. False: there is no number left for it.
    pub fn push(&mut self, row: T) -> bool {
        if self.is_full() {
            return false;
        }
        if self.blocks.last().is_none_or(|block| block.len() == BLOCK) {
            self.blocks.push(Vec::with_capacity(BLOCK));
        }
        if let Some(block) = self.blocks.last_mut() {
            block.push(row);
        }
        self.len += 1;
        true
    }

    /// The row with this number.
    pub fn get(&self, number: u32) -> Option<&T> {
        let index = number as usize;
        self.blocks.get(index / BLOCK)?.get(index % BLOCK)
    }

    /// The numbers of all rows in the order of a key, and as they came where it is the same.
    pub fn order_by<K: Ord>(&self, key: impl Fn(&T) -> K) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.len).collect();
        order.sort_unstable_by_key(|&number| (self.get(number).map(&key), number));
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_numbers_that_they_came_with() {
        let mut rows = Blocks::default();
        let count = 2 * BLOCK + 3;
        for number in 0..count {
            assert!(rows.push(count - number));
        }
        assert_eq!(rows.len() as usize, count);
        for number in [0, BLOCK - 1, BLOCK, 2 * BLOCK + 2] {
            let row = rows.get(u32::try_from(number).unwrap());
            assert_eq!(row, Some(&(count - number)));
        }
        assert_eq!(rows.get(rows.len()), None);
        let order = rows.order_by(|row| row / 2);
        assert_eq!(order[..3], [rows.len() - 1, rows.len() - 3, rows.len() - 2]);
    }
}
