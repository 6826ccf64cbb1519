//! The difference between two sets of recordings as a profile. A sample weighs what the second set
//! used more than the first in its stack (negative: less, as in the front end's own comparison).
//!
//! Frames are equal if their modules and functions have equal names: addresses differ between
//! builds.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::write;
use crate::error::WriteError;
use base::addr::{Timestamp, ns};
use fact::reduce::budget::{Collected, KeptSample, ThreadFacts};
use fact::{
    FactSink, FaultFact, Frame, FrameId, Mark, Module, ModuleId, Process, ProcessId, Recording, SampleFact, StackId,
    StackNode, Tables, Thread, ThreadId, WaitFact,
};

/// The quantities that are compared, one thread of the profile each.
const KINDS: [&str; 3] = ["CPU time", "time in page faults", "waits (idle ones left out)"];
const MS: u64 = 1_000_000;

/// Times by stack in ns, one for each of [`KINDS`].
#[derive(Debug, Default)]
pub struct Weights([FxHashMap<StackId, u64>; 3]);

impl Weights {
    fn add(&mut self, kind: usize, stack: Option<StackId>, more: u64) {
        if let (Some(stack), Some(weights)) = (stack, self.0.get_mut(kind)) {
            let weight = weights.entry(stack).or_default();
            *weight = weight.saturating_add(more);
        }
    }
}

impl FactSink for Weights {
    fn sample(&mut self, _: &Tables, sample: &SampleFact) {
        self.add(0, sample.stack, ns(sample.cpu_time));
    }

    fn mark(&mut self, _: &Tables, _: &Mark) {}

    fn fault(&mut self, _: &Tables, fault: &FaultFact) {
        self.add(1, fault.stack, ns(fault.total_time()));
    }

    fn wait(&mut self, _: &Tables, wait: &WaitFact) {
        if !wait.reason.is_idle() {
            self.add(2, wait.stack, ns(wait.off));
        }
    }
}

/// Identity of a frame across recordings: the module, and its functions or address.
type FrameKey = (Option<ModuleId>, Vec<Arc<str>>);

/// A difference under construction.
#[derive(Debug, Default)]
pub struct Difference {
    tables: Tables,
    frames: FxHashMap<FrameKey, FrameId>,
    stacks: FxHashMap<(Option<StackId>, FrameId), StackId>,
    /// Times in ns, by kind.
    weights: [BTreeMap<StackId, f64>; 3],
}

