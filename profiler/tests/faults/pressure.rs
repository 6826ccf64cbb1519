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
        "nothing had to make room: {}",
        phase.resident_after
    );
    let reclaimed: u64 = rows.iter().filter_map(|row| row.reclaim_ns).sum();
    if tier.knows(Knows::Latency) {
        assert!(reclaimed > 0, "the faults that made room do not say so");
    }
}
