//! fio as the load of a device that nobody else uses: what was seen is what fio says it did, and what the device counted.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::PoisonError;

use serde::Deserialize;

use crate::harness::Ngmi;
use crate::harness::skip::{needs_capture, skip};
use crate::run::{self, TURN};

/// One job after the other: reads and writes of many sizes all over the device by two threads at once, with flushes of its cache; the same in a deep
/// queue; and neighbours, which become one request.
const JOBS: &[&str] = &[
    "--direct=1",
    "--rw=randrw",
    "--bsrange=4k-64k",
    "--size=32m",
    "--io_size=8m",
    "--norandommap",
    "--stonewall",
    "--output-format=json",
    "--name=threads",
    "--ioengine=psync",
    "--numjobs=2",
    "--thread",
    "--fsync=16",
    "--name=queue",
    "--ioengine=libaio",
    "--iodepth=16",
    "--name=neighbours",
    "--ioengine=libaio",
    "--iodepth=16",
    "--rw=rw",
    "--bs=4k",
];

/// A row of `by_device` in `ngmi io --json`.
#[derive(Debug, Clone, Deserialize)]
struct Device {
    device: String,
    done: Counts,
    counted: Option<Counts>,
    unfinished: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Counts {
    reads: u64,
    read_bytes: u64,
    writes: u64,
    written_bytes: u64,
    discards: u64,
    discarded_bytes: u64,
    flushes: Option<u64>,
}

/// A row of `by_process`.
#[derive(Debug, Deserialize)]
struct Process {
    process: Option<String>,
    ios: u64,
    read_bytes: u64,
    written_bytes: u64,
}

#[derive(Debug, Deserialize)]
struct Tables {
    recording: run::Recording,
    by_device: Vec<Device>,
    by_process: Vec<Process>,
}

/// One direction of one job, as fio tells it.
#[derive(Debug, Default, Deserialize)]
struct Done {
    io_bytes: u64,
    total_ios: u64,
}

#[derive(Debug, Deserialize)]
struct Job {
    read: Done,
    write: Done,
}

#[derive(Debug, Deserialize)]
struct Fio {
    jobs: Vec<Job>,
}

/// A device of the test's own: the one that `NGMI_WAIT_DEVICE` names, whose contents are lost, or else a loop device.
struct Disk {
    path: PathBuf,
    _image: Option<(tempfile::TempDir, Detach)>,
}

/// Detaches a loop device.
struct Detach(PathBuf);

impl Drop for Detach {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

impl Disk {
    fn new() -> Option<Self> {
        if let Some(path) = std::env::var_os("NGMI_WAIT_DEVICE") {
            return Some(Self {
                path: path.into(),
                _image: None,
            });
        }
        let folder = run::scratch();
        let image = folder.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        let made = Command::new("losetup").args(["--find", "--show"]).arg(&image).output();
        let name = String::from_utf8(made.ok().filter(|made| made.status.success())?.stdout).ok()?;
        let path = PathBuf::from(name.trim());
        let detach = Detach(path.clone());
        Some(Self {
            path,
            _image: Some((folder, detach)),
        })
    }

    fn name(&self) -> &str {
        self.path.file_name().unwrap().to_str().unwrap()
    }

    /// False: the kernel has no such scheduler.
    fn schedule(&self, scheduler: &str) -> bool {
        let file = Path::new("/sys/block").join(self.name()).join("queue/scheduler");
        std::fs::write(file, scheduler).is_ok()
    }
}

#[track_caller]
fn tables(log: &Path, device: &str) -> Tables {
    let said = Ngmi::verb("io").arg(log).args(["--json", "--device", device]).run();
    said.expect_code(0);
    serde_json::from_str(&said.stdout).unwrap()
}

/// Records fio; `None`: the recording has losses, whoever made them.
#[track_caller]
fn record(disk: &Disk) -> Option<(Tables, Fio)> {
    let ngmi = Ngmi::record().args(["--keep-events", "log", "--faults", "off", "--off-cpu", "off"]);
    // What stands before the first job is every job's.
    let device = format!("--filename={}", disk.path.display());
    let arguments = std::iter::once(&*device).chain(JOBS.iter().copied());
    let outcome = ngmi.program("fio", arguments).run();
    outcome.expect_code(0);
    let json = outcome.stdout.find('{').map_or("", |at| &outcome.stdout[at..]);
    let fio = serde_json::Deserializer::from_str(json).into_iter().next();
    let fio = fio.expect("fio said nothing").unwrap();
    let tables = tables(&outcome.file("log"), disk.name());
    if !tables.recording.losses.is_empty() {
        eprintln!("once more: {:?}", tables.recording.losses);
        return None;
    }
    Some((tables, fio))
}

fn expect(disk: &Disk) {
    let device_of = |tables: &Tables| {
        let mut devices = tables.by_device.iter();
        devices.find(|device| device.device == disk.name()).cloned().unwrap()
    };
    let mut last = None;
    for _ in 0..run::ATTEMPTS {
        last = record(disk).or(last);
        // Seen once, on a guest whose host was busy: one was under way when the recording ended, which the kernel did not count either.
        if last
            .as_ref()
            .is_some_and(|(tables, _)| device_of(tables).unfinished == 0)
        {
            break;
        }
    }
    let Some((tables, fio)) = last else {
        skip("each recording has losses, as with others' recorders beside it");
        return;
    };
    assert_eq!(fio.jobs.len(), 4);
    let device = device_of(&tables);
    assert_eq!(device.unfinished, 0, "{device:?}");
    // Each figure of the device's own, its flushes too.
    assert_eq!(Some(&device.done), device.counted.as_ref());
    let sum = |of: fn(&Job) -> u64| fio.jobs.iter().map(of).sum::<u64>();
    let asked = (sum(|job| job.read.io_bytes), sum(|job| job.write.io_bytes));
    let ios = sum(|job| job.read.total_ios + job.write.total_ios);
    // Some jobs are threads, others are processes.
    let is_fio = |row: &&Process| row.process.as_deref() == Some("fio");
    let seen = |of: fn(&Process) -> u64| tables.by_process.iter().filter(is_fio).map(of).sum::<u64>();
    let bytes = (seen(|row| row.read_bytes), seen(|row| row.written_bytes));
    assert_eq!(bytes, asked, "{tables:#?}");
    assert!(seen(|row| row.ios) >= ios, "{ios} by fio, {tables:#?}");
}

#[test]
fn fio_on_a_quiet_device() {
    needs_capture!();
    if Command::new("fio").arg("--version").output().is_err() {
        skip("fio is not installed");
        return;
    }
    let Some(disk) = Disk::new() else {
        skip("no loop device can be had");
        return;
    };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for scheduler in ["none", "mq-deadline"] {
        if disk.schedule(scheduler) {
            expect(&disk);
        } else {
            skip(&format!("this kernel has no scheduler {scheduler}"));
        }
    }
}
