//! Processes that already run below the recorded ones: `-p` records only children born later, so that of a server only
//! its first process is recorded, and none of its workers.

use std::collections::BTreeSet;

use crate::capture::proc::procfs;
use crate::plural::{agreeing, counted};

/// The most descendants that are counted.
const MOST: usize = 1 << 16;

/// The warning that descendants of `pids` are running which are not in `pids`, if any are.
pub fn unrecorded(pids: &[u32]) -> Option<String> {
    let mut left: BTreeSet<u32> = procfs::descendants(pids, MOST).ok()?.into_iter().collect();
    left.retain(|child| !pids.contains(child) && procfs::stat(*child, *child).is_ok_and(|stat| !stat.has_ended));
    for own in ancestry() {
        left.remove(&own);
    }
    let listed = pids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let processes = agreeing(pids.len() as u64, "process");
    let descendants = counted(left.len() as u64, "running descendant");
    let are = if left.len() == 1 { "is" } else { "are" };
    (!left.is_empty()).then(|| {
        format!(
            "{descendants} of {processes} {listed} {are} not recorded; to add its children: -p {listed},$(pgrep -d, -P {listed})"
        )
    })
}

/// This process and its ancestors: a shell that records itself started them.
fn ancestry() -> impl Iterator<Item = u32> {
    std::iter::successors(Some(std::process::id()), |&pid| {
        procfs::stat(pid, pid)
            .ok()
            .map(|stat| stat.parent)
            .filter(|&parent| parent > 1)
    })
}
