//! Causes of the faults and waits that are kept.

use rustc_hash::FxHashSet;

use super::ThreadFacts;
use crate::fact::{Cause, Effect, EffectKind, Reason};

/// Only those of kept faults and waits, each once, sorted by what they explain.
pub fn of_kept(mut causes: Vec<Cause>, threads: &[ThreadFacts]) -> Vec<Cause> {
    let mut kept: FxHashSet<Effect> = FxHashSet::default();
    for facts in threads {
        kept.extend(facts.faults.iter().map(|fault| Effect {
            kind: EffectKind::Fault,
            thread: fault.thread,
            start: fault.start,
        }));
        kept.extend(facts.waits.iter().map(|wait| Effect {
            kind: EffectKind::Wait,
            thread: wait.thread,
            start: wait.start,
        }));
    }
    causes.retain(|cause| kept.contains(&cause.effect));
    // What is told of one effect keeps its order.
    causes.sort_by_key(|cause| (cause.effect, end(cause)));
    causes
}

fn end(cause: &Cause) -> crate::addr::Timestamp {
    match cause.reason {
        Reason::Request(request) => request.end,
        Reason::Holder(holder) => holder.end,
    }
}
