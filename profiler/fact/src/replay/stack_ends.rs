//! How user stacks ended: a measure of the recording's quality.

use rustc_hash::FxHashMap;

use crate::{Location, ModuleId, StackEnds, StackId, Tables, TruncationReason};

/// The end of each stack: one number per stack, of which a large recording has ten million.
#[derive(Debug, Default)]
pub struct Ends {
    /// By [`StackId`], as far as needed: the stack of the outermost frame reached; a parent precedes its children. A
    /// placeholder for missing frames counts only if there is nothing else.
    outermost: Vec<StackId>,
}

impl Ends {
    /// The stack of the outermost frame reached.
    fn of(&mut self, tables: &Tables, stack: StackId) -> Option<StackId> {
        let known = self.outermost.len();
        let first = u32::try_from(known).unwrap_or(u32::MAX);
        let new = tables.stacks.get(known..).unwrap_or_default();
        for (node, id) in new.iter().zip((first..).map(StackId::new)) {
            let outer = node.parent.and_then(|parent| self.outermost.get(parent.index()));
            let end = outer.copied().filter(|outer| truncation(tables, *outer).is_none());
            self.outermost.push(end.unwrap_or(id));
        }
        self.outermost.get(stack.index()).copied()
    }
}

/// Why frames are missing, if this is their placeholder.
fn truncation(tables: &Tables, stack: StackId) -> Option<TruncationReason> {
    match location(tables, stack) {
        Some(Location::Truncated(reason)) => Some(*reason),
        _ => None,
    }
}

fn location(tables: &Tables, stack: StackId) -> Option<&Location> {
    let node = tables.stacks.get(stack.index())?;
    tables.frames.get(node.frame.index()).map(|frame| &frame.location)
}

/// Counts how the stacks of one event kind ended.
#[derive(Debug, Default)]
pub struct Tally {
    counts: FxHashMap<(Option<ModuleId>, Option<TruncationReason>), u64>,
}

impl Tally {
    /// Counts an event's stack. Kernel threads have no user stack, and are not counted.
    pub fn count(&mut self, tables: &Tables, ends: &mut Ends, stack: StackId) {
        let Some(end) = ends.of(tables, stack) else { return };
        let location = location(tables, end);
        let outer = tables.stacks.get(end.index()).and_then(|node| node.parent);
        let reason = truncation(tables, end).or_else(|| truncation(tables, outer?));
        if reason.is_none() && matches!(location, Some(Location::Kernel { .. })) {
            return;
        }
        let module = location.and_then(Location::module);
        *self.counts.entry((module, reason)).or_default() += 1;
    }

    /// The counts, most frequent first.
    pub fn finish(self, tables: &Tables) -> Vec<StackEnds> {
        let mut ends: Vec<StackEnds> = Vec::new();
        for ((module, reason), samples) in self.counts {
            let module = module
                .map_or("[unmapped]", |module| tables.module_name(module))
                .to_owned();
            match ends.iter_mut().find(|end| end.module == module && end.reason == reason) {
                // Two builds of one library have one name.
                Some(end) => end.samples += samples,
                None => ends.push(StackEnds {
                    module,
                    reason,
                    samples,
                }),
            }
        }
        ends.sort_by(|a, b| {
            b.samples
                .cmp(&a.samples)
                .then_with(|| (&a.module, a.reason).cmp(&(&b.module, b.reason)))
        });
        ends
    }
}
