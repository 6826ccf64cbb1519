//! What was merged, in words.

use std::fmt::{Display, Formatter, Result};

use super::{Merged, NEWEST};
use base::plural::{count, counted};

/// The program that wrote the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tool {
    /// Firefox's own profiler.
    #[default]
    Firefox,
    /// A trace of Chrome.
    Chrome,
}

impl Tool {
    fn source(self) -> &'static str {
        match self {
            Self::Firefox => "Firefox's profiler",
            Self::Chrome => "Chrome's trace",
        }
    }
}

impl Display for Tool {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::Firefox => "Firefox",
            Self::Chrome => "Chrome",
        })
    }
}

impl Display for Merged {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let kinds = counted(self.kinds.len() as u64, "kind");
        let (markers, threads) = (counted(self.markers, "marker"), counted(self.threads, "thread"));
        write!(f, "{}: {markers} of {kinds} on {threads}", self.tool.source())?;
        let more = [(self.screenshots, "screenshot"), (self.counters, "counter")];
        let more = more.into_iter().filter(|(number, _)| *number > 0);
        for ((number, what), join) in more.zip([", with ", " and "]) {
            write!(f, "{join}{}", counted(number, what))?;
        }
        let left = &self.left;
        let outside = (left.outside > 0).then(|| format!("{} before or after the recording", count(left.outside)));
        let parts: Vec<String> = outside.into_iter().chain(self.missing()).collect();
        if !parts.is_empty() {
            write!(f, "; left out: {}", parts.join(", "))?;
        }
        self.doubts().iter().try_for_each(|doubt| write!(f, "; {doubt}"))
    }
}

impl Merged {
    /// What is missing or uncertain, as a note for the profile; `None`: nothing.
    pub fn problems(&self) -> Option<String> {
        let parts = self.missing();
        let left = (!parts.is_empty()).then(|| format!("left out: {}", parts.join(", ")));
        let all: Vec<String> = left.into_iter().chain(self.doubts()).collect();
        (!all.is_empty()).then(|| format!("markers of {}: {}", self.tool.source(), all.join("; ")))
    }

    fn missing(&self) -> Vec<String> {
        let left = &self.left;
        let screenshots = match self.tool {
            Tool::Firefox => ("screenshot", "without an image, over 1 MiB or beyond 64 MiB in all"),
            Tool::Chrome => ("picture", "(not read from traces)"),
        };
        let parts = [
            (left.unrecorded, ("", "of threads that were not recorded")),
            (left.beyond, ("", "beyond the maximum of 4 million")),
            (left.unopened, ("", "that began before the trace")),
            (left.damaged, ("", "malformed")),
            (left.screenshots, screenshots),
            (
                left.counters,
                (
                    "counter",
                    "malformed, beyond 512 or of processes that were not recorded",
                ),
            ),
            (left.payloads, ("payload", "too large or of too many types")),
            (
                left.arguments,
                ("argument", "beyond 64 or replaced by another of the same key"),
            ),
            (left.stacks, ("backtrace", "")),
            (left.flows, ("link", "between events")),
            (left.others, ("event", "of other kinds")),
        ];
        let parts = parts.into_iter().filter(|(number, _)| *number > 0);
        let words = parts.map(|(number, (noun, rest))| match (noun, rest) {
            ("", rest) => format!("{} {rest}", count(number)),
            (noun, "") => counted(number, noun),
            (noun, rest) => format!("{} {rest}", counted(number, noun)),
        });
        words.collect()
    }

    fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        if self.is_cut {
            doubts.push("the file ends too early, so the rest is missing".to_owned());
        }
        if self.is_estimate {
            let doubt =
                "times are from the wall clock, and may be wrong by 1 ms, or more if it was set during the recording";
            doubts.push(doubt.to_owned());
        }
        if self.version > NEWEST {
            let version = self.version;
            doubts.push(format!("format {version} is newer than {NEWEST}, the newest known"));
        }
        doubts
    }
}
