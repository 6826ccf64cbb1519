//! Leaves out of a recording who made it and where: home folders, the names of users and machine, arguments.

use std::collections::BTreeSet;

use super::Tables;
use super::budget::Collected;
use super::strings::{self, Kind};

/// What stands for a user, and for a machine.
const USER: &str = "somebody";
const HOST: &str = "host";
/// What stands for a home folder.
const HOME: &str = "/home/somebody";
/// Where systems keep home folders: the part after it is a user's name.
const HOMES: [&str; 3] = ["/home/", "/Users/", "/var/home/"];
/// Shorter names are also words; they are left out of paths only.
const SHORTEST_WORD: usize = 3;
/// Names that tell nothing.
const COMMON: [&str; 3] = ["root", USER, "localhost"];

/// Who is to be left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Person {
    /// Home folders, without a slash at the end.
    pub homes: BTreeSet<String>,
    /// Names of users.
    pub users: BTreeSet<String>,
    /// Names of machines.
    pub hosts: BTreeSet<String>,
}

impl Person {
    /// Adds the homes and users that paths tell of.
    pub fn add_seen(&mut self, tables: &mut Tables, collected: &mut Collected) {
        let mut look = |text: &str| {
            for at in HOMES {
                for (found, _) in text.match_indices(at) {
                    let rest = &text[found + at.len()..];
                    let name = rest.split(|c: char| !is_name(c)).next().unwrap_or_default();
                    if !name.is_empty() {
                        self.homes.insert(format!("{at}{name}"));
                        self.users.insert(name.to_owned());
                    }
                }
            }
            if has_path(text, "/root") {
                self.homes.insert("/root".to_owned());
            }
        };
        strings::each(tables, collected, &mut |_, text| look(text));
        strings::command_lines(tables, collected)
            .flatten()
            .for_each(|text| look(text));
        self.homes.remove(HOME);
        let names = |names: &mut BTreeSet<String>| names.retain(|name| !COMMON.contains(&name.as_str()));
        names(&mut self.users);
        names(&mut self.hosts);
    }

    /// Whether a text tells of the person.
    pub fn is_in(&self, text: &str) -> bool {
        self.homes.iter().any(|home| has_path(text, home)) || self.words().any(|(word, _)| has_word(text, word))
    }

    fn words(&self) -> impl Iterator<Item = (&str, &'static str)> {
        let users = self.users.iter().map(|user| (user.as_str(), USER));
        let hosts = self.hosts.iter().map(|host| (host.as_str(), HOST));
        users.chain(hosts).filter(|(word, _)| word.len() >= SHORTEST_WORD)
    }

    /// `text` without the person.
    fn without(&self, kind: Kind, text: &str) -> String {
        // The longest first: a home may be in another.
        let mut homes: Vec<&String> = self.homes.iter().collect();
        homes.sort_by_key(|home| std::cmp::Reverse(home.len()));
        let mut text = homes
            .into_iter()
            .fold(text.to_owned(), |text, home| replace(&text, home, HOME, is_name));
        // Of a function's name only paths are somebody's: a closure is called by its place.
        if kind != Kind::Function {
            for (word, instead) in self.words() {
                text = replace(&text, word, instead, is_name);
            }
        }
        text
    }
}

/// Leaves the person and all arguments out.
pub fn sanitize(tables: &mut Tables, collected: &mut Collected, person: &Person) {
    for line in strings::command_lines(tables, collected) {
        line.truncate(1);
        if let Some(program) = line.first_mut() {
            *program = person.without(Kind::Path, program);
        }
    }
    strings::each(tables, collected, &mut |kind, text| {
        if person.is_in(text) {
            *text = person.without(kind, text);
        }
    });
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-')
}

fn has_path(text: &str, path: &str) -> bool {
    occurrences(text, path, is_name).next().is_some()
}

fn has_word(text: &str, word: &str) -> bool {
    occurrences(text, word, is_name).next().is_some()
}

/// Where `word` stands by itself.
fn occurrences<'t>(
    text: &'t str,
    word: &'t str,
    is_part: impl Fn(char) -> bool + 't,
) -> impl Iterator<Item = usize> + 't {
    text.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = text[..*at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        // A path may follow anything but another part of a path.
        !before.is_some_and(&is_part) && !after.is_some_and(&is_part)
    })
}

fn replace(text: &str, word: &str, instead: &str, is_part: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for at in occurrences(text, word, is_part) {
        if at >= done {
            out.push_str(&text[done..at]);
            out.push_str(instead);
            done = at + word.len();
        }
    }
    out.push_str(&text[done..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person() -> Person {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Person {
            homes: set(&["/home/al", "/home/alice", "/data/alice"]),
            users: set(&["al", "alice"]),
            hosts: set(&["wonderland"]),
        }
    }

    #[test]
    fn paths_and_words_go_and_the_rest_stays() {
        for (kind, text, sanitized) in [
            (Kind::Path, "/home/alice/x/main.c", "/home/somebody/x/main.c"),
            (Kind::Path, "/home/al/x", "/home/somebody/x"),
            (Kind::Path, "/home/alice", "/home/somebody"),
            (Kind::Path, "/home/alicent/x", "/home/alicent/x"),
            (Kind::Path, "/data/alice/y", "/home/somebody/y"),
            (Kind::Path, "/tmp/build-of/alice/x", "/tmp/build-of/somebody/x"),
            (Kind::Text, "alice@wonderland: malice", "somebody@host: malice"),
            (
                Kind::Text,
                "file:///home/alice/a file:///home/alice/b",
                "file:///home/somebody/a file:///home/somebody/b",
            ),
            (Kind::Text, "al gore", "al gore"),
            (Kind::Function, "alice::run", "alice::run"),
            (
                Kind::Function,
                "{closure@/home/alice/x.rs:3}",
                "{closure@/home/somebody/x.rs:3}",
            ),
        ] {
            assert_eq!(person().without(kind, text), sanitized, "{text}");
        }
    }
}
