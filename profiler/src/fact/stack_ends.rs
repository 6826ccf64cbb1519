//! How user stacks ended: the project's own figure of quality.

use rustc_hash::FxHashMap;

use super::{FrameId, Location, ModuleId, StackEnds, StackId, Tables, TruncationReason};

/// What a stack's outer end is.
#[derive(Debug, Clone, Copy)]
struct End {
    /// `None`: it is complete.
    reason: Option<TruncationReason>,
    /// The outermost frame that was reached.
    frame: Option<FrameId>,
}

/// Counts the ends of samples' stacks.
#[derive(Debug, Default)]
pub struct Tally {
    /// By [`StackId`], as far as needed: a parent comes before its children.
    ends: Vec<End>,
    counts: FxHashMap<(Option<ModuleId>, Option<TruncationReason>), u64>,
}

impl Tally {
    /// Counts a sample's stack. Kernel threads have no user stack, and are not counted.
    pub fn count(&mut self, tables: &Tables, stack: StackId) {
        while self.ends.len() < tables.stacks.len() {
            let node = tables.stacks[self.ends.len()];
            let outer = node.parent.and_then(|parent| self.ends.get(parent.index())).copied();
            let end = match (outer, &tables.frames[node.frame.index()].location) {
                (Some(End { reason, frame }), _) => End {
                    reason,
                    frame: frame.or(Some(node.frame)),
                },
                (None, Location::Truncated(reason)) => End {
                    reason: Some(*reason),
                    frame: None,
                },
                (None, _) => End {
                    reason: None,
                    frame: Some(node.frame),
                },
            };
            self.ends.push(end);
        }
        let Some(end) = self.ends.get(stack.index()) else {
            return;
        };
        let location = end.frame.map(|frame| &tables.frames[frame.index()].location);
        if end.reason.is_none() && matches!(location, Some(Location::Kernel { .. })) {
            return;
        }
        *self
            .counts
            .entry((location.and_then(Location::module), end.reason))
            .or_default() += 1;
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
