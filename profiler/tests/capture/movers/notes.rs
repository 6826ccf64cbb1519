//! What `movers.c` prints: what its members did, and when.

use std::collections::BTreeMap;

/// Clocks and counts of a thread at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stamp {
    /// `CLOCK_MONOTONIC` in ns.
    pub clock: u64,
    /// CPU time in ns.
    pub cpu: u64,
    /// The kernel's count of voluntary switches.
    pub voluntary: u64,
    /// The kernel's count of others.
    pub involuntary: u64,
}

impl Stamp {
    fn new(numbers: &[i64]) -> Self {
        let [clock, cpu, voluntary, involuntary] = [0, 1, 2, 3].map(|place| numbers[place].unsigned_abs());
        Self {
            clock,
            cpu,
            voluntary,
            involuntary,
        }
    }

    /// All switches.
    pub fn switches(&self) -> u64 {
        self.voluntary + self.involuntary
    }
}

/// A sleep, or a question that another process answers.
#[derive(Debug)]
pub struct OwnWait {
    /// Who answers; 0: it is a sleep.
    pub echo: u32,
    /// Before it.
    pub from: Stamp,
    /// After it.
    pub to: Stamp,
}

/// A child that lives within a phase.
#[derive(Debug, Default)]
pub struct Child {
    /// Its process.
    pub pid: u32,
    /// Its first note.
    pub born: Stamp,
    /// Its last note.
    pub last: Stamp,
}

/// What a member did in a cgroup.
#[derive(Debug, Default)]
pub struct Phase {
    /// The index of the cgroup; -1: outside all.
    pub folder: i32,
    /// Address of the pages that it touched.
    pub at: u64,
    /// How many.
    pub pages: u64,
    /// Before the member moved, or before it slept until it was moved.
    pub before: Stamp,
    /// After that.
    pub after: Stamp,
    /// Sleeps and questions.
    pub waits: Vec<OwnWait>,
    /// Its child.
    pub child: Child,
}

/// A process that moves.
#[derive(Debug, Default)]
pub struct Member {
    /// Its process.
    pub pid: u32,
    /// What it did, in order; the last is only its move outside.
    pub phases: Vec<Phase>,
}

/// Everything that the program printed.
#[derive(Debug, Default)]
pub struct Notes {
    /// By process.
    pub members: BTreeMap<u32, Member>,
}

impl Notes {
    /// Reads the program's output.
    pub fn parse(output: &[u8]) -> Self {
        let mut notes = Self::default();
        for line in std::str::from_utf8(output).unwrap().lines() {
            let (word, rest) = line.split_once(' ').unwrap();
            let numbers: Vec<i64> = rest.split(' ').map(|number| number.parse().unwrap()).collect();
            let pid = u32::try_from(numbers[0]).unwrap();
            let member = notes.members.entry(pid).or_default();
            member.pid = pid;
            let stamps = |from: usize| (Stamp::new(&numbers[from..]), Stamp::new(&numbers[from + 4..]));
            if word == "phase" {
                let (before, after) = stamps(5);
                member.phases.push(Phase {
                    folder: i32::try_from(numbers[2]).unwrap(),
                    at: numbers[3].unsigned_abs(),
                    pages: numbers[4].unsigned_abs(),
                    before,
                    after,
                    ..Phase::default()
                });
                continue;
            }
            let phase = member.phases.last_mut().unwrap();
            let other = u32::try_from(numbers[2]).unwrap();
            let (from, to) = stamps(3);
            if word == "child" {
                phase.child = Child {
                    pid: other,
                    born: from,
                    last: to,
                };
            } else {
                phase.waits.push(OwnWait { echo: other, from, to });
            }
        }
        notes
    }
}
