//! Proves `ngmi order`: lld relinks a library of 2,000 badly ordered functions with the list; faults match the
//! prediction, reads halve.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

#[path = "order/disk.rs"]
mod disk;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use disk::Disk;
use serde_json::Value;

const FUNCTIONS: usize = 2000;
/// One in this many functions runs, spread so that no page contains two.
const SPREAD: usize = 5;
const FILES: usize = 4;

/// Functions in the order of their calls: every fifth, in a mixed order.
fn calls() -> Vec<usize> {
    let used = FUNCTIONS / SPREAD;
    // 7 and 400 have no common divisor: each occurs once.
    (0..used).map(|at| (at * 7 % used) * SPREAD).collect()
}

/// 1,200 to 2,400 bytes, all of which are executed.
fn size(function: usize) -> usize {
    1200 + function * 37 % 1200
}

/// The library's sources: neighbours in the file are neighbours in the library.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let per_file = FUNCTIONS / FILES;
    let mut files: Vec<PathBuf> = (0..FILES)
        .map(|part| {
            let mut text = String::new();
            for function in part * per_file..(part + 1) * per_file {
                let size = size(function);
                writeln!(
                    text,
                    "int f{function}(int x) {{ __asm__ volatile(\".skip {size}, 0x90\"); return x * 3 + {function}; }}"
                )
                .unwrap();
            }
            write(folder, &format!("part{part}.c"), &text)
        })
        .collect();
    let mut run = String::new();
    for function in calls() {
        writeln!(run, "int f{function}(int);").unwrap();
    }
    run.push_str("int run(int x) {\n");
    for function in calls() {
        writeln!(run, "x = f{function}(x);").unwrap();
    }
    run.push_str("return x; }\n");
    files.push(write(folder, "run.c", &run));
    files
}

/// Loads the library, drops its code from memory and from the page cache, and runs. It first reads the file page by
/// page: the kernel puts read-ahead into large folios, and a partly mapped folio can't be dropped.
const MAIN: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static int cold(struct dl_phdr_info *info, size_t size, void *name) {
    if (!strstr(info->dlpi_name, name)) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        char *begin = (char *)((info->dlpi_addr + part->p_vaddr) & ~4095ul);
        size_t bytes = (char *)(info->dlpi_addr + part->p_vaddr + part->p_memsz) - begin;
        madvise(begin, bytes, MADV_DONTNEED);
    }
    return 1;
}
int main(int count, char **words) {
    int file = open(words[1], O_RDONLY);
    fdatasync(file);
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    char page[4096];
    for (long at = 0; pread(file, page, sizeof page, at) > 0; at += sizeof page);
    void *library = dlopen(words[1], RTLD_NOW);
    if (!library) { puts(dlerror()); return 2; }
    int (*run)(int) = (int (*)(int))dlsym(library, "run");
    dl_iterate_phdr(cold, strrchr(words[1], '/') + 1);
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    printf("%d\n", run(count));
    return 0;
}
"#;

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}

#[track_caller]
fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

fn link(folder: &Path, objects: &[PathBuf], name: &str, more: &[String]) -> PathBuf {
    let library = folder.join(name);
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-fuse-ld=lld", "-Wl,--build-id", "-o"])
        .arg(&library);
    succeed(gcc.args(objects).args(more));
    library
}

fn ngmi(subcommand: &str) -> Command {
    let mut ngmi = Command::new(env!("CARGO_BIN_EXE_ngmi"));
    ngmi.arg(subcommand);
    ngmi
}

/// What the kernel did for a library's code, as recorded.
struct Seen {
    log: PathBuf,
    pages: BTreeSet<u64>,
    reads: usize,
    bytes: u64,
    /// The first ten lines of the summary and of `ngmi faults`.
    first_lines: [String; 2],
}

