//! A program with known mappings, alone and with a child: each number is known, and the sums match
//! the kernel's.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::oracle::Oracle;
use super::page::page_size;
use super::{fits_a_terminal, refused, said, skip};

/// The running program, killed when the test ends.
struct Footprint {
    parent: Child,
    child: u32,
    _folder: tempfile::TempDir,
}

impl Footprint {
    fn new(more: &[&str]) -> Self {
        // Not in /tmp, which is in memory on most machines and has another kind of pages.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        // A separate, static copy: another process that maps a page would change this one's share
        // of it.
        let program = Oracle::c_with("footprint.c", "footprint", &["-static"]);
        let program = program.copied(&folder.path().join("footprint")).path;
        // The fresh copy is dirty until it is written to the disk.
        std::fs::File::open(&program).unwrap().sync_all().unwrap();
        let mut command = Command::new(&program);
        let mut parent = command
            .arg(folder.path())
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(parent.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let child = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        Self {
            parent,
            child,
            _folder: folder,
        }
    }

    /// The subcommand's output for these processes, checked against the kernel's sums, once those
    /// are the same before and after. Dirty pages may be written back at any time.
    fn json(&self, more: &[&str], pids: &[u32]) -> Value {
        let pid = self.parent.id().to_string();
        for _ in 0..100 {
            let before = sums(pids);
            let found = serde_json::from_str(&said(&[&[pid.as_str(), "--json"], more].concat())).unwrap();
            if sums(pids) == before {
                check_sums(&found, pids, &before);
                return found;
            }
        }
        panic!("the kernel's sums keep changing");
    }
}

impl Drop for Footprint {
    fn drop(&mut self) {
        self.parent.kill().unwrap();
        self.parent.wait().unwrap();
    }
}

/// Bytes in a field of the kernel's own file.
fn kernel(pid: u32, field: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    let kb: u64 = line
        .trim_start_matches(':')
        .trim()
        .strip_suffix(" kB")
        .unwrap()
        .parse()
        .unwrap();
    kb * 1024
}

/// The kernel's sums over processes, in the order of `FIELDS`.
fn sums(pids: &[u32]) -> Vec<u64> {
    let over_all = |field: &str| pids.iter().map(|pid| kernel(*pid, field)).sum();
    FIELDS.iter().map(|(_, field)| over_all(field)).collect()
}

const FIELDS: [(&str, &str); 7] = [
    ("pss_bytes", "Pss"),
    ("rss_bytes", "Rss"),
    ("shared_clean_bytes", "Shared_Clean"),
    ("shared_dirty_bytes", "Shared_Dirty"),
    ("private_clean_bytes", "Private_Clean"),
    ("private_dirty_bytes", "Private_Dirty"),
    ("swap_bytes", "Swap"),
];

fn sum(rows: &Value, column: &str) -> u64 {
    rows.as_array()
        .unwrap()
        .iter()
        .map(|row| row[column].as_u64().unwrap())
        .sum()
}

/// The table by file, the table by section and the totals equal the kernel's sums for these
/// processes.
fn check_sums(found: &Value, pids: &[u32], sums: &[u64]) {
    assert_eq!(found["changed"].as_array().unwrap().len(), 0);
    for ((column, _), expected) in FIELDS.iter().zip(sums.iter().copied()) {
        assert_eq!(found["totals"][column], expected, "{column}");
        if *column == "pss_bytes" {
            continue;
        }
        for table in ["by_file", "by_section", "by_process"] {
            assert_eq!(sum(&found[table], column), expected, "{table}: {column}");
        }
    }
    let rounding = found["pss_rounding_bytes"].as_u64().unwrap();
    assert_eq!(sum(&found["by_file"], "pss_bytes") + rounding, sums[0]);
    // Less than 1 kB per region.
    let regions: usize = pids
        .iter()
        .map(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/maps"))
                .unwrap()
                .lines()
                .count()
        })
        .sum();
    assert!(rounding < 1024 * regions as u64, "{rounding} of {regions}");
}

/// Pages in the columns of the row for a section of a file.
fn pages<'f>(found: &'f Value, pid: u32, file: &str, section: Option<&str>) -> impl Fn(&str) -> u64 + 'f {
    let is_it = |row: &&Value| {
        row["pid"] == pid && row["section"].as_str() == section && row["file"].as_str().unwrap().contains(file)
    };
    let rows: Vec<&Value> = found["by_section"].as_array().unwrap().iter().filter(is_it).collect();
    assert_eq!(rows.len(), 1, "{file} {section:?}: {found:#}");
    let row = rows[0];
    assert!(row["unknown"].is_null(), "{row}");
    move |column| row[column].as_u64().unwrap() / page_size()
}

