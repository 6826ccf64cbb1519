//! Waits and block requests in the front end's terms.

use super::*;

/// Weight in ms by the innermost function of a thread's samples.
fn weights(profile: &Value, id: u64) -> Vec<(String, f64)> {
    let samples = &thread(profile, id)["samples"];
    let mut sums: Vec<(String, f64)> = Vec::new();
    for (stack, weight) in samples["stack"]
        .as_array()
        .unwrap()
        .iter()
        .zip(samples["weight"].as_array().unwrap())
    {
        let Some(stack) = stack.as_u64() else { continue };
        let leaf = stack_names(profile, stack).pop().unwrap();
        match sums.iter_mut().find(|(known, _)| *known == leaf) {
            Some((_, sum)) => *sum += weight.as_f64().unwrap(),
            None => sums.push((leaf, weight.as_f64().unwrap())),
        }
    }
    sums.retain(|(leaf, weight)| leaf.starts_with('[') && *weight > 0.0 && !leaf.starts_with("[trunc"));
    sums
}

#[test]
fn waits_are_weighted_by_time_and_reason() {
    let profile = profile();
    let close = |found: Vec<(String, f64)>, expected: &[(&str, f64)]| {
        for (leaf, ms) in expected {
            let sum = found.iter().find(|(name, _)| name == leaf).map_or(0.0, |(_, sum)| *sum);
            assert!((sum - ms).abs() < 1e-6, "{leaf}: {sum} instead of {ms} in {found:?}");
        }
    };
    close(
        weights(&profile, 0),
        &[
            ("[waiting: disk]", 4.499_999),
            ("[waiting: CPU]", 1.500_001),
            ("[waiting: disk, in a page fault]", 3.0),
        ],
    );
    close(
        weights(&profile, 1),
        &[
            ("[waiting: lock]", 10.0),
            ("[waiting: pipe]", 0.68),
            ("[waiting: CPU]", 0.02),
            ("[waiting: file system]", 1.0),
        ],
    );
    close(weights(&profile, 4), &[("[idle: poll]", 90.0), ("[idle: sleep]", 1.0)]);
    let names = profile["meta"]["categories"].as_array().unwrap();
    assert!(
        names
            .iter()
            .any(|category| category["name"] == "Idle" && category["color"] == "transparent")
    );
}

/// The front end ignores CPU time that exceeds the time since the previous row.
#[test]
fn cpu_time_is_placed_where_the_thread_ran() {
    let profile = profile();
    for thread in profile["threads"].as_array().unwrap() {
        let Some(cpu) = thread["samples"]["threadCPUDelta"].as_array() else {
            continue;
        };
        let deltas = thread["samples"]["timeDeltas"].as_array().unwrap();
        for (cpu, delta) in cpu.iter().zip(deltas).skip(1) {
            let (cpu, length) = (cpu.as_f64().unwrap() / 1e6, delta.as_f64().unwrap());
            assert!(cpu <= length + 1e-6, "{cpu} ms in {length} ms of {}", thread["tid"]);
        }
    }
}

fn marker(profile: &Value, id: u64, name: &str) -> Vec<Value> {
    let markers = &thread(profile, id)["markers"];
    let strings = &profile["shared"]["stringArray"];
    let rows = 0..markers["length"].as_u64().unwrap() as usize;
    let named = |row: &usize| strings[markers["name"][*row].as_u64().unwrap() as usize] == name;
    rows.filter(named).map(|row| markers["data"][row].clone()).collect()
}

