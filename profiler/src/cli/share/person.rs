//! Names of the user who runs this program, of the other accounts here, and of the machine.

use std::fs;

use nix::unistd::{Uid, User, gethostname, getuid};

use crate::fact::reduce::sanitize::Person;

/// User ids of people's accounts; lower ones belong to services, higher ones to the system and to
/// containers.
const PEOPLE: std::ops::Range<u32> = 1000..60_000;
/// Maximum number of accounts to read from `/etc/passwd`: a longer table is not of people on this
/// machine.
const ACCOUNTS: usize = 10_000;

/// The names of the user and the machine.
pub fn here() -> Person {
    let mut person = Person::default();
    add_home(&mut person, &variable("HOME"));
    for name in ["USER", "LOGNAME", "SUDO_USER"].map(variable) {
        if !name.is_empty() {
            person.add_account(&name);
        }
    }
    for uid in [Some(getuid()), variable("SUDO_UID").parse().ok().map(Uid::from_raw)] {
        if let Some(user) = uid.and_then(|uid| User::from_uid(uid).ok().flatten()) {
            add_user(
                &mut person,
                &user.name,
                &user.gecos.to_string_lossy(),
                &user.dir.to_string_lossy(),
            );
        }
    }
    // Also other users of this machine, who may be in a recording of the whole system.
    let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
    for account in accounts.lines().take(ACCOUNTS) {
        if let [name, _, uid, _, gecos, home, ..] = account.split(':').collect::<Vec<_>>()[..]
            && uid.parse().is_ok_and(|uid| PEOPLE.contains(&uid))
        {
            add_user(&mut person, name, gecos, home);
        }
    }
    if let Some(host) = gethostname().ok().and_then(|host| host.into_string().ok()) {
        // A name with a domain is also known without it, and vice versa.
        if let Some((short, domain)) = host.split_once('.') {
            person.hosts.insert(short.to_owned());
            person.hosts.extend(domain.contains('.').then(|| domain.to_owned()));
        }
        person.hosts.insert(host);
    }
    person.hosts.retain(|host| !host.is_empty());
    person
}

fn add_user(person: &mut Person, name: &str, gecos: &str, home: &str) {
    person.add_account(name);
    let full_name = gecos.split(',').next().unwrap_or_default().trim();
    if full_name.contains(char::is_alphabetic) {
        person.users.insert(full_name.to_owned());
    }
    add_home(person, home);
}

/// Accounts without a home have a system folder there.
fn add_home(person: &mut Person, home: &str) {
    const NO_HOMES: [&str; 6] = ["/nonexistent", "/bin", "/sbin", "/dev/null", "/tmp", "/var/empty"];
    let home = home.trim_end_matches('/');
    if home.starts_with('/') && !home.starts_with("/usr/") && !NO_HOMES.contains(&home) {
        person.homes.insert(home.to_owned());
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}