fn number(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

impl Difference {
    /// Adds a recording with a factor: 1/n for each of the n recordings of the second set, −1/n for
    /// those of the first.
    pub fn add(&mut self, tables: &Tables, weights: &Weights, times: f64) {
        let modules: Vec<ModuleId> = tables.modules.iter().map(|module| self.module(module)).collect();
        let frames = (0..number(tables.frames.len())).map(|id| self.frame(tables, FrameId(id), &modules));
        let frames: Vec<FrameId> = frames.collect();
        let mut stacks: Vec<Option<StackId>> = Vec::with_capacity(tables.stacks.len());
        for node in &tables.stacks {
            // A parent precedes its children: anything else is not a parent.
            let parent = node
                .parent
                .and_then(|parent| stacks.get(parent.index()).copied().flatten());
            let frame = frames.get(node.frame.index()).copied();
            stacks.push(frame.map(|frame| self.stack(parent, frame)));
        }
        for (sums, weights) in self.weights.iter_mut().zip(&weights.0) {
            for (stack, weight) in weights {
                if let Some(stack) = stacks.get(stack.index()).copied().flatten() {
                    *sums.entry(stack).or_default() += *weight as f64 * times;
                }
            }
        }
    }

    fn module(&mut self, module: &Module) -> ModuleId {
        let modules = &mut self.tables.modules;
        let base = |path: &str| Path::new(path).file_name().map(ToOwned::to_owned);
        let same = |known: &Module| {
            known.kind == module.kind && known.name == module.name && base(&known.path) == base(&module.path)
        };
        let known = modules.iter().position(same).unwrap_or_else(|| {
            modules.push(module.clone());
            modules.len() - 1
        });
        ModuleId(number(known))
    }

    fn frame(&mut self, tables: &Tables, id: FrameId, modules: &[ModuleId]) -> FrameId {
        let Some(frame) = tables.frames.get(id.index()) else {
            return FrameId(u32::MAX);
        };
        let mut location = frame.location.clone();
        let (module, process) = location.ids_mut();
        if let Some(module) = module {
            *module = modules.get(module.index()).copied().unwrap_or(ModuleId(0));
        }
        if let Some(process) = process {
            *process = ProcessId(0);
        }
        let name = tables.names.get(&id);
        let key = match name {
            Some(name) if name.inline_chain.is_empty() => vec![name.symbol.clone()],
            Some(name) => name.inline_chain.iter().map(|inner| inner.function.clone()).collect(),
            None => vec![tables.function_name(id).into()],
        };
        let key = (location.module(), key);
        if let Some(known) = self.frames.get(&key) {
            return *known;
        }
        let new = FrameId(number(self.tables.frames.len()));
        self.tables.frames.push(Frame {
            location,
            is_return_address: frame.is_return_address,
        });
        if let Some(name) = name {
            self.tables.names.insert(new, name.clone());
        }
        self.frames.insert(key, new);
        new
    }

    fn stack(&mut self, parent: Option<StackId>, frame: FrameId) -> StackId {
        let tables = &mut self.tables;
        *self.stacks.entry((parent, frame)).or_insert_with(|| {
            tables.stacks.push(StackNode { parent, frame });
            StackId::new(number(tables.stacks.len() - 1))
        })
    }

    /// Writes the profile as JSON; `title` replaces the command of a recording.
    ///
    /// # Errors
    /// The errors of [`write`].
    pub fn write(mut self, title: &str, out: &mut dyn io::Write) -> Result<(), WriteError> {
        let weights = std::mem::take(&mut self.weights).map(|weights| {
            let changed = weights.into_iter().filter(|(_, weight)| weight.abs() >= 1.0);
            changed.collect::<Vec<(StackId, f64)>>()
        });
        let len = weights.iter().map(Vec::len).max().unwrap_or_default() as u64;
        let (start, end) = (Timestamp(MS), Timestamp((len + 2) * MS));
        self.tables.recording = Recording {
            command: vec![title.to_owned()],
            start,
            end,
            sample_thinning: 1,
            ..Recording::default()
        };
        self.tables.processes = vec![Process {
            existed: true,
            main_thread: Some(ThreadId(0)),
            ..Process::born(1, title.to_owned(), start)
        }];
        self.tables.threads = KINDS
            .iter()
            .zip(1..)
            .map(|(kind, tid)| Thread {
                is_main: tid == 1,
                ..Thread::born(ProcessId(0), tid, (*kind).to_owned(), start)
            })
            .collect();
        let samples = |weights: &Vec<(StackId, f64)>| ThreadFacts {
            samples: weights
                .iter()
                .zip(1..)
                .map(|((stack, _), at)| sample(*stack, at * MS))
                .collect(),
            ..ThreadFacts::default()
        };
        let collected = Collected {
            threads: weights.iter().map(samples).collect(),
            thinning: 1,
            ..Collected::default()
        };
        let mut profile = Vec::new();
        write(&self.tables, &collected, &mut profile)?;
        let mut profile: Value = serde_json::from_slice(&profile).map_err(io::Error::from)?;
        reweigh(&mut profile, &weights);
        serde_json::to_writer(out, &profile).map_err(|error| io::Error::from(error).into())
    }
}

/// Sets the weights of the samples, and removes what describes a recording.
fn reweigh(profile: &mut Value, weights: &[Vec<(StackId, f64)>; 3]) {
    let rows = profile.get_mut("threads").and_then(Value::as_array_mut);
    for (row, weights) in rows.into_iter().flatten().zip(weights) {
        let Some(samples) = row.get_mut("samples").and_then(Value::as_object_mut) else {
            continue;
        };
        let rows = samples.get("length").and_then(Value::as_u64).unwrap_or_default();
        let rows = usize::try_from(rows).unwrap_or_default();
        // A row without a stack may be at the thread's start.
        let mut column = vec![json!(0); rows.saturating_sub(weights.len())];
        column.extend(weights.iter().map(|(_, weight)| json!(weight / MS as f64)));
        samples.insert("weight".to_owned(), Value::Array(column));
        samples.insert("weightType".to_owned(), json!("tracing-ms"));
        if let Some(row) = row.as_object_mut() {
            row.insert("ngmiDifference".to_owned(), json!(true));
        }
    }
    if let Some(profile) = profile.as_object_mut() {
        profile.remove("ngmi");
    }
}

fn sample(stack: StackId, time: u64) -> KeptSample {
    KeptSample {
        time: Timestamp(time),
        cpu_time: 0,
        stack: Some(stack),
        weight: 1,
        in_kernel: false,
    }
}
