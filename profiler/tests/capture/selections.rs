//! Scopes by what a thread is: groups of processes that move between sibling and nested cgroups, change their names, users and
//! programs, and know which of their pages they touched where.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use profiler::capture::proc::cgroups;
use profiler::capture::proc::selection::{Conditions, Selection};
use profiler::event::Event;

use crate::harness::{Asked, Recording, compile, record, selected, skipped};
use crate::overlay::Overlay;
use crate::page::page_size;

/// Touches pages at an address of its own in each phase, and prints process, phase, address and pages.
///
/// `move FOLDER...`: in each of 60 phases it first moves to one of the folders. `born COUNT FOLDER...`: children, each of which moves and
/// touches a page. `name`, `user`, `exec`: half of the phases with another name, user or program.
pub const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
static void touch(int phase, unsigned long number, int pages) {
    char *at = (char *)(0x100000000000 + number * 0x1000000);
    char *memory = mmap(at, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory != at) _exit(3);
    madvise(memory, pages * PAGE, MADV_NOHUGEPAGE);
    for (int i = 0; i < pages; i++) memory[i * PAGE] = 1;
    char line[100];
    int len = snprintf(line, sizeof line, "%d %d %lu %d\n", getpid(), phase, (unsigned long)at, pages);
    if (write(1, line, len) != len) _exit(4);
    munmap(memory, pages * PAGE);
}
static void move(const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/cgroup.procs", folder);
    int fd = open(path, O_WRONLY);
    if (fd < 0 || write(fd, "0", 1) != 1) { perror(path); _exit(5); }
    close(fd);
}
int main(int count, char **words) {
    const char *what = words[1];
    if (!strcmp(what, "move"))
        for (int i = 0; i < 60; i++) { move(words[2 + i % (count - 2)]); touch(i % (count - 2), i, 1 + i % 7); }
    if (!strcmp(what, "born"))
        for (int i = 0; i < atoi(words[2]); i++) {
            if (fork() == 0) { move(words[3 + i % (count - 3)]); touch(i % (count - 3), 0, 1); _exit(0); }
            if (i % 8 == 7) while (wait(0) > 0);
        }
    if (!strcmp(what, "name"))
        for (int i = 0; i < 20; i++) { prctl(PR_SET_NAME, i % 2 ? "renamed" : "original"); touch(i % 2, i, 3); }
    if (!strcmp(what, "user"))
        for (int i = 0; i < 20; i++) { if (seteuid(i % 2 ? 54321 : 0)) _exit(6); touch(i % 2, i, 3); }
    if (!strcmp(what, "exec"))
        for (int i = 0; i < 20; i++)
            if (fork() == 0) { touch(0, 0, 2); execl(words[2], words[2], "executed", NULL); _exit(7); }
    if (!strcmp(what, "executed")) touch(1, 1, 3);
    while (wait(0) > 0);
    return 0;
}
"#;

/// Tests run at the same time.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Cgroups of a test, removed at its end.
pub struct Cgroups(Vec<PathBuf>);

impl Cgroups {
    /// Nested and sibling ones, in the hierarchy of version 2; `None`, with a message: there is none.
    pub fn new(names: &[&str]) -> Option<Self> {
        let hierarchies = cgroups::hierarchies().unwrap();
        let Some(mount) = hierarchies.iter().find(|one| one.number == 0).map(|one| &one.mount) else {
            println!("skipped: no hierarchy of cgroups of version 2 is mounted");
            return None;
        };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let root = mount.join(format!("ngmi test {} {number}", std::process::id()));
        let folders = std::iter::once(root.clone()).chain(names.iter().map(|name| root.join(name)));
        let mut made = Self(Vec::new());
        for folder in folders {
            if !folder.exists()
                && let Err(error) = std::fs::create_dir(&folder)
            {
                println!("skipped: cannot create {}: {error}", folder.display());
                return None;
            }
            made.0.push(folder);
        }
        Some(made)
    }

    /// The same with a folder for files; `None`, with a message: this machine can't record, or has none.
    pub fn and_folder(names: &[&str]) -> Option<(Self, tempfile::TempDir)> {
        let made = (!skipped()).then(|| Self::new(names)).flatten()?;
        Some((made, tempfile::tempdir().ok()?))
    }

