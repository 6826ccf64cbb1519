//! A text prepared for comparison with names: without case, decomposed, escapes decoded; each character knows its
//! bytes in the text.

use std::ops::Range;

use icu_normalizer::DecomposingNormalizerBorrowed;
use icu_normalizer::properties::CanonicalCombiningClassMapBorrowed;

/// Levels of nested escapes to decode: `%252F` is a slash, too.
const LEVELS: usize = 3;

/// Characters with their positions in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spelled(Vec<Letter>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Letter {
    c: char,
    start: usize,
    end: usize,
}

impl Spelled {
    /// The text as given, and with each level of escapes decoded.
    pub fn levels(text: &str) -> Vec<Self> {
        let letters = text.char_indices().map(|(start, c)| Letter {
            c,
            start,
            end: start + c.len_utf8(),
        });
        let mut levels = vec![Self(letters.collect())];
        if text.contains(['%', '\\']) {
            for _ in 0..LEVELS {
                let Some(decoded) = levels.last().and_then(Self::decoded) else {
                    break;
                };
                levels.push(decoded);
            }
        }
        levels
    }

    /// Lower case, decomposed: `É` is `e` and an accent, in any encoding.
    pub fn folded(&self) -> Self {
        let nfd = DecomposingNormalizerBorrowed::new_nfd();
        let mut folded = Vec::with_capacity(self.0.len());
        for letter in &self.0 {
            if letter.c.is_ascii() {
                let c = letter.c.to_ascii_lowercase();
                folded.push(Letter { c, ..*letter });
            } else {
                let lower = nfd.normalize_iter(letter.c.to_lowercase());
                folded.extend(lower.map(|c| Letter { c, ..*letter }));
            }
        }
        Self(folded)
    }

    /// Number of characters.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The character at this index.
    pub fn get(&self, at: usize) -> Option<char> {
        self.0.get(at).map(|letter| letter.c)
    }

    /// Characters in a range, for comparison.
    pub fn chars(&self, range: Range<usize>) -> impl Iterator<Item = char> {
        self.0.get(range).unwrap_or_default().iter().map(|letter| letter.c)
    }

    /// The bytes of the text behind a range of characters.
    pub fn bytes(&self, range: &Range<usize>) -> Range<usize> {
        let start = self.0.get(range.start).map_or(0, |letter| letter.start);
        let last = range.end.checked_sub(1).and_then(|last| self.0.get(last));
        start..last.map_or(start, |letter| letter.end)
    }

    /// The characters without their positions.
    pub fn text(&self) -> String {
        self.chars(0..self.len()).collect()
    }

    /// With escapes decoded; `None` if it has none.
    fn decoded(&self) -> Option<Self> {
        let mut decoded = Vec::with_capacity(self.0.len());
        let mut at = 0;
        while let Some(letter) = self.0.get(at) {
            let (bytes, ends) = self.escaped_bytes(at);
            if let Some(end) = ends.last() {
                self.push_bytes(&bytes, (at, &ends), &mut decoded);
                at = *end;
            } else if let Some((c, len)) = self.escaped_char(at) {
                let Range { start, end } = self.bytes(&(at..at + len));
                decoded.push(Letter { c, start, end });
                at += len;
            } else {
                decoded.push(*letter);
                at += 1;
            }
        }
        (decoded.len() < self.0.len()).then_some(Self(decoded))
    }

    /// A run of bytes escaped as in URLs (`%2F`), systemd (`\x2d`) or mount tables (`\040`), and the end of each.
    fn escaped_bytes(&self, start: usize) -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        let mut at = start;
        loop {
            let (first, radix) = match (self.get(at), self.get(at + 1)) {
                (Some('%'), _) => (at + 1, 16),
                (Some('\\'), Some('x')) => (at + 2, 16),
                (Some('\\'), Some('0'..='3')) => (at + 1, 8),
                _ => break,
            };
            let digits = if radix == 16 { 2 } else { 3 };
            let Some(byte) = self
                .number(first..first + digits, radix)
                .and_then(|n| u8::try_from(n).ok())
            else {
                break;
            };
            at = first + digits;
            bytes.push(byte);
            ends.push(at);
        }
        (bytes, ends)
    }

    fn push_bytes(&self, bytes: &[u8], (start, ends): (usize, &[usize]), into: &mut Vec<Letter>) {
        let mut taken: usize = 0;
        let mut push = |c: char, len: usize| {
            let first = taken.checked_sub(1).and_then(|before| ends.get(before));
            taken += len;
            let last = ends.get(taken - 1).copied().unwrap_or(start);
            let Range { start, end } = self.bytes(&(first.copied().unwrap_or(start)..last));
            into.push(Letter { c, start, end });
        };
        for chunk in bytes.utf8_chunks() {
            chunk.valid().chars().for_each(|c| push(c, c.len_utf8()));
            chunk.invalid().iter().for_each(|_| push('\u{fffd}', 1));
        }
    }

    /// A character escaped as in JSON, C or Rust, and the length of the escape.
    fn escaped_char(&self, at: usize) -> Option<(char, usize)> {
        if self.get(at)? != '\\' {
            return None;
        }
        let numbered = |digits: Range<usize>, more: usize| {
            let len = digits.end - at + more;
            Some((char::from_u32(self.number(digits, 16)?)?, len))
        };
        match self.get(at + 1)? {
            'u' if self.get(at + 2) == Some('{') => {
                let digits = self
                    .chars(at + 3..at + 9.min(self.len() - at))
                    .take_while(char::is_ascii_hexdigit);
                let end = at + 3 + digits.count();
                (self.get(end)? == '}').then(|| numbered(at + 3..end, 1)).flatten()
            }
            'u' => numbered(at + 2..at + 6, 0),
            'U' => numbered(at + 2..at + 10, 0),
            'n' | 'r' | 't' => Some((' ', 2)),
            c @ ('\\' | '/' | '"' | '\'') => Some((c, 2)),
            _ => None,
        }
    }

    fn number(&self, digits: Range<usize>, radix: u32) -> Option<u32> {
        let len = digits.len();
        let text: String = self.chars(digits).take_while(|c| c.is_digit(radix)).collect();
        (text.len() == len)
            .then(|| u32::from_str_radix(&text, radix).ok())
            .flatten()
    }
}

/// Whether it is part of a word: a name ends where none of these follows.
pub fn is_part(c: char) -> bool {
    c.is_alphanumeric() || !c.is_ascii() && CanonicalCombiningClassMapBorrowed::new().get_u8(c) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded() {
        for (text, decoded) in [
            ("a%2Fb", "a/b"),
            ("%C3%A9x", "éx"),
            ("%252Fa", "/a"),
            (r"\u0061\u{e9}\U00000062", "aéb"),
            (r"home-a\x2db \040c", "home-a-b  c"),
            (r#"x\ny\"z"#, "x y\"z"),
            ("%zz 100% \\", "%zz 100% \\"),
            (r"\u{zz} \u12", r"\u{zz} \u12"),
            ("%ff", "\u{fffd}"),
        ] {
            assert_eq!(Spelled::levels(text).last().unwrap().text(), decoded, "{text}");
        }
    }

    #[test]
    fn character_ranges_map_to_text_ranges() {
        let levels = Spelled::levels("x%C3%89t%C3%A9");
        let folded = levels[1].folded();
        assert_eq!(folded.text(), "xe\u{301}te\u{301}");
        assert_eq!(folded.bytes(&(1..3)), 1..7);
        assert_eq!(folded.bytes(&(3..6)), 7..14);
        assert!(is_part('\u{301}') && is_part('é') && !is_part('_'));
    }
}
