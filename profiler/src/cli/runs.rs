//! Recordings of the same thing, named one by one or by their folder, as figures.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::scratch::Scratch;
use super::source::{self, Kind};
use super::terminal::tell;
use crate::report::metrics::{Facts, Metrics, Runs};

/// Recordings of one set, at most: a test of them is exact.
pub const MOST: usize = 50;

/// The figures of every recording; a folder stands for the profiles in it.
///
/// # Errors
/// When one can't be read, or a folder has none.
pub fn read(inputs: &[PathBuf]) -> Result<Runs> {
    let all: Vec<Metrics> = files(inputs)?.iter().map(|file| one(file)).collect::<Result<_>>()?;
    Ok(Runs { all })
}

/// The recordings themselves.
///
/// # Errors
/// When there are too many, or a folder has none.
pub fn files(inputs: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for input in inputs {
        if input.is_dir() {
            files.extend(of_folder(input)?);
        } else {
            files.push(input.clone());
        }
    }
    if files.len() > MOST {
        bail!("{} recordings are too many; name {MOST} at most", files.len());
    }
    Ok(files)
}

/// The figures of a recording; what a person has to know of them is told.
pub fn one(file: &Path) -> Result<Metrics> {
    let metrics = quietly(file)?;
    for warning in &metrics.warnings {
        tell(format_args!("{}: {warning}", file.display()));
    }
    Ok(metrics)
}

/// The figures of a recording.
pub fn quietly(file: &Path) -> Result<Metrics> {
    let scratch = Scratch::of_kinds(Facts::KINDS);
    let mut facts = Facts::beyond_memory(&scratch.rows());
    let (tables, kind) = source::read_any(file, &mut facts)?;
    if let Kind::Foreign(by) = kind {
        facts.foreign = Some(format!(
            "{} was made by {by} and holds CPU samples only; record it with ngmi",
            file.display()
        ));
    }
    let metrics = Metrics::new(&tables, &facts);
    scratch.was_whole()?;
    Ok(metrics)
}

/// The profiles of a folder, as `record --runs` names them: by number.
fn of_folder(folder: &Path) -> Result<Vec<PathBuf>> {
    let shown = folder.display();
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {shown}"))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read {shown}"))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".json.gz") && path.is_file() {
            files.push((number(&name), path));
        }
    }
    if files.is_empty() {
        bail!(
            "no profile (`*.json.gz`) is in {shown}; `ngmi record --runs 5 -o {shown}/run.json.gz -- COMMAND` makes some"
        );
    }
    files.sort();
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

/// Of `profile.12.json.gz`, 12.
fn number(name: &str) -> u64 {
    let stem = name.trim_end_matches(".json.gz");
    stem.rsplit('.')
        .next()
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_default()
}