    pub fn folder(&self, place: usize) -> &str {
        self.0[place].to_str().unwrap()
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        for folder in self.0.iter().rev() {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Removes a cgroup: a process that has ended leaves it a moment later.
pub fn remove(folder: &Path) {
    for _ in 0..100 {
        if std::fs::remove_dir(folder).is_ok() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Pages by process and address: how often a phase touched them, or a recording has them.
type Touched = BTreeMap<(u32, u64), usize>;

/// What the program's phases touched: those that are to be recorded, and the others.
fn touched(output: &[u8], is_recorded: impl Fn(u32) -> bool) -> (Touched, Touched) {
    let (mut recorded, mut others) = (Touched::new(), Touched::new());
    for line in std::str::from_utf8(output).unwrap().lines() {
        let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let [pid, phase, at, pages] = numbers[..] else {
            panic!("{line}")
        };
        let list = if is_recorded(u32::try_from(phase).unwrap()) {
            &mut recorded
        } else {
            &mut others
        };
        for page in 0..pages {
            *list
                .entry((u32::try_from(pid).unwrap(), at + page * page_size()))
                .or_default() += 1;
        }
    }
    (recorded, others)
}

pub fn run(program: &Path, words: &[&str]) -> Vec<u8> {
    let output = Command::new(program).args(words).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// Each page that was touched within the scope is recorded once, and no other.
pub fn check(recording: &Recording, output: &[u8], is_recorded: impl Fn(u32) -> bool) {
    let (expected, others) = touched(output, is_recorded);
    assert!(!expected.is_empty() && !others.is_empty());
    let mut found = Touched::new();
    for event in &recording.events {
        if let Event::Fault(fault) = event
            && (0x1000_0000_0000..0x2000_0000_0000).contains(&fault.address.0)
        {
            *found.entry((fault.at.pid, fault.address.0 & !4095)).or_default() += 1;
        }
    }
    let wrong: Vec<_> = found.keys().filter(|page| !expected.contains_key(page)).collect();
    assert!(wrong.is_empty(), "recorded, although outside the scope: {wrong:x?}");
    let missing: Vec<_> = expected.keys().filter(|page| !found.contains_key(page)).collect();
    assert!(missing.is_empty(), "not recorded: {missing:x?} of {}", expected.len());
    assert_eq!(found, expected);
    assert_eq!(recording.losses(), Vec::<&Event>::new());
}

pub fn conditions(fill: impl FnOnce(&mut Conditions)) -> Conditions {
    let mut conditions = Conditions::default();
    fill(&mut conditions);
    conditions
}

pub fn asked(chosen: Conditions, excluded: Conditions) -> Asked {
    selected(Selection {
        chosen,
        excluded,
        waits: true,
    })
}

#[test]
fn processes_that_move_between_cgroups() {
    let Some((cgroups, folder)) = Cgroups::and_folder(&["a", "a/b", "c", "a/b/d"]) else {
        return;
    };
    let program = compile(folder.path(), "selections", PROGRAM, &["-O1"]);
    let [a, b, c, d] = [1, 2, 3, 4].map(|place| cgroups.folder(place));
    let cgroup = |path: &str| conditions(|one| one.cgroups.push(path.to_owned()));
    let mut output = Vec::new();
    let recording = record(asked(cgroup(a), Conditions::default()), || {
        output = run(&program, &["move", a, c, b, c, d]);
    });
    check(&recording, &output, |phase| phase % 2 == 0);
    assert_eq!(recording.header.scope, "selected");
    let recording = record(asked(cgroup(a), cgroup(b)), || {
        output = run(&program, &["move", a, c, b, c, d]);
    });
    check(&recording, &output, |phase| phase == 0);
}

#[test]
fn a_cgroup_that_is_created_later_and_again() {
    let Some((cgroups, folder)) = Cgroups::and_folder(&["other"]) else {
        return;
    };
    let program = compile(folder.path(), "selections", PROGRAM, &["-O1"]);
    let (root, other) = (cgroups.folder(0), cgroups.folder(1));
    let later = format!("{root}/unit.service");
    let inner = format!("{later}/inner");
    let mut outputs = Vec::new();
    let chosen = conditions(|one| one.cgroups.push(later.clone()));
    let recording = record(asked(chosen, Conditions::default()), || {
        let mut ids = Vec::new();
        for _ in 0..3 {
            std::fs::create_dir(&later).unwrap();
            std::fs::create_dir(&inner).unwrap();
            ids.push(std::fs::metadata(&later).unwrap().ino());
            outputs.extend(run(&program, &["move", &inner, other]));
            for folder in [&inner, &later] {
                remove(folder.as_ref());
            }
        }
        ids.dedup();
        assert_eq!(ids.len(), 3, "the cgroup was not a new one each time");
    });
    check(&recording, &outputs, |phase| phase == 0);
}

/// Cgroups are found by name wherever they are, also those that are created during the recording.
#[test]
fn a_unit_and_a_container() {
    let id = "0123456789abcdef".repeat(4);
    let container = format!("docker-{id}.scope");
    let names = ["x.slice", "x.slice/demo.service", "y.service", container.as_str()];
    let Some((cgroups, folder)) = Cgroups::and_folder(&names) else {
        return;
    };
    let program = compile(folder.path(), "selections", PROGRAM, &["-O1"]);
    let [unit, other, container] = [2, 3, 4].map(|place| cgroups.folder(place));
    let mut output = Vec::new();
    let chosen = conditions(|one| one.units.push("demo".to_owned()));
    let recording = record(asked(chosen, Conditions::default()), || {
        output = run(&program, &["move", unit, other, container]);
        let again = format!("{other}/demo.service");
        std::fs::create_dir(&again).unwrap();
        // Perf events, which are limited to the first one, follow in a moment.
        std::thread::sleep(std::time::Duration::from_millis(20));
        output.extend(run(&program, &["move", &again, other]));
        remove(again.as_ref());
    });
    check(&recording, &output, |phase| phase == 0);
    let chosen = conditions(|one| one.containers.push(id[..12].to_owned()));
    let recording = record(asked(chosen, Conditions::default()), || {
        output = run(&program, &["move", unit, other, container]);
    });
    check(&recording, &output, |phase| phase == 2);
}

#[test]
fn many_births_in_two_cgroups() {
    let Some((cgroups, folder)) = Cgroups::and_folder(&["a", "c"]) else {
        return;
    };
    let program = compile(folder.path(), "selections", PROGRAM, &["-O1"]);
    let (a, c) = (cgroups.folder(1), cgroups.folder(2));
    let mut output = Vec::new();
    let chosen = conditions(|one| one.cgroups.push(a.to_owned()));
    let recording = record(asked(chosen, Conditions::default()), || {
        output = run(&program, &["born", "2000", a, c, c]);
    });
    check(&recording, &output, |phase| phase == 0);
}

#[test]
fn names_and_users_change_while_a_process_runs() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "selections", PROGRAM, &["-O1"]);
    let mut output = Vec::new();
    let names = conditions(|one| one.names.push("ren?m*".to_owned()));
    let recording = record(asked(names.clone(), Conditions::default()), || {
        output = run(&program, &["name"]);
    });
    check(&recording, &output, |phase| phase == 1);
    let users = conditions(|one| one.users.push(54321));
    let recording = record(asked(users.clone(), Conditions::default()), || {
        output = run(&program, &["user"]);
    });
    check(&recording, &output, |phase| phase == 1);
    // Everything that a program does as another user.
    let executes = conditions(|one| one.programs.push(program.to_str().unwrap().to_owned()));
    let recording = record(asked(executes, users), || {
        output = run(&program, &["user"]);
    });
    check(&recording, &output, |phase| phase == 0);
}

#[test]
fn a_program_is_recorded_from_its_exec_on() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "selections", PROGRAM, &["-O1"]);
    let other = folder.path().join("other");
    std::fs::copy(&program, &other).unwrap();
    let chosen = conditions(|one| one.programs.push(other.to_str().unwrap().to_owned()));
    let mut output = Vec::new();
    let recording = record(asked(chosen, Conditions::default()), || {
        output = run(&program, &["exec", other.to_str().unwrap()]);
    });
    check(&recording, &output, |phase| phase == 1);
    let executed = recording
        .events
        .iter()
        .filter(|event| matches!(event, Event::TaskExec(_)));
    assert_eq!(executed.count(), 20);
}

#[test]
fn a_program_in_an_overlay() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "selections", PROGRAM, &["-O1"]);
    let Some(overlay) = Overlay::with(&program) else { return };
    let other = overlay.at("merged/other");
    let chosen = conditions(|one| one.programs.push(other.to_str().unwrap().to_owned()));
    let mut output = Vec::new();
    let recording = record(asked(chosen, Conditions::default()), || {
        output = run(&program, &["exec", other.to_str().unwrap()]);
    });
    check(&recording, &output, |phase| phase == 1);
}

#[test]
fn a_process_with_its_children_but_one_of_them() {
    let Some((cgroups, folder)) = Cgroups::and_folder(&["a", "c"]) else {
        return;
    };
    let program = compile(folder.path(), "selections", PROGRAM, &["-O1"]);
    let (a, c) = (cgroups.folder(1), cgroups.folder(2));
    // This process starts both; the cgroup decides.
    let chosen = conditions(|one| {
        one.pids.push(std::process::id());
        one.cgroups.push(a.to_owned());
    });
    let mut output = Vec::new();
    let recording = record(asked(chosen, Conditions::default()), || {
        output = run(&program, &["born", "100", a, c]);
    });
    // The recorder is this process, which is never recorded, but its children are.
    check(&recording, &output, |phase| phase == 0);
}
