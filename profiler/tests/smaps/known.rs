//! What a recording knows about memory: the pages that faults touched, each counted once per
//! process, and what touched them first.

use std::collections::{HashMap, HashSet};

use profiler::fact::fault::{Access, FaultClass};
use profiler::fact::{FactSink as _, FaultFact};
use profiler::report::faults::{Facts, View};
use profiler::report::smaps::Known;
use serde_json::Value;

use super::profile_synthetic::{Synthetic, everything};
use super::{fits_a_terminal, ngmi, refused, said};

/// Faults of every kind, repeated on other pages.
fn recording() -> Synthetic {
    let mut facts = everything();
    let first = facts.faults.clone();
    for round in 1..40_u64 {
        facts.faults.extend(first.iter().enumerate().map(|(index, fault)| {
            let mut fault = FaultFact { ..*fault };
            fault.start.0 += round * 1000;
            fault.thread.0 = u32::try_from(index).unwrap() % 4;
            if let Some(place) = &mut fault.place {
                // Some pages repeat.
                let by = (round % 13) * 4096;
                (place.offset.0, place.byte.0) = (place.offset.0.wrapping_add(by), place.byte.0.wrapping_add(by));
            }
            fault
        }));
    }
    facts
}

#[test]
fn pages_count_once() {
    let facts = recording();
    let tables = &facts.tables;
    let mut collected = Facts::default();
    facts.faults.iter().for_each(|fault| collected.fault(tables, fault));
    let view = View::new(tables, &collected);
    let known = Known::new(&view);
    let (mut touched, mut distinct, mut written) = (HashSet::new(), HashSet::new(), HashSet::new());
    for fault in facts.faults.iter().filter(|fault| fault.failed.is_none()) {
        let Some(place) = fault.place else { continue };
        let process = tables.threads[fault.thread.index()].process;
        let key = (process, place.file, place.offset.0 / 4096);
        touched.insert(key);
        distinct.insert((place.file, place.offset.0 / 4096));
        let writes = matches!(fault.class, FaultClass::FileCow | FaultClass::SharedDirty)
            || (fault.class == FaultClass::Shmem && fault.access == Access::Write);
        if writes {
            written.insert(key);
        }
    }
    assert!(touched.len() > distinct.len() && !written.is_empty());
    for rows in [known.by_section().collect::<Vec<_>>(), known.by_process().collect()] {
        let pages = |bytes: u64| usize::try_from(bytes / 4096).unwrap();
        assert_eq!(pages(rows.iter().map(|row| row.touched_bytes).sum()), touched.len());
        assert_eq!(pages(rows.iter().map(|row| row.written_bytes).sum()), written.len());
        let by_functions = rows
            .iter()
            .flat_map(|row| row.functions.iter())
            .map(|toucher| toucher.bytes);
        assert_eq!(pages(by_functions.sum()), touched.len());
    }
    let all: u64 = known.by_section().map(|row| row.distinct_bytes).sum();
    assert_eq!(usize::try_from(all / 4096).unwrap(), distinct.len());
}

#[test]
fn a_profile_alone_gives_partial_knowledge() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.json");
    std::fs::write(&path, recording().json()).unwrap();
    let path = path.to_str().unwrap();
    fits_a_terminal(&said(&[path]));
    let found: Value = serde_json::from_str(&said(&[path, "--json"])).unwrap();
    let mut pids: HashMap<u64, u64> = HashMap::new();
    for row in found["by_process"].as_array().unwrap() {
        *pids.entry(row["pid"].as_u64().unwrap()).or_default() += row["touched_bytes"].as_u64().unwrap();
    }
    assert!(pids.len() > 1);
    let csv = said(&[path, "--csv"]);
    assert!(csv.starts_with("pid,process,file,section,touched_bytes,"), "{csv}");
    assert!(refused(&[path, "--tree"]).contains("give its id"));
    let own = std::process::id().to_string();
    let with: Value = serde_json::from_str(&said(&[&own, "--json", "--with", path])).unwrap();
    // None of these files is mapped here.
    assert!(
        with["by_section"]
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row["touched_bytes"].is_null())
    );
}

#[test]
fn foreign_recordings_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foreign.json");
    std::fs::write(&path, r#"{"meta":{"preprocessedProfileVersion":70},"threads":[]}"#).unwrap();
    let error = refused(&[path.to_str().unwrap()]);
    assert!(error.contains("not written by ngmi"), "{error}");
    assert_eq!(ngmi(&["nothing-of-that-name"]).status.code(), Some(1));
}
