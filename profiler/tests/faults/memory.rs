//! Memory that belongs to no file on a disk: anonymous, zero pages, shared, huge pages, copied after fork, supplied by the program itself.

use crate::run::judged;
use crate::tier::{Knows, Tier, in_each_tier};

in_each_tier!(
    fresh_pages,
    zeros_then_a_write,
    shared_anonymous_memory,
    a_memfd,
    a_transparent_huge_page,
    a_reserved_huge_page,
    copies_after_fork,
    pages_that_the_program_supplies,
);

fn fresh_pages(tier: Tier) {
    judged(tier, "anon", &["anonymous"]);
}

fn zeros_then_a_write(tier: Tier) {
    judged(tier, "anon", &["zero"]);
}

fn shared_anonymous_memory(tier: Tier) {
    judged(tier, "anon", &["shared"]);
}

fn a_memfd(tier: Tier) {
    judged(tier, "anon", &["memfd"]);
}

/// Expects one fault for all pages.
fn a_transparent_huge_page(tier: Tier) {
    if let Some(run) = judged(tier, "anon", &["thp"]) {
        assert_eq!(run.only_rows().1.len(), 1);
    }
}

fn a_reserved_huge_page(tier: Tier) {
    if let Some(run) = judged(tier, "anon", &["hugetlb"]) {
        assert_eq!(run.only_rows().1.len(), 1);
    }
}

fn copies_after_fork(tier: Tier) {
    let Some(run) = judged(tier, "forked", &[]) else { return };
    let [parent, child] = ["parent", "child"].map(|name| run.said.phase(name));
    assert_ne!(parent.pid, child.pid);
    assert_eq!(parent.base, child.base, "both processes use the same address");
    let written = |row: &&&crate::rows::Row| row.access == "write";
    assert_eq!(
        run.rows_of(child).len(),
        16,
        "the second round of writes is the child's own"
    );
    if run.tier.knows(Knows::Access) {
        assert_eq!(run.rows_of(parent).iter().filter(written).count(), 64);
    }
}

fn pages_that_the_program_supplies(tier: Tier) {
    let Some(run) = judged(tier, "uffd", &[]) else { return };
    let slept = run.said.number("sleep_ns");
    let (_, rows) = run.only_rows();
    for row in rows.iter().filter(|_| tier.knows(Knows::Latency)) {
        assert!(row.latency_ns.is_some_and(|time| time >= slept), "{row:?}");
        // The thread that supplies the page may already sleep when the waiting thread gives up its CPU, more so on a slow machine.
        assert!(row.blocked_ns.is_some_and(|time| time >= slept / 2), "{row:?}");
        assert_eq!(
            row.waited,
            Some(false),
            "neither a disk nor another thread's read is involved: {row:?}"
        );
    }
}
