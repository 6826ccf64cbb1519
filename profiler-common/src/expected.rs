//! The words of the stack that a remembered walk expects: those that a step outward reads. While they are unchanged, the step has the same result.

#![allow(clippy::inline_always)] // As in [`crate::unwind`].

use crate::last_walk::LastFrame;
use crate::piece::Piece;
use crate::stack::INTERRUPTED;

/// The words of one step. Both are in the frame that it starts from, at multiples of 8.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Expected {
    /// Address of the return address.
    back_at: u64,
    /// The return address.
    back: u64,
    /// Address of the caller's frame pointer; if that did not change, the return address again.
    saved_at: u64,
    /// Its value. After an [`crate::last_walk::OPAQUE`] step, it can't match: the return address is in the same place.
    saved: u64,
}

impl Expected {
    /// The words of the step to the frame `outer`, from [`LastFrame::step`].
    #[inline(always)]
    pub const fn of(step: u32, outer: &LastFrame) -> Self {
        let (step, back) = (step as u64, outer.frame & !INTERRUPTED);
        // All bits, or none: the verifier would follow each branch.
        let is_opaque = 0_u64.wrapping_sub((step + 1) >> 32);
        let is_none = (step.wrapping_sub(1).cast_signed() >> 63).cast_unsigned() | is_opaque;
        let words = step & !is_none | 1 & is_none;
        Self {
            back_at: outer.sp.wrapping_sub(8),
            back,
            saved_at: outer.sp.wrapping_sub(words * 8),
            saved: (outer.fp & !is_none | back & is_none) ^ is_opaque,
        }
    }

    /// The stack pointer of the frame that the step leads to.
    #[inline(always)]
    pub const fn outer_sp(&self) -> u64 {
        self.back_at.wrapping_add(8)
    }

    /// Whether the words are unchanged. `read` reads one; the addresses ascend.
    #[inline(always)]
    pub fn holds(&self, read: impl Fn(u64) -> Option<u64>) -> bool {
        read(self.saved_at) == Some(self.saved) && read(self.back_at) == Some(self.back)
    }

    /// 0: the words are unchanged, in a piece that contains the frame. Without branches: hundreds are combined.
    #[inline(always)]
    pub const fn differs(&self, piece: &Piece) -> u64 {
        (piece.word(self.saved_at) ^ self.saved) | (piece.word(self.back_at) ^ self.back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::last_walk::OPAQUE;

    const OUTER: LastFrame = LastFrame {
        frame: 0x5000,
        sp: 0x1040,
        fp: 0x1100,
        lr: 0,
        key: 0,
        caller: 1,
        step: 0,
    };

    /// The return address is at 0x1038, the frame pointer at 0x1028.
    fn word(at: u64) -> Option<u64> {
        let words = [(0x1038, 0x5000), (0x1028, 0x1100)];
        words.iter().find(|word| word.0 == at).map(|word| word.1)
    }

    #[test]
    fn a_step_is_valid_while_its_words_are_unchanged() {
        assert!(Expected::of(3, &OUTER).holds(word));
        assert!(Expected::of(0, &OUTER).holds(word));
        assert_eq!(Expected::of(3, &OUTER).outer_sp(), OUTER.sp);
        for changed in [0x1028, 0x1038] {
            let other = |at| if at == changed { Some(8) } else { word(at) };
            assert!(!Expected::of(3, &OUTER).holds(other));
            assert_eq!(Expected::of(0, &OUTER).holds(other), changed == 0x1028);
        }
        assert!(!Expected::of(3, &OUTER).holds(|_| None));
    }

    #[test]
    fn an_opaque_step_is_never_valid() {
        for word in [0, 0x5000, !0x5000, 0x1100, u64::MAX] {
            assert!(!Expected::of(OPAQUE, &OUTER).holds(|_| Some(word)), "{word:x}");
        }
    }
}
