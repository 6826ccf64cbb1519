//! Tracks of cgroups: each is a process with one thread, which has no samples. Its markers are the reached limits of its
//! memory; its counters are memory and pressure.

pub(super) mod counter;

use serde::{Serialize, Serializer, ser::SerializeMap, ser::SerializeStruct};
use serde_json::{Map, Value, json};

use super::skeleton::ThreadRow;
use super::track::{self, Samples, Weight};
use crate::error::WriteError;
use crate::marker::PHASE_INTERVAL;
use crate::marker::limit::{self, LimitPayload};
use crate::shared::Shared;
use crate::shared::categories::Category;
use crate::shared::columns::{Column, Repeat, Seq};
use crate::units::ms;
use base::addr::Timestamp;
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

/// Markers of all tracks.
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

    /// Those of a cgroup, by its place in the tables.
    pub fn of(&self, index: usize) -> &[(LimitReached, u32)] {
        self.0.get(index).map_or(&[], Vec::as_slice)
    }
}

/// The track of a cgroup.
pub struct CgroupThread<'a> {
    /// Its place in the tables.
    pub index: usize,
    /// Its row of `threads` without tables.
    pub row: &'a ThreadRow,
    /// Its markers.
    pub markers: &'a [(LimitReached, u32)],
    /// The profile's time 0.
    pub zero: Timestamp,
}

impl Serialize for CgroupThread<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut thread = serializer.serialize_map(None)?;
        for (key, value) in self.row.fields() {
            thread.serialize_entry(&key, &value)?;
        }
        let samples = Samples {
            rows: &[],
            weight: Weight::Time,
            zero: self.zero,
        };
        thread.serialize_entry("samples", &samples)?;
        thread.serialize_entry("markers", &Markers(self))?;
        thread.serialize_entry("ngmiCompanion", &json!({"cgroup": self.index}))?;
        thread.end()
    }
}

/// The `markers` table: starts ascending.
struct Markers<'a>(&'a CgroupThread<'a>);

impl Serialize for Markers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        type Row = (LimitReached, u32);
        let (rows, zero) = (self.0.markers, self.0.zero);
        let data = rows.iter().map(|(reached, _)| LimitPayload::new(reached));
        let mut table = serializer.serialize_struct("markers", 7)?;
        table.serialize_field("length", &rows.len())?;
        table.serialize_field("category", &Repeat(Category::WaitMemory as u8, rows.len()))?;
        table.serialize_field("data", &Seq(data))?;
        table.serialize_field("name", &Column(rows, |row: &Row| row.1))?;
        table.serialize_field("startTime", &Column(rows, |row: &Row| ms(row.0.within.0, zero)))?;
        table.serialize_field("endTime", &Column(rows, |row: &Row| ms(row.0.within.1, zero)))?;
        table.serialize_field("phase", &Repeat(PHASE_INTERVAL, rows.len()))?;
        table.end()
    }
}

/// Its place in the tables, and what it used.
pub fn all(tables: &Tables) -> impl Iterator<Item = (usize, &CgroupUsage)> {
    tables.recording.cgroup_usage.iter().enumerate()
}
