//! The event log as a whole: what is written can be read, and damage costs only the chunks that it hits.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // A failed unwrap fails the test.

#[path = "event_log/strategies.rs"]
mod strategies;

use std::io::{Cursor, ErrorKind, Write};

use profiler::addr::Timestamp;
use profiler::event::format::{ChunkKind, FILE_HEADER_LEN, FRAME_LEN};
use profiler::event::order::Order;
use profiler::event::read::LogReader;
use profiler::event::write::LogWriter;
use profiler::event::{At, Attachment, AttachmentKind, Event, Header, Sample, Stacks};
use profiler::fact::replay::ordered::{self, Step};
use profiler_common::stack::{FLAG_USER_REGS, UserRegs};
use proptest::prelude::*;
use proptest::sample::Index;
use strategies::{extras, stream, text};

const ALL: [ChunkKind; 8] = [
    ChunkKind::Events,
    ChunkKind::KernelSymbols,
    ChunkKind::Module,
    ChunkKind::Attachment,
    ChunkKind::Resolved,
    ChunkKind::Cost,
    ChunkKind::Owners,
    ChunkKind::Usage,
];

fn header() -> Header {
    Header {
        ngmi_version: "0.1.0".into(),
        command: vec!["true".into()],
        start: Timestamp(1),
        start_unix_ms: 2,
        kernel: "6.18".into(),
        arch: "x86_64".into(),
        page_size: 4096,
        boot_id: "b".into(),
        cpus: 2,
        sample_hz: 1000,
        sample_event: "cpu-clock".into(),
        stack_copy: 65_536,
        scope: "command".into(),
        hooks: Vec::new(),
    }
}

fn read(bytes: &[u8]) -> (Vec<Event<'static>>, u64) {
    let mut log = LogReader::new(Cursor::new(bytes)).unwrap();
    let mut events = Vec::new();
    let mut run = log.events(&ALL);
    while let Some(event) = run.next_event().unwrap() {
        assert!(run.position() <= bytes.len() as u64);
        events.push(event);
    }
    (events, log.damaged_chunks())
}

fn write(stream: &[Event<'_>], flush_every: usize, extras: &[Event<'_>]) -> Vec<u8> {
    let mut log = LogWriter::new(Vec::new(), &header()).unwrap();
    for (number, event) in stream.iter().enumerate() {
        log.event(event).unwrap();
        if number % flush_every == flush_every - 1 {
            log.flush_chunk().unwrap();
            assert_eq!(log.bytes_written(), log.good_bytes());
        }
    }
    // As after a crash, or in the other process: a second writer continues.
    let mut log = LogWriter::append(Cursor::new(log.finish().unwrap())).unwrap();
    for event in extras {
        log.event(event).unwrap();
    }
    log.finish().unwrap().into_inner()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn written_data_reads_back(stream in stream(), extras in extras(), flush_every in 1..10usize) {
        let bytes = write(&stream, flush_every, &extras);
        let log = LogReader::new(Cursor::new(&bytes)).unwrap();
        prop_assert_eq!(log.header(), Some(&header()));
        let (events, damaged) = read(&bytes);
        let expected: Vec<_> = stream.into_iter().chain(extras).collect();
        prop_assert_eq!(events, expected);
        prop_assert_eq!(damaged, 0);
    }

    /// The thread that reads and sorts ahead passes on what one thread would see.
    #[test]
    fn events_read_ahead_are_the_same(stream in stream(), flush_every in 1..10usize) {
        let bytes = write(&stream, flush_every, &[]);
        let (mut order, mut expected) = (Order::default(), Vec::new());
        for event in stream {
            order.push(event);
            expected.extend(std::iter::from_fn(|| order.pop()));
        }
        order.finish();
        expected.extend(std::iter::from_fn(|| order.pop()));
        let mut log = LogReader::new(Cursor::new(&bytes)).unwrap();
        let (mut events, mut position) = (Vec::new(), 0);
        let late = ordered::each(&mut log, |step| match step {
            Step::Event(event) => events.push(event.clone()),
            Step::Position(at) => position = at,
        });
        prop_assert_eq!((late.unwrap(), events), (order.late(), expected));
        prop_assert!(position <= bytes.len() as u64);
    }

    /// A flipped bit costs only its chunk, which is counted.
    #[test]
    fn a_flipped_bit_costs_one_chunk(stream in stream(), place in any::<Index>(), bit in 0..8u8) {
        let mut bytes = write(&stream, 4, &[]);
        let place = FILE_HEADER_LEN + place.index(bytes.len() - FILE_HEADER_LEN);
        bytes[place] ^= 1 << bit;
        let (events, damaged) = read(&bytes);
        prop_assert_eq!(damaged, 1);
        let chunks: Vec<&[Event]> = stream.chunks(4).collect();
        let survives = |missing: usize| {
            let left = chunks.iter().enumerate().filter(|(number, _)| *number != missing);
            left.flat_map(|(_, chunk)| chunk.iter()).eq(events.iter())
        };
        // One of the chunks of events is missing, or none: then it was the header.
        prop_assert!((0..=chunks.len()).any(survives));
    }

    /// A log truncated anywhere is valid up to its last complete chunk, and can be continued.
    #[test]
    fn a_truncated_log_is_readable_up_to_the_cut(stream in stream(), place in any::<Index>()) {
        let mut bytes = write(&stream, 4, &[]);
        bytes.truncate(FILE_HEADER_LEN + place.index(bytes.len() - FILE_HEADER_LEN + 1));
        let (events, damaged) = read(&bytes);
        prop_assert!(stream.starts_with(&events));
        prop_assert!(damaged <= 1);
        let mut log = LogWriter::append(Cursor::new(bytes)).unwrap();
        let good = log.good_bytes();
        let event = Event::Watermark(Timestamp(7));
        log.event(&event).unwrap();
        log.flush_chunk().unwrap();
        let end = log.good_bytes();
        let mut bytes = log.finish().unwrap().into_inner();
        prop_assert!(good < end);
        bytes.truncate(end as usize);
        let (after, damaged) = read(&bytes);
        prop_assert_eq!(after.len(), events.len() + 1);
        prop_assert_eq!(after.last(), Some(&event));
        prop_assert_eq!(damaged, 0);
    }

    /// Many random changes: nothing panics, and the reader terminates.
    #[test]
    fn arbitrary_damage_never_panics(
        stream in stream(),
        extras in extras(),
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..200),
    ) {
        let mut bytes = write(&stream, 3, &extras);
        let len = bytes.len() - FILE_HEADER_LEN;
        for (place, value) in changes {
            bytes[FILE_HEADER_LEN + place.index(len)] = value;
        }
        read(&bytes);
    }

    /// Garbage payloads with correct checksums: a chunk from a hostile writer.
    #[test]
    fn hostile_payloads_never_panic(payloads in prop::collection::vec((1..8u16, text()), 0..8)) {
        let mut bytes = write(&[], 1, &[]);
        for (sequence, (kind, payload)) in payloads.iter().enumerate() {
            let frame = profiler::event::format::Frame {
                kind: *kind,
                len: payload.len() as u32,
                sequence: sequence as u64 + 1,
                payload_crc: crc32fast::hash(payload),
            };
            bytes.extend(frame.encode());
            bytes.extend(payload);
        }
        read(&bytes);
    }
}

