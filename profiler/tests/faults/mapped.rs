//! Compares what a recording shows of a file's pages with what the kernel mapped, by its pagemap and smaps.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::exact::Around;
use crate::harness::{Ngmi, Oracle, skip};
use crate::run::{recorder, scratch};
use crate::tier::{Tier, in_each_tier};

in_each_tier!(
    each_page_touched,
    part_of_the_file_touched,
    one_file_in_several_threads_and_processes,
    files_in_memory,
    pages_mapped_without_faults,
);
in_each_tier!(alone: other_file_systems, huge_pages_of_a_tmpfs, wide_windows);

const PAGE: u64 = 4096;
/// Pages of each of the oracle's files.
const PAGES: u64 = 2048;

/// What the oracle knows about a file, in pages.
#[derive(Debug, Clone, Deserialize)]
struct Kernel {
    kind: String,
    pattern: String,
    /// Mapped by any of its processes at any time.
    mapped: u64,
    /// Why the kernel did not map it as requested.
    refused: Option<String>,
}

/// The part of `ngmi faults --json` about pages.
#[derive(Debug, Deserialize)]
struct Report {
    pages: Vec<Pages>,
    findings: Vec<Finding>,
}

#[derive(Debug, Default, Clone, Deserialize)]
struct Pages {
    file: String,
    faulted_bytes: u64,
    around_bytes: u64,
    wasted_bytes: Option<u64>,
}

impl Pages {
    fn sums(&self) -> ([u64; 2], Option<u64>) {
        ([self.faulted_bytes, self.around_bytes], self.wasted_bytes)
    }
}

#[derive(Debug, Deserialize)]
struct Finding {
    file: Option<String>,
    cause: String,
}

/// A file as the kernel and the recording (log or profile) show it.
#[derive(Debug)]
struct Reported {
    kernel: Kernel,
    pages: Pages,
    findings: Vec<String>,
}

