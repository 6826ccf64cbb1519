//! Compares what a recording reports about a file's pages with what the kernel mapped according to pagemap and smaps.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::harness::{Ngmi, Oracle, skip};
use crate::run::{recorder, scratch};
use crate::tier::{Tier, in_each_tier};

in_each_tier!(
    each_page_touched,
    half_of_the_file_touched,
    one_page_in_64_touched,
    pages_mapped_without_faults,
);
in_each_tier!(alone: other_file_systems);

const PAGE: u64 = 4096;
/// Pages of the oracle's file.
const PAGES: u64 = 4096;

/// The oracle's output, in pages.
#[derive(Debug, Deserialize)]
struct Kernel {
    /// Pages that any of its processes has mapped.
    mapped: u64,
}

/// The part of `ngmi faults --json` about pages.
#[derive(Debug, Deserialize)]
struct Report {
    pages: Vec<Pages>,
    findings: Vec<Finding>,
}

#[derive(Debug, Default, Deserialize)]
struct Pages {
    file: String,
    faulted_bytes: u64,
    around_bytes: u64,
    maybe_around_bytes: u64,
    wasted_bytes: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Finding {
    file: Option<String>,
    cause: String,
}

/// Records the oracle. `None` if the oracle or the tier cannot run here; the test then counts as skipped.
fn report(tier: Tier, (kind, pattern): (&str, &str), folder: &Path) -> Option<(Kernel, Pages, Report)> {
    let arguments = [kind, pattern, folder.to_str().unwrap()];
    let outcome = recorder(tier, "all")
        .program(Oracle::c("faults/mapped"), arguments)
        .run();
    outcome.expect_no_panic();
    if let Some((_, reason)) = outcome.stdout.split_once(r#"{"skip":""#) {
        skip::skip(reason.trim_end().trim_end_matches(r#""}"#));
        return None;
    }
    outcome.expect_code(0);
    let kernel: Kernel = serde_json::from_str(outcome.stdout.trim()).unwrap();
    let (mut log, mut profile) = (read(&outcome.file("log")), read(&outcome.file("out.json.gz")));
    let of_file = |report: &mut Report| {
        let at = report.pages.iter().position(|row| row.file.contains("/mapped-"))?;
        Some(report.pages.swap_remove(at))
    };
    let (pages, again) = (of_file(&mut log), of_file(&mut profile));
    let has_none = pages.is_none() && MAPPED_UNSEEN.contains(&kind);
    assert!(pages.is_some() || has_none, "{kind} {pattern}: no row of the file");
    let (pages, again) = (pages.unwrap_or_default(), again.unwrap_or_default());
    let sums = |row: &Pages| {
        let mapped = [row.faulted_bytes, row.around_bytes, row.maybe_around_bytes];
        (mapped, row.wasted_bytes)
    };
    assert_eq!(
        sums(&pages),
        sums(&again),
        "{kind} {pattern}: the log and the profile differ"
    );
    Some((kernel, pages, log))
}

fn read(file: &Path) -> Report {
    let outcome = Ngmi::subcommand("faults").arg(file).arg("--json").run();
    outcome.expect_code(0);
    serde_json::from_str(&outcome.stdout).unwrap()
}

/// Expects that no wasted page was mapped, and that the number of mapped pages is within the recording's bounds.
fn expect_bounds(tier: Tier, kind: &str, pattern: &str) -> Option<(Kernel, Pages, Report)> {
    expect_bounds_in(tier, (kind, pattern), scratch().path())
}

fn expect_bounds_in(tier: Tier, how: (&str, &str), folder: &Path) -> Option<(Kernel, Pages, Report)> {
    let (kernel, pages, report) = report(tier, how, folder)?;
    let (kind, pattern) = how;
    let unmapped = (PAGES - kernel.mapped) * PAGE;
    let what = format!("{kind} {pattern}: {kernel:?} {pages:?}");
    assert!(pages.wasted_bytes.is_none_or(|wasted| wasted <= unmapped), "{what}");
    if tier != Tier::Perf && !MAPPED_UNSEEN.contains(&kind) {
        let most = pages.faulted_bytes + pages.around_bytes + pages.maybe_around_bytes;
        assert!(pages.faulted_bytes <= kernel.mapped * PAGE, "{what}");
        assert!(kernel.mapped * PAGE <= most, "{what}");
    }
    Some((kernel, pages, report))
}

const KINDS: [&str; 9] = [
    "shared",
    "private",
    "exec",
    "aligned",
    "huge",
    "nohuge",
    "random",
    "sequential",
    "processes",
];
/// Kinds for which the kernel maps pages in system calls, unseen by the recording.
const MAPPED_UNSEEN: [&str; 2] = ["populate", "locked"];

fn each_page_touched(tier: Tier) {
    for kind in KINDS {
        let Some((_, pages, report)) = expect_bounds(tier, kind, "all") else {
            return;
        };
        assert_eq!(pages.wasted_bytes.unwrap_or(0), 0, "{kind}");
        let about_it = |finding: &&Finding| finding.file.as_ref().is_some_and(|file| file.contains("/mapped-"));
        let said: Vec<&Finding> = report.findings.iter().filter(about_it).collect();
        assert!(
            !said.iter().any(|finding| finding.cause.contains("wasted")),
            "{kind}: {said:?}"
        );
    }
}

fn half_of_the_file_touched(tier: Tier) {
    for kind in ["shared", "aligned", "exec", "processes"] {
        if expect_bounds(tier, kind, "half").is_none() {
            return;
        }
    }
}

fn one_page_in_64_touched(tier: Tier) {
    for kind in KINDS {
        if expect_bounds(tier, kind, "sparse").is_none() {
            return;
        }
    }
}

fn pages_mapped_without_faults(tier: Tier) {
    for kind in MAPPED_UNSEEN {
        if expect_bounds(tier, kind, "sparse").is_none() {
            return;
        }
    }
}

/// A new file system in a file, which is mounted until this is dropped.
struct Mounted {
    place: PathBuf,
    _folder: tempfile::TempDir,
}

impl Mounted {
    /// Creates and mounts the file system. `None` if this machine cannot do so.
    fn new(kind: &str) -> Option<Self> {
        let folder = scratch();
        let (image, place) = (folder.path().join("image"), folder.path().join("mnt"));
        std::fs::create_dir(&place).unwrap();
        std::fs::File::create(&image).unwrap().set_len(512 << 20).unwrap();
        let quiet = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
        let is_there = quiet(Command::new(format!("mkfs.{kind}")).arg(&image))
            && quiet(Command::new("mount").args(["-o", "loop"]).args([&image, &place]));
        if !is_there {
            skip::skip(&format!("cannot create and mount {kind} in a file here"));
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

fn other_file_systems(tier: Tier) {
    for kind in ["ext4", "xfs", "btrfs"] {
        let Some(mounted) = Mounted::new(kind) else { continue };
        for how in [("shared", "all"), ("aligned", "sparse"), ("exec", "half")] {
            if expect_bounds_in(tier, how, &mounted.place).is_none() {
                break;
            }
        }
    }
}