#[test]
fn large_attachments_are_split_and_put_together() {
    let bytes: Vec<u8> = (0..20_000_000u32).map(|at| (at / 7) as u8).collect();
    let one = Attachment {
        kind: AttachmentKind::PerfMap,
        pid: 7,
        path: b"/tmp/perf-7.map".to_vec(),
        bytes,
    };
    let extras = [
        Event::Attachment(one.clone()),
        Event::Resolved(one.bytes.clone()),
        Event::Attachment(one),
    ];
    let mut log = write(&[], 1, &extras);
    let (events, damaged) = read(&log);
    assert!(events == extras);
    assert_eq!(damaged, 0);
    // Damage in the middle of the first costs only that one.
    log[10_000_000] ^= 1;
    let (events, damaged) = read(&log);
    assert!(events == extras[1..]);
    assert_eq!(damaged, 1);
}

#[test]
fn similar_stacks_take_little_space() {
    let mut log = LogWriter::new(Vec::new(), &header()).unwrap();
    let mut stack: Vec<u8> = (0..40_000u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    for number in 0..100u64 {
        stack[(number * 7 % 2000) as usize] ^= 1;
        let at = At {
            time: Timestamp(number * 1_000_000),
            pid: 1,
            tid: 1,
        };
        let regs = UserRegs {
            ip: 0x1234,
            sp: 0x7ffd_0000_0008,
            fp: 0,
            lr: 0,
        };
        log.event(&Event::Sample(Sample {
            at,
            stacks: Stacks {
                flags: FLAG_USER_REGS,
                regs,
                copy: stack.as_slice().into(),
                ..Stacks::default()
            },
            ..Sample::default()
        }))
        .unwrap();
    }
    let bytes = log.finish().unwrap();
    assert!(bytes.len() < 40_000 + 100 * 128, "{}", bytes.len());
}

/// A disk that is full after this many bytes.
struct SmallDisk(Vec<u8>, usize);

impl Write for SmallDisk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = (self.1 - self.0.len()).min(bytes.len());
        if room == 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        self.0.extend_from_slice(&bytes[..room]);
        Ok(room)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_leaves_a_log_that_can_be_truncated_to_good_chunks() {
    let mut log = LogWriter::new(SmallDisk(Vec::new(), 2000), &header()).unwrap();
    let event = Event::TaskRename {
        at: At::default(),
        name: vec![b'x'; 100],
    };
    let (mut whole, mut failed) = (0, false);
    for _ in 0..100 {
        log.event(&event).unwrap();
        if let Err(error) = log.flush_chunk() {
            assert_eq!(error.kind(), ErrorKind::StorageFull);
            failed = true;
            break;
        }
        whole += 1;
    }
    assert!(failed && whole > 3);
    assert!(log.event(&event).is_err());
    let good = log.good_bytes();
    assert!(good <= 2000 && good as usize > FILE_HEADER_LEN + FRAME_LEN);
}

#[test]
fn foreign_files_are_rejected_with_a_remedy() {
    let refusal = |bytes: &[u8]| LogReader::new(Cursor::new(bytes)).err().unwrap();
    for bytes in [&b""[..], b"short", b"#!/bin/sh\necho this is no log at all\n"] {
        let error = refusal(bytes);
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert!(error.to_string().contains("ngmi record --keep-events"), "{error}");
    }
    let mut log = write(&[], 1, &[]);
    log[8] = 99;
    let error = refusal(&log);
    assert!(
        error.to_string().contains("format version 99") && error.to_string().contains("newer ngmi"),
        "{error}"
    );
}
