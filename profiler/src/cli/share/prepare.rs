//! Prepares an upload: the profile unchanged or sanitized, compressed, with a list of what it
//! reveals.

use std::fs::File;
use std::io::{self, Seek as _, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use web::share::{SIZE_LIMIT, ShareError};

use crate::cli::args::Share;
use crate::cli::source;
use crate::cli::trim::read;
use crate::fact::FactSource as _;
use crate::fact::reduce::budget::{Budget, Collector};
use crate::fact::reduce::sanitize::{PersonalNames, sanitize};
use crate::fact::reduce::strings::Kind;
use crate::profile::{gzip, texts};
use crate::record::path_track::path_track;
use crate::report::privacy::disclosures;
use crate::report::text::fit;

/// Maximum number of names in an error.
const PLACES: usize = 5;
/// Maximum columns of the text around a name.
const LENGTH: usize = 60;

/// A file to upload.
pub struct Prepared {
    /// The gzip-compressed profile.
    pub file: File,
    /// What it reveals, in sentences.
    pub disclosures: Vec<String>,
    /// Names of users and machines that are kept, because they are also common words.
    pub common_words: Vec<String>,
}

/// Reads a profile and prepares its upload.
///
/// # Errors
/// The profile can't be read, was not written by ngmi, or is too large; or a name remains in it
/// that should be removed.
pub fn prepare(args: &Share) -> Result<Prepared> {
    let profile = &args.profile;
    // Check before a large file is read, which takes time.
    let unchanged = (!args.sanitize).then(|| as_it_is(profile)).transpose()?;
    let mut source = read(profile)?;
    let everything = Budget {
        samples: usize::MAX,
        marks: usize::MAX,
    };
    let mut collector = Collector::new(everything);
    let mut tables = source.replay(&mut collector)?;
    drop(source);
    let mut collected = collector.finish(&mut tables);
    let mut person = super::person::here();
    person.add_seen(&mut tables, &mut collected);
    args.remove_names.iter().for_each(|name| person.add_account(name));
    args.keep_names.iter().for_each(|name| person.keep(name));
    let file = if let Some(file) = unchanged {
        file
    } else {
        sanitize(&mut tables, &mut collected, &person);
        let path = path_track(&tables, &collected);
        let file = packed(|gzip| Ok(profile::write_with_path(&tables, &collected, path.as_ref(), gzip).map(drop)?))?;
        check_names(&file, &person.names())?;
        check_size(&file)?;
        file
    };
    let disclosures = disclosures(&mut tables, &mut collected, &person);
    let common_words = person.common_words().filter(|_| args.sanitize).cloned().collect();
    Ok(Prepared {
        file,
        disclosures,
        common_words,
    })
}

/// Checks the written file itself for names, independently of the code that removed them.
fn check_names(mut file: &File, names: &PersonalNames) -> Result<()> {
    let unreadable = "reading the sanitized profile";
    let (mut places, mut more) = (Vec::new(), 0_usize);
    file.rewind().context(unreadable)?;
    let checked = texts::texts(file, &mut |place, text| {
        // As for a function name: here it is not known that `~NAME` in one is not an account.
        if let Some(name) = names.in_text(Kind::Function, text).next() {
            if places.len() < PLACES {
                places.push(format!("`{name}` in {place}: {}", fit(text, LENGTH)));
            } else {
                more += 1;
            }
        }
    });
    checked.context(unreadable)?;
    file.rewind().context(unreadable)?;
    if places.is_empty() {
        return Ok(());
    }
    if more > 0 {
        places.push(format!("and {more} more"));
    }
    bail!(
        "not uploaded: names remain in the sanitized profile: {}; for each that is not the name of a person or machine, add --keep-name NAME",
        places.join("; ")
    )
}

fn check_size(file: &File) -> Result<()> {
    let size = file.metadata().context("reading the profile")?.len();
    if size > SIZE_LIMIT {
        return Err(ShareError::TooLarge(size).into());
    }
    Ok(())
}

/// The compressed profile itself, which is not too large, and has an end: a cut one would be uploaded, and would not open.
fn as_it_is(profile: &Path) -> Result<File> {
    let unreadable = || format!("cannot read {}", profile.display());
    let mut file = File::open(profile).with_context(unreadable)?;
    let start = source::start_of(&mut file).with_context(unreadable)?;
    file.rewind().with_context(unreadable)?;
    if !start.starts_with(&gzip::MAGIC) {
        source::expect_profile(profile, &start)?;
        file = packed(|gzip| Ok(io::copy(&mut file, gzip).map(drop)?))?;
    }
    check_size(&file)?;
    file.rewind().with_context(unreadable)?;
    source::expect_whole(profile, &file)?;
    file.rewind().with_context(unreadable)?;
    Ok(file)
}

/// An unnamed compressed file.
fn packed(write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<File> {
    let file = tempfile::tempfile().context("preparing the upload")?;
    gzip::gzip(&file, 6, write).context("preparing the upload")?;
    Ok(file)
}
