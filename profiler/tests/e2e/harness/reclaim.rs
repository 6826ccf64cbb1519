//! Pages that the kernel reclaims: low memory or a dropped cache may remove any file page at any time.

use std::collections::BTreeMap;

/// The counters of `/proc/vmstat` that change when pages are removed from memory.
const COUNTERS: [&str; 4] = ["pgsteal_", "drop_pagecache", "balloon_inflate", "pginodesteal"];
/// Number of attempts before missing pages are a failure.
const ATTEMPTS: u32 = 5;

fn counters() -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string("/proc/vmstat").unwrap();
    let counted = text.lines().filter_map(|line| line.split_once(' '));
    counted
        .filter(|(name, _)| COUNTERS.iter().any(|counter| name.starts_with(counter)))
        .map(|(name, count)| (name.to_owned(), count.parse().unwrap()))
        .collect()
}

/// Asserts that `look` finds `expected` pages in memory, in one of a few attempts. If no attempt succeeds but the kernel
/// reclaimed pages during each, returns the reason to skip the test.
#[track_caller]
pub fn expect_pages(expected: u64, mut look: impl FnMut() -> (u64, String)) -> Result<(), String> {
    let mut always_taken = true;
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        let before = counters();
        let (pages, said) = look();
        if pages == expected {
            return Ok(());
        }
        let after = counters();
        always_taken &= before != after;
        last = format!("{pages} of {expected} pages are in memory; before {before:?}, after {after:?}: {said}");
        eprintln!("{last}");
    }
    assert!(always_taken, "{last}");
    Err(format!(
        "the kernel reclaimed pages while they were counted, in each of {ATTEMPTS} attempts"
    ))
}
