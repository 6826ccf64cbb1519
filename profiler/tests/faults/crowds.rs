//! Many threads at once: nothing is lost, nothing is counted twice, and no address is taken for what it was before.

use crate::harness::Oracle;
use crate::run::{judged, record, recorder, tables};
use crate::said::Said;
use crate::tier::{Tier, in_each_tier};

in_each_tier!(eight_fault_while_one_maps_and_unmaps, a_storm, a_storm_counted);

fn eight_fault_while_one_maps_and_unmaps(tier: Tier) {
    let Some(run) = judged(tier, "mapping", &[]) else {
        return;
    };
    assert_eq!(run.said.phases.len(), 9);
    let files = run.rows_of(run.said.phase("one place"));
    let turns = files.windows(2).filter(|pair| pair[0].file != pair[1].file).count();
    assert_eq!(turns, 199, "one file after the other, at one place");
}

/// Every single fault of four threads, in order.
fn a_storm(tier: Tier) {
    let Some(run) = record(tier, &Oracle::c("faults/storm"), ["4", "10000"]) else {
        return;
    };
    run.expect_phases();
    run.expect_accounts();
}

/// The books of 400,000 faults.
fn a_storm_counted(tier: Tier) {
    let outcome = recorder(tier, "all")
        .program(Oracle::c("faults/storm"), ["4", "100000"])
        .run();
    outcome.expect_code(0);
    let said = Said::read(&outcome.stdout);
    let accounts = tables(&outcome.file("log")).accounts;
    assert_eq!(said.phases.len(), 4);
    for phase in &said.phases {
        let account = accounts
            .iter()
            .find(|account| account.tid == phase.tid)
            .expect("an account");
        account.expect_closed();
        assert_eq!(account.lost, 0, "{account:?}");
        assert!(account.seen >= phase.pages, "{account:?}");
    }
}
