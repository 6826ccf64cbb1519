//! Causes of the faults and waits that are kept.

use rustc_hash::FxHashSet;

use super::ThreadFacts;
use crate::addr::Timestamp;
use crate::fact::{Cause, Effect, EffectKind, FaultFact, Reason, WaitFact};

/// Names a fault as a cause does.
pub fn of_fault(fault: &FaultFact) -> Effect {
    Effect {
        kind: EffectKind::Fault,
        thread: fault.thread,
        start: fault.start,
    }
}

/// Names a wait as a cause does.
pub fn of_wait(wait: &WaitFact) -> Effect {
    Effect {
        kind: EffectKind::Wait,
        thread: wait.thread,
        start: wait.start,
    }
}

/// Only those of the given faults and waits stay.
pub fn retain(causes: &mut Vec<Cause>, effects: impl Iterator<Item = Effect>) {
    let kept: FxHashSet<Effect> = effects.collect();
    causes.retain(|cause| kept.contains(&cause.effect));
}

/// Only those of kept faults and waits, sorted by what they explain.
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
