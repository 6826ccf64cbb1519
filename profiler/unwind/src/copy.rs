//! The memory that unwinding may read: the copied part of one stack.

use profiler_common::stack::FLAG_STACK_CUT;

use base::event::Stacks;

/// Why a word is not in the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// It is on the same stack beyond the copied part: above it, or in the red zone below, where a copy does not start.
    NotCopied,
    /// It is elsewhere.
    Elsewhere,
}

/// The copy of a stack.
#[derive(Debug, Clone, Copy)]
pub struct StackCopy<'s> {
    start: u64,
    bytes: &'s [u8],
    /// Upper bound of the addresses of the same stack.
    top: u64,
    /// Bytes below the stack pointer that belong to it.
    red_zone: u64,
}

impl<'s> StackCopy<'s> {
    /// The copy in `stacks`. `stack_top` is the end of the mapping of the stack pointer, if it is
    /// known; `red_zone` is the processor's.
    pub fn new(stacks: &'s Stacks<'_>, stack_top: Option<u64>, red_zone: u64) -> Self {
        let start = stacks.regs.sp;
        let end = start.saturating_add(stacks.copy.len() as u64);
        let cut = stacks.flags & FLAG_STACK_CUT != 0;
        // The extent of a truncated stack is unknown: eight megabytes is the usual limit.
        let beyond = if cut { end.saturating_add(8 << 20) } else { end };
        Self {
            start,
            bytes: &stacks.copy,
            red_zone,
            top: stack_top.unwrap_or(beyond).max(if cut { beyond } else { end }),
        }
    }

    /// Reads the word at `address`.
    pub fn read(&self, address: u64) -> Result<u64, Missing> {
        let word = address
            .checked_sub(self.start)
            .and_then(|offset| usize::try_from(offset).ok())
            .and_then(|offset| self.bytes.get(offset..))
            .and_then(|rest| rest.first_chunk::<8>());
        match word {
            Some(word) => Ok(u64::from_le_bytes(*word)),
            None if address >= self.start.saturating_sub(self.red_zone) && address < self.top => {
                Err(Missing::NotCopied)
            }
            None => Err(Missing::Elsewhere),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profiler_common::stack::UserRegs;

    #[test]
    fn missing_bytes_are_on_the_stack_or_elsewhere() {
        let stacks = Stacks {
            regs: UserRegs {
                sp: 0x1000,
                ..UserRegs::default()
            },
            copy: (&[7_u8; 16]).into(),
            ..Stacks::default()
        };
        let copy = StackCopy::new(&stacks, Some(0x2000), 128);
        assert_eq!(copy.read(0x1008), Ok(0x0707_0707_0707_0707));
        for on_the_stack in [0x1009, 0x1ff8, 0xfff, 0xf80] {
            assert_eq!(copy.read(on_the_stack), Err(Missing::NotCopied), "{on_the_stack:x}");
        }
        for elsewhere in [0x2000, 0xf7f, 0] {
            assert_eq!(copy.read(elsewhere), Err(Missing::Elsewhere), "{elsewhere:x}");
        }
    }
}
