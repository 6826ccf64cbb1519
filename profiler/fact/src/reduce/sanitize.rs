//! Removes personal data from a recording: home folders, names of users and of the machine, addresses, arguments.

mod addresses;
mod names;
mod pages;
mod seen;
mod spelling;
mod words;

use std::collections::BTreeSet;

use crate::reduce::budget::Collected;
use crate::reduce::strings::{self, Kind, Program};
use crate::{MarkKind, Tables};

pub use names::PersonalNames;

/// Replacement for user and machine names.
const USER: &str = "somebody";
const HOST: &str = "host";
/// Replacement for a home folder.
const HOME: &str = "/home/somebody";

/// The names to remove.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Person {
    /// Home folders, without a trailing slash.
    pub homes: BTreeSet<String>,
    /// Names of users.
    pub users: BTreeSet<String>,
    /// Names of machines.
    pub hosts: BTreeSet<String>,
}

impl Person {
    /// Adds the homes and users in paths.
    pub fn add_seen(&mut self, tables: &mut Tables, collected: &mut Collected) {
        strings::each(tables, collected, &mut |kind, text| seen::look(self, kind, text));
        for program in strings::programs(tables, collected) {
            for argument in program.command_line {
                seen::look(self, Kind::Text, argument);
            }
        }
        self.homes.remove(HOME);
    }

    /// Keeps a user or machine name where it occurs, except in home folders.
    pub fn keep(&mut self, name: &str) {
        let others = |kept: &String| kept.to_lowercase() != name.to_lowercase();
        self.users.retain(others);
        self.hosts.retain(others);
    }

    /// Home folders and names, prepared for lookup.
    pub fn names(&self) -> PersonalNames {
        PersonalNames::new(self)
    }

    /// Names that identify the person or the machine.
    pub fn identifying(&self) -> impl Iterator<Item = &String> {
        let names = self.users.iter().chain(&self.hosts);
        names.filter(|name| !words::is_anonymous(name))
    }

    /// Names that are also common words, and are removed only where they name an account.
    pub fn common_words(&self) -> impl Iterator<Item = &String> {
        self.identifying().filter(|name| names::is_weak(name))
    }
}

/// Removes personal data, addresses, all arguments, pictures of windows, private pages, and other pages' addresses
/// except their hosts.
pub fn sanitize(tables: &mut Tables, collected: &mut Collected, person: &Person) {
    let names = person.names();
    pages::reduce(tables);
    for thread in &mut collected.threads {
        thread
            .marks
            .retain(|mark| !matches!(&mark.kind, MarkKind::Gecko(mark) if mark.image.is_some()));
    }
    for program in strings::programs(tables, collected) {
        let name = program_name(&program);
        *program.command_line = name
            .map(|name| without(&names, Kind::Path, &name).unwrap_or(name))
            .into_iter()
            .collect();
    }
    strings::each(tables, collected, &mut |kind, text| {
        if let Some(without) = without(&names, kind, text) {
            *text = without;
        }
    });
}

/// `text` without personal data; `None` if it contains none.
fn without(names: &PersonalNames, kind: Kind, text: &str) -> Option<String> {
    let replaced = names.replaced(kind, text);
    // Symbol versions look like addresses.
    let is_code = kind == Kind::Function;
    let plain = (!is_code).then(|| addresses::replaced(replaced.as_deref().unwrap_or(text)));
    plain.flatten().or(replaced)
}

/// The program of a command line. Programs overwrite theirs with their activity
/// (`postgres: alice db 10.1.2.3 SELECT`), so the result is the name in the program's path, unless the first word is
/// a shorter or longer form of it.
fn program_name(program: &Program<'_>) -> Option<String> {
    let first = program.command_line.first()?;
    let path = program.path.map(|path| path.strip_suffix(" (deleted)").unwrap_or(path));
    let Some(path) = path.filter(|path| path != first) else {
        return Some(first.clone());
    };
    let base = file_name(path);
    let word = first
        .split(|c: char| c.is_whitespace() || c == ':')
        .next()
        .unwrap_or_default();
    let name = file_name(word.strip_prefix('-').unwrap_or(word));
    let is_form = !name.is_empty() && (base.contains(name) || name.contains(base));
    Some(if is_form { word } else { base }.to_owned())
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests;
