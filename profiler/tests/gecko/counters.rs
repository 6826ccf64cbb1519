//! Counters of Firefox's profiler: tracks of their processes, on the recording's clock.

use profiler::addr::Timestamp;
use profiler::fact::gecko::GeckoCounter;
use profiler::fact::reduce::budget::{Budget, Collector};
use profiler::fact::reduce::trim::{Cut, trim};
use profiler::fact::{FactSource as _, ProcessId};
use profiler::profile::{ProfileSource, lint};
use serde_json::{Value, json};

use crate::made::{child, example, merge, merge_json, rows, whole, written};
use crate::profile_synthetic::MS;

fn counter(name: &str, category: &str, data: &Value) -> Value {
    json!({"name": name, "category": category, "description": "Text of /home/alice",
        "samples": {"schema": {"time": 0, "count": 1, "number": 2}, "data": data}})
}

fn memory(data: &Value) -> Value {
    counter("malloc", "Memory", data)
}

/// The example with counters in the parent and its child.
fn with(parent: &Value, of_child: &Value) -> Value {
    let mut all = example();
    all["counters"] = parent.clone();
    all["processes"][0]["counters"] = of_child.clone();
    all
}

#[test]
fn values_are_on_the_clock_of_the_recording() {
    // It starts at 20 ms.
    let data = json!([
        [5.0, 1, 1],
        [30.5, 1000, 3],
        [40.0, -200, 2],
        [119.0, 7, 0],
        [500.0, 1, 1]
    ]);
    let cpu = counter("processCPU", "CPU", &data);
    let old = json!({"name": "POWER:Test", "category": "power", "description": "",
        "sample_groups": [{"id": 0, "samples": {"schema": {"time": 1, "count": 0}, "data": [[2.6, 50.0]]}}]});
    let (merged, tables, collected) = merge_json(&with(&json!([memory(&data), cpu]), &json!([old])));
    assert_eq!((merged.counters, merged.left.counters), (2, 0));
    assert!(
        merged.to_string().contains("on 3 threads, with 2 counters;"),
        "{merged}"
    );
    let gecko = tables.recording.gecko.as_ref().unwrap();
    let at = |us: u64| Timestamp(5_000 * MS + us * 1000);
    assert_eq!(
        gecko.counters[0].values,
        [(at(10_500), 1000, 3), (at(20_000), -200, 2), (at(99_000), 7, 0)]
    );
    assert_eq!(
        (gecko.counters[1].process, &*gecko.counters[1].values),
        (ProcessId(1), &[(at(30_000), 3, 0)][..])
    );
    let text = written(&tables, &collected);
    assert_eq!(lint(&text[..]), Vec::<String>::new());
    let json: Value = serde_json::from_slice(&text).unwrap();
    let shown: Vec<&Value> = json["counters"].as_array().unwrap().iter().collect();
    let found = |name: &str| *shown.iter().find(|counter| counter["name"] == name).unwrap();
    let malloc = found("malloc");
    assert_eq!(malloc["samples"]["count"], json!([1000, -200, 7]));
    let times = malloc["samples"]["timeDeltas"].as_array().unwrap();
    assert_eq!((times[1].as_f64(), times[2].as_f64()), (Some(9.5), Some(79.0)));
    assert_eq!(
        (&malloc["display"]["graphType"], &malloc["pid"]),
        (&json!("line-accumulated"), &json!("7"))
    );
    let place = usize::try_from(found("POWER:Test")["mainThreadIndex"].as_u64().unwrap()).unwrap();
    assert_eq!(json["threads"][place]["tid"], json!("8"));
    assert!(!shown.iter().any(|counter| counter["name"] == "processCPU"));
    let mut collector = Collector::new(Budget::default());
    let again = ProfileSource::new(&text[..]).unwrap().replay(&mut collector).unwrap();
    assert_eq!(again.recording.gecko, tables.recording.gecko);
}

#[test]
fn many_values_become_few_with_the_same_sum() {
    let data: Value = (0..9000).map(|i| json!([30.0 + f64::from(i) / 1000.0, i, 1])).collect();
    let (_, tables, _) = merge_json(&with(&json!([memory(&data)]), &json!([])));
    let values = &tables.recording.gecko.as_ref().unwrap().counters[0].values;
    assert_eq!(values.len(), 3000);
    assert_eq!(values.iter().map(|(_, count, _)| count).sum::<i64>(), 9000 * 8999 / 2);
    assert_eq!(values.iter().map(|(.., number)| number).sum::<u64>(), 9000);
    assert_eq!(values[0].0, Timestamp(5_010 * MS + 2000), "of the last");
}

#[test]
fn malformed_ones_and_those_of_other_processes_are_counted() {
    let bad = [
        json!([["x", 1, 1]]),
        json!([[30.0, 1e300, 1]]),
        json!([[30.0, 1, -1]]),
        json!([[40.0, 1, 1], [30.0, 1, 1]]),
        json!([[30.0]]),
        json!(7),
    ];
    let mut all: Vec<Value> = bad.iter().map(memory).collect();
    all.extend([json!(5), json!({"name": 7}), memory(&json!([[30.0, 1, 1]]))]);
    let (merged, tables, collected) = merge_json(&with(&all.into(), &json!({"no": "list"})));
    assert_eq!((merged.counters, merged.left.counters), (1, 8));
    assert!(
        merged
            .problems()
            .unwrap()
            .contains("8 counters malformed, beyond 512 or of processes"),
        "{merged}"
    );
    assert_eq!(lint(&written(&tables, &collected)[..]), Vec::<String>::new());
    let mut other = child(&[rows(99, 99, &json!([]))]);
    other["counters"] = json!([memory(&json!([[30.0, 1, 1]]))]);
    let text = whole(34, &[rows(7, 7, &json!([[0, 30.0, 0, 0, 1]]))], &[other]);
    assert_eq!(merge(text.to_string().as_bytes()).unwrap().0.left.counters, 1);
    let many: Value = (0..600).map(|_| memory(&json!([[30.0, 1, 1]]))).collect();
    let (merged, ..) = merge_json(&with(&many, &json!([])));
    assert_eq!((merged.counters, merged.left.counters), (512, 88));
}

#[test]
fn trimming_cuts_them() {
    let data = json!([[30.0, 1, 0], [40.0, 2, 0], [50.0, 4, 0]]);
    let (_, mut tables, collected) = merge_json(&with(&json!([memory(&data)]), &json!([memory(&data)])));
    for process in &mut tables.processes {
        process.start = Timestamp(4_990 * MS);
    }
    let text = written(&tables, &collected);
    let cut = |processes: Option<Vec<bool>>| {
        let cut = Cut {
            from: Some(Timestamp(5_015 * MS)),
            to: Some(Timestamp(5_030 * MS)),
            processes,
        };
        let (tables, _) = trim(&mut ProfileSource::new(&text[..]).unwrap(), &cut).unwrap();
        let counters = tables.recording.gecko.unwrap().counters;
        let of = |counter: &GeckoCounter| {
            let counts: Vec<i64> = counter.values.iter().map(|(_, count, _)| *count).collect();
            (counter.process.0, counts)
        };
        counters.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(cut(None), [(0, vec![2]), (1, vec![2])]);
    assert_eq!(cut(Some(vec![false, true])), [(0, vec![2])]);
}
