//! The profile says what the tables say, in the front end's terms.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

mod profile_synthetic;

use profile_synthetic::{everything, hostile};
use profiler::fact::ThreadId;
use profiler::fact::budget::{Budget, Collected};
use profiler::profile::WriteError;
use serde_json::Value;

fn profile() -> Value {
    serde_json::from_slice(&everything().json()).unwrap()
}

/// The stack of a sample as function names, outermost first.
fn stack_names(profile: &Value, row: u64) -> Vec<String> {
    let shared = &profile["shared"];
    let mut names = Vec::new();
    let mut row = usize::try_from(row).unwrap();
    loop {
        let frame = shared["stackTable"]["frame"][row].as_u64().unwrap() as usize;
        let func = shared["frameTable"]["func"][frame].as_u64().unwrap() as usize;
        let name = shared["funcTable"]["name"][func].as_u64().unwrap() as usize;
        names.push(shared["stringArray"][name].as_str().unwrap().to_owned());
        match shared["stackTable"]["prefixOffset"][row].as_u64().unwrap() as usize {
            0 => break,
            offset => row -= offset,
        }
    }
    names.reverse();
    names
}

fn thread(profile: &Value, id: u64) -> &Value {
    let threads = profile["threads"].as_array().unwrap();
    threads.iter().find(|thread| thread["ngmi"]["thread"] == id).unwrap()
}

#[test]
fn inlined_functions_are_frames_of_their_own_outermost_first() {
    let profile = profile();
    // The second fact is thread 0's second sample, with stack 1.
    let row = thread(&profile, 0)["samples"]["stack"][1].as_u64().unwrap();
    assert_eq!(stack_names(&profile, row), ["main", &hostile()[5], "middle", "inner"]);
    let frames = &profile["shared"]["frameTable"];
    let frame = profile["shared"]["stackTable"]["frame"][usize::try_from(row).unwrap()]
        .as_u64()
        .unwrap() as usize;
    assert_eq!(frames["inlineDepth"][frame], 2);
    assert_eq!(frames["line"][frame], 3);
    assert_eq!(frames["address"][frame], 0x1000);
    assert_eq!(frames["address"][0], 0xfff, "a return address is moved into the call");
}

#[test]
fn an_address_is_relative_to_its_library_and_missing_where_there_is_none() {
    let profile = profile();
    let frames = &profile["shared"]["frameTable"];
    // Rows: frame 0 is one, frame 1 three (inlined), the rest one each.
    let expected = [
        0xfff, 0x1000, 0x1000, 0x1000, 0x2221, 0x5000, -1, -1, -1, -1, -1, -1, -1, 0x6ff,
    ];
    let found: Vec<i64> = frames["address"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a.as_i64().unwrap())
        .collect();
    // Labels of waits follow.
    assert_eq!(found[..expected.len()], expected);
    assert!(found[expected.len()..].iter().all(|address| *address == -1));
    let libs: Vec<i64> = frames["lib"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a.as_i64().unwrap())
        .collect();
    assert_eq!(libs[..expected.len()], [0, 0, 0, 0, 0, 1, 1, 2, 3, 4, -1, -1, 0, 5]);
    let symbols = &profile["shared"]["nativeSymbols"];
    assert_eq!(
        (&symbols["address"][0], &symbols["functionSize"][0]),
        (&0xff0.into(), &0x100.into())
    );
}

#[test]
fn libraries_carry_the_ids_that_symbol_servers_ask_for() {
    let profile = profile();
    let lib = &profile["libs"][0];
    assert_eq!(lib["name"], "libdemo.so");
    assert_eq!(lib["codeId"], "000102030405060708090a0b0c0d0e0f10111213");
    assert_eq!(lib["breakpadId"], "030201000504070608090A0B0C0D0E0F0");
    assert_eq!(lib["arch"], "x86_64");
    assert_eq!(profile["libs"][1]["name"], "[kernel]");
}

#[test]
fn times_are_milliseconds_since_the_recording_began() {
    let profile = profile();
    let meta = &profile["meta"];
    assert_eq!(meta["startTime"], 1_700_000_000_000.0);
    assert_eq!(
        (&meta["profilingStartTime"], &meta["profilingEndTime"]),
        (&0.0.into(), &100.000_001.into())
    );
    assert_eq!(meta["interval"], 1.0);
    assert_eq!(meta["sampleUnits"]["threadCPUDelta"], "ns");
    let child = thread(&profile, 2);
    assert_eq!(
        (&child["pid"], &child["processShutdownTime"]),
        (&"200".into(), &50.0.into())
    );
    assert_eq!(
        thread(&profile, 3)["pid"],
        "200.1",
        "the second life of a pid is another process"
    );
    // The first is its wait for its first CPU.
    assert_eq!(child["markers"]["startTime"], serde_json::json!([0.0, 4.0, 7.0, 50.0]));
    assert_eq!(child["markers"]["endTime"], serde_json::json!([3.0, 44.0, 7.0, null]));
    assert_eq!(child["markers"]["phase"], serde_json::json!([1, 1, 1, 0]));
    assert_eq!(child["markers"]["data"][3]["result"], "killed by signal 9");
}

