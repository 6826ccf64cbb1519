//! `--faults auto`: sums are those of the kernel, and the shares of functions are estimated without bias.

use serde::Deserialize;

use crate::emulated::is_emulated;
use crate::harness::{Ngmi, Oracle, skip};
use crate::rows::Account;
use crate::run::{ndjson, recorder, rows, scratch, tables};
use crate::tier::{Tier, in_each_tier};

in_each_tier!(
    writes_of_two_functions,
    writes_while_others_map,
    all_of_them_above_the_limit_of_cost
);

/// What the oracle knows, in pages.
#[derive(Debug, Deserialize)]
struct Written {
    many: u64,
    few: u64,
    copied_many: u64,
    copied_few: u64,
    file: u64,
}

/// The columns of a row that matter here.
#[derive(Debug, Deserialize)]
struct Row {
    class: String,
    function: Option<String>,
    represents: u64,
    latency_ns: Option<u64>,
    represented_ns: u64,
}

/// Sums of the rows that a filter takes: faults, rows, and the variance of the number of faults.
fn sums<'r>(rows: impl Iterator<Item = &'r Row>) -> (u64, usize, f64) {
    rows.fold((0, 0, 0.0), |(faults, count, variance), row| {
        let weight = row.represents as f64;
        (faults + row.represents, count + 1, variance + weight * (weight - 1.0))
    })
}

fn writes_of_two_functions(tier: Tier) {
    let folder = scratch();
    let outcome = recorder(tier, "auto")
        .program(Oracle::c("faults/represented"), [folder.path()])
        .run();
    outcome.expect_code(0);
    let written: Written = serde_json::from_str(&outcome.stdout).unwrap();
    for file in ["log", "out.json.gz"].map(|name| outcome.file(name)) {
        for account in tables(&file).accounts {
            account.expect_closed();
            assert_eq!(account.lost, 0, "{account:?}");
        }
        let text = ndjson(&file, &[]);
        let rows: Vec<Row> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        expect(tier, &written, &rows);
    }
}

/// The mapping of a fault is known although the lock of the address space is mostly taken: otherwise each would be recorded.
fn writes_while_others_map(tier: Tier) {
    let outcome = recorder(tier, "auto")
        .program(Oracle::c("faults/mappers"), ["8", "4000"])
        .run();
    outcome.expect_code(0);
    let log = outcome.file("log");
    tables(&log).accounts.iter().for_each(Account::expect_closed);
    let text = ndjson(&log, &[]);
    let rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let (faults, count, _) = sums(rows.collect::<Vec<Row>>().iter());
    assert!(faults >= 8 * 4000, "{faults} faults");
    if tier != Tier::Perf {
        assert!(count as u64 * 2 < faults, "{count} of {faults} faults were recorded");
    }
}

/// Above the limit, callers are left out, and nothing else.
fn all_of_them_above_the_limit_of_cost(tier: Tier) {
    let folder = scratch();
    let outcome = Ngmi::limited("0.01%")
        .args(["--faults", "all", "--fault-source", tier.name()])
        .args(["--keep-events", "log", "--self-account", "--json"])
        .program(Oracle::c("faults/represented"), [folder.path()])
        .run();
    outcome.expect_code(0);
    let (written, summary) = outcome.stdout.split_once('\n').unwrap();
    let written: Written = serde_json::from_str(written).unwrap();
    let summary: serde_json::Value = serde_json::from_str(summary).unwrap();
    if summary["cost"]["programs"].is_null() {
        skip::skip("the kernel does not measure the time in eBPF programs here");
        return;
    }
    let thinned = summary["faults"]["stacks"]["thinned"].as_u64().unwrap();
    for file in ["log", "out.json.gz"].map(|name| outcome.file(name)) {
        let accounts = tables(&file).accounts;
        accounts.iter().for_each(Account::expect_closed);
        if accounts.iter().any(|account| account.lost > 0) {
            skip::skip("the ring was full, and the faults that it lost are counted");
            return;
        }
        let rows = rows(&file, &[]);
        let of = |name| rows.iter().filter(|row| row.function.as_deref() == Some(name)).count() as u64;
        assert_eq!(
            (of("write_often"), of("write_seldom")),
            (written.many + written.copied_many, written.few + written.copied_few),
            "the innermost function is known of each"
        );
        let without_callers = rows.iter().filter(|row| row.stack_complete == Some(false)).count() as u64;
        if tier == Tier::Perf {
            assert_eq!(thinned, 0, "here it is unknown which faults were short");
        } else {
            assert!(
                thinned > 0 && without_callers >= thinned,
                "{without_callers} rows: {summary}"
            );
        }
    }
}

fn expect(tier: Tier, written: &Written, rows: &[Row]) {
    let copies = rows
        .iter()
        .filter(|row| row.class == "file-cow" && row.function.as_deref() == Some("main"));
    let copies: Vec<&Row> = copies.collect();
    if tier != Tier::Perf {
        assert_eq!(
            copies.len() as u64,
            written.file,
            "each copy of a file's page is recorded"
        );
        assert!(copies.iter().all(|row| row.represents == 1), "{copies:?}");
        expect_class("anonymous", written.many, written.few, rows);
        expect_class("cow", written.copied_many, written.copied_few, rows);
        let times = rows.iter().map(|row| (row.latency_ns.unwrap_or(0), row.represented_ns));
        assert!(times.into_iter().all(|(own, sum)| own <= sum), "{rows:?}");
        return;
    }
    assert!(rows.iter().all(|row| row.represents == 1), "the access is unknown here");
    let of = |name| rows.iter().filter(|row| row.function.as_deref() == Some(name)).count() as u64;
    assert_eq!(
        (of("write_often"), of("write_seldom")),
        (written.many + written.copied_many, written.few + written.copied_few)
    );
}

/// Judges the rows of a class: `write_often` caused `many` of its faults, `write_seldom` `few`.
fn expect_class(class: &str, many: u64, few: u64, rows: &[Row]) {
    let of = |name: Option<&'static str>| {
        let rows = rows.iter().filter(move |row| row.class == class);
        sums(rows.filter(move |row| row.function.as_deref() == name))
    };
    let (often, seldom) = (of(Some("write_often")), of(Some("write_seldom")));
    // Everything else in these functions is the rest of a thread, which has no stack.
    let rest = of(None);
    let (all, count) = (often.0 + seldom.0, often.1 + seldom.1);
    assert!(
        all <= many + few && many + few <= all + rest.0,
        "{class}: {many}, {few}; {often:?}, {seldom:?}, {rest:?}"
    );
    // There each takes so long that it is recorded in any case.
    assert!(
        is_emulated() || (count as u64) < (many + few) / 4,
        "{class}: most are represented: {count} rows"
    );
    // Five standard deviations: once in two million runs.
    let expected = all as f64 * many as f64 / (many + few) as f64;
    let error = 5.0 * (often.2 + seldom.2).sqrt() / 2.0 + 1.0;
    assert!(
        (often.0 as f64 - expected).abs() < error,
        "{class}: {often:?} of {all}, not {expected} ± {error}"
    );
}
