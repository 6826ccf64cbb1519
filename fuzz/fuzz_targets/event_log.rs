//! Event logs made of anything, up to facts.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use profiler::event::format::{ChunkKind, FILE_HEADER_LEN, Frame, file_header};
use profiler::event::read::LogReader;
use profiler::fact::replay::log::LogSource;
use profiler::fact::{FactSink, FactSource, Mark, SampleFact, Tables};
use profiler::unwind::NoBinaries;

struct Nothing;

impl FactSink for Nothing {
    fn sample(&mut self, tables: &Tables, sample: &SampleFact) {
        assert!(sample.stack.is_none_or(|stack| stack.index() < tables.stacks.len()));
        assert!(sample.thread.index() < tables.threads.len());
    }

    fn mark(&mut self, tables: &Tables, mark: &Mark) {
        assert!(mark.thread.index() < tables.threads.len());
    }
}

/// Right checksums around payloads of anything: they would stop a fuzzer at the door. Two bytes of length and one of kind
/// begin each payload.
fn chunks(mut data: &[u8]) -> Vec<u8> {
    let mut log = file_header().to_vec();
    let kinds = [
        ChunkKind::Header,
        ChunkKind::Events,
        ChunkKind::KernelSymbols,
        ChunkKind::Module,
        ChunkKind::Attachment,
        ChunkKind::Resolved,
        ChunkKind::Cost,
        ChunkKind::Owners,
        ChunkKind::Usage,
    ];
    let mut sequence = 0;
    while let [low, high, kind, rest @ ..] = data {
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (payload, behind) = rest.split_at(len);
        log.extend(Frame::of(kinds[usize::from(*kind) % kinds.len()], sequence, payload).encode());
        log.extend(payload);
        sequence += 1;
        data = behind;
    }
    log
}

fn replay(log: &[u8]) {
    let Ok(reader) = LogReader::new(Cursor::new(log)) else {
        return;
    };
    let mut source = LogSource::new(reader, &NoBinaries);
    if let Ok(tables) = source.replay(&mut Nothing) {
        source.collect_resolved(&tables);
    }
}

fuzz_target!(|data: &[u8]| {
    match data.split_first() {
        Some((0, rest)) if rest.len() >= FILE_HEADER_LEN => replay(rest),
        Some((_, rest)) => replay(&chunks(rest)),
        None => {}
    }
});
