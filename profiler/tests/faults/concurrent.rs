//! Many threads at once: no fault is lost or counted twice, and no address is attributed to an earlier mapping.

use crate::emulated::is_emulated;
use crate::harness::Oracle;
use crate::rows::Account;
use crate::run::{Run, is_slow, read, record, recorder, scratch, tables};
use crate::said::Said;
use crate::tier::{Tier, in_each_tier};

in_each_tier!(
    alone: eight_fault_while_one_maps_and_unmaps,
    files_only_while_one_maps_and_unmaps,
    a_storm,
    a_storm_counted
);

/// Records the oracle `faults/NAME`. A slow recorder may lose faults if it counts them.
fn record_oracle(tier: Tier, name: &str, arguments: &[&str]) -> Option<Run> {
    let mut run = record(tier, &Oracle::c(&format!("faults/{name}")), arguments)?;
    run.may_lose = is_slow();
    for account in &run.accounts {
        expect_few_lost(account);
    }
    run.expect_phases();
    run.expect_accounts();
    Some(run)
}

/// Asserts that no fault is lost. A slow recorder may lose some, which is printed: how many depends on the machine's load.
#[track_caller]
fn expect_few_lost(account: &Account) {
    if account.lost > 0 {
        eprintln!("faults lost and counted: {account:?}");
        assert!(is_slow() && account.seen > 0, "{account:?}");
    }
}

fn eight_fault_while_one_maps_and_unmaps(tier: Tier) {
    let folder = scratch();
    let Some(run) = record_oracle(tier, "mapping", &[folder.path().to_str().unwrap()]) else {
        return;
    };
    assert_eq!(run.said.phases.len(), 9);
    let place = run.said.phase("one place");
    let files = run.rows_of(place);
    let turns = files.windows(2).filter(|pair| pair[0].file != pair[1].file).count();
    if run.account(place.tid).lost == 0 {
        assert_eq!(turns, 199, "the files alternate at one address");
    }
}

/// Mappings cannot be inspected while they change; faults on files must be recorded nevertheless.
fn files_only_while_one_maps_and_unmaps(tier: Tier) {
    let folder = scratch();
    let program = recorder(tier, "file").program(Oracle::c("faults/mapping"), [folder.path()]);
    let Some(run) = read(tier, program.run()) else { return };
    let place = run.said.phase("one place");
    let account = run.account(place.tid);
    expect_few_lost(account);
    account.expect_closed();
    let of_files = run.rows_of(place).iter().filter(|row| row.file.is_some()).count() as u64;
    assert!(of_files + account.lost >= 200, "{of_files}: {account:?}");
    let others: u64 = run.accounts.iter().map(|account| account.filtered).sum();
    assert!(others > 0, "filtered faults are counted");
}

/// Expects every fault of four threads, in order.
fn a_storm(tier: Tier) {
    record_oracle(tier, "storm", &["4", "10000"]);
}

/// Expects the account of 400,000 faults to close, or of 100,000 under emulation.
fn a_storm_counted(tier: Tier) {
    let pages = if is_emulated() { "25000" } else { "100000" };
    let outcome = recorder(tier, "all")
        .program(Oracle::c("faults/storm"), ["4", pages])
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
        expect_few_lost(account);
        assert!(account.seen + account.lost >= phase.pages, "{account:?}");
    }
}