#[test]
fn each_page_of_a_lone_program_is_attributed() {
    let program = Footprint::new(&[]);
    let pid = program.parent.id();
    let found = program.json(&[], &[pid]);
    let private = pages(&found, pid, "/private.dat", None);
    assert_eq!(private("rss_bytes"), 100);
    assert_eq!(private("pss_bytes"), 100);
    assert_eq!((private("private_dirty_bytes"), private("anonymous_bytes")), (50, 50));
    assert_eq!(private("private_clean_bytes"), 50);
    let shared = pages(&found, pid, "/shared.dat", None);
    // The kernel may have written any number of them back meanwhile, so only the sum is known.
    assert_eq!(shared("private_clean_bytes") + shared("private_dirty_bytes"), 100);
    assert_eq!(shared("anonymous_bytes"), 0);
    assert_eq!(pages(&found, pid, "/memfd:known", None)("private_dirty_bytes"), 30);
    let known = pages(&found, pid, "/footprint", Some(".known"));
    assert_eq!((known("rss_bytes"), known("private_dirty_bytes")), (64, 10));
    assert_eq!((known("private_clean_bytes"), known("pss_bytes")), (54, 64));
    let code = pages(&found, pid, "/footprint", Some(".text"));
    assert!(code("rss_bytes") >= 1 && code("private_dirty_bytes") == 0);
    let anonymous = pages(&found, pid, "[anonymous]", None);
    // Two huge pages, each as large as what one page of 8-byte entries maps.
    assert!(anonymous("private_dirty_bytes") >= 2 * (page_size() / 8));
}

#[test]
fn a_process_tree_shares_forked_pages() {
    let program = Footprint::new(&["fork"]);
    let pids = [program.parent.id(), program.child];
    let found = program.json(&["--tree"], &pids);
    for pid in pids {
        let private = pages(&found, pid, "/private.dat", None);
        assert_eq!((private("rss_bytes"), private("pss_bytes")), (100, 50));
        assert_eq!((private("shared_dirty_bytes"), private("shared_clean_bytes")), (50, 50));
        let shared = pages(&found, pid, "/shared.dat", None);
        assert_eq!(shared("shared_clean_bytes") + shared("shared_dirty_bytes"), 100);
        assert_eq!(pages(&found, pid, "/memfd:known", None)("shared_dirty_bytes"), 30);
        let known = pages(&found, pid, "/footprint", Some(".known"));
        assert_eq!((known("shared_dirty_bytes"), known("shared_clean_bytes")), (10, 54));
    }
    // Without --tree, only the parent is reported.
    program.json(&[], &pids[..1]);
    let pid = pids[0].to_string();
    let text = said(&[&pid, "--tree", "--top", "1000"]);
    fits_a_terminal(&text);
    assert!(text.contains("footprint") && text.contains(".known"), "{text}");
    let csv = said(&[&pid, "--tree", "--csv"]);
    assert_eq!(csv.lines().count() - 1, found["by_section"].as_array().unwrap().len());
}

/// A program that outlives its recording, killed when the test ends.
struct Outlived(nix::unistd::Pid);

impl Drop for Outlived {
    fn drop(&mut self) {
        let _ = nix::sys::signal::kill(self.0, nix::sys::signal::Signal::SIGKILL);
    }
}

#[test]
fn a_recording_shows_who_touched_present_pages() {
    if let Some(reason) = skip::no_capture() {
        skip::skip(&reason);
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = Oracle::c_with("footprint.c", "footprint", &["-static"]).path;
    let profile = folder.path().join("profile.json");
    let mut record = Command::new(env!("CARGO_BIN_EXE_ngmi"));
    record
        .args(["record", "--save-only", "--duration", "5", "-o"])
        .arg(&profile);
    // The program outlives its recording and would hold a pipe open, so its output goes to a file.
    let out = folder.path().join("out");
    record
        .stdout(std::fs::File::create(&out).unwrap())
        .stderr(Stdio::null());
    let status = record.arg("--").arg(program).arg(folder.path()).status().unwrap();
    let Some(pid) = std::fs::read_to_string(&out)
        .unwrap()
        .split_whitespace()
        .next()
        .map(str::to_owned)
    else {
        let why = format!("the program did not run during its recording, which ended with {status}");
        skip::skip(&why);
        return;
    };
    let _program = Outlived(nix::unistd::Pid::from_raw(pid.parse().unwrap()));
    let found: Value = serde_json::from_str(&said(&[&pid, "--json", "--with", profile.to_str().unwrap()])).unwrap();
    let rows = found["by_section"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["file"].as_str().unwrap().ends_with("/private.dat"))
        .unwrap();
    // Reads map surrounding pages too; each written page has its own fault.
    assert!(row["touched_bytes"].as_u64().unwrap() >= 50 * page_size(), "{row}");
    let by: Vec<&str> = row["touched_by"]
        .as_array()
        .unwrap()
        .iter()
        .map(|by| by["function"].as_str().unwrap())
        .collect();
    assert!(
        !by.is_empty() && by.iter().all(|by| ["read_all", "write_some"].contains(by)),
        "{row}"
    );
}

#[test]
fn our_own_pages_are_shown_without_root() {
    // A process may read its own page table.
    let found: Value = serde_json::from_str(&said(&[&std::process::id().to_string(), "--json"])).unwrap();
    assert!(found["totals"]["rss_bytes"].as_u64() > Some(0));
    let sections = found["by_section"].as_array().unwrap().iter();
    assert!(
        sections.filter(|row| row["section"] == ".text").count() > 1,
        "{found:#}"
    );
}

#[test]
fn processes_without_memory_are_reported() {
    let gone = u32::MAX.to_string();
    assert!(refused(&[&gone]).contains("no such process"));
    // kthreadd, where it is visible.
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        assert!(refused(&["2"]).contains("kernel thread"));
    }
}
