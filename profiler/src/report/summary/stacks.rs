//! What a summary says of user stacks.

use std::cmp::Reverse;

use profiler_common::unwind::WalkEnd;
use serde::{Deserialize, Serialize};

use super::list;
use crate::fact::{StackEnds, Walks};
use crate::report::text::{fit, percent};

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

    /// One line.
    pub fn line(&self) -> String {
        let Self {
            total,
            complete,
            worst,
            walks,
        } = self;
        if *total == 0 {
            return "stacks:  no user stack".into();
        }
        let cut = worst.iter().map(|ends| {
            let reason = ends.reason.map_or("", |reason| reason.words());
            format!("{} {} ({reason})", percent(ends.samples, *total), fit(&ends.module, 24))
        });
        let walked = walks.ends.iter().find(|(end, _)| end == WalkEnd::Complete.name());
        let walked = walked.map_or(String::new(), |(_, count)| {
            format!(" ({} walked in the kernel)", percent(*count, *total))
        });
        let head = format!("stacks:  {} complete{walked}", percent(*complete, *total));
        if worst.is_empty() {
            head
        } else {
            list(&(head + "; cut: "), cut, "")
        }
    }
}
