//! `cargo bench --bench maps [-- --pid PID] [--rounds N]`: compares two ways of reading an address space, on one process.
//!
//! The queries are those of the kernel's patch series that introduced `PROCMAP_QUERY`: ten random addresses of code with
//! build ids, from opening to answer; all executable mappings; and a single lookup. Without `--pid` it starts a headless
//! Firefox on one of the project's pages. Each round queries both ways in alternating order, and compares the answers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a measurement that fails should stop immediately"
)]

use std::fs::File;
use std::hint::black_box;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use profiler::addr::Avma;
use profiler::capture::files::open::open_mapped;
use profiler::capture::privilege::rights::Rights;
use profiler::capture::space::maps::{self, AddressSpace, BuildIds, Way, Which};
use profiler::event::Mapping;
use symbols::elf::ElfFile;

/// Number of addresses in a selective query.
const SELECTED: usize = 10;
const WAYS: [Way; 2] = [Way::Query, Way::Text];

fn main() {
    let mut pid = None;
    let mut rounds = 500;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || {
            words
                .next()
                .and_then(|text| text.parse().ok())
                .expect("a number after the option")
        };
        match word.as_str() {
            "--pid" => pid = Some(number()),
            "--rounds" => rounds = number(),
            _ => {} // cargo's own `--bench`
        }
    }
    let firefox = pid.is_none().then(Firefox::start);
    let pid = pid.or_else(|| Some(firefox.as_ref()?.child.id())).expect("a process");
    assert!(
        maps::kernel_has_query().unwrap(),
        "the kernel lacks PROCMAP_QUERY: use 6.11 or newer"
    );
    measure(pid, rounds as usize);
}

/// A Firefox on a page without scripts, stopped once its mappings settle.
struct Firefox {
    child: Child,
    _home: tempfile::TempDir,
}

