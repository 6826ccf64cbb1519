//! Flows: ids that the markers of a chain of events share.

use std::collections::BTreeMap;

use std::time::Duration;

use profiler::addr::Timestamp;
use profiler::fact::reduce::budget::Collector;
use profiler::fact::wait::WakerFact;
use profiler::fact::{FactSource, WaitFact, WaitReason};
use profiler::profile::ProfileSource;

use super::profile_synthetic::{at, large, wait};
use super::*;

/// Thread or device, name and start of each marker, by the text of its flow's id.
pub fn flows(profile: &Value) -> BTreeMap<String, Vec<(String, String, f64)>> {
    let strings = &profile["shared"]["stringArray"];
    let text = |index: &Value| strings[index.as_u64().unwrap() as usize].as_str().unwrap().to_owned();
    let mut flows: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for thread in profile["threads"].as_array().unwrap() {
        let markers = &thread["markers"];
        for row in 0..markers["length"].as_u64().unwrap() as usize {
            let flow = &markers["data"][row]["flow"];
            if !flow.is_null() {
                let marker = (
                    thread["tid"].as_str().unwrap().to_owned(),
                    text(&markers["name"][row]),
                    markers["startTime"][row].as_f64().unwrap(),
                );
                flows.entry(text(flow)).or_default().push(marker);
            }
        }
    }
    flows
}

fn marker(tid: &str, name: &str, start: f64) -> (String, String, f64) {
    (tid.to_owned(), name.to_owned(), start)
}

#[test]
fn a_request_and_all_that_it_held_up_are_one_flow() {
    let profile = profile();
    let flows = flows(&profile);
    assert_eq!(flows.len(), 1, "{flows:?}");
    let mut found = flows["ngmi-00000001"].clone();
    found.sort_by(|a, b| (a.2.total_cmp(&b.2)).then_with(|| (&a.0, &a.1).cmp(&(&b.0, &b.1))));
    let expected = [
        marker("100", "DiskRead", 10.0),
        marker("100", "PageFault", 10.0),
        marker("100-faults-time", "fault latency", 10.0),
        marker("254:0", "read", 10.0),
        marker("100", "Wait", 11.0),
        marker("100-faults-time", "fault latency", 12.0),
        marker("101", "PageFault", 12.0),
        // For a lock that thread 100 held during its fault, and released at 39 ms.
        marker("101", "Wait", 30.0),
        marker("100", "Wakeup", 39.0),
    ];
    assert_eq!(found, expected);
    for schema in profile["meta"]["markerSchema"].as_array().unwrap() {
        let fields = schema["fields"].as_array().unwrap().iter();
        for field in fields.filter(|field| field["key"] == "flow") {
            assert_eq!(field["format"], "flow-id", "{schema}");
        }
    }
}

#[test]
fn facts_without_markers_are_in_no_flow() {
    let mut facts = everything();
    facts.requests.clear();
    facts.causes.truncate(1);
    facts.waits.clear();
    let profile: Value = serde_json::from_slice(&facts.json()).unwrap();
    assert_eq!(flows(&profile).len(), 0, "a fault alone");
}

fn woken(start: u64, by_interrupt: Option<bool>) -> WaitFact {
    let waker = WakerFact {
        time: at(start + 1),
        pid: 1,
        tid: 2,
        thread: Some(ThreadId(2)),
        stack: None,
        by_interrupt,
    };
    WaitFact {
        waker: Some(waker),
        ..wait(start, start + 2, 1, WaitReason::Condition)
    }
}

#[test]
fn only_threads_that_ended_a_long_wait_have_wake_ups() {
    let mut facts = large(10, 5);
    let short = WaitFact {
        longest: Duration::from_micros(999),
        ..woken(10, Some(false))
    };
    let itself = WaitFact {
        thread: ThreadId(2),
        ..woken(20, Some(false))
    };
    let several = WaitFact {
        count: 2,
        ..woken(30, Some(false))
    };
    let unknown = [woken(40, Some(true)), woken(50, None)];
    facts.waits = [short, itself, several].into_iter().chain(unknown).collect();
    facts.waits.push(woken(60, Some(false)));
    let profile: Value = serde_json::from_slice(&facts.json()).unwrap();
    let flows = flows(&profile);
    let found: Vec<_> = flows
        .values()
        .flatten()
        .map(|(_, name, start)| (&**name, *start))
        .collect();
    assert_eq!(found.len(), 2);
    assert!(
        found.contains(&("Idle", 60.0)) && found.contains(&("Wakeup", 61.0)),
        "{found:?}"
    );
}

#[test]
fn too_many_wake_ups_are_counted() {
    const MOST: u64 = 25_000;
    let mut facts = large(10, 5);
    let ended = |i: u64| {
        let mut wait = woken(0, Some(false));
        // The first ones are the shortest.
        wait.start = Timestamp(at(0).0 + i * 10_000_000);
        wait.end = Timestamp(wait.start.0 + 1_000_000 + i);
        wait.longest = wait.end.since(wait.start);
        wait.off = wait.longest;
        wait.waker.iter_mut().for_each(|waker| waker.time = wait.end);
        wait
    };
    facts.waits = (0..MOST + 3).map(ended).collect();
    facts.tables.recording.end = facts.waits.last().unwrap().end;
    let (tables, collected) = facts.collect(Budget {
        samples: 1_000_000,
        marks: 1_000_000,
    });
    let mut json = Vec::new();
    profile::write(&tables, &collected, &mut json).unwrap();
    let profile: Value = serde_json::from_slice(&json).unwrap();
    let flows = flows(&profile);
    assert_eq!(flows.len() as u64, MOST);
    let starts = flows.values().flatten().map(|(_, _, start)| *start);
    let first = starts.fold(f64::INFINITY, f64::min);
    assert!(
        first > 29.0,
        "the three shortest, at 0, 10 and 20 ms, have none: {first}"
    );
    let entries = profile["meta"]["extra"].as_array().unwrap().iter();
    let mut entries = entries.flat_map(|section| section["entries"].as_array().unwrap());
    let left_out = entries.find(|entry| entry["label"] == "Wake-ups without markers");
    assert_eq!(left_out.unwrap()["value"], 3);
}

#[test]
fn ids_do_not_change_when_a_profile_is_read_and_written() {
    let first = everything().json();
    let mut collector = Collector::new(Budget::default());
    let mut source = ProfileSource::new(&first[..]).unwrap();
    let mut tables = source.replay(&mut collector).unwrap();
    let collected = collector.finish(&mut tables);
    let mut again = Vec::new();
    profile::write(&tables, &collected, &mut again).unwrap();
    let parsed = |json: &[u8]| flows(&serde_json::from_slice(json).unwrap());
    assert_eq!(parsed(&first), parsed(&again));
}

/// A chain's end may be cut off; what remains is still valid.
#[test]
fn a_flow_ends_with_its_facts() {
    let mut facts = everything();
    facts.requests.clear();
    let profile: Value = serde_json::from_slice(&facts.json()).unwrap();
    let flows = flows(&profile);
    let markers = flows["ngmi-00000001"].iter();
    assert!(markers.clone().all(|(_, name, _)| name != "read" && name != "DiskRead"));
    assert_eq!(markers.count(), 7);
}