/// Records a run; `None` if this machine can't record.
fn record(program: &Path, library: &Path) -> Option<Seen> {
    let log = library.with_extension("log");
    let output = ngmi("record")
        .args([
            "--save-only",
            "--block",
            "off",
            "--off-cpu",
            "off",
            "--max-overhead",
            "off",
            "-o",
        ])
        .arg(library.with_extension("json.gz"))
        .arg("--keep-events")
        .arg(&log)
        .arg("--")
        .args([program, library])
        .output()
        .unwrap();
    if output.status.code() == Some(125) {
        println!(
            "skipped: this machine can't record: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        return None;
    }
    let first_lines = |output: &Output| {
        let text = [&output.stdout[..], &output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let said = text.lines().filter(|line| line.parse::<i32>().is_err());
        said.take(10).collect::<Vec<_>>().join("\n")
    };
    let summary = first_lines(&output);
    let faults = first_lines(&succeed(ngmi("faults").arg(&log)));
    let name = library.file_name().unwrap().to_str().unwrap();
    let rows = succeed(ngmi("faults").arg(&log).args(["--file", name, "--ndjson"])).stdout;
    let mut seen = Seen {
        log,
        pages: BTreeSet::new(),
        reads: 0,
        bytes: 0,
        first_lines: [summary, faults],
    };
    for row in String::from_utf8(rows).unwrap().lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        if row["section"] != ".text" {
            continue;
        }
        seen.pages.insert(row["offset"].as_u64().unwrap() / 4096);
        let read = row["pages_read"].as_u64().unwrap_or(0);
        seen.reads += usize::from(read > 0);
        seen.bytes += read * 4096;
    }
    Some(seen)
}

fn tools() -> bool {
    for tool in ["gcc", "ld.lld"] {
        if Command::new(tool).arg("--version").output().is_err() {
            println!("skipped: no {tool}; apt-get install gcc lld");
            return false;
        }
    }
    if !nix::unistd::Uid::effective().is_root() {
        println!("skipped: recording needs root");
        return false;
    }
    true
}

#[test]
fn a_bad_order_improves_as_predicted() {
    if !tools() {
        return;
    }
    // On most machines /tmp is in memory.
    let folder = tempfile::Builder::new()
        .prefix("order-")
        .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        .unwrap();
    let Some(disk) = Disk::new(folder.path()) else {
        return;
    };
    let folder = &*disk.folder;
    let objects: Vec<PathBuf> = (sources(folder).iter())
        .map(|source| {
            let object = source.with_extension("o");
            let flags = ["-O1", "-fPIC", "-ffunction-sections", "-fvisibility=hidden", "-c", "-o"];
            let visible = if source.ends_with("run.c") {
                "-fvisibility=default"
            } else {
                "-O1"
            };
            succeed(Command::new("gcc").args(flags).arg(&object).arg(visible).arg(source));
            object
        })
        .collect();
    let program = folder.join("program");
    let main = write(folder, "main.c", MAIN);
    succeed(Command::new("gcc").arg("-o").arg(&program).arg(main).arg("-ldl"));

    let bad = link(folder, &objects, "libbad.so", &[]);
    let Some(before) = record(&program, &bad) else {
        return;
    };
    let list = folder.join("order");
    let output = succeed(
        ngmi("order")
            .arg(&before.log)
            .arg("--file")
            .arg(&bad)
            .arg("-o")
            .arg(&list)
            .arg("--json"),
    );
    let prediction: Value = serde_json::from_slice(&output.stdout).unwrap();

    // Every function that ran is in the list, in the order of the runs.
    let text = fs::read_to_string(&list).unwrap();
    let ours: Vec<&str> = text
        .lines()
        .filter(|name| name.starts_with('f') && name[1..].parse::<u32>().is_ok())
        .collect();
    let expected: Vec<String> = calls().iter().map(|function| format!("f{function}")).collect();
    assert_eq!(ours, expected);
    assert!(text.lines().any(|name| name == "run"));

    // The finding is visible to a user who only reads the end of the recording, or its faults.
    for text in &before.first_lines {
        let line = text.lines().find(|line| line.starts_with("scatter:"));
        let line = line.unwrap_or_else(|| panic!("{text}"));
        assert!(line.contains("libbad.so") && line.contains("ngmi order"), "{text}");
    }

    // Today's pages are known exactly: the model must match them, apart from what it leaves out.
    let number = |of: &str, key: &str| prediction[of][key].as_u64().unwrap();
    within_15_percent("pages today", number("today", "pages"), before.pages.len());

    gold_takes_its_list(folder, &objects, &bad, &before.log);
    let option = format!("-Wl,--symbol-ordering-file={}", list.display());
    let good = link(
        folder,
        &objects,
        "libgood.so",
        &[option, "-Wl,--no-warn-symbol-ordering".to_owned()],
    );
    let Some(after) = record(&program, &good) else {
        return;
    };
    println!(
        "pages: {} before, {} after, {} predicted; reads: {} and {}, {} and {} bytes",
        before.pages.len(),
        after.pages.len(),
        number("ordered", "pages"),
        before.reads,
        after.reads,
        before.bytes,
        after.bytes
    );
    within_15_percent("pages in the new order", number("ordered", "pages"), after.pages.len());
    assert!(after.pages.len() < before.pages.len());
    for text in &after.first_lines {
        assert!(!text.contains("scatter:"), "{text}");
    }
    if before.reads * 2 < before.pages.len() {
        println!(
            "skipped: this file system reads more than is touched, or kept the file in memory: reads can't be judged"
        );
        return;
    }
    assert!(
        after.reads * 2 <= before.reads,
        "{} reads before, {} after",
        before.reads,
        after.reads
    );
    assert!(after.bytes * 2 <= before.bytes);
}

/// gold, if installed, places the functions that ran one after another, in the order of their calls.
fn gold_takes_its_list(folder: &Path, objects: &[PathBuf], library: &Path, log: &Path) {
    if Command::new("ld.gold").arg("--version").output().is_err() {
        println!("skipped: no ld.gold; apt-get install binutils");
        return;
    }
    let list = folder.join("order.gold");
    let order = ["--format", "gold", "--file"];
    succeed(ngmi("order").arg(log).args(order).arg(library).arg("-o").arg(&list));
    let linked = folder.join("libgold.so");
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-fuse-ld=gold", "-o"]).arg(&linked).args(objects);
    succeed(gcc.arg(format!("-Wl,--section-ordering-file={}", list.display())));
    let symbols = succeed(Command::new("nm").args(["-n", "--defined-only"]).arg(&linked)).stdout;
    let names = String::from_utf8(symbols).unwrap();
    let names = names
        .lines()
        .filter_map(|line| line.split(' ').nth(2))
        .map(str::to_owned);
    let ours: Vec<String> = names
        .filter(|name| {
            name.strip_prefix('f')
                .is_some_and(|number| number.parse::<u32>().is_ok())
        })
        .collect();
    let expected: Vec<String> = calls().iter().map(|function| format!("f{function}")).collect();
    let first = ours.iter().position(|name| *name == expected[0]).unwrap();
    assert_eq!(ours.get(first..first + expected.len()), Some(&*expected));
}

#[track_caller]
fn within_15_percent(what: &str, predicted: u64, seen: usize) {
    let seen = seen as u64;
    assert!(
        predicted.abs_diff(seen) * 100 <= seen * 15,
        "{what}: {predicted} predicted, {seen} seen"
    );
}

#[test]
fn invalid_recordings_and_unknown_files_are_reported() {
    let output = ngmi("order").args(["/etc/passwd", "--file", "x"]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("neither a profile nor an event log"), "{error}");
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/small.log");
    let output = ngmi("order").args([log, "--file", "no-such-file"]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("no file of the recording is called `no-such-file`"),
        "{error}"
    );
}
