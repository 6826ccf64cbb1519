//! The modules whose missing symbols cost most.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::list;
use crate::text::{estimate, fit_middle};
use fact::reduce::budget::Collected;
use fact::{FrameId, Location, ModuleId, ModuleKind, Tables, place_of_nameless};

/// Maximum number of modules.
const MODULES: usize = 3;
/// A module with fewer than one in this many samples is not worth a line.
const RARE: u64 = 100;
/// Every module has a few nameless functions, such as stubs: one with more than this share has no symbols.
const SHARE: u64 = 4;

/// A module without symbols.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamelessModule {
    /// Its name.
    pub module: String,
    /// Its path.
    pub path: String,
    /// Samples in its functions without a name.
    pub samples: u64,
    /// What to type to get its names.
    pub remedies: Vec<String>,
}

/// The modules with the most self samples in functions without a name, of the samples kept for the profile.
pub fn nameless_modules(tables: &Tables, collected: &Collected) -> Vec<NamelessModule> {
    let mut self_samples = vec![0_u64; tables.frames.len()];
    for sample in collected.threads.iter().flat_map(|thread| &thread.samples) {
        let node = sample.stack.and_then(|stack| tables.stacks.get(stack.index()));
        if let Some(sum) = node.and_then(|node| self_samples.get_mut(node.frame.index())) {
            *sum = sum.saturating_add(sample.weight);
        }
    }
    modules(tables, &self_samples)
}

/// The modules with the most self samples in functions without a name.
pub(super) fn modules(tables: &Tables, self_samples: &[u64]) -> Vec<NamelessModule> {
    let mut by_module: FxHashMap<ModuleId, (u64, u64)> = FxHashMap::default();
    let mut all = 0_u64;
    for (samples, id) in self_samples.iter().zip((0..).map(FrameId)) {
        all = all.saturating_add(*samples);
        let location = tables.frames.get(id.index()).map(|frame| &frame.location);
        if let Some(Location::Module { module, .. } | Location::FileOffset { module, .. }) = location {
            let name = tables.names.get(&id);
            let is_named = name.is_some_and(|name| place_of_nameless(&name.symbol).is_none());
            let (nameless, sum) = by_module.entry(*module).or_default();
            *sum = sum.saturating_add(*samples);
            *nameless = nameless.saturating_add(if is_named { 0 } else { *samples });
        }
    }
    let costs = |(nameless, sum): (u64, u64)| {
        nameless > 0 && nameless.saturating_mul(RARE) >= all && nameless.saturating_mul(SHARE) >= sum
    };
    let mut modules: Vec<NamelessModule> = (by_module.into_iter())
        .filter(|(_, samples)| costs(*samples))
        .filter_map(|(id, (samples, _))| Some((tables.modules.get(id.index())?, samples)))
        .filter(|(module, _)| module.kind == ModuleKind::File)
        .map(|(module, samples)| NamelessModule {
            module: module.name.clone(),
            path: module.path.clone(),
            samples,
            remedies: Vec::new(),
        })
        .collect();
    modules.sort_by(|a, b| (Reverse(a.samples), &a.path).cmp(&(Reverse(b.samples), &b.path)));
    modules.truncate(MODULES);
    modules
}

/// The line of the summary.
pub(super) fn line(modules: &[NamelessModule], samples: u64) -> Option<String> {
    let module = |one: &NamelessModule| {
        let share = estimate(one.samples, samples);
        format!("{share} in {}", fit_middle(&one.module, 24))
    };
    (!modules.is_empty()).then(|| list("unnamed: ", modules.iter().map(module), ""))
}
