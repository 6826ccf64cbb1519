//! What a summary says of user stacks.

use std::cmp::Reverse;

use profiler_common::unwind::WalkEnd;
use serde::{Deserialize, Serialize};

use super::{WIDTH, list};
use crate::fact::{StackEnds, Walks};
use crate::report::text::{columns, counted, fit_middle};

/// Incomplete stacks that are told: module and reason.
const WORST: usize = 5;

/// How the user stacks ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StackSummary {
    /// User stacks.
    pub total: u64,
    /// Those that reach their thread's first frame.
    pub complete: u64,
    /// Where most of the others were cut.
    pub worst: Vec<StackEnds>,
    /// How the walks in the kernel fared.
    pub walks: Walks,
}

impl StackSummary {
    /// Of a recording's.
    pub fn new(ends: &[StackEnds], walks: &Walks) -> Self {
        let sum = |complete: bool| {
            let matching = ends.iter().filter(|ends| !complete || ends.reason.is_none());
            matching.fold(0u64, |sum, ends| sum.saturating_add(ends.samples))
        };
        let mut worst: Vec<StackEnds> = ends.iter().filter(|ends| ends.reason.is_some()).cloned().collect();
        worst.sort_by_key(|ends| Reverse(ends.samples));
        worst.truncate(WORST);
        Self {
            total: sum(false),
            complete: sum(true),
            worst,
            walks: walks.clone(),
        }
    }

    /// One line, or a second one where stacks were cut if that has no room in the first.
    pub fn lines(&self) -> Vec<String> {
        let Self {
            total,
            complete,
            worst,
            walks,
        } = self;
        if *total == 0 {
            return vec!["stacks:  no user stack".into()];
        }
        let cut = worst.iter().map(|ends| {
            let reason = ends.reason.map_or("", |reason| reason.words());
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
