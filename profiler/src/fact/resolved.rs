//! What was unwound and named, as the last chunk of a log: with it a log needs neither the binaries nor this machine.
//!
//! Format: docs/event-log.md. The bytes are hostile when they are read.

use rustc_hash::FxHashMap;

use super::{
    Frame, FrameId, FrameName, Location, Module, ModuleId, ProcessId, SourceFrame, StackId, StackNode, Tables,
    TruncationReason,
};
use crate::addr::{Avma, FileOffset, KernelOffset, Svma, Timestamp};
use crate::event::bytes::{Bytes, Malformed, put, put_bytes, put_difference};
use crate::event::format::MAX_TEXT;

/// First byte: the version of this format.
const VERSION: u8 = 1;
/// Longest list of modules, in bytes of JSON.
const MAX_MODULES: usize = 64 << 20;

/// Which stack each sample has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SampleStacks {
    bytes: Vec<u8>,
    last: (Timestamp, u32, u32),
}

impl SampleStacks {
    /// Notes a sample's stack; samples come in the order of their times.
    pub fn push(&mut self, time: Timestamp, tid: u32, stack: Option<StackId>) {
        let stack = stack.map_or(0, |id| id.0.saturating_add(1));
        put_difference(&mut self.bytes, self.last.0.0, time.0);
        put_difference(&mut self.bytes, u64::from(self.last.1), u64::from(tid));
        put_difference(&mut self.bytes, u64::from(self.last.2), u64::from(stack));
        self.last = (time, tid, stack);
    }
}

/// What [`decode`] found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Resolved {
    /// Modules, frames, stacks and names; nothing else.
    pub tables: Tables,
    /// The samples' stacks by time and tid, ascending by time.
    samples: Vec<(Timestamp, u32, u32)>,
    next: usize,
}

impl Resolved {
    /// The stack of a sample, asked for in the order of times. `None`: the sample is not known. `Some(None)`: it has no stack.
    pub fn stack(&mut self, time: Timestamp, tid: u32) -> Option<Option<StackId>> {
        while self.samples.get(self.next).is_some_and(|sample| sample.0 < time) {
            self.next += 1;
        }
        let now = self.samples[self.next..].iter().take_while(|sample| sample.0 == time);
        let place = now.enumerate().find(|(_, sample)| sample.1 == tid)?.0;
        let stack = self.samples[self.next + place].2;
        // Each is used once: a thread may have two samples at one time.
        self.samples.swap(self.next, self.next + place);
        self.next += 1;
        Some(stack.checked_sub(1).map(StackId))
    }
}

/// Writes modules, frames, stacks and names of `tables`, and the samples' stacks.
pub fn encode(tables: &Tables, samples: &SampleStacks) -> Vec<u8> {
    let mut out = vec![VERSION];
    // A list of structures with strings and numbers: it can't fail.
    let modules = serde_json::to_vec(&tables.modules).unwrap_or_else(|_| b"[]".to_vec());
    put_bytes(&mut out, &modules, MAX_MODULES);
    put(&mut out, tables.frames.len() as u64);
    for frame in &tables.frames {
        encode_frame(&mut out, frame);
    }
    put(&mut out, tables.stacks.len() as u64);
    for node in &tables.stacks {
        put(&mut out, node.parent.map_or(0, |parent| u64::from(parent.0) + 1));
        put(&mut out, u64::from(node.frame.0));
    }
    encode_names(&mut out, tables);
    put_bytes(&mut out, &samples.bytes, usize::MAX);
    out
}