#[test]
fn a_process_is_called_by_its_program_and_what_its_main_thread_calls_itself() {
    let mut facts = everything();
    facts.tables.processes[0].name = "firefox-esr-very-long".into();
    facts.tables.threads[0].name = "firefox-esr-ver".into();
    facts.tables.processes[1].name = "firefox-esr".into();
    facts.tables.threads[2].name = "Isolated Web Co".into();
    let profile = serde_json::from_slice(&facts.json()).unwrap();
    assert_eq!(thread(&profile, 0)["processName"], "firefox-esr-very-long");
    assert_eq!(thread(&profile, 2)["processName"], "firefox-esr (Isolated Web Co)");
    assert_eq!(thread(&profile, 1)["processName"], "firefox-esr-very-long");
}

#[test]
fn busy_threads_are_shown_and_the_commands_main_thread_is_selected() {
    let profile = profile();
    let ids = |key: &str| -> Vec<u64> {
        let places = profile["meta"][key].as_array().unwrap().iter();
        let mut ids: Vec<u64> = places
            .filter_map(|place| profile["threads"][place.as_u64().unwrap() as usize]["ngmi"]["thread"].as_u64())
            .collect();
        ids.sort_unstable();
        ids
    };
    // Thread 4 ran for 2 of some 101 ms without a sample.
    assert_eq!(ids("initialVisibleThreads"), [0, 1, 2, 3, 4]);
    assert_eq!(ids("initialSelectedThreads"), [0]);
}

#[test]
fn an_idle_main_thread_gives_way_to_the_busiest_thread() {
    let mut facts = everything();
    for sample in &mut facts.samples {
        sample.thread = ThreadId(1);
    }
    facts.tables.threads[4].cpu_time_after_last_sample = 0;
    let profile: Value = serde_json::from_slice(&facts.json()).unwrap();
    let place = |id: u64| {
        let threads = profile["threads"].as_array().unwrap();
        threads
            .iter()
            .position(|thread| thread["ngmi"]["thread"] == id)
            .unwrap()
    };
    assert_eq!(profile["meta"]["initialSelectedThreads"], serde_json::json!([place(1)]));
    let mut shown = vec![place(0), place(1)];
    shown.sort_unstable();
    // The command's page faults by time follow the threads, and the devices the three companions.
    let threads = facts.tables.threads.len();
    shown.extend([threads, threads + 3, threads + 4]);
    assert_eq!(profile["meta"]["initialVisibleThreads"], serde_json::json!(shown));
}

#[test]
fn the_panel_tells_losses_hooks_and_how_stacks_ended() {
    let text = profile()["meta"]["extra"].to_string();
    for part in [
        "demo 'a b' 'it'\\\\''s'",
        "refused: no PMU; use real hardware",
        "Lost: sample ring full",
        "Complete user stacks",
        "Stacks cut in demo: no unwind information",
        "Kernel names are hidden; run as root.",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_recording_without_threads_is_an_error_with_a_remedy() {
    let mut facts = everything();
    facts.tables.threads.clear();
    facts.tables.processes.clear();
    let error = profiler::profile::write(&facts.tables, &Collected::default(), &mut Vec::new()).unwrap_err();
    assert!(matches!(error, WriteError::Empty));
    assert!(error.to_string().contains("ngmi doctor"));
}

#[test]
fn a_full_disk_is_an_error() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (tables, collected) = everything().collect(Budget::default());
    let error = profiler::profile::write(&tables, &collected, &mut Full).unwrap_err();
    assert!(matches!(error, WriteError::Io(error) if error.kind() == std::io::ErrorKind::StorageFull));
}

#[test]
#[ignore = "writes the made-up profile to the file that NGMI_SYNTHETIC names, to look at it"]
fn the_made_up_profile_as_a_file() {
    let path = std::env::var("NGMI_SYNTHETIC").unwrap();
    std::fs::write(path, everything().json()).unwrap();
}

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
fn waits_weigh_their_time_apart_by_what_they_are_for() {
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

/// The front end ignores CPU time that is longer than the time since the row before.
#[test]
fn cpu_time_is_where_the_thread_ran() {
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
fn markers_say_what_was_waited_for_and_why() {
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

#[test]
fn a_device_is_a_track_with_its_requests_and_who_asked_for_them() {
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
    assert_eq!(device["markers"]["length"], 2);
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

    let counter = |name: &str| {
        let counters = profile["counters"].as_array().unwrap().iter();
        let mut found = counters.filter(|counter| counter["name"] == name && counter["pid"] == "254:0");
        found.next().unwrap()
    };
    let sum = |name: &str| {
        counter(name)["samples"]["count"]
            .as_array()
            .unwrap()
            .iter()
            .map(|v| v.as_f64().unwrap())
            .sum::<f64>()
    };
    assert_eq!(counter("ngmiIops")["mainThreadIndex"], place);
    // Two requests, each 2 ms in the device.
    assert!((sum("ngmiIops") - 2000.0).abs() < 1e-6);
    assert!((sum("ngmiQueueDepth") - 4.0).abs() < 1e-6);
    assert!((sum("ngmiBytesInFlight") - 4.0 * f64::from(128 << 10)).abs() < 1e-3);
}
