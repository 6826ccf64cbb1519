//! One stack: step by step outward, until its thread's first frame or a reason to stop.

use framehop::x86_64::UnwindRegsX86_64;
use framehop::{Error, FrameAddress, Unwinder};
use profiler_common::sample::{FLAG_STACK_CUT, FLAG_STACK_UNREADABLE, FLAG_USER_REGS};

use super::{AddressSpace, Place, RawFrame, Walker};
use crate::addr::Avma;
use crate::event::Sample;
use crate::fact::TruncationReason;

/// Frames of a stack that are kept, at most; beyond it the leaf part stays.
pub const FRAME_LIMIT: usize = 4096;
/// A return address this near to a program's entry point is in its entry code (`_start` calls within its first bytes).
const ENTRY_CODE: u64 = 64;
/// A stack that was cut goes on at most this far (`ulimit -s` of common systems).
const STACK_LIMIT: u64 = 64 << 20;

/// The copy of a stack: 8-byte words from the stack pointer upward.
struct Copied<'a> {
    start: u64,
    bytes: &'a [u8],
}

impl Copied<'_> {
    fn word(&self, address: u64) -> Result<u64, ()> {
        let at = usize::try_from(address.checked_sub(self.start).ok_or(())?).map_err(|_| ())?;
        let word = self.bytes.get(at..at.checked_add(8).ok_or(())?).ok_or(())?;
        word.try_into().map(u64::from_le_bytes).map_err(|_| ())
    }

    /// The address is above the copy, where the rest of the stack would be.
    fn is_beyond(&self, address: u64) -> bool {
        let end = self.start.saturating_add(self.bytes.len() as u64).saturating_sub(7);
        (end..end.saturating_add(STACK_LIMIT)).contains(&address)
    }
}

impl Walker {
    /// Unwinds the user stack of `sample` into `frames`, leaf first (cleared before). `Ok`: it reached the thread's first frame.
    ///
    /// # Errors
    /// Why it did not; the frames up to there are valid.
    pub fn walk(
        &mut self,
        space: &mut dyn AddressSpace,
        sample: &Sample<'_>,
        frames: &mut Vec<RawFrame>,
    ) -> Result<(), TruncationReason> {
        frames.clear();
        if sample.flags & FLAG_USER_REGS == 0 {
            return Err(TruncationReason::NotCaptured);
        }
        let regs = sample.regs;
        frames.push(RawFrame {
            avma: Avma(regs.ip),
            is_return_address: false,
        });
        if sample.stack.is_empty() || sample.flags & FLAG_STACK_UNREADABLE != 0 {
            let place = space.place(Avma(regs.ip), self);
            let entry = self.is_entry(place);
            return if entry {
                Ok(())
            } else {
                Err(TruncationReason::NotCaptured)
            };
        }
        let copied = Copied {
            start: regs.sp,
            bytes: &sample.stack,
        };
        let mut unwound = UnwindRegsX86_64::new(regs.ip, regs.sp, regs.fp);
        let mut address = regs.ip;
        let mut place = space.place(Avma(regs.ip), self);
        while frames.len() < FRAME_LIMIT {
            let first = frames.len() == 1;
            match self.step(address, place, first, &mut unwound, &copied) {
                Ok(Some(next)) if next > 1 => {
                    let found = space.place(Avma(next - 1), self);
                    if found.is_none() {
                        return if self.is_entry(place) {
                            Ok(())
                        } else {
                            Err(self.astray(place))
                        };
                    }
                    frames.push(RawFrame {
                        avma: Avma(next),
                        is_return_address: true,
                    });
                    (address, place) = (next, found);
                }
                Ok(None) => return Ok(()),
                // A return address of zero: what a thread's or a program's first frame finds where its caller's would be.
                Ok(Some(_)) | Err(_) if self.is_entry(place) => return Ok(()),
                Ok(Some(_)) => return Err(self.astray(place)),
                Err(error) => return Err(self.reason(error, place, &copied, sample.flags)),
            }
        }
        Err(TruncationReason::Limit)
    }

    fn step(
        &mut self,
        address: u64,
        place: Option<Place>,
        first: bool,
        regs: &mut UnwindRegsX86_64,
        copied: &Copied<'_>,
    ) -> Result<Option<u64>, Error> {
        // A call at the very end of a function: the byte before the return address says where it belongs.
        let lookup = self.synthetic(place, address - u64::from(!first));
        let frame = if first {
            FrameAddress::from_instruction_pointer(lookup)
        } else {
            FrameAddress::from_return_address(lookup + 1).ok_or(Error::ReturnAddressIsNull)?
        };
        let mut read = |at| copied.word(at);
        self.unwinder.unwind_frame(frame, regs, &mut self.cache, &mut read)
    }

    /// The place is a program's own entry code: nothing called it.
    fn is_entry(&self, place: Option<Place>) -> bool {
        let Some(Place { code: Some(id), svma }) = place else {
            return false;
        };
        self.code(id)
            .is_some_and(|code| code.entry != 0 && svma.0.wrapping_sub(code.entry) < ENTRY_CODE)
    }

    /// The step led to no code at all.
    fn astray(&self, place: Option<Place>) -> TruncationReason {
        match place {
            None => TruncationReason::NoMapping,
            Some(Place { code: None, .. }) => TruncationReason::BadChain,
            Some(Place { code: Some(id), .. }) => match self.code(id) {
                Some(code) if code.has_unwind_info => TruncationReason::NoMapping,
                _ => TruncationReason::NoUnwindInfo,
            },
        }
    }

    fn reason(&self, error: Error, place: Option<Place>, copied: &Copied<'_>, flags: u32) -> TruncationReason {
        match error {
            Error::CouldNotReadStack(at) if copied.is_beyond(at) && flags & FLAG_STACK_CUT != 0 => {
                TruncationReason::CopyTooShort
            }
            _ => match self.astray(place) {
                TruncationReason::NoMapping if place.is_some() => TruncationReason::BadChain,
                other => other,
            },
        }
    }
}
