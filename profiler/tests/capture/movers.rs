//! Members of cgroups that move between them, alone and among many births: what was recorded is what belongs.

mod check;
mod notes;

use std::process::Command;

use profiler::capture::proc::selection::Conditions;

use crate::births::{self, Breeder};
use crate::harness::{compile, record, skipped};
use crate::selections::{Cgroups, asked, conditions};
use check::Moved;
use notes::Notes;

const PROGRAM: &str = include_str!("movers.c");
/// The program's cgroups, of which the last is outside all others.
const FOLDERS: [&str; 6] = ["a", "a/b", "a/b/d", "c", "c/n", "z"];
/// Maximum number of recordings, since other programs may disturb one.
const ATTEMPTS: usize = 4;

/// Records the program in cgroups of which some are chosen and some excluded, by their place in [`FOLDERS`], until its CPU times are the
/// kernel's: other recorders on this machine delay what this one sees of a switch, or hide one as they end.
fn check(words: &[&str], chosen: &[usize], excluded: &[usize], around: impl Fn(&Cgroups, &mut dyn FnMut())) {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "movers", PROGRAM, &["-O1"]);
    let belongs = |place: i32| {
        let is_in = |places: &[usize]| {
            let name = usize::try_from(place).map(|place| FOLDERS[place]);
            let is_below = |above: &str| name.is_ok_and(|name| name == above || name.starts_with(&format!("{above}/")));
            places.iter().any(|&one| is_below(FOLDERS[one]))
        };
        is_in(chosen) && !is_in(excluded)
    };
    let mut disturbed = Vec::new();
    for _ in 0..ATTEMPTS {
        let Some(cgroups) = Cgroups::new(&FOLDERS) else { return };
        let of = |places: &[usize]| -> Conditions {
            let paths = places.iter().map(|&place| cgroups.folder(place + 1).to_owned());
            conditions(|one| one.cgroups = paths.collect())
        };
        let mut output = Vec::new();
        let mut run = || {
            let folders = (1..=FOLDERS.len()).map(|place| cgroups.folder(place));
            let run = Command::new(&program).args(words).args(folders).output().unwrap();
            assert!(run.status.success(), "{run:?}");
            output = run.stdout;
        };
        let recording = record(asked(of(chosen), of(excluded)), || around(&cgroups, &mut run));
        let moved = Moved {
            recording,
            notes: Notes::parse(&output),
            asleep: words[0] == "asleep",
        };
        disturbed = moved.check(belongs);
        if disturbed.is_empty() {
            return;
        }
    }
    println!("skipped: each of {ATTEMPTS} recordings was disturbed: {disturbed:#?}");
}

fn alone(_: &Cgroups, run: &mut dyn FnMut()) {
    run();
}

#[test]
fn three_groups_that_move_between_cgroups() {
    check(&["60"], &[0], &[], alone);
}

#[test]
fn three_groups_and_an_excluded_cgroup() {
    check(&["60"], &[0, 4], &[1], alone);
}

/// The sleep in which they are moved belongs to the cgroup in which it ends.
#[test]
fn members_that_another_process_moves_while_they_sleep() {
    check(&["asleep", "40"], &[0], &[], alone);
}

#[test]
fn three_groups_among_many_births() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = Breeder::program(folder.path());
    check(&["30"], &[0], &[], |cgroups, run| {
        // Next to the recorded cgroup, and outside.
        let breeders = [(0, 4), (1, 6)].map(|(cpu, place)| Breeder::start(&program, cpu, cgroups.folder(place)));
        run();
        let born = breeders.map(Breeder::stop);
        println!("{} births a second next to the cgroup", births::rate(&born));
    });
}