#[test]
fn markers_show_what_was_waited_for_and_why() {
    let profile = profile();
    let io = marker(&profile, 0, "FileIO");
    assert_eq!(io.len(), 1);
    assert_eq!(
        (&io[0]["operation"], &io[0]["source"]),
        (&"read".into(), &"waited for disk".into())
    );
    assert!(io[0]["filename"].as_str().unwrap().starts_with("/tmp/line"));
    assert!(io[0].get("threadId").is_none());
    assert_eq!(io[0]["waker"], "an interrupt of an idle CPU");
    assert_eq!(marker(&profile, 0, "Run queue").len(), 1);
    let opened = marker(&profile, 1, "FileIO");
    assert_eq!(
        (&opened[0]["operation"], &opened[0]["filename"]),
        (&"create/open".into(), &hostile()[0].clone().into())
    );

    let lock = &marker(&profile, 1, "Wait")[0];
    assert_eq!(lock["waker"], "demo (100/100)");
    assert_eq!(lock["wakerFunctions"], "work ← inner ← main");
    let why = lock["why"].as_str().unwrap();
    let read = "waited on vda read 128 KiB at libdemo.so+0x2000, read ahead, 3ms";
    assert_eq!(
        why,
        format!("waited for demo (100/100), which was in a page fault of 5ms which {read}")
    );
    let in_fault = &marker(&profile, 0, "Wait")[0];
    assert_eq!(
        (&in_fault["why"], &in_fault["remarks"]),
        (&read.into(), &"in a page fault".into())
    );
    let fault = &marker(&profile, 0, "PageFault")[0];
    assert_eq!(fault["why"], format!("fault 0x7f1234567abc in work {read}"));

    assert!(
        marker(&profile, 4, "Wait").is_empty(),
        "waits of an idle thread are not in the chart"
    );
    assert_eq!(marker(&profile, 4, "Idle").len(), 2);
}

fn counter<'p>(profile: &'p Value, pid: &str, name: &str) -> &'p Value {
    let mut counters = profile["counters"].as_array().unwrap().iter();
    let is_it = |counter: &&Value| counter["name"] == name && counter["pid"] == pid;
    counters.find(is_it).unwrap()
}

fn sum_of(profile: &Value, pid: &str, name: &str) -> f64 {
    let counts = &counter(profile, pid, name)["samples"]["count"];
    counts.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).sum()
}

#[test]
fn an_unfinished_request_is_in_no_sum() {
    let profile = profile();
    let panel = profile["meta"]["extra"].to_string();
    assert!(
        panel.contains("0 requests, 0 bytes read, 0 bytes written, 1 unfinished"),
        "{panel}"
    );
    assert!(sum_of(&profile, "254:16", "ngmiIops").abs() < 1e-6);
    // From 80 ms to the end.
    assert!((sum_of(&profile, "254:16", "ngmiQueueDepth") - 20.0).abs() < 1e-6);
}

#[test]
fn a_device_is_a_track_with_requests_and_submitters() {
    let profile = profile();
    let threads = profile["threads"].as_array().unwrap();
    let (place, device) = threads
        .iter()
        .enumerate()
        .find(|(_, thread)| thread["pid"] == "254:0")
        .unwrap();
    assert_eq!(
        (&device["name"], &device["processName"]),
        (&"vda".into(), &"Block device vda".into())
    );
    assert_eq!(device["markers"]["length"], 4, "two requests and their queue's depth");
    assert_eq!(
        (&device["markers"]["startTime"][0], &device["markers"]["endTime"][0]),
        (&10.0.into(), &13.0.into())
    );
    let read = &device["markers"]["data"][0];
    assert_eq!(
        (&read["size"], &read["place"]),
        (&"128 KiB".into(), &"libdemo.so+0x2000".into())
    );
    assert_eq!(
        (&read["submitter"], &read["function"]),
        (&"demo (100/100)".into(), &"work ← inner ← main".into())
    );
    assert_eq!(
        (&read["queued"], &read["service"], &read["sector"]),
        (&1.0.into(), &2.0.into(), &"8".into())
    );
    let bytes = device["samples"]["weight"]
        .as_array()
        .unwrap()
        .iter()
        .map(|weight| weight.as_u64().unwrap());
    assert_eq!(bytes.sum::<u64>(), 2 * (128 << 10));
    let asked = marker(&profile, 0, "DiskWrite");
    assert_eq!(
        (&asked[0]["own"], &asked[0]["bytes"]),
        (&(64 << 10).into(), &(128 << 10).into())
    );

    let sum = |name: &str| sum_of(&profile, "254:0", name);
    assert_eq!(counter(&profile, "254:0", "ngmiIops")["mainThreadIndex"], place);
    // Two requests, each 2 ms in the device.
    assert!((sum("ngmiIops") - 2000.0).abs() < 1e-6);
    assert!((sum("ngmiQueueDepth") - 4.0).abs() < 1e-6);
    assert!((sum("ngmiBytesInFlight") - 4.0 * f64::from(128 << 10)).abs() < 1e-3);
}
