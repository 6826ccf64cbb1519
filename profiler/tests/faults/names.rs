//! The identity and the name of a mapped file, in cases in which they are not obvious.

use crate::run::{Run, judged};
use crate::tier::{Tier, in_each_tier};

in_each_tier!(
    one_file_of_two_names,
    a_file_that_is_gone,
    a_file_whose_name_another_took,
    a_mapping_that_moved,
    a_bind_mount,
    an_overlay,
);

fn names(tier: Tier, mode: &str) -> Option<Run> {
    judged(tier, "names", &[mode])
}

fn one_file_of_two_names(tier: Tier) {
    let Some(run) = names(tier, "link") else { return };
    let [one, other] = ["link", "link too"].map(|name| run.rows_of(run.said.phase(name))[0].clone());
    assert_ne!(one.file, other.file);
    assert_eq!((&one.device, one.inode), (&other.device, other.inode));
}

fn a_file_that_is_gone(tier: Tier) {
    names(tier, "deleted");
}

fn a_file_whose_name_another_took(tier: Tier) {
    let Some(run) = names(tier, "replaced") else { return };
    let [old, new] = ["replaced", "replaced, new"].map(|name| run.rows_of(run.said.phase(name))[0].clone());
    assert_eq!(old.path(), new.path());
    assert_ne!(old.inode, new.inode);
}

/// perf emits no record for mremap: the offsets come from the mapping itself.
fn a_mapping_that_moved(tier: Tier) {
    names(tier, "moved");
}

/// The path is the process's view, because only the process sees the mount.
fn a_bind_mount(tier: Tier) {
    names(tier, "bind");
}

fn an_overlay(tier: Tier) {
    names(tier, "overlay");
}
