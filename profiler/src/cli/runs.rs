//! Metrics of recordings of the same workload, named individually or by their folder.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::scratch::Scratch;
use super::source::{self, Kind};
use crate::report::between::Between;
use crate::report::check::budget::between;
use crate::report::metrics::{Facts, Metrics, Paths, Runs};
use crate::report::path::PathFacts;
use crate::report::select::Span;
use crate::terminal::print_note;

/// Maximum number of recordings in a set: the statistical test is exact.
pub const MOST: usize = 50;

/// Most waits from which a critical path is followed that was not requested: a second, and some 200 MB.
const CHEAP: usize = 1 << 20;

/// What is measured of each recording.
#[derive(Debug, Default)]
pub struct Wanted {
    /// What is measured; `None`: everything.
    pub between: Option<Between>,
    /// Other parts that a budget names.
    pub windows: Vec<String>,
    /// The critical paths; `None`: no path is followed.
    pub paths: Option<WantedPaths>,
}

/// Critical paths: of the command's first thread, and others.
#[derive(Debug)]
pub struct WantedPaths {
    /// Most waits from which they are followed.
    pub most: usize,
    /// Patterns of other threads.
    pub threads: BTreeSet<String>,
}

impl Wanted {
    /// Everything that takes little time or memory: the whole recording, and the critical path if it has few waits.
    pub fn whole() -> Self {
        let paths = WantedPaths {
            most: CHEAP,
            threads: BTreeSet::new(),
        };
        Self {
            paths: Some(paths),
            ..Self::default()
        }
    }
}

/// The metrics of every recording, or of its part between or during markers; a folder means all profiles in it.
///
/// # Errors
/// A recording can't be read or lacks the markers, or a folder contains none.
pub fn read(inputs: &[PathBuf], wanted: &Wanted) -> Result<Runs> {
    let files = files(inputs)?;
    let all: Result<Vec<Metrics>> = files.iter().map(|file| one(file, wanted)).collect();
    Ok(Runs { all: all? })
}

/// The paths of the recordings.
///
/// # Errors
/// There are too many, or a folder contains none.
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
        bail!("too many recordings: {}; name at most {MOST}", files.len());
    }
    Ok(files)
}

/// The metrics of a recording; prints its warnings.
fn one(file: &Path, wanted: &Wanted) -> Result<Metrics> {
    let metrics = quietly(file, wanted)?;
    for warning in &metrics.warnings {
        print_note(format_args!("{}: {warning}", file.display()));
    }
    Ok(metrics)
}

/// The metrics of a recording, without printing warnings.
pub fn quietly(file: &Path, wanted: &Wanted) -> Result<Metrics> {
    let scratch = Scratch::of_kinds(Facts::KINDS);
    let mut facts = Facts::beyond_memory(&scratch.rows());
    let windows = wanted.windows.iter().filter_map(|name| between(name));
    facts.between = wanted.between.iter().cloned().chain(windows).collect();
    let wanted_paths = wanted.paths.as_ref();
    facts.path = wanted_paths.map(|paths| PathFacts::without_samples(paths.most));
    let (tables, kind) = source::read_any(file, &mut facts)?;
    if let Kind::Foreign(by) = kind {
        facts.foreign = Some(format!(
            "{} was written by {by} and contains CPU samples only; record with ngmi",
            file.display()
        ));
    }
    let (mut spans, mut chosen) = (Vec::new(), Vec::new());
    for between in &facts.between {
        chosen.extend(between.chosen(&tables));
        let (from, to) = between.range(&tables).with_context(|| file.display().to_string())?;
        spans.push(Span::new(from, to));
    }
    let (whole, windows) = spans.split_at(wanted.between.iter().count());
    let paths = facts
        .path
        .take()
        .map(|facts| Paths::new(&tables, facts))
        .zip(wanted_paths);
    let within = |span: Option<Span>| {
        let metrics = Metrics::within(&tables, &facts, span);
        match &paths {
            Some((paths, wanted)) => {
                metrics.with_paths(&tables, paths, span, wanted.threads.iter().map(String::as_str))
            }
            None => metrics,
        }
    };
    let mut metrics = within(whole.first().copied());
    metrics.warnings.splice(..0, chosen);
    for (name, span) in wanted.windows.iter().zip(windows) {
        metrics.windows.insert(name.clone(), within(Some(*span)));
    }
    scratch.was_whole()?;
    Ok(metrics)
}

/// The profiles of a folder, sorted by run number as `record --runs` assigns it.
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
            "no profile (`*.json.gz`) in {shown}; `ngmi record --runs 5 -o {shown}/run.json.gz -- COMMAND` writes some"
        );
    }
    files.sort();
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

/// The run number in a file name: 12 for `profile.12.json.gz`.
fn number(name: &str) -> u64 {
    let stem = name.trim_end_matches(".json.gz");
    stem.rsplit('.')
        .next()
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_default()
}
