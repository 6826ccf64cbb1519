//! Births as fast as two CPUs can have them: those in the scope are recorded, each once, and no other.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use profiler::capture::proc::selection::Conditions;
use profiler::event::Event;
use profiler_common::Loss;

use crate::harness::{Recording, compile, record};
use crate::selections::{Cgroups, asked, conditions};

const PROGRAM: &str = include_str!("births.c");

/// A process that has one child after another in a cgroup, until it is stopped.
pub struct Breeder(Child);

/// What it did.
pub struct Born {
    pub pid: u32,
    /// The clock before the first child, in ns.
    pub begin: u64,
    pub end: u64,
    /// Each child, and the clock after its end.
    pub children: Vec<(u32, u64)>,
}

impl Breeder {
    /// Compiles the program.
    pub fn program(folder: &Path) -> std::path::PathBuf {
        compile(folder, "births", PROGRAM, &["-O1"])
    }

    /// Starts one on a CPU; on a machine with one CPU they share it.
    pub fn start(program: &Path, cpu: usize, cgroup: &str) -> Self {
        let cpus = std::thread::available_parallelism().unwrap().get();
        let mut command = Command::new(program);
        command.args([&(cpu % cpus).to_string(), cgroup]);
        Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    /// Ends it.
    pub fn stop(mut self) -> Born {
        drop(self.0.stdin.take());
        let output = self.0.wait_with_output().unwrap();
        assert!(output.status.success(), "{:?}", output.status);
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines = text
            .lines()
            .map(|line| line.split(' ').map(|number| number.parse().unwrap()));
        let first: Vec<u64> = lines.next().unwrap().collect();
        let children = lines.map(|mut line| (u32::try_from(line.next().unwrap()).unwrap(), line.next().unwrap()));
        Born {
            pid: u32::try_from(first[0]).unwrap(),
            begin: first[1],
            end: first[2],
            children: children.collect(),
        }
    }
}

/// Births a second of all of them.
pub fn rate(born: &[Born]) -> u64 {
    let rates = born
        .iter()
        .map(|one| one.children.len() as u64 * 1_000_000_000 / (one.end - one.begin));
    rates.sum()
}

fn lost(recording: &Recording) -> usize {
    let which = [Loss::TaskRingFull, Loss::ThreadTableFull, Loss::ProgramMissed].map(|loss| loss as u32);
    let mut last = [0; 3];
    for event in &recording.events {
        if let Event::Loss { loss, count } = event
            && let Some(place) = which.iter().position(|one| one == loss)
        {
            last[place] = *count;
        }
    }
    usize::try_from(last.iter().sum::<u64>()).unwrap()
}

#[test]
fn births_in_the_scope_and_outside() {
    let Some((cgroups, folder)) = Cgroups::and_folder(&["a", "c"]) else {
        return;
    };
    let program = Breeder::program(folder.path());
    let (a, c) = (cgroups.folder(1), cgroups.folder(2));
    let chosen = conditions(|one| one.cgroups.push(a.to_owned()));
    let mut born = None;
    let recording = record(asked(chosen, Conditions::default()), || {
        let (inside, outside) = (Breeder::start(&program, 0, a), Breeder::start(&program, 1, c));
        std::thread::sleep(Duration::from_secs(2));
        born = Some((inside.stop(), outside.stop()));
    });
    let (inside, outside) = born.unwrap();
    println!(
        "{} births a second, {} of them in the cgroup",
        rate(std::slice::from_ref(&inside)) + rate(std::slice::from_ref(&outside)),
        rate(std::slice::from_ref(&inside))
    );
    let lost = lost(&recording);
    let (mut begun, mut ended) = (Vec::new(), 0);
    for event in &recording.events {
        match event {
            Event::TaskNew(new) if new.parent.0 == inside.pid => begun.push((new.at.tid, new.at.time.0)),
            Event::TaskNew(new) => assert_eq!(new.at.pid, inside.pid, "{new:?}"),
            Event::TaskExit(exit) if exit.at.pid != inside.pid => ended += 1,
            _ => {}
        }
    }
    // In the order in which they were born, each between its predecessor's end and its own. Numbers are used again.
    let mut found = begun.iter().copied().peekable();
    let (mut since, mut missing) = (inside.begin, 0);
    for &(child, until) in &inside.children {
        match found.next_if(|&(tid, time)| tid == child && (since..=until).contains(&time)) {
            Some(_) => {}
            None => missing += 1,
        }
        since = until;
    }
    assert_eq!(found.next(), None, "recorded, but not born in the cgroup");
    assert!(
        missing <= lost,
        "{missing} of {} missing, {lost} lost",
        inside.children.len()
    );
    let count = inside.children.len();
    assert!(
        ended + lost >= count && ended <= count,
        "{ended} of {count} ended, {lost} lost"
    );
}
