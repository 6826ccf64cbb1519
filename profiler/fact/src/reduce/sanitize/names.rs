//! Finds home folders and names in a text, in any spelling.

use std::cmp::Reverse;
use std::ops::Range;

use rustc_hash::FxHashMap;

use super::spelling::{Spelled, is_part};
use super::words;
use super::{HOME, HOST, Person, USER};
use crate::reduce::strings::Kind;

/// Shorter names are also words.
const SHORTEST: usize = 3;
/// A replacement may expose a name that another had covered: how often to search again.
const TURNS: usize = 4;

/// Home folders and names, prepared for lookup.
#[derive(Debug, Default)]
pub struct PersonalNames {
    /// By first word.
    by_word: FxHashMap<String, Vec<Pattern>>,
}

#[derive(Debug)]
struct Pattern {
    /// As given.
    name: String,
    /// Folded.
    chars: Vec<char>,
    /// Characters before the first word.
    lead: usize,
    place: Place,
    instead: &'static str,
}

/// Where a pattern matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A folder inside another: anywhere.
    Folder,
    /// A folder in the root: only at the beginning of a path.
    TopFolder,
    /// A name: as a whole word.
    Word,
    /// A name that is also a common word: only where it names an account.
    Account,
}

/// A match in a text.
struct Found<'n> {
    bytes: Range<usize>,
    pattern: &'n Pattern,
}

impl PersonalNames {
    /// Patterns for the names to remove.
    pub fn new(person: &Person) -> Self {
        let mut names = Self::default();
        for home in &person.homes {
            let is_top = home.matches('/').count() < 2;
            names.add(home, if is_top { Place::TopFolder } else { Place::Folder }, HOME);
        }
        for (all, instead) in [(&person.users, USER), (&person.hosts, HOST)] {
            for name in all.iter().filter(|name| !words::is_anonymous(name)) {
                let place = if is_weak(name) { Place::Account } else { Place::Word };
                names.add(name, place, instead);
            }
        }
        for patterns in names.by_word.values_mut() {
            patterns.sort_by_key(|pattern| Reverse(pattern.chars.len()));
        }
        names
    }

    fn add(&mut self, name: &str, place: Place, instead: &'static str) {
        let Some(folded) = Spelled::levels(name).first().map(Spelled::folded) else {
            return;
        };
        let mut chars: Vec<char> = folded.chars(0..folded.len()).collect();
        // `alice$` and `_alice` are found with the characters around them.
        chars.truncate(chars.iter().rposition(|c| is_part(*c)).map_or(0, |last| last + 1));
        let Some(lead) = chars.iter().position(|c| is_part(*c)) else {
            return;
        };
        let is_folder = matches!(place, Place::Folder | Place::TopFolder);
        if !is_folder {
            chars.drain(..lead);
        }
        let lead = if is_folder { lead } else { 0 };
        let word: String = chars.iter().skip(lead).take_while(|c| is_part(**c)).collect();
        self.by_word.entry(word).or_default().push(Pattern {
            name: name.to_owned(),
            chars,
            lead,
            place,
            instead,
        });
    }

    /// The names in a text, by position.
    pub fn in_text(&self, kind: Kind, text: &str) -> impl Iterator<Item = &str> {
        let found = self.find(kind, text).into_iter();
        found.map(|found| found.pattern.name.as_str())
    }

    /// The text without names; `None` if it contains none.
    pub fn replaced(&self, kind: Kind, text: &str) -> Option<String> {
        let mut replaced: Option<String> = None;
        for _ in 0..TURNS {
            let before = replaced.as_deref().unwrap_or(text);
            let found = self.find(kind, before);
            if found.is_empty() {
                break;
            }
            let mut after = String::with_capacity(before.len());
            let mut done = 0;
            for Found { bytes, pattern } in found {
                if bytes.start >= done {
                    after.push_str(before.get(done..bytes.start).unwrap_or_default());
                    after.push_str(pattern.instead);
                    done = bytes.end;
                }
            }
            after.push_str(before.get(done..).unwrap_or_default());
            replaced = Some(after);
        }
        replaced
    }

    /// Matches by position, the longest first.
    fn find(&self, kind: Kind, text: &str) -> Vec<Found<'_>> {
        let mut found = Vec::new();
        if self.may_be_in(text) {
            for level in Spelled::levels(text) {
                self.find_in(kind, &level.folded(), &mut found);
            }
            found.sort_by_key(|found| (found.bytes.start, Reverse(found.bytes.end)));
        }
        found
    }

    /// Most texts are plain and contain no name: they are not decoded.
    fn may_be_in(&self, text: &str) -> bool {
        if !text.is_ascii() || text.contains(['%', '\\']) {
            return true;
        }
        let lower = text.to_ascii_lowercase();
        let mut words = lower.split(|c: char| !c.is_ascii_alphanumeric());
        words.any(|word| self.by_word.contains_key(word))
    }

    fn find_in<'n>(&'n self, kind: Kind, text: &Spelled, found: &mut Vec<Found<'n>>) {
        let part = |at: usize| text.get(at).is_some_and(is_part);
        let mut at = 0;
        while at < text.len() {
            let start = at;
            while part(at) {
                at += 1;
            }
            let word: String = text.chars(start..at).collect();
            let patterns = self.by_word.get(&word).into_iter().flatten();
            for pattern in patterns {
                let Some(first) = start.checked_sub(pattern.lead) else {
                    continue;
                };
                let range = first..first + pattern.chars.len();
                let same = text.chars(range.clone()).eq(pattern.chars.iter().copied());
                if same && !part(range.end) && pattern.counts(kind, text, &range) {
                    let bytes = text.bytes(&range);
                    found.push(Found { bytes, pattern });
                }
            }
            at = at.max(start + 1);
        }
    }
}

impl Pattern {
    fn counts(&self, kind: Kind, text: &Spelled, at: &Range<usize>) -> bool {
        let before = at.start.checked_sub(1).and_then(|before| text.get(before));
        match self.place {
            Place::Folder | Place::Word => true,
            Place::TopFolder => !before.is_some_and(|c| is_part(c) || "-_./".contains(c)),
            Place::Account => {
                let of_host = || text.get(at.end) == Some('@') && text.get(at.end + 1).is_some_and(is_part);
                kind != Kind::Function && (before == Some('~') || of_host())
            }
        }
    }
}

/// Whether the name is also a word: it can't be removed everywhere.
pub fn is_weak(name: &str) -> bool {
    name.chars().filter(|c| is_part(*c)).count() < SHORTEST || words::is_common(name)
}
