//! What was unwound and named, as the last chunk of a log: with it a log needs neither the binaries nor this machine.
//!
//! Format: docs/event-log.md. The bytes are hostile when they are read.

mod frames;

use frames::{decode_frame, decode_names, encode_frame, encode_names, index_below};

use super::{FrameId, Module, StackId, StackNode, Tables};
use crate::addr::Timestamp;
use crate::event::bytes::{Bytes, Malformed, put, put_bytes, put_difference};

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

#[cfg(test)]
mod tests;
