//! A synthetic log of a process with one thread.

use std::fs::File;
use std::path::Path;

use profiler::addr::Timestamp;
use profiler::event::write::LogWriter;
use profiler::event::{At, Event, Header, HookStatus, TaskNew};

/// When the recording starts.
pub const START: u64 = 1_000_000_000;

/// The thread, this many ns after the start.
pub fn at(time: u64) -> At {
    At {
        time: Timestamp(START + time),
        pid: 7,
        tid: 7,
    }
}

/// A log in which the thread with this name was born.
pub fn begin(path: &Path, name: &str, hooks: Vec<HookStatus>) -> LogWriter<File> {
    let header = Header {
        start: Timestamp(START),
        scope: "command".into(),
        command: vec![name.into()],
        hooks,
        ngmi_version: String::new(),
        start_unix_ms: 0,
        kernel: String::new(),
        arch: "x86_64".into(),
        boot_id: String::new(),
        cpus: 1,
        sample_hz: 1000,
        sample_event: "cpu-clock".into(),
        stack_copy: 0,
    };
    let mut log = LogWriter::new(File::create(path).unwrap(), &header).unwrap();
    let born = TaskNew {
        at: at(0),
        name: name.into(),
        ..TaskNew::default()
    };
    log.event(&Event::TaskNew(born)).unwrap();
    log
}
