//! Unwound stacks and names, as the last chunk of a log: with it, a log needs neither the binaries nor this machine.
//!
//! The bytes are hostile input. Integers, differences and bytes are those of docs/event-log.md. In order:
//!
//! 1. version (byte, now 3; version 1 had no 7, version 2 no 8);
//! 2. modules: bytes, JSON;
//! 3. frames: count, then each: a byte (kind × 2 + 1 if it is a return address) and its values, below;
//! 4. stacks: count, then each: its parent + 1 (0: none), which must be before it, and its frame;
//! 5. strings: count, then bytes each; names: count, then each: frame, symbol (a string's number), its start, its size +
//!    1 (0: unknown), and the inline chain: count, then each: function, file + 1, line + 1;
//! 6. stacks of events, below;
//! 7. files that faults, reads, waits and requests touched: count, then each: the file as the kernel had it and as its
//!    mappings know it (each major, minor, inode, generation), path, deleted (byte), build id; sections: count, then
//!    each: name, offset (a difference to the previous one's), size, address (a difference to the offset); symbols of
//!    touched places: count, then each: name, offset (a difference to the previous one's), size;
//! 8. for each of these files, its variables with futexes: count, then each: name, distance from the start of the
//!    file's mappings, size.
//!
//! Kinds of frames:
//!
//! - 0: module and address
//! - 1: module and file offset
//! - 2: module and kernel offset
//! - 3: module, process, start and offset in the function
//! - 4: module, process and address
//! - 5: process and address
//! - 6: the reason why the stack ends
//! - 7: as 3, and the number of the code in its jitdump, from 1
//!
//! Stacks of events are bytes. Each event (samples, page faults, stacks ahead, and waits without one), in order of time,
//! is the difference of its time, its tid and its stack + 1 to those of the one before. A waker's stack has the time of
//! the wait's event and the tid of the woken thread with the highest of its 32 bits set.

mod files;
mod frames;

use std::collections::VecDeque;

use files::{decode_files, decode_variables, encode_files, encode_variables};
use frames::{decode_frame, decode_names, encode_frame, encode_names, index_below};

use crate::replay::files::FileIndex;
use crate::{FrameId, Module, StackId, StackNode, Tables};
use base::addr::Timestamp;
use base::event::FileId;
use base::event::bytes::{Bytes, Malformed, put, put_bytes, put_difference};

/// First byte: the version of this format. Version 1 had no files, version 2 no variables.
const VERSION: u8 = 3;
/// Maximum size of the module list, in bytes of JSON.
const MAX_MODULES: usize = 64 << 20;
/// Maximum size of noted event stacks, in bytes: some forty million stacks. Later events have similar stacks, or
/// need the binaries.
const MAX_EVENTS: usize = 256 << 20;

/// Number of consumed bytes of noted stacks at which they are freed.
const GIVE_BACK: usize = if cfg!(debug_assertions) { 1 << 4 } else { 1 << 20 };

/// Stack of each event: sample, fault, wait, a stack that precedes its wait or request, and the waker of a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventStacks {
    bytes: Vec<u8>,
    last: (Timestamp, u32, u32),
    /// Whether noting is disabled.
    is_off: bool,
}

impl EventStacks {
    /// Disabled: notes nothing.
    pub fn off() -> Self {
        Self {
            is_off: true,
            ..Self::default()
        }
    }

    /// Whether noting is disabled.
    pub fn is_off(&self) -> bool {
        self.is_off
    }

    /// Notes an event's stack; events arrive in time order.
    pub fn push(&mut self, time: Timestamp, tid: u32, stack: Option<StackId>) {
        if self.is_off || self.bytes.len() >= MAX_EVENTS {
            return;
        }
        let stack = stack.map_or(0, |id| id.number().saturating_add(1));
        put_difference(&mut self.bytes, self.last.0.0, time.0);
        put_difference(&mut self.bytes, u64::from(self.last.1), u64::from(tid));
        put_difference(&mut self.bytes, u64::from(self.last.2), u64::from(stack));
        self.last = (time, tid, stack);
    }
}

/// The result of [`decode`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Resolved {
    /// Modules, frames, stacks, names and files; nothing else.
    pub tables: Tables,
    /// File id in the mappings, for each of the files.
    pub mapped_as: Vec<FileId>,
    events: NotedStacks,
}

impl Resolved {
    /// Whether no later event is known.
    pub fn is_used_up(&self) -> bool {
        self.events.now.is_empty() && self.events.next == self.events.bytes.len()
    }

    /// The stack of an event, requested in time order. `None`: the event is unknown. `Some(None)`: it has no stack.
    pub fn stack(&mut self, time: Timestamp, tid: u32) -> Option<Option<StackId>> {
        let stack = self.events.take(time, tid)?;
        Some(stack.checked_sub(1).map(StackId::new))
    }
}

