//! Faults under the limit of a memory control group.

use crate::run::judged;
use crate::tier::{Knows, Tier, in_each_tier};

in_each_tier!(making_room);

fn making_room(tier: Tier) {
    let Some(run) = judged(tier, "reclaim", &[]) else {
        return;
    };
    let (phase, rows) = run.only_rows();
    assert!(
        phase.resident_after < phase.resident_before,
        "no page was reclaimed: {}",
        phase.resident_after
    );
    let reclaimed: u64 = rows.iter().filter_map(|row| row.reclaim_ns).sum();
    if tier.knows(Knows::Latency) {
        assert!(reclaimed > 0, "the faults that reclaimed pages do not report it");
    }
}
