//! Files that had the same inode number one after the other: a build that creates a program, runs it and removes it
//! gets the same number for the next one.

use rustc_hash::FxHashMap;

use base::event::FileId;

/// Inode numbers that are known, at most: a recording of the whole system may run for days. Files of later ones count
/// as one.
const INODES_LIMIT: usize = 1 << 20;
/// Files per inode number after the first, at most; later ones count as the last.
const GENERATIONS_LIMIT: usize = 1 << 16;

/// Device and inode.
type Inode = (u32, u32, u64);

/// The kernel's generation of each file (`inode->i_generation`), in order of appearance.
#[derive(Debug, Default)]
pub struct Generations {
    /// Most inodes have one.
    first: FxHashMap<Inode, u32>,
    later: FxHashMap<Inode, Vec<u32>>,
}

impl Generations {
    /// Numbers the file of a mapping record: the kernel's generation becomes a count from 0.
    pub fn of_record(&mut self, file: FileId) -> FileId {
        let inode = inode(file);
        let place = match self.first.get(&inode) {
            Some(first) if *first == file.generation => 0,
            Some(_) => {
                let later = self.later.entry(inode).or_default();
                let known = later.iter().rposition(|known| *known == file.generation);
                1 + known.unwrap_or_else(|| {
                    if later.len() < GENERATIONS_LIMIT {
                        later.push(file.generation);
                    }
                    later.len() - 1
                })
            }
            None => {
                if self.first.len() < INODES_LIMIT {
                    self.first.insert(inode, file.generation);
                }
                0
            }
        };
        let generation = u32::try_from(place).unwrap_or(u32::MAX);
        FileId { generation, ..file }
    }

    /// The file that has the number now, for mappings that were looked up: the kernel does not report their
    /// generation.
    pub fn current(&self, file: FileId) -> FileId {
        let later = self.later.get(&inode(file)).map_or(0, Vec::len);
        let generation = u32::try_from(later).unwrap_or(u32::MAX);
        FileId { generation, ..file }
    }
}

fn inode(file: FileId) -> Inode {
    (file.major, file.minor, file.inode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_a_reused_inode_are_distinguished() {
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
        assert_eq!(generations.of_record(file(31)), file(1));
        let other = FileId { inode: 8, ..file(5) };
        assert_eq!(generations.of_record(other).generation, 0);
    }
}
