//! The words of the stack that a remembered walk expects: those that a step outward reads. While they are unchanged, the step has the same result.

#![allow(clippy::inline_always)] // As in [`crate::unwind`].

use crate::last_walk::{BACK_SHIFT, LastFrame};
use crate::piece::Piece;
use crate::stack::INTERRUPTED;
use crate::unwind::{Arch, Machine};

/// The words of one step. Both are in the frame that it starts from, at multiples of 8, and the return address is the upper one.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Expected {
    /// Address of the return address.
    back_at: u64,
    /// The return address, without a signature.
    back: u64,
    /// Address of the caller's frame pointer; if that did not change, the return address again.
    saved_at: u64,
    /// Its value. After an [`crate::last_walk::OPAQUE`] step, it can't match: the return address is in the same place.
    saved: u64,
}

impl Expected {
    /// The words of the step to the frame `outer`, from [`LastFrame::step`].
    #[inline(always)]
    pub const fn of(arch: Arch, step: u32, outer: &LastFrame) -> Self {
        let (step, back) = (step as u64, outer.frame & !INTERRUPTED);
        // All bits, or none: the verifier would follow each branch.
        let is_opaque = 0_u64.wrapping_sub((step + 1) >> 32);
        let (above, fp) = match arch {
            Arch::X86_64 => (1, step),
            Arch::Aarch64 => (
                step >> BACK_SHIFT & !is_opaque | 1 & is_opaque,
                step & ((1 << BACK_SHIFT) - 1),
            ),
        };
        let is_none = (fp.wrapping_sub(1).cast_signed() >> 63).cast_unsigned() | is_opaque;
        let words = fp & !is_none | above & is_none;
        Self {
            back_at: outer.sp.wrapping_sub(above * 8),
            back,
            saved_at: outer.sp.wrapping_sub(words * 8),
            saved: (outer.fp & !is_none | back & is_none) ^ is_opaque,
        }
    }

    /// The end of the words, at most the stack pointer of the frame that the step leads to.
    #[inline(always)]
    pub const fn end(&self) -> u64 {
        self.back_at.wrapping_add(8)
    }

    /// Whether the words are unchanged. `read` reads one; the addresses ascend.
    #[inline(always)]
    pub fn holds(&self, machine: impl Into<Machine>, read: impl Fn(u64) -> Option<u64>) -> bool {
        let (of_saved, of_back) = self.bits(&machine.into());
        read(self.saved_at).is_some_and(|word| (word ^ self.saved) & of_saved == 0)
            && read(self.back_at).is_some_and(|word| (word ^ self.back) & of_back == 0)
    }

    /// 0: the words are unchanged, in a piece that contains the frame. Without branches: hundreds are combined.
    #[inline(always)]
    pub fn differs(&self, machine: impl Into<Machine>, piece: &Piece) -> u64 {
        let (of_saved, of_back) = self.bits(&machine.into());
        (piece.word(self.saved_at) ^ self.saved) & of_saved | (piece.word(self.back_at) ^ self.back) & of_back
    }

    /// The bits of both words that the step depends on: of a return address on arm64, those that are not its signature.
    #[inline(always)]
    const fn bits(&self, machine: &Machine) -> (u64, u64) {
        match machine.arch {
            Arch::X86_64 => (u64::MAX, u64::MAX),
            Arch::Aarch64 => {
                // All bits if both are the same word. Without a branch, as above.
                let is_one = ((self.back_at ^ self.saved_at).wrapping_sub(1).cast_signed() >> 63).cast_unsigned();
                (machine.address | !is_one, machine.address)
            }
        }
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

    const X86: Arch = Arch::X86_64;
    const ARM: Arch = Arch::Aarch64;

    #[test]
    fn a_step_is_valid_while_its_words_are_unchanged() {
        for (arch, two, one) in [(X86, 3, 0), (ARM, 1 << 16 | 3, 1 << 16)] {
            let (two, one) = (Expected::of(arch, two, &OUTER), Expected::of(arch, one, &OUTER));
            assert!(two.holds(arch, word) && one.holds(arch, word));
            assert_eq!((two.end(), one.end()), (OUTER.sp, OUTER.sp));
            for changed in [0x1028, 0x1038] {
                let other = |at| if at == changed { Some(8) } else { word(at) };
                assert!(!two.holds(arch, other));
                assert_eq!(one.holds(arch, other), changed == 0x1028);
            }
            assert!(!two.holds(arch, |_| None));
        }
    }

    #[test]
    fn a_signature_is_not_part_of_a_return_address() {
        let signature = 0x2a << 48;
        let signed = |changed: u64| move |at| word(at).map(|word| if at == changed { word | signature } else { word });
        let (two, one) = (
            Expected::of(ARM, 1 << 16 | 3, &OUTER),
            Expected::of(ARM, 1 << 16, &OUTER),
        );
        assert!(two.holds(ARM, signed(0x1038)) && one.holds(ARM, signed(0x1038)));
        // A frame pointer has none.
        assert!(!two.holds(ARM, signed(0x1028)));
        assert!(!Expected::of(X86, 3, &OUTER).holds(X86, signed(0x1038)));
    }

    #[test]
    fn words_of_arm64_may_be_anywhere_in_the_frame() {
        let expected = Expected::of(ARM, 7 << 16 | 8, &OUTER);
        let words = |at| match at {
            0x1000 => Some(OUTER.fp),
            0x1008 => Some(OUTER.frame),
            _ => None,
        };
        assert!(expected.holds(ARM, words));
        assert_eq!(expected.end(), 0x1010);
    }

    #[test]
    fn an_opaque_step_is_never_valid() {
        for arch in [X86, ARM] {
            let expected = Expected::of(arch, OPAQUE, &OUTER);
            assert_eq!(expected.end(), OUTER.sp);
            for word in [0, 0x5000, !0x5000, 0x1100, u64::MAX] {
                assert!(!expected.holds(arch, |_| Some(word)), "{word:x}");
            }
        }
    }
}