/// Reads what [`encode`] wrote.
///
/// # Errors
/// When the bytes are something else.
pub fn decode(bytes: &[u8]) -> Result<Resolved, Malformed> {
    let mut bytes = Bytes(bytes);
    if bytes.byte()? != VERSION {
        return Err(Malformed);
    }
    let modules: Vec<Module> = serde_json::from_slice(bytes.get_bytes(MAX_MODULES)?).map_err(|_| Malformed)?;
    let mut tables = Tables {
        modules,
        ..Tables::default()
    };
    for _ in 0..bytes.get_len(bytes.0.len())? {
        let frame = decode_frame(&mut bytes, tables.modules.len())?;
        tables.frames.push(frame);
    }
    for index in 0..bytes.get_len(bytes.0.len())? {
        let parent = bytes.get_len(index)?.checked_sub(1);
        let parent = parent
            .map(|parent| u32::try_from(parent).map(StackId))
            .transpose()
            .map_err(|_| Malformed)?;
        let frame = FrameId(index_below(&mut bytes, tables.frames.len())?);
        tables.stacks.push(StackNode { parent, frame });
    }
    decode_names(&mut bytes, &mut tables)?;
    let samples = decode_samples(bytes.get_bytes(bytes.0.len())?, tables.stacks.len())?;
    Ok(Resolved {
        tables,
        samples,
        next: 0,
    })
}

fn decode_samples(bytes: &[u8], stacks: usize) -> Result<Vec<(Timestamp, u32, u32)>, Malformed> {
    let mut bytes = Bytes(bytes);
    let (mut samples, mut last) = (Vec::new(), (Timestamp(0), 0u32, 0u32));
    while !bytes.is_empty() {
        let time = Timestamp(bytes.get_difference(last.0.0)?);
        let tid = u32::try_from(bytes.get_difference(u64::from(last.1))?).map_err(|_| Malformed)?;
        let stack = u32::try_from(bytes.get_difference(u64::from(last.2))?).map_err(|_| Malformed)?;
        if time < last.0 || stack as usize > stacks {
            return Err(Malformed);
        }
        last = (time, tid, stack);
        samples.push(last);
    }
    Ok(samples)
}

const REASONS: [TruncationReason; 8] = [
    TruncationReason::CopyTooShort,
    TruncationReason::NoMapping,
    TruncationReason::NoUnwindInfo,
    TruncationReason::ModuleUnreadable,
    TruncationReason::UnsupportedRule,
    TruncationReason::BadChain,
    TruncationReason::Limit,
    TruncationReason::NotCaptured,
];

fn encode_frame(out: &mut Vec<u8>, frame: &Frame) {
    let (kind, values): (u8, &[u64]) = match &frame.location {
        Location::Module { module, svma } => (0, &[u64::from(module.0), svma.0]),
        Location::FileOffset { module, offset } => (1, &[u64::from(module.0), offset.0]),
        Location::Kernel { module, offset } => (2, &[u64::from(module.0), offset.0]),
        Location::Jit {
            module,
            process,
            start,
            offset,
        } => (3, &[u64::from(module.0), u64::from(process.0), start.0, *offset]),
        Location::Anonymous { module, process, avma } => (4, &[u64::from(module.0), u64::from(process.0), avma.0]),
        Location::Unmapped { process, avma } => (5, &[u64::from(process.0), avma.0]),
        Location::Truncated(reason) => {
            let number = REASONS.iter().position(|other| other == reason).unwrap_or(0);
            (6, &[number as u64])
        }
    };
    out.push(kind << 1 | u8::from(frame.is_return_address));
    for value in values {
        put(out, *value);
    }
}

