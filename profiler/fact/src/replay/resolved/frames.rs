//! Encodes and decodes frames and their names.

use std::sync::Arc;

use crate::{Frame, FrameId, FrameName, Location, ModuleId, ProcessId, SourceFrame, Tables, TruncationReason};
use base::addr::{Avma, FileOffset, KernelOffset, Svma};
use base::event::bytes::{Bytes, Malformed, put, put_bytes};
use base::event::format::MAX_TEXT;
use base::intern::Interner;

/// Maximum size of all names, in bytes, counted as if each were stored separately: users of the names may store them
/// so.
const MAX_NAMES: usize = 1 << 30;
/// Maximum number of functions to preallocate for an inline chain, whatever the bytes say.
const CHAIN_ROOM: usize = 32;

/// In the order of their numbers; append new ones.
const REASONS: [TruncationReason; 11] = [
    TruncationReason::CopyTooShort,
    TruncationReason::NoMapping,
    TruncationReason::NoUnwindInfo,
    TruncationReason::ModuleUnreadable,
    TruncationReason::UnsupportedRule,
    TruncationReason::BadChain,
    TruncationReason::Limit,
    TruncationReason::NotCaptured,
    TruncationReason::StackUnreadable,
    TruncationReason::UnsupportedProcessor,
    TruncationReason::Thinned,
];

/// Code named by a perf map, and code numbered in a jitdump.
const JIT: u8 = 3;
const JIT_DUMPED: u8 = 7;

pub fn encode_frame(out: &mut Vec<u8>, frame: &Frame) {
    let (kind, values): (u8, &[u64]) = match &frame.location {
        Location::Module { module, svma } => (0, &[u64::from(module.0), svma.0]),
        Location::FileOffset { module, offset } => (1, &[u64::from(module.0), offset.0]),
        Location::Kernel { module, offset } => (2, &[u64::from(module.0), offset.0]),
        Location::Jit {
            module,
            process,
            start,
            offset,
            code: 0,
        } => (JIT, &[u64::from(module.0), u64::from(process.0), start.0, *offset]),
        Location::Jit {
            module,
            process,
            start,
            offset,
            code,
        } => (
            JIT_DUMPED,
            &[
                u64::from(module.0),
                u64::from(process.0),
                start.0,
                *offset,
                u64::from(*code),
            ],
        ),
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

pub fn decode_frame(bytes: &mut Bytes<'_>, modules: usize) -> Result<Frame, Malformed> {
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
        kind @ (JIT | JIT_DUMPED) => Location::Jit {
            module: module(bytes)?,
            process: ProcessId(bytes.get_u32()?),
            start: Avma(bytes.get()?),
            offset: bytes.get()?,
            code: if kind == JIT_DUMPED { bytes.get_u32()? } else { 0 },
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
pub fn index_below(bytes: &mut Bytes<'_>, len: usize) -> Result<u32, Malformed> {
    let index = bytes.get_u32()?;
    if (index as usize) < len {
        Ok(index)
    } else {
        Err(Malformed)
    }
}

/// First each distinct string, then the names, by frame, with references to the strings.
pub fn encode_names(out: &mut Vec<u8>, tables: &Tables) {
    let mut names: Vec<(&FrameId, &FrameName)> = tables.names.iter().collect();
    names.sort_by_key(|(frame, _)| **frame);
    let mut strings: Interner<&str> = Interner::default();
    let mut number = |text| u64::from(strings.number(&text, usize::MAX, |text| *text).unwrap_or(u32::MAX));
    let mut body = Vec::new();
    put(&mut body, names.len() as u64);
    for (frame, name) in names {
        put(&mut body, u64::from(frame.0));
        put(&mut body, number(&name.symbol));
        put(&mut body, name.symbol_start);
        put_option(&mut body, name.symbol_size);
        put(&mut body, name.inline_chain.len() as u64);
        for source in &name.inline_chain {
            put(&mut body, number(&source.function));
            put_option(&mut body, source.file.as_deref().map(&mut number));
            put_option(&mut body, source.line.map(u64::from));
        }
    }
    put(out, strings.len() as u64);
    for string in &*strings {
        put_bytes(out, string.as_bytes(), MAX_TEXT);
    }
    out.append(&mut body);
}

pub fn decode_names(bytes: &mut Bytes<'_>, tables: &mut Tables) -> Result<(), Malformed> {
    let mut strings: Vec<Arc<str>> = Vec::new();
    for _ in 0..bytes.get_len(bytes.0.len())? {
        strings.push(Arc::from(String::from_utf8_lossy(bytes.get_bytes(MAX_TEXT)?)));
    }
    let mut left = MAX_NAMES;
    let mut string = |number: u64| -> Result<Arc<str>, Malformed> {
        let string = usize::try_from(number).ok().and_then(|number| strings.get(number));
        let string = string.ok_or(Malformed)?;
        left = left.checked_sub(string.len()).ok_or(Malformed)?;
        Ok(Arc::clone(string))
    };
    for _ in 0..bytes.get_len(bytes.0.len())? {
        let frame = FrameId(index_below(bytes, tables.frames.len())?);
        let mut name = FrameName {
            symbol: string(bytes.get()?)?,
            symbol_start: bytes.get()?,
            symbol_size: get_option(bytes)?,
            inline_chain: Vec::new(),
        };
        let depth = bytes.get_len(bytes.0.len())?;
        // Most have one function, and a growing vector would allocate four.
        name.inline_chain.reserve_exact(depth.min(CHAIN_ROOM));
        for _ in 0..depth {
            let function = string(bytes.get()?)?;
            let file = get_option(bytes)?.map(&mut string).transpose()?;
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

/// Encodes `None` as 0 and a value as value + 1; `u64::MAX` reads back as one less.
fn put_option(out: &mut Vec<u8>, value: Option<u64>) {
    put(out, value.map_or(0, |value| value.saturating_add(1)));
}

fn get_option(bytes: &mut Bytes<'_>) -> Result<Option<u64>, Malformed> {
    bytes.get().map(|value| value.checked_sub(1))
}
