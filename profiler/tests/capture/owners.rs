//! The cgroups of recorded processes in the log are those that the kernel shows: of processes that existed, of those that
//! move before they execute a program, of their children, and of those that move later.

use std::collections::{HashMap, HashSet};
use std::process::{Command, Stdio};

use profiler::event::Event;
use profiler::owner;

use crate::harness::{Recording, Waiting, record, running, skipped, system};
use crate::selections::Cgroups;

/// By process and the time of its birth in the log: its cgroup, as last written.
fn cgroups(recording: &Recording) -> HashMap<u32, String> {
    let births = recording.events.iter().filter_map(|event| match event {
        Event::TaskNew(new) if new.at.pid == new.at.tid => Some((new.at.pid, new.at.time)),
        _ => None,
    });
    let births: HashSet<_> = births.collect();
    let mut cgroups = HashMap::new();
    for event in &recording.events {
        let Event::Owners(owners) = event else { continue };
        for cgroup in &owners.cgroups {
            for process in &cgroup.processes {
                assert!(births.contains(process), "no process was born as {process:?}");
                cgroups.insert(process.0, cgroup.path.clone());
            }
        }
    }
    cgroups
}

/// The cgroup of version 2 as the kernel shows it.
fn shown(pid: u32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("0::"));
    line.unwrap().to_owned()
}

#[test]
fn a_process_is_in_the_cgroup_that_the_kernel_shows() {
    let id = "fedcba9876543210".repeat(4);
    let container = format!("docker-{id}.scope");
    let names = ["demo.service", container.as_str(), "later"];
    let Some(made) = (!skipped()).then(|| Cgroups::new(&names)).flatten() else {
        return;
    };
    let [unit, inside, later] = [1, 2, 3].map(|place| made.folder(place));
    let existing = Waiting::new("/bin/true".as_ref(), &[]);
    std::fs::write(format!("{unit}/cgroup.procs"), existing.pid().to_string()).unwrap();
    let moved = Waiting::new("/bin/true".as_ref(), &[]);
    let mut expected = HashMap::new();
    let recording = record(system(), || {
        // It moves itself and then executes a program, whose child does not move.
        let script = "echo 0 > \"$0/cgroup.procs\"; exec sh -c 'read x & echo $!; wait; read y'";
        let mut shell = Command::new("/bin/sh")
            .args(["-c", script, inside])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(500));
        std::fs::write(format!("{later}/cgroup.procs"), moved.pid().to_string()).unwrap();
        for pid in [existing.pid(), moved.pid(), shell.id()] {
            expected.insert(pid, shown(pid));
        }
        std::thread::sleep(std::time::Duration::from_millis(300));
        let pid = shell.id();
        drop(shell.stdin.take());
        let output = shell.wait_with_output().unwrap();
        let child: u32 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
        expected.insert(child, expected[&pid].clone());
    });
    let found = cgroups(&recording);
    for (pid, path) in &expected {
        // A child may end before it is read.
        assert_eq!(found.get(pid).unwrap_or(path), path, "{pid}");
    }
    for known in [existing.pid(), moved.pid()] {
        assert!(found.contains_key(&known), "{known}");
    }
    let owners: Vec<_> = found.values().map(|path| owner::of(path)).collect();
    let has_container = owners.iter().any(|one| one.container.as_deref() == Some(id.as_str()));
    assert!(has_container, "{found:?}");
    assert_eq!(recording.losses(), Vec::<&Event>::new());
    existing.run();
    moved.run();
}

#[test]
fn processes_by_id_have_cgroups_too() {
    let Some(made) = (!skipped()).then(|| Cgroups::new(&["x.scope"])).flatten() else {
        return;
    };
    let process = Waiting::new("/bin/true".as_ref(), &[]);
    let pid = process.pid();
    std::fs::write(format!("{}/cgroup.procs", made.folder(1)), pid.to_string()).unwrap();
    let expected = shown(pid);
    let recording = record(running(&[pid]), || {});
    assert_eq!(cgroups(&recording), HashMap::from([(pid, expected)]));
    process.run();
}
