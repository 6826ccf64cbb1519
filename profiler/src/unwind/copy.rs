//! The memory that unwinding may read: the copied part of one stack.

use profiler_common::sample::FLAG_STACK_CUT;

use crate::event::Sample;

/// A word was not in the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// It lies above the copied part of the same stack.
    Above,
    /// It lies elsewhere.
    Elsewhere,
}

/// The copy of a stack.
#[derive(Debug, Clone, Copy)]
pub struct StackCopy<'s> {
    start: u64,
    bytes: &'s [u8],
    /// Behind the last address that may belong to the same stack.
    top: u64,
}

impl<'s> StackCopy<'s> {
    /// The copy of `sample`. `stack_top` is the end of the mapping that the stack pointer is in, if that is known.
    pub fn new(sample: &'s Sample<'_>, stack_top: Option<u64>) -> Self {
        let start = sample.regs.sp;
        let end = start.saturating_add(sample.stack.len() as u64);
        let cut = sample.flags & FLAG_STACK_CUT != 0;
        // A stack that was cut goes on for an unknown while: eight megabytes is the usual limit.
        let beyond = if cut { end.saturating_add(8 << 20) } else { end };
        Self {
            start,
            bytes: &sample.stack,
            top: stack_top.unwrap_or(beyond).max(if cut { beyond } else { end }),
        }
    }

    /// The word at `address`.
    pub fn read(&self, address: u64) -> Result<u64, Missing> {
        let word = address
            .checked_sub(self.start)
            .and_then(|offset| usize::try_from(offset).ok())
            .and_then(|offset| self.bytes.get(offset..))
            .and_then(|rest| rest.first_chunk::<8>());
        match word {
            Some(word) => Ok(u64::from_le_bytes(*word)),
            None if address >= self.start && address < self.top => Err(Missing::Above),
            None => Err(Missing::Elsewhere),
        }
    }
}
