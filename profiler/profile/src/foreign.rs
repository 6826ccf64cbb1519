//! Profiles from other programs, such as samply and Firefox: their CPU samples, processes, threads
//! and functions. The input is untrusted.
//!
//! Tables are per thread or shared by all; every index is checked, and invalid references are
//! skipped.

mod format;
mod gecko;

use std::time::Duration;

use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde::de::IgnoredAny;

use self::format::{RawLib, RawMeta, RawProfile, RawSamples, RawTables, RawThread};
use self::gecko::Gecko;
use crate::error::ReadError;
use crate::input;
use base::addr::{Avma, KernelOffset, Svma, Timestamp};
use base::event::FileId;
use fact::{
    FactSink, FactSource, Frame, FrameId, FrameName, Location, Module, ModuleId, ModuleKind, Process, ProcessId,
    Recording, SampleFact, StackId, StackNode, Tables, Thread, ThreadId,
};

/// Maximum bytes of a build id.
const MOST_OF_BUILD_ID: usize = 64;

/// The scope of a recording by another program.
pub const FOREIGN: &str = "foreign";

/// A profile from another program, as a source of CPU samples.
#[derive(Debug)]
pub struct ForeignSource {
    tables: Tables,
    samples: Vec<SampleFact>,
    made_by: String,
}

/// Distinguishes Firefox's raw format from the processed format of the profiler's page.
#[derive(Deserialize)]
struct Probe {
    meta: ProbeMeta,
}

#[derive(Deserialize)]
struct ProbeMeta {
    #[serde(rename = "preprocessedProfileVersion")]
    processed: Option<IgnoredAny>,
    #[serde(rename = "version")]
    gecko: Option<IgnoredAny>,
}

impl ForeignSource {
    /// Reads a profile, compressed or not.
    ///
    /// # Errors
    /// The input fails, or is neither in the processed format nor in Firefox's own.
    pub fn new(mut input: impl std::io::Read) -> Result<Self, ReadError> {
        Self::in_json(&input::read_all(&mut input, input::LIMIT)?)
    }

    fn in_json(bytes: &[u8]) -> Result<Self, ReadError> {
        let probe: Probe = serde_json::from_slice(bytes)?;
        let raw: RawProfile = if probe.meta.processed.is_none() && probe.meta.gecko.is_some() {
            serde_json::from_slice::<Gecko>(bytes)?.processed()
        } else {
            serde_json::from_slice(bytes)?
        };
        Ok(Self::of(&raw))
    }

    /// The program that wrote the profile, or what was recorded, according to the profile.
    pub fn made_by(&self) -> &str {
        &self.made_by
    }

    fn of(raw: &RawProfile) -> Self {
        let modules = raw.libs.iter().map(module).collect();
        let mut made = Self {
            tables: Tables {
                modules,
                ..Tables::default()
            },
            samples: Vec::new(),
            made_by: raw
                .meta
                .importer
                .clone()
                .unwrap_or_else(|| "another program".to_owned()),
        };
        // Tables that all threads share are read once.
        let shared = raw
            .shared
            .as_ref()
            .filter(|shared| !shared.stack_table.frame.is_empty());
        let shared = shared.map(|tables| made.stacks(tables, raw.libs.len()));
        let mut processes: FxHashMap<String, ProcessId> = FxHashMap::default();
        for thread in &raw.threads {
            let own = shared.is_none().then(|| made.stacks(&thread.own, raw.libs.len()));
            let Some(stacks) = shared.as_ref().or(own.as_ref()) else {
                continue;
            };
            let key = thread.pid.to_string();
            let next = ProcessId(u32::try_from(made.tables.processes.len()).unwrap_or(u32::MAX));
            let process = *processes.entry(key).or_insert(next);
            if process == next {
                made.tables
                    .processes
                    .push(process_of(thread, raw.meta.product.as_deref()));
            }
            let id = ThreadId(u32::try_from(made.tables.threads.len()).unwrap_or(u32::MAX));
            made.tables.threads.push(thread_of(thread, process));
            made.sample(&thread.samples, id, stacks, &raw.meta);
        }
        let end = made.samples.iter().map(|sample| sample.time).max().unwrap_or_default();
        made.tables.recording = Recording {
            scope: FOREIGN.to_owned(),
            start: made.samples.iter().map(|sample| sample.time).min().unwrap_or_default(),
            end,
            start_unix_ms: milliseconds(raw.meta.start_time),
            samples_seen: made.samples.len() as u64,
            ..Recording::default()
        };
        made
    }

