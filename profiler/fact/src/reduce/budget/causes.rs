//! Causes of the kept faults and waits.

use rustc_hash::FxHashSet;

use super::ThreadFacts;
use crate::{Cause, Effect, EffectKind, FaultFact, Reason, WaitFact};
use base::addr::Timestamp;

/// The key by which a cause refers to a fault.
pub fn of_fault(fault: &FaultFact) -> Effect {
    Effect {
        kind: EffectKind::Fault,
        thread: fault.thread,
        start: fault.start,
    }
}

/// The key by which a cause refers to a wait.
pub fn of_wait(wait: &WaitFact) -> Effect {
    Effect {
        kind: EffectKind::Wait,
        thread: wait.thread,
        start: wait.start,
    }
}

/// Keeps only the causes of the given faults and waits.
pub fn retain(causes: &mut Vec<Cause>, effects: impl Iterator<Item = Effect>) {
    let kept: FxHashSet<Effect> = effects.collect();
    causes.retain(|cause| kept.contains(&cause.effect));
}

/// Causes of kept faults and waits only, sorted by what they explain.
pub fn of_kept(mut causes: Vec<Cause>, threads: &[ThreadFacts]) -> Vec<Cause> {
    let faults = threads.iter().flat_map(|facts| facts.faults.iter());
    let faults = faults.map(|fault| of_fault(&fault));
    let waits = threads.iter().flat_map(|facts| &facts.waits).map(of_wait);
    retain(&mut causes, faults.chain(waits));
    causes.sort_by_key(|cause| (cause.effect, end(cause)));
    causes
}

fn end(cause: &Cause) -> Timestamp {
    match cause.reason {
        Reason::Request(request) => request.end,
        Reason::Holder(holder) => holder.end,
    }
}
