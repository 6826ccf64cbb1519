//! Whether a sample is in the kernel, which mostly follows from its stack.

use fact::reduce::budget::KeptSample;
use fact::{Location, StackId, Tables};

/// Samples whose `in_kernel` differs from what their stack shows (a kernel stack that could not be
/// walked).
pub fn exceptions(tables: &Tables, samples: &[KeptSample]) -> Vec<usize> {
    let differs = |sample: &&KeptSample| sample.in_kernel != leaf_is_kernel(tables, sample.stack);
    samples
        .iter()
        .enumerate()
        .filter(|(_, sample)| differs(sample))
        .map(|(index, _)| index)
        .collect()
}

/// Whether the innermost frame is in the kernel.
pub fn leaf_is_kernel(tables: &Tables, stack: Option<StackId>) -> bool {
    let node = stack.and_then(|stack| tables.stacks.get(stack.index()));
    let frame = node.and_then(|node| tables.frames.get(node.frame.index()));
    frame.is_some_and(|frame| matches!(frame.location, Location::Kernel { .. }))
}
