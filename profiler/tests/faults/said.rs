//! The output of an oracle program: one line of JSON per phase (see `tests/oracles/faults/fault.h`).

use serde::Deserialize;

use crate::harness::page::page_size;

/// Accesses of one thread to one range of memory.
#[derive(Debug, Deserialize)]
pub struct Phase {
    #[serde(rename = "phase")]
    pub name: String,
    pub pid: u32,
    pub tid: u32,
    /// Address of the first byte.
    pub base: u64,
    pub pages: u64,
    /// Each touch is exactly one fault; anything else is an error of the oracle.
    pub exact: bool,
    pub raised: Raised,
    /// The phase touches every page once, in ascending order, and has no `touches`.
    pub sweep: Option<Sweep>,
    /// Pages of the oracle's notes, which the kernel faulted in without user registers.
    pub populated: u64,
    /// Pages of the whole file in the page cache; negative if not determined.
    pub resident_before: i64,
    pub resident_after: i64,
    /// Faults of the thread from the beginning to the end of the phase, by `getrusage`, including those of the notes.
    pub minor: u64,
    pub major: u64,
    pub touches: Vec<Touch>,
}

/// The origin of the faults of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Raised {
    /// The program's own instructions.
    User,
    /// The kernel, while it copies to or from the program's memory in a system call.
    Copy,
    /// The kernel, without user registers.
    GetUserPages,
}

/// The access of a sweep to every page.
#[derive(Debug, Deserialize)]
pub struct Sweep {
    pub access: String,
    pub class: String,
}

/// One touch of one place.
#[derive(Debug, Deserialize)]
pub struct Touch {
    pub address: u64,
    pub access: String,
    /// The class of a fault there.
    pub class: String,
    /// The mapped file; `None` for memory without a file.
    pub file: Option<String>,
    /// Offset of the page in the file, in bytes.
    pub offset: Option<u64>,
    /// `MAJOR:MINOR`, in decimal.
    pub device: Option<String>,
    pub inode: Option<u64>,
    /// The signal that it raised.
    pub failed: Option<String>,
    /// Minor faults that the kernel counted during the touch.
    pub minor: u64,
    pub major: u64,
    /// Voluntary context switches that the kernel counted.
    pub switches: u64,
    /// `CLOCK_MONOTONIC` before and after, in ns.
    pub start: u64,
    pub end: u64,
}

/// A line of an oracle's output.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Line {
    Phase(Box<Phase>),
    Skip { skip: String },
    Says { says: serde_json::Value },
}

/// The complete output of an oracle.
#[derive(Debug, Default)]
pub struct Said {
    pub phases: Vec<Phase>,
    /// The reason why the oracle cannot run here.
    pub skip: Option<String>,
    /// Other values that the oracle printed.
    pub says: serde_json::Map<String, serde_json::Value>,
}

impl Touch {
    /// The number of faults that the kernel counted or signalled here.
    pub fn faults(&self) -> u64 {
        self.minor + self.major + u64::from(self.failed.is_some())
    }

    pub fn nanoseconds(&self) -> u64 {
        self.end - self.start
    }
}

impl Phase {
    pub fn end(&self) -> u64 {
        self.base + self.pages * page_size()
    }

    pub fn holds(&self, address: u64) -> bool {
        (self.base..self.end()).contains(&address)
    }

    /// Only the kernel sees these faults: there is no exception and no software event.
    pub fn is_remote(&self) -> bool {
        self.raised == Raised::GetUserPages
    }

    /// Whether none of the file's pages was in the page cache at first.
    pub fn is_cold(&self) -> bool {
        self.resident_before == 0
    }

    /// The number of faults according to the notes or the sweep.
    pub fn faults(&self) -> u64 {
        if self.sweep.is_some() {
            return self.pages;
        }
        self.touches.iter().map(Touch::faults).sum()
    }

    /// Asserts that the oracle worked as intended, by the kernel's own count.
    #[track_caller]
    fn expect_truth(&self) {
        if self.sweep.is_some() {
            let counted = self.minor + self.major;
            assert!(
                counted >= self.pages,
                "{}: {counted} faults for {} pages",
                self.name,
                self.pages
            );
        }
        for touch in self.touches.iter().filter(|_| self.exact) {
            assert_eq!(
                touch.faults(),
                1,
                "{}: the kernel's count differs: {touch:?}",
                self.name
            );
        }
    }
}

impl Said {
    /// Parses the output; lines without JSON come from other programs.
    #[track_caller]
    pub fn read(output: &str) -> Self {
        let mut said = Self::default();
        for line in output.lines().filter(|line| line.starts_with('{')) {
            match serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")) {
                Line::Phase(phase) => said.phases.push(*phase),
                Line::Skip { skip } => said.skip = Some(skip),
                Line::Says { says } => said.says.extend(says.as_object().unwrap().clone()),
            }
        }
        for phase in &said.phases {
            phase.expect_truth();
        }
        said
    }

    /// The only phase with this name.
    #[track_caller]
    pub fn phase(&self, name: &str) -> &Phase {
        let mut found = self.phases.iter().filter(|phase| phase.name == name);
        let phase = found
            .next()
            .unwrap_or_else(|| panic!("the oracle printed no phase {name:?}"));
        assert!(found.next().is_none(), "two phases are named {name:?}");
        phase
    }

    /// A number among the other values of the oracle.
    #[track_caller]
    pub fn number(&self, key: &str) -> u64 {
        let value = self.says.get(key).and_then(serde_json::Value::as_u64);
        value.unwrap_or_else(|| panic!("no number {key:?} in {:?}", self.says))
    }
}
