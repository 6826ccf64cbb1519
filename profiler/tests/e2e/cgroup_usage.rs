//! Memory and pressure of a cgroup are what the program and the kernel's own counters of that cgroup say.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::skip::{needs_capture, skip};
use crate::harness::{Ngmi, Oracle, Outcome, said};

/// A cgroup of this test, removed at its end.
struct Cgroup {
    folder: PathBuf,
    name: String,
}

impl Cgroup {
    /// In the hierarchy with this file; `None`: there is none, or it can't be created.
    fn new(name: &str, needs: &str) -> Result<Self, String> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let mounts = mounts.lines().filter_map(|line| {
            let mut fields = line.split(' ');
            let (point, kind) = (fields.nth(1)?, fields.next()?);
            kind.starts_with("cgroup").then(|| PathBuf::from(point))
        });
        let name = format!("ngmi-{name}-{}", std::process::id());
        for mount in mounts {
            let folder = mount.join(&name);
            if std::fs::create_dir(&folder).is_err() {
                continue;
            }
            let made = Self {
                folder,
                name: name.clone(),
            };
            if made.folder.join(needs).exists() {
                return Ok(made);
            }
        }
        Err(format!("no cgroup with {needs} can be created"))
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    fn number(&self, file: &str) -> u64 {
        let text = std::fs::read_to_string(self.path(file)).unwrap();
        text.trim().parse().unwrap()
    }

