//! Patterns of thread names, for the kernel side: sets of positions in the patterns, one bit each, that a name's bytes move.
//!
//! A pattern of `n` bytes and `?` has `n + 1` positions. From each set of positions, a byte of the name leads to the positions after
//! those whose byte it is, and to those where a `*` stays. The name matches if the last position is in the set at its end.

#![allow(clippy::inline_always)] // As in [`crate::unwind`].

/// Words of a set of positions: sixteen patterns of the longest names fit.
pub const WORDS: usize = 4;
/// A set of positions of all patterns.
pub type Positions = [u64; WORDS];

/// Index of the first positions in the table whose first 256 entries are the positions whose byte is the index.
pub const FIRST: u32 = 256;
/// Index of the positions where a `*` stays.
pub const STAYS: u32 = 257;
/// Index of the last positions of patterns of threads to record.
pub const CHOSEN: u32 = 258;
/// Index of the last positions of patterns of threads to exclude.
pub const EXCLUDED: u32 = 259;
/// Entries of the table.
pub const ENTRIES: u32 = 260;

/// The positions after a byte of the name.
#[inline(always)]
pub const fn step(at: u64, of_byte: u64, stays: u64) -> u64 {
    (at & of_byte) << 1 | at & stays
}

/// The table of some patterns.
#[cfg(feature = "user")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Globs {
    /// As the kernel side reads it: [`ENTRIES`] sets.
    pub table: Vec<Positions>,
    used: [u32; WORDS],
}

#[cfg(feature = "user")]
impl Default for Globs {
    fn default() -> Self {
        Self {
            table: vec![[0; WORDS]; ENTRIES as usize],
            used: [0; WORDS],
        }
    }
}

#[cfg(feature = "user")]
impl Globs {
    /// Adds a pattern, in which `*` matches any text and `?` one byte. Names end after [`crate::task::COMM_LEN`] - 1 bytes, so what a
    /// pattern requires beyond that before its first `*` is ignored. False: there is no space for it.
    #[must_use]
    pub fn add(&mut self, pattern: &[u8], list: u32) -> bool {
        let longest = crate::task::COMM_LEN - 1;
        let literal = pattern.iter().position(|&byte| byte == b'*').unwrap_or(pattern.len());
        let pattern = if literal >= longest {
            &pattern[..longest]
        } else {
            pattern
        };
        let len = pattern.iter().filter(|&&byte| byte != b'*').count();
        let Some(len) = u32::try_from(len).ok().filter(|&len| len < u64::BITS) else {
            return false;
        };
        let Some(word) = (0..WORDS).find(|&word| self.used[word] + len < u64::BITS) else {
            return false;
        };
        let mut at = 1_u64 << self.used[word];
        self.table[FIRST as usize][word] |= at;
        for &byte in pattern {
            match byte {
                b'*' => self.table[STAYS as usize][word] |= at,
                b'?' => {
                    self.table[..256].iter_mut().for_each(|set| set[word] |= at);
                    at <<= 1;
                }
                byte => {
                    self.table[byte as usize][word] |= at;
                    at <<= 1;
                }
            }
        }
        self.table[list as usize][word] |= at;
        self.used[word] += len + 1;
        true
    }

    /// Whether a name matches a pattern of the list.
    pub fn matches(&self, name: &[u8], list: u32) -> bool {
        (0..WORDS).any(|word| {
            let set = |index: u32| self.table[index as usize][word];
            let end = (name.iter().take_while(|&&byte| byte != 0))
                .fold(set(FIRST), |at, &byte| step(at, set(u32::from(byte)), set(STAYS)));
            end & set(list) != 0
        })
    }
}

#[cfg(all(test, feature = "user"))]
mod tests {
    use super::*;

    fn fits(pattern: &str, name: &str) -> bool {
        let mut globs = Globs::default();
        // Between others, which must not reach into it.
        assert!(globs.add(b"*", EXCLUDED) && globs.add(pattern.as_bytes(), CHOSEN) && globs.add(b"??*", EXCLUDED));
        globs.matches(name.as_bytes(), CHOSEN)
    }

    #[test]
    fn stars_and_question_marks() {
        for (pattern, name, expected) in [
            ("nginx", "nginx", true),
            ("nginx", "nginx2", false),
            ("nginx", "ngin", false),
            ("ng*", "ng", true),
            ("*x", "nginx", true),
            ("*x", "x-", false),
            ("n*i*x", "nginx", true),
            ("n*i*y", "nginx", false),
            ("?ginx", "nginx", true),
            ("??", "a", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a**b", "ab", true),
            ("*aab", "aaaab", true),
            ("kworker/*", "kworker/0:1", true),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_is_cut_where_names_are() {
        assert!(fits("systemd-journald", "systemd-journal"));
        assert!(fits("systemd-journald*", "systemd-journal"));
        assert!(!fits("systemd-journald", "systemd-journa"));
        assert!(!fits("systemd-j*nald", "systemd-journal"));
    }

    #[test]
    fn sixteen_of_the_longest_names_have_space() {
        let mut globs = Globs::default();
        for number in 0..16 {
            assert!(
                globs.add(format!("abcdefghijklm{number:02}").as_bytes(), CHOSEN),
                "{number}"
            );
        }
        assert!(!globs.add(b"a", CHOSEN));
        for number in 0..20 {
            let name = format!("abcdefghijklm{number:02}");
            assert_eq!(globs.matches(name.as_bytes(), CHOSEN), number < 16);
            assert!(!globs.matches(name.as_bytes(), EXCLUDED));
        }
    }
}