/// The bytes of [`EventStacks`], decoded on demand: a tenth of the memory of decoded events. Decoded bytes are freed
/// in halves.
#[derive(Debug, Clone, Default, PartialEq)]
struct NotedStacks {
    bytes: Vec<u8>,
    /// Offset of the next event.
    next: usize,
    last: (Timestamp, u32, u32),
    /// Decoded events of the requested time, and one later event.
    now: VecDeque<(Timestamp, u32, u32)>,
}

impl NotedStacks {
    /// # Errors
    /// Malformed bytes; `stacks` is the number of stacks.
    fn new(bytes: &[u8], stacks: usize) -> Result<Self, Malformed> {
        let (mut rest, mut last) = (Bytes(bytes), (Timestamp(0), 0, 0));
        while !rest.is_empty() {
            let event = noted(&mut rest, last)?;
            if event.0 < last.0 || event.2 as usize > stacks {
                return Err(Malformed);
            }
            last = event;
        }
        Ok(Self {
            bytes: bytes.to_vec(),
            ..Self::default()
        })
    }

    /// The stack's number + 1; 0 if it has none.
    fn take(&mut self, time: Timestamp, tid: u32) -> Option<u32> {
        while self.now.pop_front_if(|event| event.0 < time).is_some() {}
        while self.now.back().is_none_or(|event| event.0 <= time) {
            let mut rest = Bytes(self.bytes.get(self.next..)?);
            // All of it was decoded once, so this fails only at the end of the bytes.
            let Ok(event) = noted(&mut rest, self.last) else { break };
            self.next = self.bytes.len() - rest.0.len();
            self.last = event;
            if self.next > GIVE_BACK.max(self.bytes.len() / 2) {
                self.bytes.drain(..self.next);
                self.bytes.shrink_to_fit();
                self.next = 0;
            }
            if event.0 >= time {
                self.now.push_back(event);
            }
        }
        // Each is used once: a thread may have two events at one time.
        let place = self.now.iter().position(|event| event.0 == time && event.1 == tid)?;
        self.now.remove(place).map(|(_, _, stack)| stack)
    }
}

fn noted(bytes: &mut Bytes<'_>, last: (Timestamp, u32, u32)) -> Result<(Timestamp, u32, u32), Malformed> {
    let time = Timestamp(bytes.get_difference(last.0.0)?);
    let tid = u32::try_from(bytes.get_difference(u64::from(last.1))?).map_err(|_| Malformed)?;
    let stack = u32::try_from(bytes.get_difference(u64::from(last.2))?).map_err(|_| Malformed)?;
    Ok((time, tid, stack))
}

/// Encodes modules, frames, names and files of `tables`, `nodes` as its stacks, and the stack of each event.
pub fn encode(tables: &Tables, nodes: &[StackNode], stacks: &EventStacks, files: &FileIndex) -> Vec<u8> {
    let mut out = vec![VERSION];
    // A list of structures with strings and numbers: serializing can't fail.
    let modules = serde_json::to_vec(&tables.modules).unwrap_or_else(|_| b"[]".to_vec());
    put_bytes(&mut out, &modules, MAX_MODULES);
    put(&mut out, tables.frames.len() as u64);
    for frame in &tables.frames {
        encode_frame(&mut out, frame);
    }
    put(&mut out, nodes.len() as u64);
    for node in nodes {
        put(&mut out, node.parent.map_or(0, |parent| u64::from(parent.number()) + 1));
        put(&mut out, u64::from(node.frame.0));
    }
    encode_names(&mut out, tables);
    put_bytes(&mut out, &stacks.bytes, usize::MAX);
    encode_files(&mut out, &tables.files, &files.mapped_as);
    encode_variables(&mut out, &tables.files);
    out
}

/// Decodes the bytes from [`encode`].
///
/// # Errors
/// Malformed bytes.
pub fn decode(bytes: &[u8]) -> Result<Resolved, Malformed> {
    let mut bytes = Bytes(bytes);
    let version = bytes.byte()?;
    if !(1..=VERSION).contains(&version) {
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
            .map(|parent| u32::try_from(parent).map(StackId::new))
            .transpose()
            .map_err(|_| Malformed)?;
        let frame = FrameId(index_below(&mut bytes, tables.frames.len())?);
        tables.stacks.push(StackNode { parent, frame });
    }
    decode_names(&mut bytes, &mut tables)?;
    let events = NotedStacks::new(bytes.get_bytes(bytes.0.len())?, tables.stacks.len())?;
    let mut mapped_as = Vec::new();
    if version > 1 {
        (tables.files, mapped_as) = decode_files(&mut bytes)?;
    }
    if version > 2 {
        decode_variables(&mut bytes, &mut tables.files)?;
    }
    Ok(Resolved {
        tables,
        mapped_as,
        events,
    })
}

#[cfg(test)]
mod tests;