    /// Adds tables; returns the stack of each row.
    fn stacks(&mut self, raw: &RawTables, libs: usize) -> Vec<Option<StackId>> {
        let first = self.tables.frames.len();
        for row in 0..raw.frame_table.func.len() {
            let (location, name) = frame(raw, row, libs, &self.tables.modules);
            let id = FrameId(u32::try_from(self.tables.frames.len()).unwrap_or(u32::MAX));
            self.tables.frames.push(Frame {
                location,
                is_return_address: false,
            });
            // An unsymbolicated profile names functions by their addresses.
            if let Some(name) = name.filter(|name| !name.starts_with("0x")) {
                let symbol = name.into();
                self.tables.names.insert(
                    id,
                    FrameName {
                        symbol,
                        ..FrameName::default()
                    },
                );
            }
        }
        let table = &raw.stack_table;
        let mut stacks: Vec<Option<StackId>> = Vec::with_capacity(table.frame.len());
        for (row, frame) in table.frame.iter().enumerate() {
            let frame = frame
                .map(|frame| frame as usize)
                .filter(|frame| *frame < raw.frame_table.func.len());
            let prefix = table.prefix.get(row).copied().flatten();
            // A prefix precedes its stack; any other prefix is invalid.
            let parent = prefix.and_then(|prefix| stacks.get(prefix as usize).copied().flatten());
            let node = frame
                .and_then(|frame| u32::try_from(first + frame).ok())
                .map(|frame| StackNode {
                    parent,
                    frame: FrameId(frame),
                });
            stacks.push(node.map(|node| {
                self.tables.stacks.push(node);
                StackId::new(u32::try_from(self.tables.stacks.len() - 1).unwrap_or(u32::MAX))
            }));
        }
        stacks
    }

    fn sample(&mut self, raw: &RawSamples, thread: ThreadId, stacks: &[Option<StackId>], meta: &RawMeta) {
        let unit = match meta.sample_units.as_ref().map(|units| units.cpu.as_str()) {
            Some("ns") => 1e-9,
            Some("ms") => 1e-3,
            _ => 1e-6,
        };
        let mut now = 0.0;
        for (row, stack) in raw.stack.iter().enumerate() {
            let at = |column: &Option<Vec<f64>>| column.as_ref().and_then(|column| column.get(row).copied());
            now = at(&raw.time).unwrap_or_else(|| now + at(&raw.time_deltas).unwrap_or_default());
            let cpu = match &raw.cpu {
                Some(cpu) => cpu.get(row).copied().flatten().unwrap_or_default() * unit,
                // Each sample covers the time to the next one.
                None => meta.interval / 1e3,
            };
            self.samples.push(SampleFact {
                time: Timestamp(base::addr::ns(seconds(now / 1e3))),
                thread,
                stack: stack.and_then(|stack| stacks.get(stack as usize).copied().flatten()),
                cpu_time: seconds(cpu),
                in_kernel: false,
                weight: 1,
            });
        }
    }
}

impl FactSource for ForeignSource {
    fn replay(&mut self, sink: &mut dyn FactSink) -> anyhow::Result<Tables> {
        self.samples.iter().for_each(|sample| sink.sample(&self.tables, sample));
        Ok(self.tables.clone())
    }
}

/// A time since 1970; zero if it is invalid.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` stops at 0 and at the largest"
)]
fn milliseconds(since_1970: f64) -> u64 {
    since_1970 as u64
}

/// A time; zero if it is invalid.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

