//! User stacks in a summary.

use std::cmp::Reverse;

use profiler_common::unwind::WalkEnd;
use serde::{Deserialize, Serialize};

use super::{WIDTH, list};
use crate::text::{columns, counted, fit_middle};
use fact::{StackEnds, TruncationReason, Walks};

/// Maximum number of module and reason pairs for incomplete stacks.
const WORST: usize = 5;

/// Completeness of user stacks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StackSummary {
    /// Number of user stacks.
    pub total: u64,
    /// Stacks of which only the innermost frame was taken, since the recording cost too much; not in [`Self::total`].
    pub thinned: u64,
    /// User stacks that reach the thread's first frame.
    pub complete: u64,
    /// Most frequent places where stacks were cut.
    pub worst: Vec<StackEnds>,
    /// Results of the walks in the kernel.
    pub walks: Walks,
}

/// The number of stacks of which only the innermost frame was taken.
pub(crate) fn thinned(ends: &[StackEnds]) -> u64 {
    let thinned = ends
        .iter()
        .filter(|ends| ends.reason == Some(TruncationReason::Thinned));
    thinned.fold(0, |sum: u64, ends| sum.saturating_add(ends.samples))
}

impl StackSummary {
    /// Summarizes the stack ends and walks of a recording.
    pub fn new(ends: &[StackEnds], walks: &Walks) -> Self {
        let thinned = thinned(ends);
        let sum = |complete: bool| {
            let matching = ends.iter().filter(|ends| !complete || ends.reason.is_none());
            matching.fold(0u64, |sum, ends| sum.saturating_add(ends.samples))
        };
        let cut = ends
            .iter()
            .filter(|ends| !matches!(ends.reason, None | Some(TruncationReason::Thinned)));
        let mut worst: Vec<StackEnds> = cut.cloned().collect();
        worst.sort_by_key(|ends| Reverse(ends.samples));
        worst.truncate(WORST);
        Self {
            total: sum(false).saturating_sub(thinned),
            thinned,
            complete: sum(true),
            worst,
            walks: walks.clone(),
        }
    }

    /// One line, plus a second one with the cuts if they do not fit in the first.
    pub fn lines(&self) -> Vec<String> {
        let Self {
            total,
            complete,
            worst,
            walks,
            thinned: _,
        } = self;
        if *total == 0 {
            return vec!["stacks:  no user stacks".into()];
        }
        let cut = worst.iter().map(|ends| {
            let reason = ends.reason.map_or("", |reason| reason.name());
            let module = fit_middle(&ends.module, 24);
            format!("{} {module} ({reason})", counted(ends.samples, *total))
        });
        let cut: Vec<String> = cut.collect();
        let walked = walks.ends.iter().find(|(end, _)| end == WalkEnd::Complete.name());
        let walked = walked.map_or(String::new(), |(_, count)| {
            format!(" ({} walked in the kernel)", counted(*count, *total))
        });
        let head = format!("stacks:  {} complete{walked}", counted(*complete, *total));
        if worst.is_empty() {
            return vec![head];
        }
        let line = list(&format!("{head}; cut: "), cut.iter().cloned(), "");
        if columns(&line) <= WIDTH {
            vec![line]
        } else {
            vec![head, list("cut:     ", cut.into_iter(), "")]
        }
    }
}