fn decode_frame(bytes: &mut Bytes<'_>, modules: usize) -> Result<Frame, Malformed> {
    let kind = bytes.byte()?;
    let is_return_address = kind & 1 == 1;
    let module = |bytes: &mut Bytes<'_>| index_below(bytes, modules).map(ModuleId);
    let location = match kind >> 1 {
        0 => Location::Module {
            module: module(bytes)?,
            svma: Svma(bytes.get()?),
        },
        1 => Location::FileOffset {
            module: module(bytes)?,
            offset: FileOffset(bytes.get()?),
        },
        2 => Location::Kernel {
            module: module(bytes)?,
            offset: KernelOffset(bytes.get()?),
        },
        3 => Location::Jit {
            module: module(bytes)?,
            process: ProcessId(bytes.get_u32()?),
            start: Avma(bytes.get()?),
            offset: bytes.get()?,
        },
        4 => Location::Anonymous {
            module: module(bytes)?,
            process: ProcessId(bytes.get_u32()?),
            avma: Avma(bytes.get()?),
        },
        5 => Location::Unmapped {
            process: ProcessId(bytes.get_u32()?),
            avma: Avma(bytes.get()?),
        },
        6 => Location::Truncated(*REASONS.get(bytes.get_len(REASONS.len())?).ok_or(Malformed)?),
        _ => return Err(Malformed),
    };
    Ok(Frame {
        location,
        is_return_address,
    })
}

/// An index into a table of this length.
fn index_below(bytes: &mut Bytes<'_>, len: usize) -> Result<u32, Malformed> {
    let index = bytes.get_u32()?;
    if (index as usize) < len {
        Ok(index)
    } else {
        Err(Malformed)
    }
}

/// The strings first, each once; then the names, by frame, with references to them.
fn encode_names(out: &mut Vec<u8>, tables: &Tables) {
    let mut names: Vec<(&FrameId, &FrameName)> = tables.names.iter().collect();
    names.sort_by_key(|(frame, _)| **frame);
    let mut strings = Strings::default();
    let mut body = Vec::new();
    put(&mut body, names.len() as u64);
    for (frame, name) in names {
        put(&mut body, u64::from(frame.0));
        put(&mut body, strings.number(&name.symbol));
        put(&mut body, name.symbol_start);
        put_option(&mut body, name.symbol_size);
        put(&mut body, name.inline_chain.len() as u64);
        for source in &name.inline_chain {
            put(&mut body, strings.number(&source.function));
            put_option(&mut body, source.file.as_deref().map(|file| strings.number(file)));
            put_option(&mut body, source.line.map(u64::from));
        }
    }
    put(out, strings.list.len() as u64);
    for string in strings.list {
        put_bytes(out, string.as_bytes(), MAX_TEXT);
    }
    out.append(&mut body);
}

fn decode_names(bytes: &mut Bytes<'_>, tables: &mut Tables) -> Result<(), Malformed> {
    let mut strings = Vec::new();
    for _ in 0..bytes.get_len(bytes.0.len())? {
        strings.push(String::from_utf8_lossy(bytes.get_bytes(MAX_TEXT)?).into_owned());
    }
    let string = |number: u64| -> Result<String, Malformed> {
        usize::try_from(number)
            .ok()
            .and_then(|number| strings.get(number))
            .cloned()
            .ok_or(Malformed)
    };
    for _ in 0..bytes.get_len(bytes.0.len())? {
        let frame = FrameId(index_below(bytes, tables.frames.len())?);
        let mut name = FrameName {
            symbol: string(bytes.get()?)?,
            symbol_start: bytes.get()?,
            symbol_size: get_option(bytes)?,
            inline_chain: Vec::new(),
        };
        for _ in 0..bytes.get_len(bytes.0.len())? {
            let function = string(bytes.get()?)?;
            let file = get_option(bytes)?.map(string).transpose()?;
            let line = get_option(bytes)?
                .map(u32::try_from)
                .transpose()
                .map_err(|_| Malformed)?;
            name.inline_chain.push(SourceFrame { function, file, line });
        }
        tables.names.insert(frame, name);
    }
    Ok(())
}

/// One less than the largest value is the largest that survives.
fn put_option(out: &mut Vec<u8>, value: Option<u64>) {
    put(out, value.map_or(0, |value| value.saturating_add(1)));
}

fn get_option(bytes: &mut Bytes<'_>) -> Result<Option<u64>, Malformed> {
    bytes.get().map(|value| value.checked_sub(1))
}

