//! Sources of the hot functions, stored in the profile: a viewer on another machine shows them without further
//! requests.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use symbols::server::SourceRoots;

use super::identity::Environment;
use crate::fact::reduce::budget::Collected;
use crate::fact::{FrameId, StackId, Tables};

/// Files, at most.
const FILES: usize = 200;
/// Bytes of all files, at most.
const BYTES: usize = 8 << 20;
/// A file is hot if it is in the stack of one in this many samples, waits and faults.
const RARE: u64 = 500;

/// Where sources may be read, in a form for another process with the same working directory.
#[derive(Debug, Serialize, Deserialize)]
pub struct SourcePlaces {
    home: Option<OsString>,
    named: Vec<OsString>,
}

impl SourcePlaces {
    /// The usual places for the user with this environment, and the named ones.
    pub fn new(named: &[PathBuf], environment: &Environment) -> Self {
        Self {
            home: environment.get(OsStr::new("HOME")).cloned(),
            named: named.iter().map(|path| path.clone().into_os_string()).collect(),
        }
    }

    /// The places that exist now.
    pub fn roots(&self) -> SourceRoots {
        let named: Vec<PathBuf> = self.named.iter().map(PathBuf::from).collect();
        let working = std::env::current_dir().ok();
        SourceRoots::new(self.home.as_deref().map(Path::new), working.as_deref(), &named)
    }
}

/// Adds the texts of hot files to `tables`, the hottest first, up to the limits. Files that can't be read, or are
/// elsewhere, are left out.
pub fn include(tables: &mut Tables, collected: &Collected, roots: &SourceRoots) {
    let mut room = BYTES;
    let mut sources = FxHashMap::default();
    for path in hot_files(tables, collected) {
        if sources.len() >= FILES {
            break;
        }
        if let Ok(text) = roots.read(Path::new(path))
            && text.len() <= room
        {
            room -= text.len();
            sources.insert(path.to_owned(), text);
        }
    }
    tables.sources = sources;
}

/// Source files by the number of events in their functions and callees.
fn hot_files<'t>(tables: &'t Tables, collected: &Collected) -> Vec<&'t str> {
    let below = happenings(tables, collected);
    let mut by_file: FxHashMap<&str, u64> = FxHashMap::default();
    for (node, count) in tables.stacks.iter().zip(&below.counts) {
        let chain = tables
            .names
            .get(&FrameId(node.frame.0))
            .into_iter()
            .flat_map(|name| &name.inline_chain);
        for file in chain.filter_map(|frame| frame.file.as_deref()) {
            let sum = by_file.entry(file).or_default();
            *sum = sum.saturating_add(*count);
        }
    }
    let mut hot: Vec<(&str, u64)> = by_file
        .into_iter()
        .filter(|(_, count)| count.saturating_mul(RARE) >= below.all)
        .collect();
    // A stable order for equal counts.
    hot.sort_unstable_by_key(|(path, count)| (std::cmp::Reverse(*count), *path));
    hot.into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(path, _)| path)
        .collect()
}

struct Happenings {
    /// By stack: samples, waits and faults in it or in its callees.
    counts: Vec<u64>,
    all: u64,
}

fn happenings(tables: &Tables, collected: &Collected) -> Happenings {
    let mut counts = vec![0_u64; tables.stacks.len()];
    let mut all = 0_u64;
    let mut add = |stack: Option<StackId>, count: u64| {
        all = all.saturating_add(count);
        if let Some(sum) = stack.and_then(|stack| counts.get_mut(stack.index())) {
            *sum = sum.saturating_add(count);
        }
    };
    for thread in &collected.threads {
        thread
            .samples
            .iter()
            .for_each(|sample| add(sample.stack, sample.weight));
        thread.waits.iter().for_each(|wait| add(wait.stack, 1));
        thread.faults.iter().for_each(|fault| add(fault.stack, 1));
    }
    // A caller precedes its callees.
    for (index, node) in tables.stacks.iter().enumerate().rev() {
        let below = counts[index];
        if let Some(sum) = node.parent.and_then(|parent| counts.get_mut(parent.index())) {
            *sum = sum.saturating_add(below);
        }
    }
    Happenings { counts, all }
}
