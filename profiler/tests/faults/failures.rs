//! Faults that end in a signal that the program handles.

use crate::run::judged;
use crate::tier::{Knows, Tier, in_each_tier};

in_each_tier!(signals);

fn signals(tier: Tier) {
    let Some(run) = judged(tier, "failed", &[]) else { return };
    let touches = run.said.phases.iter().flat_map(|phase| &phase.touches);
    let failed = touches.filter(|touch| touch.failed.is_some()).count() as u64;
    assert!(failed > 20, "{failed}");
    let account = run.account(run.said.phases[0].tid);
    if run.tier.knows(Knows::Failed) {
        assert_eq!(account.failed, failed);
    } else {
        assert_eq!(account.failed, 0, "this tier cannot see failed faults");
    }
}
