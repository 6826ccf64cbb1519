//! Perf events of recorded cgroups: threads elsewhere do not pay for them, and what is recorded is the same.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use profiler::capture::hooks::faults::FaultMode;
use profiler::capture::hooks::meter;
use profiler::capture::proc::cgroups;
use profiler::capture::proc::machine;
use profiler::capture::proc::selection::Conditions;
use profiler::event::Event;

use crate::harness::{Recording, compile, record};
use crate::selections::{Cgroups, PROGRAM, asked, check, conditions, remove, run};

/// The first version in which ngmi limits events to cgroups.
const SINCE: (u32, u32) = (6, 7);
/// Children of [`BUSY`], a tenth of a second of computing or more.
const CHILDREN: u64 = 300;
/// Has `CHILDREN` children, one after the other, in the cgroup whose folder it gets.
const BUSY: &str = "echo 0 >\"$0\"/cgroup.procs; count=0; while [ $count -lt $1 ]; do (:); count=$((count + 1)); done";

/// Whether this kernel has no events of cgroups of version 2, with a message.
fn has_no_events() -> bool {
    let hierarchies = cgroups::hierarchies().unwrap();
    let is_elsewhere = hierarchies
        .iter()
        .any(|one| one.controllers.iter().any(|name| name == "perf_event"));
    let is_old = machine::kernel_version().is_none_or(|version| version < SINCE);
    if is_elsewhere || is_old {
        println!("skipped: this kernel does not limit perf events to cgroups of version 2, or does so at a high price");
    }
    is_elsewhere || is_old
}

/// How often the kernel ran a program.
fn runs(recording: &Recording, name: &str) -> u64 {
    let costs = recording.events.iter().filter_map(|event| match event {
        Event::Cost(cost) => cost.programs.as_ref(),
        _ => None,
    });
    let programs = costs
        .flat_map(|cost| &cost.programs)
        .filter(|program| program.name == name);
    programs.map(|program| program.runs).sum()
}

/// Oracle: the kernel's own count of a program's runs, of which each sampling interrupt and each counted fault makes one.
#[test]
fn threads_elsewhere_cause_no_interrupts() {
    let Some((cgroups, _folder)) = Cgroups::and_folder(&["idle", "busy"]) else {
        return;
    };
    if has_no_events() || !meter::is_possible() {
        return;
    }
    let (idle, busy) = (cgroups.folder(1), cgroups.folder(2));
    let of = |path: &str| {
        let chosen = conditions(|one| one.cgroups.push(path.to_owned()));
        let asked = asked(chosen, Conditions::default()).with(|terms| terms.self_account = true);
        let recording = record(asked, || {
            let status = Command::new("sh")
                .args(["-c", BUSY, busy, &CHILDREN.to_string()])
                .status();
            assert!(status.unwrap().success());
        });
        let counts = (runs(&recording, "sample"), runs(&recording, "fault_counted"));
        println!("{path}: {counts:?} samples and faults");
        counts
    };
    let (samples, faults) = of(busy);
    assert!(samples > 20, "{samples} samples");
    let has_counts = faults > 0; // another tier has none
    assert!(
        !has_counts || faults > CHILDREN,
        "{faults} faults of {CHILDREN} children"
    );
    let others = of(idle);
    assert!(others.0 * 10 < samples && others.1 * 10 < faults.max(1), "{others:?}");
}

/// One cgroup is emptied, removed and created again, which replaces the events, while threads of another one have page faults: each is
/// recorded once.
#[test]
fn no_fault_is_lost_or_counted_twice_while_events_are_replaced() {
    let Some((cgroups, folder)) = Cgroups::and_folder(&["steady", "other"]) else {
        return;
    };
    let program = compile(folder.path(), "selections", PROGRAM, &["-O1"]);
    let [root, steady, other] = [0, 1, 2].map(|place| cgroups.folder(place));
    let unit = Path::new(root).join("unit.service");
    std::fs::create_dir(&unit).unwrap();
    let chosen = conditions(|one| {
        one.cgroups
            .extend([steady.to_owned(), unit.to_str().unwrap().to_owned()]);
    });
    let asked = asked(chosen, Conditions::default()).with(|terms| terms.faults.mode = FaultMode::All);
    let mut output = Vec::new();
    let recording = record(asked, || {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let work = scope.spawn(|| {
                let mut output = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    output.extend(run(&program, &["move", steady, other]));
                }
                output
            });
            // For the second one the events are limited again.
            for pause in [50, 2000, 50] {
                output.extend(run(&program, &["move", unit.to_str().unwrap(), other]));
                remove(&unit);
                // As long as a service manager needs, at least.
                std::thread::sleep(Duration::from_millis(20));
                std::fs::create_dir(&unit).unwrap();
                std::thread::sleep(Duration::from_millis(pause));
            }
            is_over.store(true, Ordering::Relaxed);
            output.extend(work.join().unwrap());
        });
    });
    remove(&unit);
    check(&recording, &output, |phase| phase == 0);
    assert_eq!(recording.warnings, Vec::<String>::new());
}
