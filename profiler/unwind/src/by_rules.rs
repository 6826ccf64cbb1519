//! Steps by a file's unwind information, both those that framehop supports and those that it does
//! not.

use framehop::FrameAddress;

use super::TruncationReason;
use super::arch::{self, Registers};
use super::binary::BinaryId;
use super::cfi::{Context, Saved};
use super::copy::Missing;
use super::steps::{Trail, WalkStep};
use super::walk::{CACHES, Walker};
use base::addr::Svma;

/// Maximum number of frames that are searched for a saved register.
const FRAMES_SEARCHED: usize = 64;

impl Walker<'_> {
    pub(super) fn by_framehop(
        &mut self,
        trail: &mut Trail<'_>,
        id: BinaryId,
        svma: Svma,
        registers: Registers,
        is_call: bool,
    ) -> WalkStep {
        let Some(address) = self.modules.binary(id).hop_address(svma) else {
            return WalkStep::Stuck(TruncationReason::NoUnwindInfo);
        };
        let frame = match FrameAddress::from_return_address(address) {
            Some(frame) if is_call => frame,
            _ => FrameAddress::from_instruction_pointer(address),
        };
        let cache = &mut self.caches[usize::try_from((address >> 3) % CACHES).unwrap_or(0)];
        let mut missing = None;
        let mut zero = false;
        let mut read = |at| {
            let word = trail.copy.read(at).map_err(|why| missing = Some(why))?;
            zero = word == 0;
            Ok(word)
        };
        match arch::caller(&self.modules.hop, (frame, registers), cache, &mut read) {
            Ok(Some(registers)) => {
                let lookup = Svma(svma.0.wrapping_sub(u64::from(is_call)));
                trail.passed.push((id, lookup, registers.sp));
                WalkStep::To {
                    registers,
                    is_call: true,
                }
            }
            // A return address of zero marks the first frame of a thread or a coroutine.
            Ok(None) if zero => WalkStep::Outermost,
            Ok(None) => WalkStep::Stuck(TruncationReason::BadChain),
            Err(_) => WalkStep::Stuck(match missing {
                Some(Missing::NotCopied) => TruncationReason::CopyTooShort,
                Some(Missing::Elsewhere) | None => TruncationReason::BadChain,
            }),
        }
    }

    /// Follows a rule that framehop does not support. It may need a register that an inner frame
    /// saved.
    pub(super) fn by_tables(
        &mut self,
        trail: &mut Trail<'_>,
        id: BinaryId,
        lookup: Svma,
        registers: Registers,
    ) -> WalkStep {
        let (modules, context) = (&self.modules, &mut self.context);
        let Some(cfi) = &modules.binary(id).cfi else {
            return WalkStep::Stuck(TruncationReason::NoUnwindInfo);
        };
        let copy = trail.copy;
        let passed = &trail.passed;
        let mut finding = Context::new();
        let mut find = |register| {
            for (id, svma, cfa) in passed.iter().rev().take(FRAMES_SEARCHED) {
                match modules.binary(*id).cfi.as_ref()?.saved(&mut finding, svma.0, register) {
                    Saved::At(offset) => return copy.read(cfa.checked_add_signed(offset)?).ok(),
                    Saved::Untouched => {}
                    Saved::Unknown => return None,
                }
            }
            None
        };
        match cfi.step(context, lookup.0, registers, &mut |at| copy.read(at), &mut find) {
            Ok(Some(next)) if next.ip & trail.mask == 0 => WalkStep::Outermost,
            Ok(Some(next)) => {
                let ip = next.ip & trail.mask;
                trail.passed.push((id, lookup, next.sp));
                WalkStep::To {
                    registers: Registers { ip, ..next },
                    is_call: true,
                }
            }
            Ok(None) => WalkStep::Stuck(TruncationReason::UnsupportedRule),
            Err(Missing::NotCopied) => WalkStep::Stuck(TruncationReason::CopyTooShort),
            Err(Missing::Elsewhere) => WalkStep::Stuck(TruncationReason::BadChain),
        }
    }
}
