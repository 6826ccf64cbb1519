//! Tracks of cgroups: each is a process with one thread, which has no samples. Its markers are the reached limits of its
//! memory; its counters are memory and pressure.

pub(super) mod counter;

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Whole;
use super::skeleton::ThreadRow;
use super::track::{self, TrackMarker, TrackThread, Weight};
use crate::error::WriteError;
use crate::marker::limit::{self, LimitPayload};
use crate::shared::Shared;
use crate::shared::categories::Category;
use base::event::usage::CgroupUsage;
use fact::usage::{LimitReached, limits_reached};
use fact::{Tables, owner};

/// Maximum number of cgroup tracks that are visible when a profile opens: those with a limit.
const SHOWN: usize = 4;
/// Maximum length of a cgroup's name, in characters.
const MAX_NAME: usize = 80;

/// A short name of each cgroup, in the order of the tables.
pub fn names(tables: &Tables) -> Vec<String> {
    let usage = tables.recording.cgroup_usage.iter();
    let labels = owner::labels(tables, usage.map(|usage| usage.path.as_str()));
    labels.iter().map(|label| short(label)).collect()
}

/// The end of a long name: its beginning is what it has in common with others.
fn short(name: &str) -> String {
    let len = name.chars().count();
    if len <= MAX_NAME {
        return name.to_owned();
    }
    let end: String = name.chars().skip(len - MAX_NAME + 1).collect();
    format!("…{end}")
}

/// Which ones are visible when the profile opens.
pub fn shown(tables: &Tables) -> impl Iterator<Item = usize> {
    let usage = tables.recording.cgroup_usage.iter().enumerate();
    let limited = usage.filter(|(_, usage)| usage.samples.iter().any(|sample| sample.limit().is_some()));
    limited.map(|(index, _)| index).take(SHOWN)
}

/// The process id of a cgroup's track; ids of real processes are numbers.
pub fn pid(index: usize) -> String {
    format!("cgroup {index}")
}

/// The rows of `threads` for cgroups with these names, built from the row of a real thread, with their places in the tables.
pub fn rows(names: &[String], of_thread: &Map<String, Value>) -> Vec<(usize, ThreadRow)> {
    let row = |(index, name): (usize, &String)| {
        let row = track::row(of_thread, &pid(index), (&format!("Cgroup {name}"), name));
        (index, ThreadRow::new(row))
    };
    names.iter().enumerate().map(row).collect()
}

/// Markers of all tracks, with their names.
#[derive(Debug)]
pub struct CgroupMarkers(Vec<Vec<(LimitReached, u32)>>);

impl CgroupMarkers {
    /// Adds their names to the string array.
    pub fn new(tables: &Tables, shared: &mut Shared<'_>) -> Result<Self, WriteError> {
        let mut all = Vec::new();
        for (usage, cgroup) in tables.recording.cgroup_usage.iter().zip(names(tables)) {
            let named = |reached: LimitReached| {
                let name = limit::name(&reached, usage.hierarchy, &cgroup);
                Ok::<_, WriteError>((reached, shared.string(name)?))
            };
            all.push(limits_reached(usage).map(named).collect::<Result<_, _>>()?);
        }
        Ok(Self(all))
    }
}

/// The track of a cgroup.
pub fn thread<'a>(whole: &'a Whole<'a>, index: usize, row: &'a ThreadRow) -> impl Serialize {
    let markers = whole.cgroups.0.get(index).into_iter().flatten();
    let marker = |(reached, name): &'a (LimitReached, u32)| TrackMarker {
        fact: reached,
        name: *name,
        start: reached.within.0,
        end: Some(reached.within.1),
    };
    TrackThread {
        row,
        samples: Cow::default(),
        weight: Weight::Time,
        markers: markers.map(marker).collect(),
        category: Category::WaitMemory,
        payload: |reached: &&LimitReached| LimitPayload::new(reached),
        shows: json!({"cgroup": index}),
        zero: whole.zero,
    }
}

/// Its place in the tables, and what it used.
pub fn all(tables: &Tables) -> impl Iterator<Item = (usize, &CgroupUsage)> {
    tables.recording.cgroup_usage.iter().enumerate()
}