/// Numbers strings in the order in which they come.
#[derive(Default)]
struct Strings<'t> {
    list: Vec<&'t str>,
    numbers: FxHashMap<&'t str, u64>,
}

impl<'t> Strings<'t> {
    fn number(&mut self, string: &'t str) -> u64 {
        let next = self.list.len() as u64;
        let number = *self.numbers.entry(string).or_insert(next);
        if number == next {
            self.list.push(string);
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::FileId;
    use crate::fact::ModuleKind;

    fn tables() -> Tables {
        let module = ModuleId(0);
        let mut tables = Tables::default();
        tables.modules.push(Module {
            kind: ModuleKind::File,
            name: "a.so".into(),
            path: "/lib/a.so".into(),
            file: FileId {
                major: 1,
                minor: 2,
                inode: 3,
            },
            build_id: vec![1, 2, 3],
            base_svma: Svma(0x1000),
            deleted: true,
            problem: Some("gone".into()),
        });
        let process = ProcessId(7);
        let locations = [
            Location::Module {
                module,
                svma: Svma(0x1234),
            },
            Location::FileOffset {
                module,
                offset: FileOffset(5),
            },
            Location::Kernel {
                module,
                offset: KernelOffset(u64::MAX),
            },
            Location::Jit {
                module,
                process,
                start: Avma(0x10),
                offset: 3,
            },
            Location::Anonymous {
                module,
                process,
                avma: Avma(0x99),
            },
            Location::Unmapped {
                process,
                avma: Avma(0x98),
            },
            Location::Truncated(TruncationReason::NotCaptured),
        ];
        for (index, location) in (0u32..).zip(locations) {
            tables.frames.push(Frame {
                location,
                is_return_address: index % 2 == 0,
            });
            let parent = index.checked_sub(1).map(StackId);
            tables.stacks.push(StackNode {
                parent,
                frame: FrameId(index),
            });
        }
        let source = |function: &str, line| SourceFrame {
            function: function.into(),
            file: Some("a.c".into()),
            line,
        };
        let inline_chain = vec![source("inner", Some(0)), source("outer", None)];
        let name = FrameName {
            symbol: "outer".into(),
            symbol_start: 0x1200,
            symbol_size: Some(0x40),
            inline_chain,
        };
        tables.names.insert(FrameId(0), name);
        tables
    }

    fn samples() -> SampleStacks {
        let mut samples = SampleStacks::default();
        samples.push(Timestamp(10), 5, Some(StackId(3)));
        samples.push(Timestamp(20), 6, None);
        samples.push(Timestamp(20), 4, Some(StackId(0)));
        samples.push(Timestamp(30), 5, Some(StackId(6)));
        samples
    }

    #[test]
    fn tables_and_samples_survive() {
        let mut resolved = decode(&encode(&tables(), &samples())).unwrap();
        assert_eq!(resolved.tables, tables());
        assert_eq!(resolved.stack(Timestamp(10), 5), Some(Some(StackId(3))));
        // A sample that is not known costs no other its stack.
        assert_eq!(resolved.stack(Timestamp(15), 5), None);
        assert_eq!(resolved.stack(Timestamp(20), 4), Some(Some(StackId(0))));
        assert_eq!(resolved.stack(Timestamp(20), 6), Some(None));
        assert_eq!(resolved.stack(Timestamp(20), 6), None);
        // One that is missing now does no harm either.
        assert_eq!(resolved.stack(Timestamp(40), 5), None);
    }

    proptest! {
        #[test]
        fn damage_never_panics(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5)) {
            let mut bytes = encode(&tables(), &samples());
            for (place, value) in changes {
                let place = place.index(bytes.len());
                bytes[place] = value;
            }
            if let Ok(mut resolved) = decode(&bytes) {
                resolved.stack(Timestamp(20), 4);
            }
        }
    }

    #[test]
    fn truncation_is_an_error() {
        let bytes = encode(&tables(), &samples());
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_err(), "{len}");
        }
    }
}
