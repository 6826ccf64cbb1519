//! What is uploaded: the profile as it is, or without the person; compressed; and what it reveals.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use web::share::{SIZE_LIMIT, ShareError};

use crate::cli::trim::read;
use crate::fact::FactSource as _;
use crate::fact::budget::{Budget, Collector};
use crate::fact::sanitize::{Person, sanitize};
use crate::profile::gzip;
use crate::report::reveals::reveals;

/// How a gzip file starts.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A file to upload.
pub struct Prepared {
    /// gzip.
    pub file: File,
    /// What it tells, in sentences.
    pub reveals: Vec<String>,
}

/// Reads a profile and prepares its upload.
///
/// # Errors
/// It can't be read, was not written by ngmi, or is too large.
pub fn prepare(profile: &Path, sanitized: bool) -> Result<Prepared> {
    if !sanitized {
        // Before a large file is read, which takes its time.
        check_size(&as_it_is(profile)?)?;
    }
    let mut source = read(profile)?;
    let everything = Budget {
        samples: usize::MAX,
        marks: usize::MAX,
    };
    let mut collector = Collector::new(everything);
    let mut tables = source.replay(&mut collector)?;
    drop(source);
    let mut collected = collector.finish(&mut tables);
    let mut person = person_here();
    person.add_seen(&mut tables, &mut collected);
    let file = if sanitized {
        sanitize(&mut tables, &mut collected, &person);
        packed(|gzip| Ok(crate::profile::write(&tables, &collected, gzip).map(drop)?))?
    } else {
        as_it_is(profile)?
    };
    check_size(&file)?;
    let reveals = reveals(&mut tables, &mut collected, &person);
    Ok(Prepared { file, reveals })
}

fn check_size(file: &File) -> Result<()> {
    let size = file.metadata().context("reading the profile")?.len();
    if size > SIZE_LIMIT {
        return Err(ShareError::TooLarge(size).into());
    }
    Ok(())
}

fn as_it_is(profile: &Path) -> Result<File> {
    let unreadable = || format!("cannot read {}", profile.display());
    let mut file = File::open(profile).with_context(unreadable)?;
    let mut start = Vec::new();
    (&mut file)
        .take(GZIP.len() as u64)
        .read_to_end(&mut start)
        .with_context(unreadable)?;
    file.rewind().with_context(unreadable)?;
    if start == GZIP {
        return Ok(file);
    }
    if !start.starts_with(b"{") {
        bail!(
            "{} is no profile; name the file that `ngmi record` wrote",
            profile.display()
        );
    }
    packed(|gzip| Ok(io::copy(&mut file, gzip).map(drop)?))
}

/// A compressed file without a name.
fn packed(write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<File> {
    let file = tempfile::tempfile().context("preparing the upload")?;
    gzip::gzip(&file, 6, write).context("preparing the upload")?;
    Ok(file)
}

/// Whoever runs this program, and where.
fn person_here() -> Person {
    let mut person = Person::default();
    let home = std::env::var("HOME").unwrap_or_default();
    let home = home.trim_end_matches('/');
    if home.starts_with('/') {
        person.homes.insert(home.to_owned());
    }
    if let Ok(Some(user)) = nix::unistd::User::from_uid(nix::unistd::geteuid()) {
        person.users.insert(user.name);
    }
    if let Some(host) = nix::unistd::gethostname().ok().and_then(|host| host.into_string().ok()) {
        // A name with a domain is also known without it.
        person.hosts.extend(host.split('.').next().map(str::to_owned));
        person.hosts.insert(host);
    }
    person.hosts.retain(|host| !host.is_empty());
    person
}
