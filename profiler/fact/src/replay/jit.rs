//! Names of code generated at run time, from the perf maps and jitdump files that its compilers wrote.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use symbols::jitdump::{JitDump, JitDumpSymbol};
use symbols::perf_map::{JitSymbol, PerfMap};

use crate::{FrameName, SourceFrame};
use base::addr::{Avma, Timestamp};
use base::event::{Attachment, AttachmentKind};

/// Perf maps and jitdumps of all processes.
#[derive(Debug, Default)]
pub struct JitIndex {
    dumps: FxHashMap<u32, JitDump>,
    maps: FxHashMap<u32, PerfMap>,
}

impl JitIndex {
    /// Adds a perf map or a jitdump. Returns a sentence about what was wrong with it.
    pub fn add(&mut self, attachment: &Attachment) -> Option<String> {
        let path = String::from_utf8_lossy(&attachment.path);
        let bad = match attachment.kind {
            AttachmentKind::PerfMap => {
                let map = PerfMap::parse(&attachment.bytes);
                let bad = map.bad_lines();
                self.maps.insert(attachment.pid, map);
                bad
            }
            AttachmentKind::JitDump => match JitDump::parse(&attachment.bytes) {
                Ok(dump) => {
                    let bad = dump.bad_records();
                    self.dumps.insert(attachment.pid, dump);
                    bad
                }
                Err(error) => return Some(format!("cannot read the names in {path}: {error}")),
            },
            AttachmentKind::Markers | AttachmentKind::Gecko => 0,
        };
        (bad > 0).then(|| format!("{path}: unreadable entries: {bad}; their code stays unnamed"))
    }

    /// Whether names in this process may depend on the time: a jitdump records when code was replaced.
    pub fn has_dump(&self, pid: u32) -> bool {
        self.dumps.contains_key(&pid)
    }

    /// The function of process `pid` that covers `address` at `time`. A jitdump knows when code was replaced, so it
    /// takes precedence.
    pub fn lookup(&self, pid: u32, address: Avma, time: Timestamp) -> Option<Found<'_>> {
        let from_dump = self
            .dumps
            .get(&pid)
            .and_then(|dump| dump.lookup(time.0, address.0))
            .map(Found::Dump);
        from_dump.or_else(|| self.maps.get(&pid)?.lookup(address.0).map(Found::Map))
    }
}

/// A function that a compiler named.
#[derive(Debug)]
pub enum Found<'a> {
    /// In a jitdump.
    Dump(JitDumpSymbol<'a>),
    /// In a perf map.
    Map(JitSymbol<'a>),
}

impl Found<'_> {
    /// Its first address.
    pub fn start(&self) -> Avma {
        Avma(match self {
            Self::Dump(found) => found.start,
            Self::Map(found) => found.start,
        })
    }

    /// Which of the successive functions at its address, numbered as in [`Location::Jit`](crate::Location::Jit).
    pub fn code(&self) -> u32 {
        match self {
            Self::Dump(found) => found.index.saturating_add(1),
            Self::Map(_) => 0,
        }
    }

    /// Its names.
    pub fn name(&self) -> FrameName {
        let (symbol, size, file, line) = match self {
            Self::Dump(found) => (found.name, found.size, found.file.map(Arc::from), found.line),
            Self::Map(found) => (&*found.name, found.size, None, None),
        };
        let symbol: Arc<str> = symbols::demangle(symbol).into();
        let source = SourceFrame {
            function: symbol.clone(),
            file,
            line,
        };
        FrameName {
            symbol,
            symbol_start: self.start().0,
            symbol_size: Some(size),
            inline_chain: vec![source],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_perf_map_names_code() {
        let mut index = JitIndex::default();
        let file = |bytes: &[u8]| Attachment {
            kind: AttachmentKind::PerfMap,
            pid: 7,
            path: b"/tmp/perf-7.map".to_vec(),
            bytes: bytes.to_vec(),
        };
        assert_eq!(index.add(&file(b"1000 20 Interpreter\n")), None);
        let found = index.lookup(7, Avma(0x1010), Timestamp(0)).unwrap();
        assert_eq!((found.start(), &*found.name().symbol), (Avma(0x1000), "Interpreter"));
        assert!(index.lookup(8, Avma(0x1010), Timestamp(0)).is_none());
        assert!(index.add(&file(b"garbage\n")).unwrap().contains("entries: 1;"));
    }
}
