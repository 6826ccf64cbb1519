//! What an oracle program knows of itself: one line of JSON a phase (see `tests/oracles/faults/fault.h`).

use serde::Deserialize;

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// Something that one thread did to one stretch of memory.
#[derive(Debug, Deserialize)]
pub struct Phase {
    #[serde(rename = "phase")]
    pub name: String,
    pub pid: u32,
    pub tid: u32,
    /// First byte.
    pub base: u64,
    pub pages: u64,
    /// Each touch is one fault, or the oracle is wrong.
    pub exact: bool,
    pub raised: Raised,
    /// Every page once, ascending; there are no single notes then.
    pub sweep: Option<Sweep>,
    /// Pages of its notes, which the kernel faulted in without user registers.
    pub populated: u64,
    /// Pages of the whole file in the page cache; negative: not asked.
    pub resident_before: i64,
    pub resident_after: i64,
    /// Faults of the thread between the phase's beginning and its end, by `getrusage`: those of its notes too.
    pub minor: u64,
    pub major: u64,
    pub touches: Vec<Touch>,
}

/// Who raises the faults of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Raised {
    /// The program's own instructions.
    User,
    /// The kernel, which copies to or from the program's memory in a system call.
    Copy,
    /// The kernel, without user registers.
    GetUserPages,
}

/// What a sweep did to every page.
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
    /// What a fault there is.
    pub class: String,
    /// What is mapped there; without one it is memory.
    pub file: Option<String>,
    /// Of the page, in bytes.
    pub offset: Option<u64>,
    /// `MAJOR:MINOR`, decimal.
    pub device: Option<String>,
    pub inode: Option<u64>,
    /// The signal that it raised.
    pub failed: Option<String>,
    /// What the kernel counted across it.
    pub minor: u64,
    pub major: u64,
    /// How often it gave up its CPU of its own accord, by the kernel's count.
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

/// Everything that an oracle said.
#[derive(Debug, Default)]
pub struct Said {
    pub phases: Vec<Phase>,
    /// Why it could not do its part here.
    pub skip: Option<String>,
    /// What else it knows.
    pub says: serde_json::Map<String, serde_json::Value>,
}

impl Touch {
    /// How many faults the kernel counted or signalled here.
    pub fn faults(&self) -> u64 {
        self.minor + self.major + u64::from(self.failed.is_some())
    }

    pub fn nanoseconds(&self) -> u64 {
        self.end - self.start
    }
}

impl Phase {
    pub fn end(&self) -> u64 {
        self.base + self.pages * PAGE
    }

    pub fn holds(&self, address: u64) -> bool {
        (self.base..self.end()).contains(&address)
    }

    /// The faults are the kernel's only to see: no exception, no software event.
    pub fn is_remote(&self) -> bool {
        self.raised == Raised::GetUserPages
    }

    /// Its page cache was empty at first, and known.
    pub fn is_cold(&self) -> bool {
        self.resident_before == 0
    }

    /// Faults that its notes or its sweep know of.
    pub fn faults(&self) -> u64 {
        if self.sweep.is_some() {
            return self.pages;
        }
        self.touches.iter().map(Touch::faults).sum()
    }

    /// Asserts that the oracle did what it is there for, by the kernel's own count.
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
                "{}: the kernel counted otherwise: {touch:?}",
                self.name
            );
        }
    }
}

impl Said {
    /// What stands in the output; lines that are no JSON are somebody else's.
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

    /// The only phase of that name.
    #[track_caller]
    pub fn phase(&self, name: &str) -> &Phase {
        let mut found = self.phases.iter().filter(|phase| phase.name == name);
        let phase = found
            .next()
            .unwrap_or_else(|| panic!("the oracle said nothing of {name:?}"));
        assert!(found.next().is_none(), "two phases {name:?}");
        phase
    }

    /// A number that the oracle said by itself.
    #[track_caller]
    pub fn number(&self, key: &str) -> u64 {
        let value = self.says.get(key).and_then(serde_json::Value::as_u64);
        value.unwrap_or_else(|| panic!("no number {key:?} in {:?}", self.says))
    }
}
