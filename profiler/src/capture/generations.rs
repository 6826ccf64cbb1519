//! Files that had the same inode number, one after the other: a build that makes a program, runs it and removes it gets
//! the number again for the next one.

use rustc_hash::FxHashMap;

use crate::event::FileId;

/// Files of one inode number, at most; later ones count as the last.
const GENERATIONS_LIMIT: usize = 1 << 16;

/// What the kernel called each file's generation (`inode->i_generation`), by device and inode, in the order in which they came.
#[derive(Debug, Default)]
pub struct Generations {
    seen: FxHashMap<FileId, Vec<u32>>,
}

impl Generations {
    /// The file of a mapping record, whose generation is the kernel's: it becomes a count from 0.
    pub fn of_record(&mut self, file: FileId) -> FileId {
        let seen = self.seen.entry(FileId { generation: 0, ..file }).or_default();
        let place = seen.iter().rposition(|known| *known == file.generation);
        let place = place.unwrap_or_else(|| {
            if seen.len() < GENERATIONS_LIMIT {
                seen.push(file.generation);
            }
            seen.len() - 1
        });
        let generation = u32::try_from(place).unwrap_or(u32::MAX);
        FileId { generation, ..file }
    }

    /// The file that has the number now, for mappings that were asked for: the kernel does not tell their generation.
    pub fn current(&self, file: FileId) -> FileId {
        let count = self.seen.get(&FileId { generation: 0, ..file }).map_or(0, Vec::len);
        let generation = u32::try_from(count.saturating_sub(1)).unwrap_or(u32::MAX);
        FileId { generation, ..file }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_one_number_are_told_apart() {
        let mut generations = Generations::default();
        let file = |generation| FileId {
            inode: 7,
            generation,
            ..FileId::default()
        };
        assert_eq!(generations.current(file(0)), file(0));
        let records = [900, 900, 31, 900, 8].map(|generation| generations.of_record(file(generation)).generation);
        assert_eq!(records, [0, 0, 1, 0, 2]);
        assert_eq!(generations.current(file(0)), file(2));
        let other = FileId { inode: 8, ..file(5) };
        assert_eq!(generations.of_record(other).generation, 0);
    }
}
