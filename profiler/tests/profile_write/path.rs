//! The track of a critical path: its samples are the path, and the reader ignores it.

use std::collections::BTreeMap;

use profiler::fact::FactSource as _;
use profiler::fact::reduce::budget::Collector;
use profiler::profile::ProfileSource;

use super::flows::flows;
use super::profile_synthetic::path_track;
use super::*;

fn with_path() -> Value {
    serde_json::from_slice(&everything().json_with(&path_track())).unwrap()
}

fn track(profile: &Value) -> &Value {
    profile["threads"].as_array().unwrap().last().unwrap()
}

/// Time in ns by stack.
fn times(profile: &Value) -> BTreeMap<Vec<String>, u64> {
    let samples = &track(profile)["samples"];
    assert_eq!(samples["weightType"], "tracing-ms");
    let mut times = BTreeMap::new();
    for (stack, weight) in samples["stack"]
        .as_array()
        .unwrap()
        .iter()
        .zip(samples["weight"].as_array().unwrap())
    {
        let ns: u64 = format!("{:.0}", weight.as_f64().unwrap() * 1e6).parse().unwrap();
        match stack.as_u64() {
            Some(row) => *times.entry(stack_names(profile, row)).or_default() += ns,
            None => assert_eq!(ns, 0),
        }
    }
    times
}

#[test]
fn samples_add_up_to_the_path_by_thread_function_and_wait() {
    let profile = with_path();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let (first, second) = (words(0), words(1));
    let expected = [
        (names(&[&second, "main", &hostile()[5], "middle", "inner"]), 30),
        (names(&[&first, "main"]), 9),
        (names(&[&second, "main", "[waiting: page fault]"]), 6),
        (names(&[&second, "[waiting: poll]"]), 15),
        (names(&[&first, "[waiting: CPU]"]), 40),
    ];
    let expected: BTreeMap<_, _> = expected
        .into_iter()
        .map(|(names, ms)| (names, ms * 1_000_000))
        .collect();
    assert_eq!(times(&profile), expected);
    let track = track(&profile);
    let name = everything().tables.threads[1].name.clone();
    assert_eq!(track["name"], format!("critical path of {name}"));
    assert_eq!(
        (&track["tid"], &track["isMainThread"]),
        (&"100-path".into(), &false.into())
    );
    let place = profile["threads"].as_array().unwrap().len() - 1;
    let shown = profile["meta"]["initialVisibleThreads"].as_array().unwrap();
    assert!(shown.contains(&place.into()), "{shown:?}");
}

/// A thread as root frames have it.
fn words(thread: usize) -> String {
    let tables = everything().tables;
    let of = &tables.threads[thread];
    let pid = tables.processes[of.process.index()].pid;
    let name: String = of.name.chars().take(100).collect();
    format!("{name} ({pid}/{})", of.tid)
}

#[test]
fn a_link_has_the_flow_of_the_wait_that_it_ended() {
    let profile = with_path();
    let markers = &track(&profile)["markers"];
    assert_eq!(markers["startTime"], serde_json::json!([0.0, 30.0]));
    assert_eq!(markers["endTime"], serde_json::json!([30.0, 39.0]));
    let data = &markers["data"];
    assert_eq!((&data[0]["flow"], &data[1]["via"]), (&Value::Null, &"lock".into()));
    assert_eq!(data[1]["thread"], words(0));
    let flows = flows(&profile);
    assert_eq!(flows.len(), 1);
    let chain = flows.values().next().unwrap();
    for (tid, name, start) in [
        ("100-path", "Path link", 30.0),
        ("101", "Wait", 30.0),
        ("100", "Wakeup", 39.0),
    ] {
        assert!(
            chain.contains(&(tid.to_owned(), name.to_owned(), start)),
            "{name}: {chain:?}"
        );
    }
}

#[test]
fn a_profile_with_the_track_is_valid_and_has_the_same_facts() {
    let facts = everything();
    let (plain, with) = (facts.json(), facts.json_with(&path_track()));
    assert_eq!(profile::lint(&with[..]), Vec::<String>::new());
    let read = |json: &[u8]| {
        let mut collector = Collector::new(Budget::default());
        let mut tables = ProfileSource::new(json).unwrap().replay(&mut collector).unwrap();
        let collected = collector.finish(&mut tables);
        (tables, collected)
    };
    assert!(read(&plain) == read(&with), "the track adds facts");
    let of = |json: &[u8], key: &str| serde_json::from_slice::<Value>(json).unwrap()["ngmi"][key].clone();
    assert_eq!(of(&plain, "labels"), of(&with, "labels"));
}