/// Records the oracle once, with a file of each of these kinds and patterns. `None`: it can't run here, and the test counts as skipped.
fn record(tier: Tier, folder: &Path, files: &[&str]) -> Option<Vec<Reported>> {
    let arguments = [&[folder.to_str().unwrap()], files].concat();
    let outcome = recorder(tier, "all")
        .program(Oracle::c("faults/mapped"), arguments)
        .run();
    outcome.expect_no_panic();
    if let Some((_, reason)) = outcome.stdout.split_once(r#"{"skip":""#) {
        skip::skip(reason.trim_end().trim_end_matches(r#""}"#));
        return None;
    }
    outcome.expect_code(0);
    let (log, profile) = (read(&outcome.file("log")), read(&outcome.file("out.json.gz")));
    let reported = |line: &str| {
        let kernel: Kernel = serde_json::from_str(line).unwrap();
        if let Some(reason) = &kernel.refused {
            skip::skip(reason);
        }
        let sides = [&log, &profile].map(|report| reported_by(report, &kernel));
        let sums = sides.each_ref().map(|reported| reported.pages.sums());
        // A call's read is in the log once its thread does something else, and in the profile when it happened.
        let is_at_once = ["threads", "concurrent"].contains(&kernel.kind.as_str());
        assert!(is_at_once || sums[0] == sums[1], "the log and the profile: {sides:?}");
        sides
    };
    Some(outcome.stdout.lines().flat_map(reported).collect())
}

fn reported_by(report: &Report, kernel: &Kernel) -> Reported {
    let is_it = |path: &str| path.contains(&format!("/mapped-{}-{}-", kernel.kind, kernel.pattern));
    let pages = report.pages.iter().find(|row| is_it(&row.file)).cloned();
    assert!(
        pages.is_some() || is_mapped_unseen(&kernel.kind),
        "{kernel:?}: no row of the file"
    );
    let about_it = |finding: &&Finding| finding.file.as_deref().is_some_and(is_it);
    let findings = report.findings.iter().filter(about_it);
    Reported {
        kernel: kernel.clone(),
        pages: pages.unwrap_or_default(),
        findings: findings.map(|finding| finding.cause.clone()).collect(),
    }
}

fn read(file: &Path) -> Report {
    let outcome = Ngmi::subcommand("faults").arg(file).arg("--json").run();
    outcome.expect_code(0);
    serde_json::from_str(&outcome.stdout).unwrap()
}

/// Whether the kernel maps the pages of this kind for a system call, not for faults.
fn is_mapped_unseen(kind: &str) -> bool {
    ["populate", "advised", "locked"].contains(&kind)
}

/// Asserts that wasted pages were not mapped, and that the mapped pages are those that the kernel shows.
fn expect_equal(tier: Tier, folder: &Path, files: &[&str]) -> Vec<Reported> {
    let reported = record(tier, folder, files).unwrap_or_default();
    for one in &reported {
        let Reported { kernel, pages, .. } = one;
        let unmapped = (PAGES - kernel.mapped) * PAGE;
        assert!(pages.wasted_bytes.is_none_or(|wasted| wasted <= unmapped), "{one:?}");
        let mapped = pages.faulted_bytes + pages.around_bytes;
        // Without `wasted`, faults were lost.
        if is_mapped_unseen(&kernel.kind) && tier != Tier::Fentry || pages.wasted_bytes.is_none() {
            assert!(mapped <= kernel.mapped * PAGE, "{one:?}");
        } else {
            assert_eq!(mapped, kernel.mapped * PAGE, "{one:?}");
        }
    }
    reported
}

fn each_page_touched(tier: Tier) {
    let files = [
        "shared:all",
        "private:all",
        "exec:all",
        "aligned:all",
        "huge:all",
        "nohuge:all",
        "random:all",
        "sequential:all",
        "written:all",
        "copied:all",
        "processes:all",
    ];
    for one in expect_equal(tier, scratch().path(), &files) {
        assert_eq!(one.pages.wasted_bytes.unwrap_or(0), 0, "{one:?}");
        assert!(!one.findings.iter().any(|cause| cause.contains("wasted")), "{one:?}");
    }
}

fn part_of_the_file_touched(tier: Tier) {
    let files = [
        "shared:half",
        "aligned:half",
        "exec:half",
        "processes:half",
        "written:half",
        "copied:half",
        "willneed:half",
        "shared:sparse",
        "private:sparse",
        "exec:sparse",
        "aligned:sparse",
        "huge:sparse",
        "nohuge:sparse",
        "random:sparse",
        "sequential:sparse",
        "written:sparse",
        "copied:sparse",
        "shared:scattered",
        "aligned:scattered",
        "random:scattered",
    ];
    expect_equal(tier, scratch().path(), &files);
}

/// One thread or process maps what another one reads, at the same time.
fn one_file_in_several_threads_and_processes(tier: Tier) {
    let files = [
        "threads:all",
        "threads:half",
        "threads:scattered",
        "concurrent:all",
        "concurrent:half",
        "concurrent:scattered",
    ];
    expect_equal(tier, scratch().path(), &files);
}

/// Nothing is read, so nothing can be wasted.
fn files_in_memory(tier: Tier) {
    let files = [
        "warm:all",
        "warm:half",
        "warm:sparse",
        "warm:scattered",
        "warmhuge:sparse",
        "warmmixed:edges",
    ];
    let memory = tempfile::Builder::new().prefix("faults-").tempdir_in("/dev/shm");
    let folders = [Some(scratch()), memory.ok()];
    for folder in folders.iter().flatten() {
        for one in expect_equal(tier, folder.path(), &files) {
            assert_eq!(one.pages.wasted_bytes.unwrap_or(0), 0, "{one:?}");
        }
    }
}

fn pages_mapped_without_faults(tier: Tier) {
    let files = ["populate:sparse", "locked:sparse", "advised:sparse"];
    expect_equal(tier, scratch().path(), &files);
}

/// A new file system, mounted until it is dropped.
struct Mounted {
    place: PathBuf,
    _folder: tempfile::TempDir,
}

impl Mounted {
    /// Creates it in a file. `None`: this machine can't create or mount one.
    fn in_file(kind: &str) -> Option<Self> {
        let image = |folder: &Path| {
            let image = folder.join("image");
            std::fs::File::create(&image).unwrap().set_len(512 << 20).unwrap();
            let mut make = Command::new(format!("mkfs.{kind}"));
            (ends_well(make.arg(&image))).then(|| vec!["-o".into(), "loop".into(), image.into_os_string()])
        };
        Self::new(kind, image)
    }

    fn new(what: &str, arguments: impl FnOnce(&Path) -> Option<Vec<OsString>>) -> Option<Self> {
        let folder = scratch();
        let place = folder.path().join("mnt");
        std::fs::create_dir(&place).unwrap();
        let arguments = arguments(folder.path());
        if !arguments.is_some_and(|arguments| ends_well(Command::new("mount").args(arguments).arg(&place))) {
            skip::skip(&format!("no {what} can be created and mounted here"));
            return None;
        }
        Some(Self { place, _folder: folder })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.place).status();
    }
}

fn ends_well(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

fn other_file_systems(tier: Tier) {
    let files = [
        "shared:all",
        "aligned:sparse",
        "exec:half",
        "threads:half",
        "huge:scattered",
        "warmmixed:edges",
    ];
    for kind in ["ext4", "xfs", "btrfs"] {
        if let Some(mounted) = Mounted::in_file(kind) {
            expect_equal(tier, &mounted.place, &files);
        }
    }
}

/// The kernel maps up to 1 MiB around a fault.
fn wide_windows(tier: Tier) {
    let files = ["shared:sparse", "aligned:scattered", "exec:half", "warm:sparse"];
    if let Some(_around) = Around::set(1 << 20) {
        expect_equal(tier, scratch().path(), &files);
    }
}

fn huge_pages_of_a_tmpfs(tier: Tier) {
    let arguments = ["-t", "tmpfs", "-o", "huge=always", "tmpfs"].map(OsString::from);
    let Some(mounted) = Mounted::new("tmpfs of huge pages", |_| Some(arguments.to_vec())) else {
        return;
    };
    for one in expect_equal(tier, &mounted.place, &["warm:half", "warmhuge:half", "warmhuge:sparse"]) {
        assert_eq!(one.pages.wasted_bytes.unwrap_or(0), 0, "{one:?}");
    }
}
