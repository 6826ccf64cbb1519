//! Files that a recorded program wrote about itself, made of anything, as a log holds them: markers, a perf map, a jitdump.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use profiler::addr::Timestamp;
use profiler::event::read::LogReader;
use profiler::event::write::LogWriter;
use profiler::event::{At, Attachment, AttachmentKind, Event, Header, Sample, TaskNew};
use profiler::fact::reduce::budget::{Budget, Collector};
use profiler::fact::replay::log::LogSource;
use profiler::fact::{FactSource, MarkKind};
use profiler::unwind::NoBinaries;

/// One process from 1 µs on, in which a sample was taken at 2 µs.
fn log(attachment: Attachment) -> Vec<u8> {
    let header: Header = serde_json::from_value(serde_json::json!({
        "ngmi_version": "0", "command": ["a"], "start": 1000, "start_unix_ms": 0, "kernel": "6.18", "arch": "x86_64", "boot_id": "",
        "cpus": 1, "sample_hz": 1000, "sample_event": "cpu-clock", "stack_copy": 0, "scope": "command", "hooks": [],
    }))
    .unwrap();
    let at = |time| At {
        time: Timestamp(time),
        pid: 7,
        tid: 7,
    };
    let mut writer = LogWriter::new(Cursor::new(Vec::new()), &header).unwrap();
    let born = Event::TaskNew(TaskNew {
        at: at(1000),
        ..TaskNew::default()
    });
    let sample = Event::Sample(Sample {
        at: at(2000),
        ..Sample::default()
    });
    for event in [born, sample, Event::Attachment(attachment)] {
        writer.event(&event).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else {
        return;
    };
    let (kind, path) = [
        (AttachmentKind::Markers, "marker-7.txt"),
        (AttachmentKind::Markers, "marker-7-8.txt"),
        (AttachmentKind::PerfMap, "perf-7.map"),
        (AttachmentKind::JitDump, "jit-7.dump"),
    ][usize::from(kind % 4)];
    let log = log(Attachment {
        kind,
        pid: 7,
        path: path.into(),
        bytes: bytes.to_vec(),
    });
    let mut collector = Collector::new(Budget::default());
    let mut source = LogSource::new(LogReader::new(Cursor::new(log)).unwrap(), &NoBinaries);
    let mut tables = source.replay(&mut collector).unwrap();
    let collected = collector.finish(&mut tables);
    assert_eq!(tables.recording.samples_seen, 1);
    for mark in collected.threads.iter().flat_map(|thread| &thread.marks) {
        let MarkKind::Program { text } = &mark.kind else {
            continue;
        };
        assert!(!text.is_empty() && text.len() <= 3 * bytes.len());
        assert!(mark.start.0 >= 1000 && mark.end.is_none_or(|end| end >= mark.start));
    }
    profiler::profile::write(&tables, &collected, &mut std::io::sink()).unwrap();
});
