//! Reads of a mapped file that is not in the page cache.

use crate::harness::page::{UNIT, page_size};
use crate::harness::skip::skip;
use crate::rows::Row;
use crate::run::{Run, is_slow, judged};
use crate::said::Phase;
use crate::tier::{Knows, Tier, in_each_tier};

in_each_tier!(
    a_cold_file_page_by_page,
    a_cold_file_in_no_order,
    advice_to_read_ahead,
    no_advice,
    two_threads_on_one_page,
);

/// Expects a fault for every page, which read only that page and waited if it had to.
fn expect_single_pages(run: &Run) {
    let (phase, rows) = run.only_rows();
    assert!(phase.is_cold());
    if run.tier.knows(Knows::Latency) {
        for row in &rows {
            assert!(
                row.pages_read.is_none_or(|pages| pages == page_size() / UNIT),
                "{row:?}"
            );
            assert!(
                row.waited != Some(true) || row.disk_ns.is_some_and(|time| time > 0),
                "{row:?}"
            );
        }
    }
    // On a busy machine a page may arrive before the thread waits for it: every third page under emulation, and all of them with a hypervisor
    // that completes the read before it resumes the CPU. Which touches waited is the kernel's own count, and each row agreed with it.
    let waited = phase.touches.iter().filter(|touch| touch.switches > 0).count();
    let tenths = if is_slow() { 4 } else { 8 };
    if waited * 10 < phase.touches.len() * tenths {
        let all = phase.touches.len();
        skip(&format!(
            "the disk answered before the thread could wait: it waited for {waited} of {all} pages"
        ));
        return;
    }
    if run.tier.knows(Knows::Latency) {
        let touches: u64 = phase.touches.iter().map(crate::said::Touch::nanoseconds).sum();
        let latency: u64 = rows.iter().filter_map(|row| row.latency_ns).sum();
        assert!(
            latency * 3 >= touches,
            "latencies of {latency} ns in touches of {touches} ns"
        );
    }
}

fn a_cold_file_page_by_page(tier: Tier) {
    if let Some(run) = judged(tier, "cold", &["ascending"]) {
        expect_single_pages(&run);
    }
}

fn a_cold_file_in_no_order(tier: Tier) {
    if let Some(run) = judged(tier, "cold", &["shuffled"]) {
        expect_single_pages(&run);
    }
}

/// Expects few faults for many pages: the other pages were mapped around, and these faults read all of them.
fn expect_pages_together(run: &Run) {
    let (phase, rows) = run.only_rows();
    assert!(phase.is_cold());
    assert!(rows.len() * 2 < phase.touches.len(), "{} faults", rows.len());
    if run.tier.knows(Knows::Latency) {
        let waited = phase.touches[0].switches > 0;
        assert!(waited || is_slow(), "the first touch did not have to wait");
        let unknown = rows[0].waited.is_none() && run.misses_switches();
        assert!(unknown || rows[0].waited == Some(waited), "{:?}", rows[0]);
    }
    let silent = phase.touches.iter().filter(|touch| touch.faults() == 0).count() as u64;
    if let Some(around) = sum(&rows, |row| row.pages_around) {
        assert!(
            around >= silent,
            "{around} pages mapped around, {silent} touched without a fault"
        );
    }
    if !run.tier.knows(Knows::Latency) {
        return;
    }
    if let Some(read) = sum(&rows, |row| row.pages_read) {
        assert_eq!(read, came_in(phase), "pages read, and pages added to the cache");
    }
}

/// The number of the file's pages that the phase added to the cache, in units of 4 KiB.
fn came_in(phase: &Phase) -> u64 {
    u64::try_from(phase.resident_after - phase.resident_before).unwrap() * (page_size() / UNIT)
}

/// The sum over the rows that have a value; `None` if the kernel does not report it at all.
fn sum(rows: &[&Row], part: impl Fn(&Row) -> Option<u64>) -> Option<u64> {
    rows.iter().filter_map(|row| part(row)).reduce(|one, other| one + other)
}

fn advice_to_read_ahead(tier: Tier) {
    if let Some(run) = judged(tier, "cold", &["sequential"]) {
        expect_pages_together(&run);
    }
}

fn no_advice(tier: Tier) {
    if let Some(run) = judged(tier, "cold", &["plain"]) {
        expect_pages_together(&run);
    }
}

fn two_threads_on_one_page(tier: Tier) {
    let Some(run) = judged(tier, "race", &[]) else { return };
    let [one, other] = ["one", "other"].map(|name| run.said.phase(name));
    let together = one.touches.iter().zip(&other.touches);
    let together = together.filter(|(one, other)| one.switches > 0 && other.switches > 0);
    let addresses: Vec<u64> = together.map(|(one, _)| one.address).collect();
    if addresses.is_empty() {
        skip("the two threads never waited for the same page");
        return;
    }
    if !run.tier.knows(Knows::Latency) {
        return;
    }
    let mut anothers = 0;
    for address in addresses {
        let at = |phase| {
            let rows = run.rows_of(phase);
            rows.into_iter().find(|row| row.address == address).unwrap().clone()
        };
        let (one, other) = (at(one), at(other));
        if run.misses_switches() && (one.waited.is_none() || other.waited.is_none()) {
            continue;
        }
        for row in [&one, &other] {
            assert_eq!(row.waited, Some(true), "{row:?}");
            assert!(
                row.disk_ns > Some(0) || row.other_read_ns > Some(0),
                "it is unknown what this fault waited for: {row:?}"
            );
        }
        assert!(
            one.disk_ns > Some(0) || other.disk_ns > Some(0),
            "neither thread read the page: {one:?}\n{other:?}"
        );
        anothers += usize::from(one.other_read_ns > Some(0) || other.other_read_ns > Some(0));
    }
    assert!(anothers > 0, "neither thread ever waited for the other's read");
}
