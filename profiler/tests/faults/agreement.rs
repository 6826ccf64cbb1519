//! Compares a recording with perf: `perf record -e page-faults -d` inside the recording sees the same addresses.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use crate::harness::{Oracle, skip};
use crate::run::{read, recorder, scratch};
use crate::tier::{Tier, in_each_tier};

in_each_tier!(perf_sees_the_same);

/// Thread id and address of each fault, in order.
fn perf_script(data: &Path) -> Vec<(u32, u64)> {
    let said = Command::new("perf")
        .args(["script", "-F", "tid,addr", "-i"])
        .arg(data)
        .output()
        .unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let tid = words.next()?.parse().ok()?;
        Some((tid, u64::from_str_radix(words.next()?, 16).ok()?))
    };
    String::from_utf8_lossy(&said.stdout).lines().filter_map(line).collect()
}

fn perf_sees_the_same(tier: Tier) {
    if !Command::new("perf")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
    {
        skip::skip("perf is not installed");
        return;
    }
    for (name, mode) in [
        ("cold", "shuffled"),
        ("writes", "private-after-read"),
        ("names", "moved"),
    ] {
        let folder = scratch();
        let data = folder.path().join("perf.data");
        let oracle = Oracle::c(&format!("faults/{name}"));
        let before = ["record", "-q", "-m", "1024", "-e", "page-faults", "-c", "1", "-d", "-o"].map(OsStr::new);
        let after = [
            data.as_os_str(),
            "--".as_ref(),
            oracle.as_ref(),
            mode.as_ref(),
            folder.path().as_os_str(),
        ];
        let outcome = recorder(tier, "all")
            .program("perf", before.into_iter().chain(after))
            .run();
        let Some(run) = read(tier, outcome) else { return };
        run.expect_phases();
        run.expect_accounts();
        let (phase, rows) = run.only_rows();
        let of_phase = |(tid, address): &(u32, u64)| *tid == phase.tid && phase.holds(*address);
        let perfs: Vec<u64> = perf_script(&data)
            .into_iter()
            .filter(of_phase)
            .map(|(_, address)| address)
            .collect();
        let ours: Vec<u64> = rows.iter().map(|row| row.address).collect();
        assert_eq!(ours, perfs, "{name} {mode}");
    }
}