    /// A script that joins it and goes on.
    fn join(&self, script: &str) -> [String; 2] {
        let folder = self.folder.display();
        ["-c".to_owned(), format!("echo 0 > {folder}/cgroup.procs; {script}")]
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for _ in 0..100 {
            if std::fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        eprintln!("cannot remove {}", self.folder.display());
    }
}

/// The profile as JSON.
fn json(path: &Path) -> Value {
    let mut text = String::new();
    let file = std::fs::File::open(path).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The place of a cgroup's track in `threads`.
fn track(profile: &Value, name: &str) -> usize {
    let threads = profile["threads"].as_array().unwrap();
    let is_it = |thread: &Value| thread["processName"].as_str().is_some_and(|text| text.ends_with(name));
    threads
        .iter()
        .position(is_it)
        .unwrap_or_else(|| panic!("no track of {name}"))
}

/// Values and lengths in ms of a counter on a track; none, if it was always zero.
fn counter(profile: &Value, track: usize, name: &str) -> Vec<(f64, f64)> {
    let counters = profile["counters"].as_array().unwrap();
    let mut own = counters.iter().filter(|counter| counter["mainThreadIndex"] == track);
    let Some(found) = own.find(|counter| counter["name"] == name) else {
        return Vec::new();
    };
    let column = |name: &str| {
        found["samples"][name]
            .as_array()
            .unwrap()
            .iter()
            .map(|value| value.as_f64().unwrap())
    };
    column("count").zip(column("timeDeltas")).collect()
}

fn greatest(values: &[(f64, f64)]) -> f64 {
    let rates = values.iter().filter(|(_, ms)| *ms > 0.0).map(|(value, ms)| value / ms);
    rates.fold(0.0, f64::max)
}

/// Sum of the times that markers on a track with this beginning count.
fn times(profile: &Value, track: usize, beginning: &str) -> u64 {
    let markers = &profile["threads"][track]["markers"];
    let strings = &profile["shared"]["stringArray"];
    let place = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    let rows = 0..place(&markers["length"]);
    let own = rows.filter(|row| {
        let name = place(&markers["name"][row]);
        strings[name].as_str().unwrap().starts_with(beginning)
    });
    own.map(|row| {
        let words = markers["data"][row]["times"].as_str().unwrap();
        words
            .split(' ')
            .next()
            .unwrap()
            .replace(',', "")
            .parse::<u64>()
            .unwrap()
    })
    .sum()
}

fn record(script: &[String; 2]) -> Outcome {
    let outcome = Ngmi::record().program("sh", script).run();
    outcome.expect_code(0);
    outcome
}

/// A cgroup whose memory is limited; the files that show its greatest use and how often it reached the limit.
fn limited(limit: u64) -> Result<(Cgroup, &'static str, u32), String> {
    if let Ok(made) = Cgroup::new("limited", "memory.limit_in_bytes") {
        std::fs::write(made.path("memory.limit_in_bytes"), limit.to_string()).map_err(|error| error.to_string())?;
        return Ok((made, "memory.max_usage_in_bytes", 1));
    }
    let made = Cgroup::new("limited", "memory.peak")?;
    std::fs::write(made.path("memory.max"), limit.to_string()).map_err(|error| error.to_string())?;
    Ok((made, "memory.peak", 2))
}

/// Bytes, of the cgroup of the test below.
const LIMIT: u64 = 64 << 20;

#[test]
fn a_cgroup_that_reaches_its_limit() {
    needs_capture!();
    let (cgroup, peak, version) = match limited(LIMIT) {
        Ok(made) => made,
        Err(reason) => return skip(&reason),
    };
    let oracle = Oracle::c("limited");
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (program, file) = (oracle.as_ref().display(), folder.path().join("data"));
    let outcome = record(&cgroup.join(&format!("exec {program} 32 96 {}", file.display())));
    let profile = json(&outcome.file("out.json.gz"));
    let track = track(&profile, &cgroup.name);

    // A value is a product with its time, which the quotient rounds.
    let memory = greatest(&counter(&profile, track, "ngmiCgroupMemory")).round();
    let (touched, most) = (said(&outcome.stdout, "touched") as f64, cgroup.number(peak) as f64);
    assert!(
        (touched..=most).contains(&memory),
        "{memory}: not within {touched} and {most}"
    );
    let share = greatest(&counter(&profile, track, "ngmiCgroupOfLimit"));
    assert!((share - memory / LIMIT as f64).abs() < 1e-6, "{share} of the limit");

    let (reached, events) = if version == 1 {
        ("memory limit reached", cgroup.number("memory.failcnt"))
    } else {
        let text = std::fs::read_to_string(cgroup.path("memory.events")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("max ")).unwrap();
        ("memory.max reached", line.parse().unwrap())
    };
    assert!(events > 0, "the program did not reach the limit");
    assert_eq!(times(&profile, track, reached), events);
    assert_eq!(times(&profile, track, "out of memory"), 0);

    // Whether a thread waits while it reclaims depends on the disk.
    let rows = Ngmi::subcommand("waits")
        .arg(outcome.file("out.json.gz"))
        .arg("--csv")
        .run();
    rows.expect_code(0);
    let reclaims: Vec<&str> = rows
        .stdout
        .lines()
        .filter(|line| line.contains("reclaim for"))
        .collect();
    let expected = format!("reclaim for the limit of /{}", cgroup.name);
    let is_expected = |line: &&str| {
        let mut cells = line.split([',', '"']);
        cells.any(|cell| cell == expected)
    };
    assert!(reclaims.iter().all(is_expected), "{reclaims:?}");
}

/// Two programs on one CPU: one of them always waits for it.
#[test]
fn pressure_on_a_cpu() {
    needs_capture!();
    let cgroup = match Cgroup::new("pressure", "cpu.pressure") {
        Ok(made) => made,
        Err(reason) => return skip(&reason),
    };
    let total = || {
        let text = std::fs::read_to_string(cgroup.path("cpu.pressure")).ok()?;
        let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
        some.rsplit_once("total=")?.1.parse::<f64>().ok()
    };
    if total().is_none() {
        return skip("the kernel does not measure pressure");
    }
    let burn = Oracle::c("burn");
    let burn = format!("taskset -c 0 {} 500", burn.as_ref().display());
    let outcome = record(&cgroup.join(&format!("sleep 1; {burn} & {burn}; wait")));
    let profile = json(&outcome.file("out.json.gz"));
    let values = counter(&profile, track(&profile, &cgroup.name), "ngmiCgroupCpuPressure");
    let seen: f64 = values.iter().map(|(ms, _)| ms).sum();
    let kernel = total().unwrap() / 1e3;
    // What came before the first reading, while the shell had just started, is not on the track.
    assert!(seen <= kernel + 1e-6 && seen > kernel * 0.8, "{seen} of {kernel} ms");
    assert!(greatest(&values) <= 1.0 + 1e-9, "more than all of the time");
}
