//! Names of code made at run time, from the perf maps and jitdumps attached to a log.

use rustc_hash::FxHashMap;
use symbols::jitdump::JitDump;
use symbols::perf_map::PerfMap;

use crate::addr::{Avma, Timestamp};
use crate::event::{Attachment, AttachmentKind};

/// A function that a JIT compiler made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JitFunction {
    /// Where it starts.
    pub start: Avma,
    /// As the compiler named it, demangled.
    pub name: String,
}

/// What is known of one process's JIT code.
#[derive(Debug, Default)]
struct OfProcess {
    map: Option<PerfMap>,
    dumps: Vec<JitDump>,
}

/// Every process's JIT code, by pid.
#[derive(Debug, Default)]
pub struct JitIndex {
    processes: FxHashMap<u32, OfProcess>,
    /// Lines and records that are none, and files that are no jitdump.
    pub bad: u64,
}

impl JitIndex {
    /// Takes in an attachment; other kinds are ignored.
    pub fn add(&mut self, attachment: &Attachment) {
        match attachment.kind {
            AttachmentKind::PerfMap => {
                let map = PerfMap::parse(&attachment.bytes);
                self.bad += map.bad_lines();
                self.processes.entry(attachment.pid).or_default().map = Some(map);
            }
            AttachmentKind::JitDump => match JitDump::parse(&attachment.bytes) {
                Ok(dump) => {
                    self.bad += dump.bad_records();
                    self.processes.entry(attachment.pid).or_default().dumps.push(dump);
                }
                Err(_) => self.bad += 1,
            },
            AttachmentKind::Markers => {}
        }
    }

    /// The function at an address at a time. A jitdump knows when code was where; a perf map knows the end only.
    pub fn lookup(&self, pid: u32, time: Timestamp, address: Avma) -> Option<JitFunction> {
        let process = self.processes.get(&pid)?;
        let dumped = process.dumps.iter().find_map(|dump| dump.lookup(time.0, address.0));
        if let Some(symbol) = dumped {
            return Some(JitFunction {
                start: Avma(symbol.start),
                name: symbol.name.to_owned(),
            });
        }
        let symbol = process.map.as_ref()?.lookup(address.0)?;
        Some(JitFunction {
            start: Avma(symbol.start),
            name: symbol.name.into_owned(),
        })
    }
}
