//! Faults that end in a signal, which the program survives, or in a word to whoever called the kernel.

use crate::harness::Oracle;
use crate::run::{judged, record, scratch, tables};
use crate::tier::{Knows, Tier, in_each_tier};

in_each_tier!(signals, what_calls_read_after_a_refused_access);

fn signals(tier: Tier) {
    let Some(run) = judged(tier, "failed", &[]) else { return };
    let touches = run.said.phases.iter().flat_map(|phase| &phase.touches);
    let failed = touches.filter(|touch| touch.failed.is_some()).count() as u64;
    assert!(failed > 20, "{failed}");
    let account = run.account(run.said.phases[0].tid);
    if run.tier.knows(Knows::Failed) {
        assert_eq!(account.failed, failed);
    } else {
        assert_eq!(account.failed, 0, "this tier can't see any");
    }
}

fn what_calls_read_after_a_refused_access(tier: Tier) {
    let scratch = scratch();
    let Some(run) = record(tier, &Oracle::c("faults/refused"), [scratch.path()]) else {
        return;
    };
    let pages = tables(&run.outcome.file("log")).pages;
    for name in ["/other-", "/same-"] {
        let row = pages.iter().find(|row| row.file.contains(name));
        let row = row.unwrap_or_else(|| panic!("no {name} in {pages:?}"));
        let read = if tier == Tier::Perf { 0 } else { 64 * 4096 };
        assert_eq!(row.read_by_calls_bytes, read, "{row:?}");
        assert_eq!((row.read_by_faults_bytes, row.wasted_bytes), (0, 0), "{row:?}");
    }
}
