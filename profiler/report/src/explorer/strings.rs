//! A table that holds each name once. Names are untrusted input: their length and number are limited.

use super::limits;
use base::intern::Interner;

/// Names by index.
#[derive(Debug)]
pub struct Strings {
    all: Interner<String>,
    /// Most names.
    most: usize,
    /// Bytes of a name.
    length: usize,
    /// Remaining bytes of all names.
    room: usize,
}

impl Default for Strings {
    fn default() -> Self {
        Self::limited(limits::STRINGS, limits::STRING, usize::MAX)
    }
}

impl Strings {
    /// An empty table of at most `most` names of `length` bytes, and `room` bytes of all names.
    pub fn limited(most: usize, length: usize, room: usize) -> Self {
        Self {
            all: Interner::default(),
            most,
            length,
            room,
        }
    }

    /// The index of a name; once the table is full, that of a placeholder.
    pub fn id(&mut self, name: &str) -> u32 {
        if let Some(id) = self.all.known(name) {
            return id;
        }
        let name = if self.all.len() + 1 < self.most && name.len().min(self.length) <= self.room {
            cut_to(name, self.length)
        } else {
            "[too many names]".to_owned()
        };
        let before = self.all.len();
        let id = self.all.number(&name, usize::MAX, Clone::clone);
        if self.all.len() > before {
            self.room = self.room.saturating_sub(name.len());
        }
        id.unwrap_or(u32::MAX)
    }

    /// All names.
    pub fn all(&self) -> &[String] {
        &self.all
    }
}

/// Cuts a name to `limits::STRING` bytes at a character boundary, with `…` at the cut.
pub fn cut(name: &str) -> String {
    cut_to(name, limits::STRING)
}

fn cut_to(name: &str, length: usize) -> String {
    if name.len() <= length {
        return name.to_owned();
    }
    let end = (0..=length).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", name.split_at(end).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_stored_once_and_truncated() {
        let mut strings = Strings::default();
        assert_eq!((strings.id("a"), strings.id("b"), strings.id("a")), (0, 1, 0));
        let long = "é".repeat(limits::STRING);
        let id = strings.id(&long);
        assert_eq!(strings.id(&long), id);
        let kept = &strings.all()[id as usize];
        assert!(
            kept.len() < limits::STRING + 4 && kept.ends_with("é…"),
            "{}",
            kept.len()
        );
    }

    #[test]
    fn further_names_share_a_placeholder() {
        let mut strings = Strings::limited(3, 4, usize::MAX);
        let ids = ["abcdef", "b", "c", "d", "b"].map(|name| strings.id(name));
        assert_eq!(ids, [0, 1, 2, 2, 1]);
        assert_eq!(strings.all(), ["abcd…", "b", "[too many names]"]);
    }

    #[test]
    fn all_names_together_are_limited() {
        let mut strings = Strings::limited(10, 10, 5);
        let ids = ["abc", "de", "f", "abc", "g"].map(|name| strings.id(name));
        assert_eq!(ids, [0, 1, 2, 0, 2]);
        assert_eq!(strings.all(), ["abc", "de", "[too many names]"]);
    }
}
