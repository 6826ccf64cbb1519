//! fio as the only load on a device: recorded requests equal fio's own report and the device's counters.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::PoisonError;

use serde::Deserialize;

use crate::harness::Ngmi;
use crate::harness::skip::{needs_capture, skip};
use crate::run::{self, TURN};

/// Jobs that run in sequence: reads and writes of many sizes all over the device by two threads at once, with flushes of its cache;
/// the same with a deep queue; and adjacent I/Os, which become one request.
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

/// One direction of one job, as fio reports it.
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

/// A device for this test only: the one that `NGMI_WAIT_DEVICE` names, whose contents are lost, or a loop device.
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

    /// Returns false if the kernel does not have this scheduler.
    fn schedule(&self, scheduler: &str) -> bool {
        let file = Path::new("/sys/block").join(self.name()).join("queue/scheduler");
        std::fs::write(file, scheduler).is_ok()
    }
}

#[track_caller]
fn tables(log: &Path, device: &str) -> Tables {
    let said = Ngmi::subcommand("io")
        .arg(log)
        .args(["--json", "--device", device])
        .run();
    said.expect_code(0);
    serde_json::from_str(&said.stdout).unwrap()
}

/// Records fio; `None` if the recording has losses, whatever their cause.
#[track_caller]
fn record(disk: &Disk) -> Option<(Tables, Fio)> {
    let ngmi = Ngmi::record().args(["--keep-events", "log", "--faults", "off", "--off-cpu", "off"]);
    // Options before the first job apply to all jobs.
    let device = format!("--filename={}", disk.path.display());
    let arguments = std::iter::once(&*device).chain(JOBS.iter().copied());
    let outcome = ngmi.program("fio", arguments).run();
    outcome.expect_code(0);
    let json = outcome.stdout.find('{').map_or("", |at| &outcome.stdout[at..]);
    let fio = serde_json::Deserializer::from_str(json).into_iter().next();
    let fio = fio.expect("fio printed nothing").unwrap();
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
        // Seen once, on a guest with a busy host: a request was in flight when the recording ended, and the kernel did not count it
        // either.
        if last
            .as_ref()
            .is_some_and(|(tables, _)| device_of(tables).unfinished == 0)
        {
            break;
        }
    }
    let Some((tables, fio)) = last else {
        skip("each recording has losses, as happens while other recorders run");
        return;
    };
    assert_eq!(fio.jobs.len(), 4);
    let device = device_of(&tables);
    assert_eq!(device.unfinished, 0, "{device:?}");
    // All counters of the device, including flushes.
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
        skip("no loop device is available");
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
