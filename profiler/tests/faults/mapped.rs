//! Compares what a recording shows of a file's pages with what the kernel mapped, by its pagemap and smaps.

mod all;
mod places;

use std::path::Path;

use serde::Deserialize;

use crate::exact::Around;
use crate::harness::page::page_size;
use crate::harness::{Ngmi, Oracle, skip};
use crate::run::recorder;
use crate::tier::{Tier, in_each_tier};
use crate::together;
use places::Place;

in_each_tier!(
    each_page_touched,
    part_of_the_file_touched,
    one_file_in_several_threads_and_processes,
    files_in_memory,
    pages_mapped_without_faults,
);
in_each_tier!(alone: other_file_systems, huge_pages_of_a_tmpfs, wide_windows);

/// Bytes of each of the oracle's files.
const SIZE: u64 = 8 << 20;

/// Files in one folder, each as `KIND:PATTERN`.
type Files = &'static [&'static str];

/// What the oracle knows about a file, in pages.
#[derive(Debug, Clone, Deserialize)]
struct Kernel {
    /// The number of its folder.
    place: usize,
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

#[derive(Debug, Clone, Deserialize)]
struct Pages {
    file: String,
    faulted_bytes: u64,
    around_bytes: u64,
    populated_bytes: u64,
    wasted_bytes: Option<u64>,
}

impl Pages {
    fn sums(&self) -> ([u64; 3], Option<u64>) {
        let mapped = [self.faulted_bytes, self.around_bytes, self.populated_bytes];
        (mapped, self.wasted_bytes)
    }
}

#[derive(Debug, Deserialize)]
struct Finding {
    file: Option<String>,
    cause: String,
}

/// A file as the kernel and the recording (log or profile) show it.
#[derive(Debug, Clone)]
struct Reported {
    kernel: Kernel,
    pages: Pages,
    findings: Vec<String>,
}

/// Records the oracle once, with files in each of these folders. An error says why it can't run here.
fn record(tier: Tier, places: &[(&Path, Vec<&str>)]) -> Result<Vec<Reported>, String> {
    let arguments = places
        .iter()
        .flat_map(|(folder, files)| [vec![folder.to_str().unwrap()], files.clone()].concat());
    let outcome = recorder(tier, "all")
        .program(Oracle::c("faults/mapped"), arguments)
        .run();
    outcome.expect_no_panic();
    if let Some((_, reason)) = outcome.stdout.split_once(r#"{"skip":""#) {
        return Err(reason.trim_end().trim_end_matches(r#""}"#).to_owned());
    }
    outcome.expect_code(0);
    let (log, profile) = (read(&outcome.file("log")), read(&outcome.file("out.json.gz")));
    let reported = |line: &str| {
        let kernel: Kernel = serde_json::from_str(line).unwrap();
        let sides = [&log, &profile].map(|report| reported_by(report, &kernel));
        let sums = sides.each_ref().map(|reported| reported.pages.sums());
        // A call's read is in the log once its thread does something else, and in the profile when it happened.
        let is_at_once = ["threads", "concurrent"].contains(&kernel.kind.as_str());
        assert!(is_at_once || sums[0] == sums[1], "the log and the profile: {sides:?}");
        sides
    };
    Ok(outcome.stdout.lines().flat_map(reported).collect())
}

fn reported_by(report: &Report, kernel: &Kernel) -> Reported {
    let Kernel {
        place, kind, pattern, ..
    } = kernel;
    let is_it = |path: &str| path.contains(&format!("/mapped-{place}-{kind}-{pattern}-"));
    let pages = report.pages.iter().find(|row| is_it(&row.file)).cloned();
    let pages = pages.unwrap_or_else(|| panic!("{kernel:?}: no row of the file"));
    let about_it = |finding: &&Finding| finding.file.as_deref().is_some_and(is_it);
    let findings = report.findings.iter().filter(about_it);
    Reported {
        kernel: kernel.clone(),
        pages,
        findings: findings.map(|finding| finding.cause.clone()).collect(),
    }
}

fn read(file: &Path) -> Report {
    let outcome = Ngmi::subcommand("faults").arg(file).arg("--json").run();
    outcome.expect_code(0);
    serde_json::from_str(&outcome.stdout).unwrap()
}

/// Files whose pages the kernel maps for a system call, not for faults with user registers.
const AHEAD: Files = &[
    "populate:sparse",
    "placed:sparse",
    "placedbehind:sparse",
    "beyond:sparse",
    "copiedahead:sparse",
    "advised:sparse",
    "advisedwrite:sparse",
    "locked:sparse",
    "locked2:sparse",
    "lockedpart:sparse",
    "future:sparse",
];

/// Records these files in a folder, and checks what is shown of each.
fn expect_equal(tier: Tier, place: Place, files: Files) -> Vec<Reported> {
    let recorded = if together::is_asked() {
        all::part(tier, place, files)
    } else {
        let folder = place.create();
        folder.and_then(|folder| record(tier, &[(folder.path(), files.to_vec())]))
    };
    let reported = recorded.unwrap_or_else(|reason| {
        skip::skip(&reason);
        Vec::new()
    });
    expect_each(&reported);
    reported
}

/// Asserts that wasted pages were not mapped, and that the mapped pages are those that the kernel shows.
fn expect_each(reported: &[Reported]) {
    if let Some(reason) = reported.iter().find_map(|one| one.kernel.refused.as_ref()) {
        skip::skip(reason);
    }
    for one in reported {
        let Reported { kernel, pages, .. } = one;
        let unmapped = SIZE - kernel.mapped * page_size();
        assert!(pages.wasted_bytes.is_none_or(|wasted| wasted <= unmapped), "{one:?}");
        let mapped = pages.sums().0.iter().sum::<u64>();
        // Without `wasted`, faults were lost.
        if pages.wasted_bytes.is_none() {
            assert!(mapped <= kernel.mapped * page_size(), "{one:?}");
        } else {
            assert_eq!(mapped, kernel.mapped * page_size(), "{one:?}");
        }
    }
}

const EACH_PAGE: Files = &[
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

fn each_page_touched(tier: Tier) {
    for one in expect_equal(tier, Place::Disk, EACH_PAGE) {
        assert_eq!(one.pages.wasted_bytes.unwrap_or(0), 0, "{one:?}");
        assert!(!one.findings.iter().any(|cause| cause.contains("wasted")), "{one:?}");
    }
}

const PART: Files = &[
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

fn part_of_the_file_touched(tier: Tier) {
    expect_equal(tier, Place::Disk, PART);
}

const CROWD: Files = &[
    "threads:all",
    "threads:half",
    "threads:scattered",
    "concurrent:all",
    "concurrent:half",
    "concurrent:scattered",
];

/// One thread or process maps what another one reads, at the same time.
fn one_file_in_several_threads_and_processes(tier: Tier) {
    expect_equal(tier, Place::Disk, CROWD);
}

const IN_MEMORY: Files = &[
    "warm:all",
    "warm:half",
    "warm:sparse",
    "warm:scattered",
    "warmhuge:sparse",
    "warmmixed:edges",
];

/// Nothing evicts these, so none is of mixed folios.
const IN_SHARED_MEMORY: Files = &[
    "warm:all",
    "warm:half",
    "warm:sparse",
    "warm:scattered",
    "warmhuge:sparse",
];

/// Nothing is read, so nothing can be wasted.
fn files_in_memory(tier: Tier) {
    for (place, files) in [(Place::Disk, IN_MEMORY), (Place::SharedMemory, IN_SHARED_MEMORY)] {
        for one in expect_equal(tier, place, files) {
            assert_eq!(one.pages.wasted_bytes.unwrap_or(0), 0, "{one:?}");
        }
    }
}

fn pages_mapped_without_faults(tier: Tier) {
    for one in expect_equal(tier, Place::Disk, AHEAD) {
        let populated = one.pages.populated_bytes;
        assert!(
            tier != Tier::Fentry || populated == 0,
            "these are faults there: {one:?}"
        );
    }
}

const ELSEWHERE: Files = &[
    "shared:all",
    "aligned:sparse",
    "exec:half",
    "threads:half",
    "huge:scattered",
    "warmmixed:edges",
];

fn other_file_systems(tier: Tier) {
    for kind in ["ext4", "xfs", "btrfs"] {
        expect_equal(tier, Place::In(kind), ELSEWHERE);
    }
}

const HUGE: Files = &["warm:half", "warmhuge:half", "warmhuge:sparse"];

fn huge_pages_of_a_tmpfs(tier: Tier) {
    for one in expect_equal(tier, Place::HugeTmpfs, HUGE) {
        assert_eq!(one.pages.wasted_bytes.unwrap_or(0), 0, "{one:?}");
    }
}

/// The kernel maps up to 1 MiB around a fault.
fn wide_windows(tier: Tier) {
    let files = vec!["shared:sparse", "aligned:scattered", "exec:half", "warm:sparse"];
    if let Some(_around) = Around::set(1 << 20) {
        let folder = Place::Disk.create();
        match folder.and_then(|folder| record(tier, &[(folder.path(), files)])) {
            Ok(reported) => expect_each(&reported),
            Err(reason) => skip::skip(&reason),
        }
    }
}