impl Firefox {
    fn start() -> Self {
        let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/firefox");
        let home = tempfile::tempdir().unwrap();
        std::fs::copy(pages.join("user.js"), home.path().join("user.js")).unwrap();
        std::fs::copy(pages.join("static.html"), home.path().join("page.html")).unwrap();
        let child = Command::new("firefox-esr")
            .args(["--headless", "--no-remote", "--profile"])
            .arg(home.path())
            .arg(home.path().join("page.html"))
            .env("HOME", home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("cannot start firefox-esr: apt-get install firefox-esr, or choose a process with --pid");
        let firefox = Self { child, _home: home };
        let mut last = 0;
        let begin = Instant::now();
        // Settled: the same number of mappings, and many, for two seconds.
        while begin.elapsed() < Duration::from_mins(1) {
            std::thread::sleep(Duration::from_secs(2));
            let text = std::fs::read_to_string(format!("/proc/{}/maps", firefox.child.id())).unwrap();
            if text.lines().count() == last && last > 300 {
                break;
            }
            last = text.lines().count();
        }
        killpg(firefox.group(), Signal::SIGSTOP).unwrap();
        firefox
    }

    fn group(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }
}

impl Drop for Firefox {
    fn drop(&mut self) {
        let _ = killpg(self.group(), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

fn build_id(mapping: &Mapping) -> Vec<u8> {
    let file = Rights::own().and_then(|own| open_mapped(mapping, &own));
    let elf = file.ok().and_then(|file| ElfFile::open(file).ok());
    elf.map_or(Vec::new(), |elf| elf.build_id().to_vec())
}

fn open(pid: u32, way: Way, build_ids: BuildIds<'_>) -> Box<dyn AddressSpace + '_> {
    maps::open(pid, Some(way), build_ids).unwrap()
}

/// A fixed pseudo-random series of addresses: xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn address(&mut self, code: &[Mapping]) -> Avma {
        let mapping = &code[usize::try_from(self.below(code.len() as u64)).unwrap()];
        Avma(mapping.start.0 + self.below(mapping.len))
    }
}

/// Times of one query in ns, for each way.
struct Series {
    question: &'static str,
    times: [Vec<f64>; 2],
}

impl Series {
    fn new(question: &'static str) -> Self {
        Self {
            question,
            times: [Vec::new(), Vec::new()],
        }
    }

    /// Queries both ways, in alternating order, and compares the answers.
    fn ask<T: PartialEq>(&mut self, round: usize, question: impl Fn(Way) -> T) {
        let mut answers = [None, None];
        for turn in 0..2 {
            let way = (round + turn) % 2;
            let begin = Instant::now();
            let answer = black_box(question(WAYS[way]));
            self.times[way].push(begin.elapsed().as_nanos() as f64);
            answers[way] = Some(answer);
        }
        assert!(answers[0] == answers[1], "{}: the answers differ", self.question);
    }

    fn print(&self) {
        let quantile = |times: &[f64], percent: usize| {
            let mut sorted = times.to_vec();
            sorted.sort_by(f64::total_cmp);
            sorted[(sorted.len() - 1) * percent / 100]
        };
        let [query, text] = &self.times;
        let ratios: Vec<f64> = query.iter().zip(text).map(|(query, text)| text / query).collect();
        let spread = |times: &[f64]| {
            let [low, middle, high] = [5, 50, 95].map(|percent| quantile(times, percent) / 1e3);
            format!("{middle:.1} ({low:.1}-{high:.1})")
        };
        println!(
            "{:<26} {:>18} {:>22} {:>5.1} ({:.1}-{:.1})",
            self.question,
            spread(query),
            spread(text),
            quantile(&ratios, 50),
            quantile(&ratios, 5),
            quantile(&ratios, 95)
        );
    }
}

fn measure(pid: u32, rounds: usize) {
    let reader: &maps::BuildIdReader = &build_id;
    let ids = BuildIds::Read(reader);
    let all = open(pid, Way::Query, BuildIds::Unwanted).mappings(Which::All).unwrap();
    let code: Vec<Mapping> = open(pid, Way::Query, BuildIds::Unwanted)
        .mappings(Which::Executable)
        .unwrap();
    let files: Vec<Mapping> = code.iter().filter(|mapping| mapping.file.inode != 0).cloned().collect();
    println!(
        "process {pid}: {} mappings, {} executable, {rounds} rounds",
        all.len(),
        code.len()
    );
    println!(
        "{:<26} {:>18} {:>22} ratio",
        "us, median (5-95 %)", "PROCMAP_QUERY", "/proc/PID/maps"
    );
    let mut selected = Series::new("10 addresses, build ids");
    let mut plain = Series::new("10 addresses");
    let mut executable = Series::new("executable, build ids");
    let mut executable_plain = Series::new("executable");
    let mut everything = Series::new("all mappings");
    let mut single = Series::new("one lookup, file open");
    let mut text_alone = Vec::new();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..rounds {
        let addresses: Vec<Avma> = (0..SELECTED).map(|_| random.address(&files)).collect();
        selected.ask(round, |way| open(pid, way, ids).covering(&addresses).unwrap());
        plain.ask(round, |way| {
            open(pid, way, BuildIds::Unwanted).covering(&addresses).unwrap()
        });
        executable.ask(round, |way| open(pid, way, ids).mappings(Which::Executable).unwrap());
        executable_plain.ask(round, |way| {
            open(pid, way, BuildIds::Unwanted).mappings(Which::Executable).unwrap()
        });
        everything.ask(round, |way| {
            open(pid, way, BuildIds::Unwanted).mappings(Which::All).unwrap()
        });
        let opened = WAYS.map(|way| std::cell::RefCell::new(open(pid, way, BuildIds::Unwanted)));
        single.ask(round, |way| {
            let space = &opened[WAYS.iter().position(|other| *other == way).unwrap()];
            space.borrow_mut().covering(&addresses[..1]).unwrap()
        });
        let begin = Instant::now();
        let mut text = Vec::new();
        File::open(format!("/proc/{pid}/maps"))
            .unwrap()
            .read_to_end(&mut text)
            .unwrap();
        text_alone.push(begin.elapsed().as_nanos() as f64);
    }
    for series in [&selected, &plain, &executable, &executable_plain, &everything, &single] {
        series.print();
    }
    text_alone.sort_by(f64::total_cmp);
    println!(
        "reading the text only: {:.1} us",
        text_alone[text_alone.len() / 2] / 1e3
    );
}
