//! What was unwound and named, as the last chunk of a log: with it a log needs neither the binaries nor this machine.
//!
//! Format: docs/event-log.md. The bytes are hostile when they are read.

mod files;
mod frames;

use std::collections::VecDeque;

use files::{decode_files, encode_files};
use frames::{decode_frame, decode_names, encode_frame, encode_names, index_below};

use super::files::FileIndex;
use super::{FrameId, Module, StackId, StackNode, Tables};
use crate::addr::Timestamp;
use crate::event::FileId;
use crate::event::bytes::{Bytes, Malformed, put, put_bytes, put_difference};

/// First byte: the version of this format. The first one had no files.
const VERSION: u8 = 2;
/// Longest list of modules, in bytes of JSON.
const MAX_MODULES: usize = 64 << 20;
/// Stacks of events that are noted, in bytes: some forty million. Later events have stacks like theirs, or need the binaries.
const MAX_EVENTS: usize = 256 << 20;

/// Bytes of noted stacks that were used and are worth being given back.
const GIVE_BACK: usize = if cfg!(debug_assertions) { 1 << 4 } else { 1 << 20 };

/// Which stack each event has: a sample, a fault, a wait, what came ahead of a wait or a request, and who woke a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventStacks {
    bytes: Vec<u8>,
    last: (Timestamp, u32, u32),
    /// Nobody wants to know.
    is_off: bool,
}

impl EventStacks {
    /// Notes none.
    pub fn off() -> Self {
        Self {
            is_off: true,
            ..Self::default()
        }
    }

    /// Nothing is noted.
    pub fn is_off(&self) -> bool {
        self.is_off
    }

    /// Notes an event's stack; events come in the order of their times.
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

/// What [`decode`] found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Resolved {
    /// Modules, frames, stacks, names and files; nothing else.
    pub tables: Tables,
    /// As which file the mappings know each of the files.
    pub mapped_as: Vec<FileId>,
    events: NotedStacks,
}

impl Resolved {
    /// No event that is asked for from now on is known.
    pub fn is_used_up(&self) -> bool {
        self.events.now.is_empty() && self.events.next == self.events.bytes.len()
    }

    /// The stack of an event, asked for in the order of times. `None`: the event is not known. `Some(None)`: it has no stack.
    pub fn stack(&mut self, time: Timestamp, tid: u32) -> Option<Option<StackId>> {
        let stack = self.events.take(time, tid)?;
        Some(stack.checked_sub(1).map(StackId::new))
    }
}

/// What [`EventStacks`] noted, taken apart as far as it is asked for: a tenth of what the events in memory would take. What was taken apart is given
/// back, by halves.
#[derive(Debug, Clone, Default, PartialEq)]
struct NotedStacks {
    bytes: Vec<u8>,
    /// Where the next one begins.
    next: usize,
    last: (Timestamp, u32, u32),
    /// Those of the time that is asked for, and one that is later.
    now: VecDeque<(Timestamp, u32, u32)>,
}

impl NotedStacks {
    /// # Errors
    /// When the bytes are something else; of stacks there are so many.
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

    /// The stack's number + 1; 0: it has none.
    fn take(&mut self, time: Timestamp, tid: u32) -> Option<u32> {
        while self.now.pop_front_if(|event| event.0 < time).is_some() {}
        while self.now.back().is_none_or(|event| event.0 <= time) {
            let mut rest = Bytes(self.bytes.get(self.next..)?);
            // All of it was taken apart once, so this ends only where the bytes do.
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

/// Writes modules, frames, names and files of `tables`, these `nodes` as its stacks, and which of them the events have.
pub fn encode(tables: &Tables, nodes: &[StackNode], stacks: &EventStacks, files: &FileIndex) -> Vec<u8> {
    let mut out = vec![VERSION];
    // A list of structures with strings and numbers: it can't fail.
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
    out
}

/// Reads what [`encode`] wrote.
///
/// # Errors
/// When the bytes are something else.
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
    Ok(Resolved {
        tables,
        mapped_as,
        events,
    })
}

#[cfg(test)]
mod tests;
