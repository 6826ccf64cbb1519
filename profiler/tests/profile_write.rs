//! The profile contains the tables' data, in the front end's terms.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

#[path = "profile_write/flows.rs"]
mod flows;
#[path = "profile_write/io.rs"]
mod io;
#[path = "profile_write/path.rs"]
mod path;
#[path = "profile_write/peaks.rs"]
mod peaks;
mod profile_synthetic;

use profile_synthetic::{CONTAINER, everything, hostile};
use profiler::fact::ThreadId;
use profiler::fact::reduce::budget::{Budget, Collected};
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
fn libraries_have_their_symbol_server_ids() {
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
    assert_eq!(thread(&profile, 3)["pid"], "200.1", "a reused pid is another process");
    // The first is the wait for its first CPU.
    assert_eq!(child["markers"]["startTime"], serde_json::json!([0.0, 4.0, 7.0, 50.0]));
    assert_eq!(child["markers"]["endTime"], serde_json::json!([3.0, 44.0, 7.0, null]));
    assert_eq!(child["markers"]["phase"], serde_json::json!([1, 1, 1, 0]));
    assert_eq!(child["markers"]["data"][3]["result"], "killed by signal 9");
}

#[test]
fn a_process_is_named_by_program_and_main_thread() {
    let mut facts = everything();
    facts.tables.processes[0].name = "firefox-esr-very-long".into();
    facts.tables.threads[0].name = "firefox-esr-ver".into();
    facts.tables.processes[1].name = "firefox-esr".into();
    facts.tables.threads[2].name = "Isolated Web Co".into();
    for process in &mut facts.tables.processes {
        process.cgroup = None;
    }
    let profile = serde_json::from_slice(&facts.json()).unwrap();
    assert_eq!(thread(&profile, 0)["processName"], "firefox-esr-very-long");
    assert_eq!(thread(&profile, 2)["processName"], "firefox-esr (Isolated Web Co)");
    assert_eq!(thread(&profile, 1)["processName"], "firefox-esr-very-long");
}

#[test]
fn the_name_of_a_process_ends_with_what_it_belongs_to() {
    let names = |cgroups: [&str; 3]| {
        let mut facts = everything();
        let name = |(at, name): (usize, &str)| facts.tables.processes[at].name = name.into();
        ["nginx", "worker", "app"].into_iter().enumerate().for_each(name);
        for (process, cgroup) in facts.tables.processes.iter_mut().zip(cgroups) {
            process.cgroup = Some(cgroup.replace("ID", CONTAINER).into());
        }
        for thread in &mut facts.tables.threads {
            thread.name = String::new();
        }
        let profile = serde_json::from_slice(&facts.json()).unwrap();
        [0, 2, 3].map(|row| thread(&profile, row)["processName"].as_str().unwrap().to_owned())
    };
    let nginx = "/system.slice/nginx.service";
    assert_eq!(
        names([nginx, "/system.slice/nginx.service/jobs", "/docker/ID"]),
        ["nginx", "worker [nginx.service/jobs]", "app [prod/shop-0/web]"]
    );
    // One unit, or no unit, is not worth a word.
    assert_eq!(names([nginx, nginx, nginx]), ["nginx", "worker", "app"]);
    assert_eq!(names(["/", "/a", "/b"]), ["nginx", "worker", "app"]);
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
fn the_busiest_thread_is_selected_over_an_idle_main_thread() {
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
    // The command's page faults by time follow the threads, then the devices the three companions, then the cgroup with a limit.
    let threads = facts.tables.threads.len();
    shown.extend([threads, threads + 3, threads + 4, threads + 5]);
    assert_eq!(profile["meta"]["initialVisibleThreads"], serde_json::json!(shown));
}

#[test]
fn the_panel_shows_losses_hooks_and_stack_ends() {
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
    let error = profile::write(&facts.tables, &Collected::default(), &mut Vec::new()).unwrap_err();
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
    let error = profile::write(&tables, &collected, &mut Full).unwrap_err();
    assert!(matches!(error, WriteError::Io(error) if error.kind() == std::io::ErrorKind::StorageFull));
}

#[test]
#[ignore = "writes the synthetic profile to the file named in NGMI_SYNTHETIC, for inspection"]
fn the_synthetic_profile_as_a_file() {
    let path = std::env::var("NGMI_SYNTHETIC").unwrap();
    std::fs::write(path, everything().json()).unwrap();
}
