//! The critical path of the command's first thread, in a summary ([`crate::path`]).

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::WIDTH;
use crate::export::ns;
use crate::path::kept::lanes;
use crate::path::walk::{Kind, Piece, walk};
use crate::text::{columns, duration, fit_middle};
use fact::reduce::budget::Collected;
use fact::{Tables, ThreadId, WaitReason};

/// Columns of a name.
const NAME: usize = 24;

/// The critical path by what filled it, the longest parts first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PathSummary {
    /// The lifetime of the thread in the recording, in ns.
    pub total_ns: u64,
    /// Names of the parts and their times in ns, which add up to the total.
    pub parts: Vec<(String, u64)>,
}

impl PathSummary {
    /// Follows the path. `None`: there is no command, nothing was waited for, or not every wait is at hand.
    pub fn new(tables: &Tables, collected: &Collected) -> Option<Self> {
        let (lanes, chosen) = lanes(tables, collected)?;
        let mut parts: FxHashMap<Part, u64> = FxHashMap::default();
        for piece in walk(&lanes, chosen.thread, chosen.window) {
            let sum = parts.entry(Part::of(&piece, chosen.thread)).or_default();
            *sum = sum.saturating_add(ns(piece.end.since(piece.start)));
        }
        let mut named: FxHashMap<String, u64> = FxHashMap::default();
        for (part, time) in parts {
            let sum = named.entry(part.name(tables)).or_default();
            *sum = sum.saturating_add(time);
        }
        let mut parts: Vec<(String, u64)> = named.into_iter().collect();
        parts.sort_unstable_by(|(a, a_time), (b, b_time)| (Reverse(a_time), a).cmp(&(Reverse(b_time), b)));
        Some(Self {
            total_ns: ns(chosen.window.end.since(chosen.window.start)),
            parts,
        })
    }

    /// One line with the longest parts; `None` if there is only one.
    pub fn line(&self) -> Option<String> {
        if self.parts.len() < 2 {
            return None;
        }
        let other = |time: u64| format!("{} other", duration(time));
        let (mut line, mut rest) = ("path:    ".to_owned(), self.total_ns);
        for (place, (name, time)) in self.parts.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            let item = format!("{comma}{} {name}", duration(*time));
            let left = rest.saturating_sub(*time);
            let end = if left == 0 { 0 } else { 2 + columns(&other(left)) };
            if columns(&line) + columns(&item) + end > WIDTH {
                break;
            }
            (line, rest) = (line + &item, left);
        }
        let end = if rest == 0 {
            String::new()
        } else {
            format!(", {}", other(rest))
        };
        Some(line + &end)
    }
}

/// The parts that a summary shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    /// The thread's own time, with the file that it was about.
    Own(Kind, Option<fact::MappedFileId>),
    /// What another thread did, for which it waited; whether for its lock.
    Behind(ThreadId, bool),
}

impl Part {
    fn of(piece: &Piece, main: ThreadId) -> Self {
        if piece.lane == main {
            let kind = piece.spent.kind;
            let about = piece.spent.file.filter(|_| !matches!(kind, Kind::Cpu));
            return Self::Own(kind, about);
        }
        Self::Behind(piece.lane, piece.via == Some(WaitReason::Lock))
    }

    fn name(self, tables: &Tables) -> String {
        match self {
            Self::Own(Kind::Cpu, _) => "CPU".to_owned(),
            Self::Own(kind, file) => {
                let name = match kind {
                    Kind::Wait(WaitReason::RunQueue) => "run queue",
                    kind => kind.name(),
                };
                match file.and_then(|file| tables.files.get(file.index())) {
                    Some(file) => format!("{name} of {}", fit_middle(&file.short_name(), NAME)),
                    None => name.to_owned(),
                }
            }
            Self::Behind(thread, is_lock) => {
                let name = tables.threads.get(thread.index()).map_or("?", |thread| &thread.name);
                let head = if is_lock { "lock held by" } else { "behind" };
                format!("{head} {}", fit_middle(name, NAME))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_whole_parts_and_the_rest() {
        let ms = |ms: u64| ms * 1_000_000;
        let mut path = PathSummary {
            total_ns: ms(1380),
            parts: vec![
                ("CPU".to_owned(), ms(877)),
                ("fault of libxul.so".to_owned(), ms(179)),
                ("behind Renderer".to_owned(), ms(120)),
                ("lock held by ImageBridgeChild".to_owned(), ms(104)),
                ("disk".to_owned(), ms(100)),
            ],
        };
        let expected = "path:    877 ms CPU, 179 ms fault of libxul.so, 324 ms other";
        assert_eq!(path.line().unwrap(), expected, "one more part exceeds 80 columns");
        path.parts.truncate(2);
        path.total_ns = ms(877 + 179);
        assert_eq!(path.line().unwrap(), "path:    877 ms CPU, 179 ms fault of libxul.so");
        path.parts.truncate(1);
        assert_eq!(path.line(), None);
    }
}