fn frame<'r>(raw: &'r RawTables, row: usize, libs: usize, modules: &[Module]) -> (Location, Option<&'r str>) {
    let function = raw
        .frame_table
        .func
        .get(row)
        .copied()
        .flatten()
        .map(|function| function as usize);
    let of_function = |column: &[Option<u32>]| column.get(function?).copied().flatten();
    let name = of_function(&raw.func_table.name).and_then(|name| raw.string_array.get(name as usize));
    let resource = function.and_then(|function| raw.func_table.resource.get(function).copied().flatten());
    let resource = resource.and_then(|resource| usize::try_from(resource).ok());
    let lib = resource.and_then(|resource| raw.resource_table.lib.get(resource).copied().flatten());
    let module = lib.filter(|lib| (*lib as usize) < libs).map(ModuleId);
    let address = raw.frame_table.address.get(row).copied().flatten().unwrap_or_default();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` stops at 0 and at the largest"
    )]
    let address = address as u64;
    let kind = module
        .and_then(|module| modules.get(module.index()))
        .map(|module| module.kind);
    let location = match (module, kind) {
        (Some(module), Some(ModuleKind::Kernel)) => Location::Kernel {
            module,
            offset: KernelOffset(address),
        },
        (Some(module), _) => Location::Module {
            module,
            svma: Svma(address),
        },
        (None, _) => Location::Unmapped {
            process: ProcessId(0),
            avma: Avma(address),
        },
    };
    (location, name.map(String::as_str))
}

fn module(raw: &RawLib) -> Module {
    let is_kernel = raw.name.starts_with("[kernel") || raw.name == "vmlinux";
    Module {
        kind: if is_kernel {
            ModuleKind::Kernel
        } else {
            ModuleKind::File
        },
        name: raw.name.clone(),
        path: raw.path.clone(),
        file: FileId::default(),
        build_id: raw.code_id.as_deref().map(build_id).unwrap_or_default(),
        base_svma: Svma(0),
        deleted: false,
        problem: None,
    }
}

/// Decodes hexadecimal digits; empty if they are invalid.
fn build_id(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2).take(MOST_OF_BUILD_ID);
    let bytes = pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    bytes.collect::<Option<Vec<u8>>>().unwrap_or_default()
}

/// Ids are numbers, or strings that may have a part after a dot.
fn id(value: &serde_json::Value) -> u32 {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.split('.')
        .next()
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_default()
}

fn process_of(thread: &RawThread, product: Option<&str>) -> Process {
    let name = thread.process_name.as_deref().or(product).unwrap_or(&thread.name);
    Process {
        existed: true,
        ..Process::born(id(&thread.pid), name.to_owned(), Timestamp(0))
    }
}

fn thread_of(thread: &RawThread, process: ProcessId) -> Thread {
    Thread {
        is_main: thread.is_main_thread,
        ..Thread::born(process, id(&thread.tid), thread.name.clone(), Timestamp(0))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A failed unwrap fails the test.
mod tests {
    use super::*;

    #[test]
    fn invalid_indices_do_not_panic() {
        let text = r#"{"meta":{"interval":1,"sampleUnits":{"threadCPUDelta":"ns"}},"libs":[{"name":"demo","path":"/bin/demo","codeId":"01ff"}],
            "threads":[{"name":"t","pid":"7","tid":8.0,"samples":{"stack":[1,9,null,2],"timeDeltas":[1,1,1e300,-5],
            "threadCPUDelta":[5,6,null,-1]},"stringArray":["main","hot"],"frameTable":{"address":[16,-1],"func":[0,1]},
            "funcTable":{"name":[0,1],"resource":[0,77]},"resourceTable":{"lib":[0]},
            "stackTable":{"prefix":[null,0,5],"frame":[0,1,99]}}]}"#;
        let source = ForeignSource::new(text.as_bytes()).unwrap();
        let cpu: Vec<u128> = source.samples.iter().map(|sample| sample.cpu_time.as_nanos()).collect();
        assert_eq!(cpu, [5, 6, 0, 0]);
        let stacks: Vec<_> = source.samples.iter().map(|sample| sample.stack).collect();
        assert_eq!(stacks, [Some(StackId::new(1)), None, None, None]);
        assert_eq!(source.tables.stacks.len(), 2);
        assert_eq!(source.tables.modules[0].build_id, [1, 255]);
        assert_eq!(&*source.tables.names[&FrameId(1)].symbol, "hot");
        assert_eq!((source.tables.processes[0].pid, source.tables.threads[0].tid), (7, 8));
        assert!(ForeignSource::new(&b"{\"meta\":{\"version\":24},\"threads\":[{}]}"[..]).is_ok());
        assert!(ForeignSource::new(&b"[]"[..]).is_err() && ForeignSource::new(&b"{\"meta\":{}}"[..]).is_err());
    }

    #[test]
    fn firefox_profiles_are_read_with_their_children() {
        let thread = |name: &str, pid: u32| {
            format!(
                r#"{{"name":"{name}","pid":{pid},"tid":{pid},"samples":{{"schema":{{"stack":0,"time":1,"threadCPUDelta":3}},
                "data":[[1,5.5,0,40],[0,6],[9],[]]}},"frameTable":{{"schema":{{"location":0}},"data":[[0],[1]]}},
                "stackTable":{{"schema":{{"prefix":0,"frame":1}},"data":[[null,0],[0,1]]}},"stringTable":["main","0x1010"]}}"#
            )
        };
        let (parent, child) = (thread("GeckoMain", 7), thread("Worker", 8));
        let text = format!(
            r#"{{"meta":{{"version":24,"interval":1,"startTime":1000,"product":"Firefox","sampleUnits":{{"threadCPUDelta":"µs"}}}},
            "libs":[{{"name":"libxul.so","path":"/l","start":4096,"end":8192}}],"threads":[{parent}],
            "processes":[{{"meta":{{"version":24,"startTime":1100}},"libs":[],"threads":[{child}]}}]}}"#
        );
        let source = ForeignSource::new(text.as_bytes()).unwrap();
        assert_eq!(source.made_by(), "Firefox's own profiler");
        assert_eq!(source.tables.recording.start_unix_ms, 1000);
        let pids: Vec<u32> = source.tables.processes.iter().map(|process| process.pid).collect();
        assert_eq!(pids, [7, 8]);
        let first = &source.samples[0];
        assert_eq!((first.cpu_time.as_micros(), first.time.0), (40, 5_500_000));
        assert_eq!(source.samples[4].time.0, 105_500_000, "the child began 100 ms later");
        let frame = |stack: usize| {
            source.tables.frames[source.tables.stacks[stack].frame.index()]
                .location
                .clone()
        };
        let svma = Svma(0x10);
        assert_eq!(
            frame(1),
            Location::Module {
                module: ModuleId(0),
                svma
            }
        );
        assert!(
            matches!(frame(3), Location::Unmapped { .. }),
            "the child has no libraries"
        );
        assert_eq!(&*source.tables.names[&FrameId(0)].symbol, "main");
    }
}
