//! Peaks: the slowest fault and the deepest queue of each step, which the front end draws as graphs.

use std::time::Duration;

use super::profile_synthetic::{MS, at, fault};
use super::*;

fn track<'p>(profile: &'p Value, tid: &str) -> &'p Value {
    let threads = profile["threads"].as_array().unwrap();
    threads.iter().find(|thread| thread["tid"] == tid).unwrap()
}

/// Start and value of each marker of a type.
fn values(track: &Value, r#type: &str, key: &str) -> Vec<(f64, f64)> {
    let markers = &track["markers"];
    let rows = 0..markers["length"].as_u64().unwrap() as usize;
    let rows = rows.filter(|row| markers["data"][*row]["type"] == r#type);
    let value = |row: usize| {
        let value = markers["data"][row][key].as_f64();
        (markers["startTime"][row].as_f64().unwrap(), value.unwrap())
    };
    rows.map(value).collect()
}

#[test]
fn the_slowest_faults_of_a_process_are_a_graph() {
    let profile = profile();
    let by_time = track(&profile, "100-faults-time");
    let found = values(by_time, "FaultLatency", "latency");
    // Of both threads; the one of unknown latency is 0.
    let expected = [(10.0, 5.0), (12.0, 2.0), (14.0, 0.001), (16.0, 0.0), (18.0, 0.123_456)];
    assert_eq!(found, expected);
    let slowest = &by_time["markers"]["data"][0];
    assert_eq!(
        (&slowest["thread"], &slowest["place"]),
        (&"demo (100/100)".into(), &"libdemo.so+0x2000".into())
    );
    assert_eq!(track(&profile, "100-faults-bytes")["markers"]["length"], 0);
    let schemas = profile["meta"]["markerSchema"].as_array().unwrap().iter();
    let graphs = schemas.filter(|schema| !schema["graphs"].is_null());
    let graphs: Vec<_> = graphs
        .map(|schema| {
            let key = &schema["graphs"][0]["key"];
            let fields = schema["fields"].as_array().unwrap();
            assert!(fields.iter().any(|field| field["key"] == *key));
            (schema["name"].as_str().unwrap(), key.as_str().unwrap())
        })
        .collect();
    assert_eq!(graphs, [("FaultLatency", "latency"), ("QueueDepth", "depth")]);
}

#[test]
fn a_long_recording_has_one_fault_per_pixel() {
    let mut facts = everything();
    facts.tables.recording.end = at(20_000);
    facts.faults = (0..200_000).map(|i| fault(0, 0, 1000 + i % 10)).collect();
    for (fault, i) in facts.faults.iter_mut().zip(0..) {
        fault.start.0 += i * MS / 10;
    }
    facts.causes.clear();
    let quick: Value = serde_json::from_slice(&facts.json()).unwrap();
    let by_time = track(&quick, "100-faults-time");
    assert_eq!(by_time["markers"]["length"], 0, "nothing waited for a disk");
    facts.faults[7].waits.disk = Some(Duration::from_nanos(5));
    let profile: Value = serde_json::from_slice(&facts.json()).unwrap();
    let found = values(track(&profile, "100-faults-time"), "FaultLatency", "latency");
    // Steps of 10 ms, each with ten of the slowest.
    assert_eq!(found.len(), 2000);
    assert!(found.iter().all(|(_, latency)| (latency - 0.001_009).abs() < 1e-9));
}

#[test]
fn the_depth_of_a_queue_is_shown_when_the_device_got_the_request() {
    let profile = profile();
    let vda = track(&profile, "254:0");
    assert_eq!(values(vda, "QueueDepth", "depth"), [(11.0, 1.0), (62.0, 1.0)]);
    let odd = values(track(&profile, "254:16"), "QueueDepth", "depth");
    assert_eq!(odd, [(80.0, f64::from(u32::MAX))]);
}
