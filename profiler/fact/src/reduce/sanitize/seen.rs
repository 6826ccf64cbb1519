//! Home folders and accounts found in the texts of a recording.

use super::spelling::Spelled;
use super::{Person, words};
use crate::reduce::strings::Kind;

/// Folders that contain one folder or file per account.
const HOMES: [&str; 2] = ["/home/", "/Users/"];
const ACCOUNTS: [&str; 4] = [
    "/run/media/",
    "/var/mail/",
    "/var/spool/mail/",
    "/var/spool/cron/crontabs/",
];
/// Number of folders allowed above `/home`: `/export/home`, `/mnt/disk/home`. Deeper down it may be anything.
const ABOVE: usize = 2;
/// Maximum length of an account name.
const LONGEST: usize = 64;

/// Adds the accounts and homes in a text.
pub fn look(person: &mut Person, kind: Kind, text: &str) {
    let has_homes = |text: &str| HOMES.iter().chain(&ACCOUNTS).any(|at| text.contains(at));
    if has_homes(text) {
        look_plain(person, kind, text);
    }
    if text.contains(['%', '\\']) {
        for level in Spelled::levels(text).iter().skip(1).map(Spelled::text) {
            if has_homes(&level) {
                look_plain(person, Kind::Text, &level);
            }
        }
    }
    if text.contains("/root") {
        person.homes.insert("/root".to_owned());
    }
}

fn look_plain(person: &mut Person, kind: Kind, text: &str) {
    for at in HOMES.into_iter().chain(ACCOUNTS) {
        for (found, _) in text.match_indices(at) {
            let (before, rest) = (&text[..found], &text[found + at.len()..]);
            let is_path = kind == Kind::Path && text.starts_with('/');
            let Some(name) = name(rest, is_path) else { continue };
            let is_folder = rest[name.len()..].starts_with('/');
            let is_account = may_hold_homes(before);
            if HOMES.contains(&at) && (is_folder || is_account) {
                person.homes.insert(format!("{at}{name}"));
            }
            if is_account {
                person.add_account(name);
            }
        }
    }
}

/// The account name at the start of the text after `/home/`.
fn name(rest: &str, is_path: bool) -> Option<&str> {
    let ends = |c: char| {
        c == '/' || c.is_control() || !is_path && (c.is_whitespace() || "\"'`<>|;,:()[]{}?#&=*\\!".contains(c))
    };
    let name = rest.split(ends).next().unwrap_or_default();
    let name = if is_path { name } else { name.trim_end_matches('.') };
    let is_one = name.len() <= LONGEST && name.contains(char::is_alphabetic) && !name.starts_with('.');
    is_one.then_some(name)
}

/// Whether this may be a folder of homes: near the root of a file system, not deep in a source tree and not on a web
/// server.
fn may_hold_homes(before: &str) -> bool {
    let starts = |c: char| c.is_whitespace() || c.is_control() || "\"'`<>|;,:()[]{}=".contains(c);
    let path = before.rsplit(starts).next().unwrap_or_default();
    let is_url = path.starts_with("//") && before.len() > path.len();
    let above = path.split('/').filter(|folder| !folder.is_empty()).count();
    let is_absolute = path.is_empty() || path.starts_with('/');
    is_absolute && above <= ABOVE && (above == 0 || !is_url)
}

impl Person {
    /// Adds an account; an account with a domain (`alice@corp.example`, `CORP\alice`) is also added without it.
    pub fn add_account(&mut self, name: &str) {
        self.users.insert(name.to_owned());
        if words::is_anonymous(name) {
            return;
        }
        if let Some((user, domain)) = name.split_once('@') {
            self.users.insert(user.to_owned());
            self.hosts.insert(domain.to_owned());
        }
        if let Some((_, user)) = name.rsplit_once(['\\', '+']) {
            self.users.insert(user.to_owned());
        }
        self.users.retain(|user| !user.is_empty());
        self.hosts.retain(|host| !host.is_empty());
    }
}
