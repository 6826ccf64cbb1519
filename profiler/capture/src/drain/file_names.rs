//! Numbers for the names of files: records refer to a name by a key derived from kernel addresses, which no log may
//! contain.

use rustc_hash::FxHashMap;

use base::hash::hash;

/// Names that are known, at most: a recording of the whole system may run for days. Files of later names have no
/// name.
const LIMIT: usize = 1 << 20;

/// The names of files, by key.
#[derive(Debug, Default)]
pub struct FileNames {
    known: FxHashMap<u64, Name>,
    last: u64,
}

#[derive(Debug, Clone, Copy)]
struct Name {
    number: u64,
    /// Hash of the path; `None`: it has not arrived yet.
    path: Option<u64>,
}

impl FileNames {
    /// Takes a name that arrived: returns its number, unless it is known already. The kernel side forgets what it
    /// sent, and sends it again.
    pub fn arrived(&mut self, key: u64, path: &[u8]) -> Option<u64> {
        let path = Some(hash(&path));
        let number = match self.known.get(&key) {
            Some(name) if name.path == path => return None,
            Some(Name { number, path: None }) => *number,
            _ => self.next(key)?,
        };
        self.known.insert(key, Name { number, path });
        Some(number)
    }

    /// The number of a record's name, which may arrive after the record; 0: it has none.
    pub fn number(&mut self, key: u64) -> u64 {
        if key == 0 {
            return 0;
        }
        if let Some(name) = self.known.get(&key) {
            return name.number;
        }
        let Some(number) = self.next(key) else { return 0 };
        self.known.insert(key, Name { number, path: None });
        number
    }

    fn next(&mut self, key: u64) -> Option<u64> {
        if self.known.len() >= LIMIT && !self.known.contains_key(&key) {
            return None;
        }
        self.last += 1;
        Some(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number_until_its_path_changes() {
        let mut names = FileNames::default();
        assert_eq!(names.arrived(7, b"/tmp/a"), Some(1));
        assert_eq!(names.number(9), 2, "its record was reserved first");
        assert_eq!(names.arrived(9, b"/tmp/b"), Some(2));
        assert_eq!(names.arrived(7, b"/tmp/a"), None);
        assert_eq!((names.number(7), names.number(9), names.number(0)), (1, 2, 0));
        assert_eq!(names.arrived(7, b"/mnt/a"), Some(3), "seen by another process");
        assert_eq!((names.number(7), names.arrived(9, b"/tmp/b")), (3, None));
    }
}
